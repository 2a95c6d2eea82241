"""Where the boxes, frames and arrows of a figure go: geometry that knows nothing of graphs."""

from chainrule.explain.drawing.layout.placement import place

__all__ = ["place"]
