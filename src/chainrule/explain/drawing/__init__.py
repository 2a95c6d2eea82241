"""The graph drawn: squares are variables, circles are operators."""

from chainrule.explain.drawing.drawing import Drawing, draw

__all__ = ["Drawing", "draw"]
