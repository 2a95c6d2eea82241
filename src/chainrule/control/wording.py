"""How messages call a loop: by the function that the user wrote."""

from __future__ import annotations

import re

from chainrule.graph.body import Body

LAMBDA = "function"  # how the body of a lambda is called
DERIVED = re.compile("(_(cotangent|tangent|saving))+$")  # of bodies that transforms made


def users_name(body: Body) -> str:
    """The name of the user's function; "" of a lambda."""
    name = DERIVED.sub("", body.graph.name)
    return "" if name == LAMBDA else name


def loop_text(body: Body) -> str:
    """`while_loop(step)`."""
    name = users_name(body)
    return f"while_loop({name})" if name else "while_loop"
