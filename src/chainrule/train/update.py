"""`with_update`: the optimizer's update as further nodes of the graph that has the gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.graph import Graph, Input
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.rebuild import ordered, substituted
from chainrule.graph.types import FLOAT_SCALAR, ArrayType, array_type
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import input_
from chainrule.train.optimizer import Optimizer, StateArray
from chainrule.transforms import simplify
from chainrule.transforms.rules import value_of

RETURNS = {
    "rule": "the rule returns (parameter, {name: array for each of arrays=}), all of them nodes",
    "factors": "factors returns ({name: scalar}, {name: array for each of shared=}), all nodes",
}
SCALED = "chainrule.train.scaled multiplies an array by a scalar"


@dataclass(frozen=True)
class Persistent:
    """An array that lives from step to step: the input it is, and the output that replaces it.

    `parameter` is the parameter that it is or belongs to (None: it is shared by all); `array` says
    which of the optimizer's arrays it is (None: the parameter itself).
    """

    name: str
    next_name: str
    parameter: str | None
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
    parameters (`W1_next`), then their updated arrays, then the shared ones.  What `of` does not
    depend on stays as it is, and needs no arrays.
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
        self._cast: dict[tuple[Node, np.dtype], Node] = {}

    def built(self, of: str, parameters: tuple[str, ...]) -> Update:
        graph = self.graph
        gradients = {g.wrt: g.value for g in graph.gradients if g.of == of}
        outputs = [(of, graph[of])]
        origin = graph[parameters[0]].origin.derived("update", graph[parameters[0]])
        factors, shared = self._shared(origin)
        persistent: list[tuple[Persistent, Node]] = []
        for name in parameters:
            gradient = gradients[graph[name]]
            if name in graph.unreached and value_of(gradient) == 0:
                persistent.append((Persistent(name, self._free(f"{name}_next"), name), graph[name]))
                self.names[persistent[-1][0].next_name] = graph[name]
            else:
                persistent += self._updated(name, gradient, factors)
        persistent.sort(key=lambda pair: pair[0].array is not None)
        persistent += shared
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

    def _shared(self, origin: Origin) -> tuple[dict[str, Node], list[tuple[Persistent, Node]]]:
        """The scalars that rules are given, in float64, and the updates of the shared arrays."""
        optimizer = self.optimizer
        scalars = {name: item.node for name, item in self.scalars.items()}
        arrays = {
            array.name: (array, self._input(array.name, array_type(np.dtype(np.float64), ())))
            for array in optimizer.shared
        }
        factors, after = {}, {}
        if optimizer.factors is not None:
            before = {name: item.node for name, (_, item) in arrays.items()}
            factors, after = self._called("factors", "", scalars, before)
        self._same_arrays("factors", after, arrays)
        result = []
        for array, item in arrays.values():
            part = Persistent(item.name, self._free(f"{item.name}_next"), None, array)
            result.append((part, after[array.name]))
            self.names[part.next_name] = after[array.name]
        for name, node in factors.items():
            self.names[self._free(name)] = node
        made = [*factors.values(), *after.values(), *scalars.values()]
        stamp([*made, *(item.node for _, item in arrays.values())], origin)
        for part, node in result:
            self._check(part, node)
        return {**scalars, **factors}, result

    def _updated(
        self, name: str, gradient: Node, factors: Mapping[str, Node]
    ) -> list[tuple[Persistent, Node]]:
        """The parameter's, and its arrays', updates."""
        parameter = self.graph[name]
        # float16 has neither the range for squares of gradients nor the digits for running means
        wide = np.promote_types(parameter.dtype, np.float32)
        arrays = {
            array.name: (array, self._input(f"{name}_{array.name}", _type(array, parameter, wide)))
            for array in self.optimizer.arrays
        }
        found, found_arrays = self._called(
            "rule",
            f" for {name}",
            self._in(parameter, wide),
            self._in(gradient, wide),
            {n: self._in(node, wide) for n, node in factors.items()},
            {n: item.node for n, (_, item) in arrays.items()},
        )
        self._same_arrays("rule", found_arrays, arrays)
        if found.dtype == wide != parameter.dtype:
            found = cast(found, dtype=parameter.dtype, weak=False)
        result = [(Persistent(name, self._free(f"{name}_next"), name), found)]
        for array, item in arrays.values():
            part = Persistent(item.name, self._free(f"{item.name}_next"), name, array)
            result.append((part, found_arrays[array.name]))
        origin = parameter.origin.derived("update", parameter)
        stamp((node for _, node in result), origin)
        stamp((item.node for _, item in arrays.values()), origin)
        for part, node in (*result[1:], result[0]):  # the text shows them in the order of names
            self._check(part, node)
            self.names[part.next_name] = node
        return result

    def _called(self, maker: str, about: str, *arguments: Any) -> tuple[Any, Mapping[str, Node]]:
        """What the optimizer's `rule` or `factors` returns; InputError where that is no update."""
        function = getattr(self.optimizer, maker)
        text = f"the {maker} of {self.optimizer.name}"
        try:
            returned = function(*arguments)
        except TypeError as error:
            raise InputError(
                f"{text} failed{about}: {error}",
                where=_place(function),
                hint=f"compute with nodes of one type: {SCALED},\n"
                "functions such as sqrt are in chainrule.primitives.arithmetic",
            ) from error
        first_kind = Node if maker == "rule" else Mapping
        match returned:
            case (first, Mapping() as after) if isinstance(first, first_kind):
                made = [*(first.values() if isinstance(first, Mapping) else ()), *after.values()]
                wrong = [_shown(value) for value in made if not isinstance(value, Node)]
                if not wrong:
                    return first, after
                shown = f"{wrong[0]} in place of a node"
            case (first, second):
                shown = f"({_shown(first)}, {_shown(second)})"
            case _:
                shown = _shown(returned)
        raise InputError(
            f"{text} returned {shown}{about}", where=_place(function), hint=RETURNS[maker]
        )

    def _same_arrays(self, maker: str, found: Any, declared: Any) -> None:
        if set(found) != set(declared):
            raise InputError(
                f"the {maker} of {self.optimizer.name} updates {sorted(found) or 'no arrays'}"
                f", the optimizer declares {sorted(declared) or 'none'}",
                where=_place(getattr(self.optimizer, maker)),
                hint=RETURNS[maker],
            )

    def _in(self, node: Node, dtype: np.dtype) -> Node:
        """The node in this dtype, cast once where it has another."""
        if node.dtype == dtype:
            return node
        key = (node, dtype)
        if key not in self._cast:
            self._cast[key] = cast(node, dtype=dtype, weak=False)
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
                f"{self.optimizer.name} makes {part.next_name}: {node.type} of {part.name}: {old}",
                where=_place(self.optimizer.rule if part.parameter else self.optimizer.factors),
                hint=f"an update keeps dtype and shape; {SCALED}",
            )


def _type(array: StateArray, parameter: Node, dtype: np.dtype) -> ArrayType:
    return array_type(dtype, () if array.scalar else parameter.shape)


def _place(function: Any) -> str:
    """File and line of a function, '' where it is none."""
    code = getattr(function, "__code__", None)
    return "" if code is None else Origin(code).describe()


def _shown(value: Any) -> str:
    if isinstance(value, Node):
        return "a node"
    if isinstance(value, np.ndarray):
        return f"a NumPy array {value.dtype.name}{list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"
