"""Tabulates the values of a run."""
