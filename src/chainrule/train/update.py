"""`with_update`: the optimizer's update as further nodes of the graph that has the gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.graph import Graph, Input
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.rebuild import ordered, substituted
from chainrule.graph.types import FLOAT_SCALAR, ArrayType, array_type
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import input_
from chainrule.train.optimizers import Optimizer, StateArray
from chainrule.transforms import simplify


@dataclass(frozen=True)
class Persistent:
    """An array that lives from step to step: the input it is, and the output that replaces it.

    `parameter` is the parameter that it is or belongs to; `array` says which of the optimizer's
    arrays it is (None: the parameter itself).
    """

    name: str
    next_name: str
    parameter: str
    array: StateArray | None = None


@dataclass(frozen=True, eq=False)
class Update:
    """A graph with its update, the arrays that it updates, and under which name of an input each
    scalar of the optimizer is given."""

    graph: Graph
    persistent: tuple[Persistent, ...]
    scalars: dict[str, str]


def with_update(graph: Graph, of: str, parameters: Iterable[str], optimizer: Optimizer) -> Update:
    """The graph of a training step, from one with the gradients of `of` by each of `parameters`.

    The scalars and arrays of the optimizer become inputs; the outputs are `of`, then the updated
    parameters (`W1_next`), then the updated arrays.
    """
    return _Builder(graph, optimizer).built(of, tuple(parameters))


class _Builder:
    """The inputs, names and arrays of the graph that is being extended."""

    def __init__(self, graph: Graph, optimizer: Optimizer) -> None:
        self.graph, self.optimizer = graph, optimizer
        self.inputs = list(graph.inputs)
        self.names = dict(graph.names)
        self.scalars = {
            name: self._input(name, FLOAT_SCALAR, default) for name, default in optimizer.scalars
        }
        self._cast: dict[tuple[str, ArrayType], Node] = {}

    def built(self, of: str, parameters: tuple[str, ...]) -> Update:
        graph = self.graph
        gradients = {g.wrt: g.value for g in graph.gradients if g.of == of}
        outputs = [(of, graph[of])]
        updated = [self._updated(name, gradients[graph[name]]) for name in parameters]
        persistent = [part for parts in updated for part in parts]
        persistent.sort(key=lambda pair: pair[0].array is not None)
        outputs += [(part.next_name, node) for part, node in persistent]
        combined = graph.replace(
            inputs=tuple(self.inputs), outputs=tuple(outputs), names=self.names, result=None
        )
        combined = substituted(combined, {}, ordered(combined))
        return Update(
            check(simplify(combined, frozen=graph.nodes)),
            tuple(part for part, _ in persistent),
            {name: item.name for name, item in self.scalars.items()},
        )

    def _updated(self, name: str, gradient: Node) -> list[tuple[Persistent, Node]]:
        """The parameter's, and its arrays', updates."""
        parameter = self.graph[name]
        arrays = {
            array.name: (array, self._input(f"{name}_{array.name}", _type(array, parameter)))
            for array in self.optimizer.arrays
        }
        scalars = {n: self._scalar(n, parameter) for n in self.scalars}
        found, found_arrays = self.optimizer.rule(
            parameter,
            gradient,
            scalars,
            {n: item.node for n, (_, item) in arrays.items()},
        )
        if set(found_arrays) != set(arrays):
            raise InputError(
                f"the rule of {self.optimizer.name} updates {sorted(found_arrays) or 'no arrays'}"
                f", the optimizer declares {sorted(arrays) or 'none'}",
                hint="the rule returns (parameter, {name: array for each of arrays=})",
            )
        result = [(Persistent(name, self._free(f"{name}_next"), name), found)]
        for array, item in arrays.values():
            part = Persistent(item.name, self._free(f"{item.name}_next"), name, array)
            result.append((part, found_arrays[array.name]))
        origin = parameter.origin.derived("update", parameter)
        stamp((node for _, node in result), origin)
        stamp((item.node for _, item in arrays.values()), origin)
        stamp((item.node for item in self.scalars.values()), origin)
        for part, node in result:
            self._check(part, node)
            self.names[part.next_name] = node
        return result

    def _scalar(self, name: str, parameter: Node) -> Node:
        """A scalar of the optimizer in the parameter's dtype, one node for each dtype."""
        scalar = self.scalars[name].node
        type_ = array_type(parameter.dtype, (), parameter.type.weak)
        if scalar.type == type_:
            return scalar
        key = (name, type_)
        if key not in self._cast:
            self._cast[key] = cast(scalar, dtype=type_.dtype, weak=type_.weak)
        return self._cast[key]

    def _input(self, name: str, type_: ArrayType, default: float | None = None) -> Input:
        item = Input(self._free(name), input_(index=len(self.inputs), type=type_), default)
        self.inputs.append(item)
        self.names[item.name] = item.node
        return item

    def _free(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, ... where the graph has that already."""
        free, count = name, 0
        while free in self.names:
            count += 1
            free = f"{name}_{count}"
        return free

    def _check(self, part: Persistent, node: Node) -> None:
        old = self.names[part.name].type
        if (node.type.dtype, node.type.shape) != (np.dtype(old.dtype), old.shape):
            raise InputError(
                f"the rule of {self.optimizer.name} makes {part.next_name}: {node.type} of "
                f"{part.name}: {old}",
                hint="an update keeps dtype and shape; `scaled` multiplies an array by a scalar",
            )


def _type(array: StateArray, parameter: Node) -> ArrayType:
    return array_type(parameter.dtype, () if array.scalar else parameter.shape)
