"""Warns of programs that are legal, and very likely meant to compute something else."""
