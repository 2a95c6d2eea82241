"""Counts the floating-point operations and the bytes that a graph moves, before anything runs."""
