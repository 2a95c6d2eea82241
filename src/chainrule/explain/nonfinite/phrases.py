"""Names values in messages: by name, or by a short NumPy expression: `log(p)`, `x @ W1`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from chainrule.explain.reading.numbers import counted
from chainrule.graph.node import Node
from chainrule.graph.words import UNSAID, composite_call, operation, printable
from chainrule.primitives.arithmetic import identity, integer_power, power, stop_gradient
from chainrule.primitives.indexing import gather
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape, slice_, transpose
from chainrule.primitives.primitive import Map
from chainrule.primitives.products import matmul
from chainrule.primitives.sources import constant, full, size_value

DEEPEST = 3  # operations within each other; what is deeper is left out
UNNAMED = "constant"
SILENT = (cast, broadcast_to, reshape, identity, stop_gradient)
INFIX = re.compile(r"x [-+*/<>=!&|]+ y")
PREFIX = re.compile(r"[-~]x")

Names = Mapping[Node, str]


def number(value: float, digits: int = 6) -> str:
    """`0.25`, `NaN`, `inf` or `-inf`."""
    return "NaN" if np.isnan(value) else f"{value:.{digits}g}"


def beneath(node: Node, names: Names) -> Node:
    """The value that an unnamed cast, broadcast or reshape shows."""
    while node not in names and node.primitive in SILENT:
        node = node.inputs[0]
    return node


def phrase(node: Node, names: Names, depth: int = 0) -> str:
    """The name of a value, else how it is computed."""
    node = beneath(node, names)
    if node in names:
        return printable(names[node])
    if node.primitive is full:
        return number(node.param("value"))
    if node.primitive is size_value:
        return str(node.param("size"))
    if node.primitive is constant:
        return printable(node.param("value").name) or _unnamed(node.param("value").array)
    return computed(node, names, depth)


def _unnamed(array: np.ndarray) -> str:
    """`arange(16)`, or that it is an array in the program."""
    ends = counted(array)
    if ends is None:
        return UNNAMED
    first, last = ends
    return f"arange({first}, {last + 1})" if first else f"arange({last + 1})"


def computed(node: Node, names: Names, depth: int = 0) -> str:
    """How a value is computed from its operands, also where it has a name."""
    if depth >= DEEPEST:
        return UNSAID
    operands = [phrase(one, names, depth + 1) for one in node.inputs]
    if depth == DEEPEST - 1 and UNSAID in operands:
        return UNSAID
    bound = [bracketed(one) for one in operands]
    kernel = node.primitive.kernel
    if node.primitive is power:
        return " ** ".join(bound)
    if node.primitive is integer_power:
        return f"{bound[0]} ** {node.param('exponent')}"
    if node.primitive is cast:
        return f"{bound[0]}.astype({node.dtype})"
    if node.primitive is transpose:
        return f"{bound[0]}.T"
    if node.primitive is slice_:
        return f"{bound[0]}[...]"
    if node.primitive is gather:
        return f"{bound[0]}[{', '.join(operands[1:])}]"
    if isinstance(kernel, Map) and INFIX.fullmatch(kernel.expression):
        return f"{bound[0]}{kernel.expression[1:-1]}{bound[1]}"
    if isinstance(kernel, Map) and PREFIX.fullmatch(kernel.expression):
        return f"{kernel.expression[0]}{bound[0]}"
    if node.primitive is matmul:
        return " @ ".join(bound)
    return operation(node, lambda one: phrase(one, names, depth + 1))


def composite(node: Node, names: Names) -> str:
    """The call of a composite in which the value was made, `softmax(scores)`; "" if in none."""
    return composite_call(node, lambda one: phrase(one, names, DEEPEST - 1))


def bracketed(text: str) -> str:
    """The text, in brackets if something stands in it with blanks around: `(x + y)`."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and not depth:
            return f"({text})"
    return text
