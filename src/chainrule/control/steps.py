"""A body evaluated: one NumPy call a node, each value dropped after its last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.graph.body import Body
from chainrule.graph.node import topological
from chainrule.graph.types import ArrayType
from chainrule.primitives.sources import is_uniform
from chainrule.run.reference import apply


class Program:
    """What `run.reference.evaluate` does for the outputs of a body, with all that does not depend
    on values decided once."""

    def __init__(self, body: Body) -> None:
        graph = body.graph
        outputs = [node for _, node in graph.outputs]
        needed = set(topological(outputs))
        order = [node for node in graph.nodes if node in needed]
        place = {item.node: index for index, item in enumerate(graph.inputs)}
        self.count = len(place)
        self.uniform: list[np.ndarray] = []
        computed = []
        for node in order:
            if node in place:
                continue
            place[node] = len(place)
            if is_uniform(node):  # it has no storage
                self.uniform.append(node.primitive.evaluate(np, **dict(node.params)))
            else:
                computed.append(node)
        uniform = [node for node in order if is_uniform(node)]
        for number, node in enumerate((*uniform, *computed)):
            place[node] = self.count + number
        last = {one: node for node in computed for one in (node, *node.inputs)}
        self.names = (graph.name_of,)
        self.outputs = [place[node] for node in outputs]
        kept = set(outputs)
        self.copied = {place[n] for n in outputs if n not in set(computed)}
        self.instructions = [
            (
                node,
                node.primitive.evaluate,
                dict(node.params),
                tuple([place[one] for one in node.inputs]),
                node.dtype,
                node in kept,
                tuple(
                    [place[one] for one in dict.fromkeys((node, *node.inputs)) if last[one] is node]
                ),
            )
            for node in computed
        ]

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, each in memory that is no input's (two that are one node are one array)."""
        values: list[Any] = [*inputs, *self.uniform]
        kept: dict[int, np.ndarray] = {one: values[one].copy() for one in self.copied}
        for node, evaluate, params, operands, dtype, keep, ended in self.instructions:
            arrays = [values[one] for one in operands]
            try:
                value = evaluate(np, *arrays, **params)
            except (IndexError, ValueError):
                value = apply(node, arrays, self.names)  # raises, with the user's call and line
            if type(value) is not np.ndarray:
                value = np.asarray(value)
            if value.dtype != dtype:
                value = value.astype(dtype)
            if keep:
                kept[len(values)] = _owned(value, arrays)
            values.append(value)
            del value, arrays
            for one in ended:
                values[one] = None
        return [kept[one] for one in self.outputs]


def _owned(value: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """The value in memory of its own, as `run.reference` gives it."""
    shared = any(value is one or np.may_share_memory(value, one) for one in operands)
    return value if value.size and value.flags.writeable and not shared else value.copy()


def program_of(body: Body, xp: Any = np, steps: int | None = 1) -> Callable[..., Any]:
    """What evaluates a concrete body: its program, made once, or what `xp` has for as many steps
    (None: nobody knows)."""
    found = None if xp is np else xp.program_of(body, steps)
    return found or body.made.get("program") or body.made.setdefault("program", Program(body))


def result_of(xp: Any, type_: ArrayType) -> np.ndarray:
    """The array for the result of a node: the one that `xp` has for it, or a new one."""
    return np.empty(type_.shape, type_.dtype) if xp is np else xp.result


def in_c_order(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it does not lie in C order."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def store(places: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> None:
    """Write each value to its place."""
    for place, value in zip(places, values, strict=True):
        place[...] = value
