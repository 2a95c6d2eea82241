"""Finds the operations whose kinks a function is at: there a derivative is a convention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.control.replay import turns
from chainrule.errors import ChainruleError
from chainrule.execute.reference import evaluate
from chainrule.functional import jvp
from chainrule.graph.body import holds_bodies
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.tracing import trace

STEP = 1e-5  # of the size of the point, to either side of it
NEARER = 8.0  # how much nearer the second look is
SEEN = 1e-9  # the part of a value below which a jump is rounding

Function = Callable[[Any], list[Any]]


def kinks(
    function: Function, point: Sequence[np.ndarray], direction: Sequence[np.ndarray], order: int
) -> list[Node]:
    """The operations that are at a kink at the point, if the function or one of its derivatives up
    to `order` is not continuous there along the direction.

    Each primitive says where its kinks are; those in loops and branches count, too.  A smooth
    function may be made of operations at kinks, as softplus is at 0: of these nothing is said.
    """
    found = list(_at_kinks(trace(function, point), point))
    return found if found and _jumps(function, point, direction, order) else []


def _at_kinks(graph: Graph, arrays: Sequence[np.ndarray]) -> Iterator[Node]:
    """The operations on values that depend on the graph's inputs, and are at a kink."""
    moving = {item.node for item in graph.inputs if item.type.is_float}
    found: dict[Node, None] = {}

    def look(node: Node, values: Mapping[Node, np.ndarray]) -> None:
        if not any(one in moving for one in node.inputs):
            return
        moving.add(node)
        given = [values[one] for one in node.inputs]
        kink = node.primitive.kink
        if kink is not None and dtype_kind(given[0].dtype) == "f":
            if np.any(kink(*given, **dict(node.params))):
                found[node] = None
        if holds_bodies(node):
            for turn in turns(node, given):
                found.update(dict.fromkeys(_at_kinks(turn.body.graph, turn.inputs)))

    inputs = dict(zip((item.node for item in graph.inputs), arrays, strict=True))
    with np.errstate(all="ignore"):
        evaluate(graph, inputs, [node for _, node in graph.outputs], watch=look)
    return iter(found)


def _jumps(
    function: Function, point: Sequence[np.ndarray], direction: Sequence[np.ndarray], order: int
) -> bool:
    """Whether the function or one of its derivatives jumps at the point; also where that cannot be
    computed."""
    try:
        for _ in range(order + 1):
            if _is_broken(function, point, direction):
                return True
            function = _along(function, direction)
    except ChainruleError:
        return True
    return False


def _along(function: Function, direction: Sequence[np.ndarray]) -> Function:
    return lambda point: list(jvp(function, (point,), (list(direction),))[1])


def _is_broken(
    function: Function, point: Sequence[np.ndarray], direction: Sequence[np.ndarray]
) -> bool:
    """Whether the values on both sides do not come towards those at the point."""
    graph = trace(function, point)

    def at(step: float) -> np.ndarray:
        moved = [x + step * v for x, v in zip(point, direction, strict=True)]
        values = graph.run({"point": moved}, keep="outputs").outputs
        return np.concatenate([np.ravel(value).astype(np.float64) for value in values])

    with np.errstate(all="ignore"):
        here = at(0.0)
        far, near = (
            np.maximum(*(np.abs(at(sign * STEP / part) - here) for sign in (1, -1)))
            for part in (1.0, NEARER)
        )
        size = np.max(np.abs(here), initial=0.0)
        jumps = (near > far / 2) & (near > SEEN * size)
        return bool(np.any(jumps | ~np.isfinite(far) | ~np.isfinite(near)))
