"""A graph as plain NumPy source that stands alone, as a person would write it."""

from chainrule.explain.python_source.source import constants_of, python

__all__ = ["constants_of", "python"]
