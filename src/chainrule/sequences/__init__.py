"""Layers and losses of sequences, which are loops over their elements."""
