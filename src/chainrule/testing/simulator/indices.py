"""Whether an index is the same numbers wherever it is computed."""

from __future__ import annotations

from chainrule.graph.node import Node, topological


def is_made_of_integers(index: Node) -> bool:
    """Whether no float has a part in it, which another kernel might round otherwise."""
    return all(node.dtype.kind in "iub" for node in topological([index]))
