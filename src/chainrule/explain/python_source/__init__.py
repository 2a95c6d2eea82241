"""Writes a graph as plain NumPy source that runs on its own."""

from chainrule.explain.python_source.source import constants_of, python

__all__ = ["constants_of", "python"]
