"""Finds the calls of composites in a graph: the nodes of each call, and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from chainrule.explain.equations.formula import Unit
from chainrule.explain.equations.spanning import are_leading
from chainrule.explain.equations.values import KEEPDIMS
from chainrule.explain.reading.statements import GENERATED
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.words import composite_of
from chainrule.primitives.primitive import Map
from chainrule.primitives.sources import constant

# Static arguments that are not shown: they say what a reader takes for granted, or what the shape
# says.  None is never shown.
USUAL = {
    "reduction": ("mean",),
    "groups": (1,),
    "approximate": ("none",),
    "keepdims": (False,),
    "method": ("linear",),
    "overwrite_input": (True, False),
    "kind": ("quicksort", "mergesort", "heapsort", "stable"),
    "stable": (True, False),
}
NUMBERS = (int, float, np.generic)
OPERANDS = ("x1", "x2")  # as NumPy calls those of its functions of two arrays
OF_LAST_AXIS = (  # where nothing else is said
    "softmax",
    "log_softmax",
    "logsumexp",
    "layer_norm",
    "sort",
)


def calls(nodes: Iterable[Node]) -> tuple[Unit, ...]:
    """The outermost calls of composites whose result and arguments are found in the graph.

    A call is left out where it reads more than its arguments, or where a transform changed it.
    """
    ordered = tuple(nodes)
    found: dict[Scope, list[Node]] = {}
    for node in ordered:
        scope = None if node.origin.transform else composite_of(node)
        if scope is not None:
            found.setdefault(scope, []).append(node)
    present = set(ordered)
    units = (_call(scope, members, present) for scope, members in found.items())
    return tuple(unit for unit in units if unit is not None)


def _call(scope: Scope, members: list[Node], present: set[Node]) -> Unit | None:
    inside = set(members)
    result = _result(scope, members, inside)
    if result is None:
        return None
    given = dict(scope.arguments)
    nodes = {key: value for key, value in given.items() if isinstance(value, Node)}
    now = _matched(scope.result[0], result, set(nodes.values()))
    if now is None:
        return None
    arguments: list[Node | str] = []
    below: list[str] = []
    for key, value in given.items():
        if isinstance(value, Node):
            if now.get(value, value) not in present:
                return None
            arguments.append(now.get(value, value))
        else:
            is_operand = key in OPERANDS and isinstance(value, NUMBERS)
            text = [str(value)] if is_operand else _static(scope, key, value)
            if text is None:
                return None
            (arguments if is_operand or isinstance(value, np.ndarray) else below).extend(text)
    read = {parent for node in members for parent in node.inputs} - inside
    allowed = (one for one in read if one.primitive in (*GENERATED, constant))
    if read - set(allowed) - {one for one in arguments if isinstance(one, Node)}:
        return None
    if result in arguments:
        return None
    textbook = scope.textbook
    assert textbook is not None
    return Unit(
        result,
        tuple(arguments),
        frozenset(inside),
        textbook.symbol,
        textbook.latex,
        ", ".join(below),
        scope.name,
        {key: now.get(v, v) if isinstance(v, Node) else v for key, v in given.items()},
        textbook.gradients,
    )


def _result(scope: Scope, members: list[Node], inside: set[Node]) -> Node | None:
    """What the call returned: in a graph that was copied, the one member that no member reads."""
    if len(scope.result) != 1:
        return None
    if scope.result[0] in inside:
        return scope.result[0]
    read = {parent for node in members for parent in node.inputs}
    last = [node for node in members if node not in read]
    return last[0] if len(last) == 1 else None


def _matched(old: Node, new: Node, wanted: set[Node]) -> Mapping[Node, Node] | None:
    """Which node each node above `old` became above `new`; None where they are built otherwise.

    Goes up as far as the `wanted` nodes, which are the arguments of the call.
    """
    if old is new:
        return {}
    found = {old: new}
    stack = [old]
    while stack:
        node = stack.pop()
        other = found[node]
        if node in wanted or node is other:
            continue
        if node.primitive is not other.primitive or len(node.inputs) != len(other.inputs):
            return None
        for parent, twin in zip(node.inputs, other.inputs, strict=True):
            if parent not in found:
                found[parent] = twin
                stack.append(parent)
            if found[parent] is not twin:
                return None
    return found


def _static(scope: Scope, name: str, value: object) -> list[str] | None:
    """A static argument as the equations show it (often not at all); None for what they cannot."""
    if name == "axis":
        return _axis(scope)
    if name == "keepdims" and value is True:
        axes = _axes(scope)
        return [] if axes is not None and are_leading(axes) else [KEEPDIMS]
    if value is None or isinstance(value, (type, np.dtype)) or value in _usual(name):
        return []
    if name == "num_classes":
        return [str(value)]
    if isinstance(value, str):
        return [value]
    if isinstance(value, np.ndarray):
        return [name]
    if isinstance(value, (*NUMBERS, Size)):
        return [f"{name} = {value}"]
    if isinstance(value, (tuple, list)) and all(isinstance(one, NUMBERS) for one in value):
        shown = tuple(one.item() if isinstance(one, np.generic) else one for one in value)
        return [f"{name} = {shown}"]
    return None


def _axis(scope: Scope) -> list[str] | None:
    axes, ndim = _axes(scope), _ndim(scope)
    if axes is None:
        return None
    if axes == ((ndim - 1,) if scope.name in OF_LAST_AXIS else tuple(range(ndim))):
        return []
    if len(axes) == ndim:
        return ["all axes"]
    return [f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"]


def _axes(scope: Scope) -> tuple[int, ...] | None:
    """The axes that a call is about, counted from 0; None where that is not known."""
    ndim, value = _ndim(scope), cast(Any, dict(scope.arguments).get("axis"))
    if value is None:
        return tuple(range(ndim))
    several = value if isinstance(value, (tuple, list)) else (value,)
    if not all(isinstance(one, (int, np.integer)) and -ndim <= one < ndim for one in several):
        return None
    return tuple(sorted(int(one) % ndim for one in several))


def _ndim(scope: Scope) -> int:
    """How many axes the first array among the arguments has."""
    return next((one.ndim for _, one in scope.arguments if isinstance(one, Node)), 0)


def _usual(name: str) -> tuple[object, ...]:
    return USUAL.get(name, ())


def is_elementwise_in(unit: Unit, variable: Node) -> bool:
    """Whether each element of the result depends on the one element of `variable` at its place."""
    if unit.result.shape != variable.shape:
        return False
    return all(
        isinstance(node.primitive.kernel, Map) and node.shape == variable.shape
        for node in dependent(unit, variable)
    )


def dependent(unit: Unit, variable: Node) -> list[Node]:
    """The members of a unit that depend on a variable, in topological order."""
    reached = {variable}
    return [node for node in _ordered(unit) if _reaches(node, reached)]


def _reaches(node: Node, reached: set[Node]) -> bool:
    if any(parent in reached for parent in node.inputs):
        reached.add(node)
        return True
    return False


def _ordered(unit: Unit) -> Iterator[Node]:
    """The members in topological order."""
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(unit.result, False)]
    while stack:
        node, is_after = stack.pop()
        if is_after:
            yield node
        elif node not in done and node in unit.members:
            done.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in node.inputs)
