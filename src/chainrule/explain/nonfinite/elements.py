"""Names elements in messages: `x[3, 7] = 0`, by their index in the named value."""

from __future__ import annotations

import numpy as np

from chainrule.explain.nonfinite.fault import Index
from chainrule.explain.nonfinite.phrases import SILENT, Names, bracketed, number, phrase
from chainrule.graph.node import Node
from chainrule.primitives.movement import concatenate, pad
from chainrule.primitives.primitive import MOVING


def shown_by(node: Node, names: Names) -> list[Node]:
    """The unnamed rearrangements that lead to a named or computed value; that value is the last."""
    found = [node]
    while found[-1] not in names and _shows_one(found[-1]):
        found.append(found[-1].inputs[0])
    return found


def element(node: Node, index: Index, value: float, names: Names) -> str:
    """`x[3, 7] = 0`; `s = 0` for a number."""
    *around, base = shown_by(node, names)
    place = index
    if around:
        shape: tuple[int, ...] = tuple(base.shape)
        places = np.arange(int(np.prod(shape))).reshape(shape)
        for one in reversed(around):
            if isinstance(one.primitive.kernel, MOVING):
                places = one.primitive.evaluate(np, places, **dict(one.params))
        place = tuple(int(i) for i in np.unravel_index(int(places[index]), shape))
    return f"{at(phrase(base, names), place)} = {number(value)}"


def at(text: str, index: Index) -> str:
    """`x[3, 7]`; an expression gets brackets."""
    if not index:
        return text
    return f"{bracketed(text)}[{', '.join(map(str, index))}]"


def _shows_one(node: Node) -> bool:
    """Whether each element of the value is one of its only input."""
    if len(node.inputs) != 1 or node.primitive in (pad, concatenate):
        return False
    return node.primitive in SILENT or isinstance(node.primitive.kernel, MOVING)
