"""Where the boxes, frames and arrows of a figure go: geometry that knows nothing of graphs."""

from chainrule.explain.drawing.layout.placement import place
from chainrule.explain.drawing.layout.systems import in_systems

__all__ = ["in_systems", "place"]
