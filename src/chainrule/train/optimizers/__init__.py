"""Optimizers and learning-rate schedules, as descriptions that become nodes."""
