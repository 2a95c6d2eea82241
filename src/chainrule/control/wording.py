"""Names a loop or a choice in messages by the function that the user wrote."""

from __future__ import annotations

import re

from chainrule.graph.body import Body, bodies_of
from chainrule.graph.node import Node

PARTS = {
    "cotangent": "the backward pass of {}",
    "tangent": "the tangents of {}",
    "saving": "{}, done again for its backward pass",
}
LAMBDA = "function"  # how the body of a lambda is called
DERIVED = re.compile("(_(cotangent|tangent|saving))+$")  # of bodies that transforms made


def users_name(body: Body) -> str:
    """The name of the user's function; "" of a lambda."""
    name = DERIVED.sub("", body.graph.name)
    return "" if name == LAMBDA else name


def gives_derivatives(body: Body) -> bool:
    """Whether a body was made by a derivative, and gives cotangents or tangents."""
    return body.graph.name.endswith(("_cotangent", "_tangent"))


def loop_text(body: Body) -> str:
    """`while_loop(step)`."""
    name = users_name(body)
    return f"while_loop({name})" if name else "while_loop"


def in_words(node: Node) -> str:
    """`the backward pass of the loop over cell`, of a node that is one; "" of other nodes."""
    bodies = list(bodies_of(node))
    if not bodies:
        return ""
    names = [name for name in map(users_name, bodies) if name]
    if "condition" in dict(node.params) or "length" in dict(node.params):
        found = f"the loop over {names[0]}" if users_name(bodies[0]) else "a loop"
    else:
        found = f"the choice between {' and '.join(names)}" if len(names) == 2 else "a choice"
    return _with_parts(found, bodies[0])


def body_in_words(body: Body) -> str:
    """`cell`, `the backward pass of cell`."""
    return _with_parts(users_name(body) or LAMBDA, body)


def _with_parts(found: str, body: Body) -> str:
    made = DERIVED.search(body.graph.name)
    for part in made.group().split("_")[1:] if made else ():
        found = PARTS[part].format(found)
    return found
