"""Evaluates a body: one NumPy call per node, and frees each value after its last use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from chainrule.execute.reference import apply, shared
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.primitives.sources import is_uniform
from chainrule.schedule.lives import Life
from chainrule.schedule.turns import order_of, turns_of


class Program:
    """The evaluations of a body (`schedule.turns`), with all that does not depend on values decided
    once."""

    def __init__(self, body: Body) -> None:
        graph = body.graph
        outputs = [node for _, node in graph.outputs]
        place = {Life(item.node): index for index, item in enumerate(graph.inputs)}
        self.count = len(place)
        turns = [one for one in turns_of(order_of(graph, outputs)) if one.into not in place]
        uniform = [one.into for one in turns if is_uniform(one.into.node)]  # it has no storage
        computed = [one for one in turns if not is_uniform(one.into.node)]
        for into in (*uniform, *(one.into for one in computed)):
            place[into] = len(place)
        self.uniform: list[np.ndarray] = [
            one.node.primitive.evaluate(np, **dict(one.node.params)) for one in uniform
        ]
        self.names = (graph.name_of,)
        self.outputs = [place[Life(node)] for node in outputs]
        made = {one.into.node for one in computed}
        self.copied = {place[Life(node)] for node in outputs if node not in made}
        self.instructions = [
            (
                node,
                node.primitive.evaluate,
                dict(node.params),
                tuple([place[one] for one in operands]),
                node.dtype,
                node in outputs,
                tuple([place[one] for one in ended]),
            )
            for (node, _), operands, ended in computed
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
                kept[len(values)] = value.copy() if shared(value, arrays) else value
            values.append(value)
            del value, arrays
            for one in ended:
                values[one] = None
        return [kept[one] for one in self.outputs]


NOTHING: Mapping[Node, Node] = MappingProxyType({})


def program_of(
    body: Body,
    xp: Any = np,
    iterations: int | None = 1,
    over: Mapping[Node, Node] = NOTHING,
) -> Any:
    """What evaluates a concrete body: its program, made once, or what `xp` has for as many
    iterations (None: nobody knows); that one may write these outputs over these inputs."""
    found = None if xp is np else xp.program_of(body, iterations, over)
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
        if place is not value:
            place[...] = value
