"""Reads a graph as a person does: named values, what computes each, and in which pass."""
