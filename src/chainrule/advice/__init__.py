"""Advice on a training step, in numbers: how large a batch, and which way to train."""
