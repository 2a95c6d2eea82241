"""Says why elements are 0."""

from __future__ import annotations

from chainrule.explain.nonfinite.phrases import Names, composite, computed, phrase
from chainrule.explain.zeros.causes import Why
from chainrule.graph.node import Node
from chainrule.graph.words import printable
from chainrule.primitives.indexing import gather
from chainrule.primitives.primitive import MOVING
from chainrule.primitives.sources import input_


def because(node: Node, why: Why, names: Names) -> str:
    """A clause: `h = maximum(z, 0) passes nothing back`, `x is 0`."""
    if why is Why.GIVEN:
        return f"{phrase(node, names)} is 0" if node.primitive is input_ else "a constant is 0"
    if why is Why.INDEPENDENT:
        return "nothing depends on it"
    if why is Why.INSIDE:
        return f"every step or branch of the {node.primitive.name} gives 0"
    if why is Why.UNDERFLOW:
        return f"{_value(node, names)} is too small for {node.dtype}"
    if why is Why.CANCELLED:
        return f"the terms of {_value(node, names)} cancel, or round to 0"
    if why is Why.APART:
        return f"of each product in {_value(node, names)}, a factor is 0"
    forward = node.origin.node
    if node.origin.transform and forward is not None:
        verb = "does not read these elements" if is_unread(node, why) else "passes nothing back"
        return f"{_value(forward, names)} {verb}"
    return f"{_value(node, names)} is 0"


def is_unread(node: Node, why: Why) -> bool:
    """Whether an end of the walk is that the forward pass only does not read the elements."""
    forward = node.origin.node
    if why is not Why.OPERATION or not node.origin.transform or forward is None:
        return False
    return forward.primitive is gather or isinstance(forward.primitive.kernel, MOVING)


def _value(node: Node, names: Names) -> str:
    """`h = maximum(z, 0)`; without a name, how it is computed."""
    made = (composite(node, names) or computed(node, names)) if node.inputs else ""
    if node not in names:
        return made or phrase(node, names)
    name = printable(names[node])
    return f"{name} = {made}" if made not in ("", name) else name
