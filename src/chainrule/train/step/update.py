"""`with_update` adds the optimizer's update to the graph with the gradients, as nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import resting_on
from chainrule.graph.types import FLOAT_SCALAR, ArrayType, array_type
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import input_
from chainrule.primitives.value import like
from chainrule.train.optimizers.check_rule import ONE_SCALAR, SCALED, Maker
from chainrule.train.optimizers.optimizer import STEPS, Optimizer, StateArray, number_of
from chainrule.transforms import simplify
from chainrule.transforms.rules import value_of


@dataclass(frozen=True)
class Persistent:
    """An array that lives from step to step: the input it is, and the output that replaces it.

    `parameter` is the parameter that it is or belongs to (None: it is shared by all); `array` says
    which of the optimizer's arrays it is (None: the parameter itself).  Without both it is carried:
    the objective's own state, which the objective computes.
    """

    name: str
    next_name: str
    parameter: str | None
    array: StateArray | None = None

    @property
    def is_carried(self) -> bool:
        """Whether the objective itself says what follows it."""
        return self.parameter is None and self.array is None


@dataclass(frozen=True, eq=False)
class Update:
    """A graph with its update, the arrays that it updates, and under which name of an input each
    number of the optimizer is given."""

    graph: Graph
    persistent: tuple[Persistent, ...]
    scalars: dict[str, str]


def with_update(
    graph: Graph,
    of: str,
    parameters: Iterable[str],
    optimizer: Optimizer,
    following: Mapping[str, str] | None = None,
    taken: Collection[str] = (),
) -> Update:
    """The graph of a training step, from one with the gradients of `of` by each of `parameters`.

    The scalars and arrays of the optimizer become inputs; the outputs are `of`, then the updated
    parameters (`W1_next`), then what follows the inputs that the program carries, as `following`
    says by names, then the updated arrays of parameters, then the shared ones.  What `of` does not
    depend on stays as it is, and needs no arrays.  `taken` are names that nothing new may have,
    beside those of the graph.
    """
    return _Builder(graph, optimizer, taken).built(of, tuple(parameters), following or {})


def reached_gradients(graph: Graph, of: str, parameters: Iterable[str]) -> dict[str, Node]:
    """The gradients of `of` by those parameters on which it depends."""
    gradients = {g.wrt: g.value for g in graph.gradients if g.of == of}
    found = {name: gradients[graph[name]] for name in parameters}
    return {
        name: gradient
        for name, gradient in found.items()
        if name not in graph.unreached or value_of(gradient) != 0
    }


class _Builder:
    """The inputs, names and arrays of the graph that is being extended."""

    def __init__(self, graph: Graph, optimizer: Optimizer, taken: Collection[str]) -> None:
        self.graph, self.optimizer, self.taken = graph, optimizer, taken
        self.inputs = list(graph.inputs)
        self.names = dict(graph.names)
        self.numbers = {
            name: self._input(name, FLOAT_SCALAR, default)
            for name, default in optimizer.numbers.items()
        }
        self._cast: dict[tuple[Node, np.dtype], Node] = {}

    def built(self, of: str, parameters: tuple[str, ...], following: Mapping[str, str]) -> Update:
        graph = self.graph
        reached = reached_gradients(graph, of, parameters)
        outputs = [(of, graph[of])]
        origin = graph[parameters[0]].origin.derived("update", graph[parameters[0]])
        factors, shared = self._once(reached, origin)
        persistent: list[tuple[Persistent, Node]] = []
        for name in parameters:
            if name in reached:
                persistent += self._updated(name, reached[name], factors)
            else:
                persistent.append((Persistent(name, self._free(f"{name}_next"), name), graph[name]))
                self.names[persistent[-1][0].next_name] = graph[name]
        persistent += [(Persistent(n, then, None), graph[then]) for n, then in following.items()]
        persistent.sort(key=lambda pair: pair[0].array is not None)
        persistent += shared
        outputs += [(part.next_name, node) for part, node in persistent]
        combined = graph.replace(
            inputs=tuple(self.inputs), outputs=tuple(outputs), names=self.names, result=None
        )
        combined = resting_on(combined, {})
        return Update(
            check(simplify(combined, frozen=graph.nodes)),
            tuple(part for part, _ in persistent),
            {name: item.name for name, item in self.numbers.items()},
        )

    def _once(
        self, gradients: Mapping[str, Node], origin: Origin
    ) -> tuple[dict[str, Node], list[tuple[Persistent, Node]]]:
        """The scalars that rules are given, in float64, and the updates of the shared arrays."""
        optimizer = self.optimizer
        arrays = {
            array.name: (array, self._input(array.name, array_type(np.dtype(np.float64), ())))
            for array in self._shared_arrays()
        }
        before = {name: item.node for name, (_, item) in arrays.items()}
        numbers = {name: item.node for name, item in self.numbers.items()}
        computed = self._scheduled(numbers, before)
        scalars = {name: {**numbers, **computed}[name] for name, _ in optimizer.scalars}
        if optimizer.measures is not None and gradients:
            wide = {name: self._in(node, wide_dtype(node)) for name, node in gradients.items()}
            maker = Maker("measures", optimizer.name, optimizer.measures)
            computed.update(maker.scalars(wide, scalars))
        factors, after = self._factors({**scalars, **computed}, before)
        computed.update(factors)
        result = []
        for array, item in arrays.values():
            part = Persistent(item.name, self._free(f"{item.name}_next"), None, array)
            result.append((part, after[array.name]))
            self.names[part.next_name] = after[array.name]
        for name, node in computed.items():
            self.names[self._free(name)] = node
        stamp([*computed.values(), *after.values(), *numbers.values(), *before.values()], origin)
        for part, node in result:
            self._check(part, node)
        return {**scalars, **computed}, result

    def _shared_arrays(self) -> tuple[StateArray, ...]:
        """Those of the optimizer, and the number of steps where only its schedules need it."""
        shared = self.optimizer.shared
        counted = any(array.name == STEPS.name for array in shared)
        return shared if counted or not self.optimizer.schedules else (*shared, STEPS)

    def _scheduled(
        self, numbers: Mapping[str, Node], shared: Mapping[str, Node]
    ) -> dict[str, Node]:
        """The scalars that follow a schedule."""
        found = {}
        for name, schedule in self.optimizer.schedules.items():
            given = {inner: numbers[number_of(name, inner)] for inner, _ in schedule.scalars}
            maker = Maker("rule", schedule.name, schedule.rule, returns=ONE_SCALAR)
            found[name] = maker.scalar(shared[STEPS.name], given)
        return found

    def _factors(
        self, scalars: Mapping[str, Node], shared: Mapping[str, Node]
    ) -> tuple[Mapping[str, Node], Mapping[str, Node]]:
        """What the optimizer computes once a step, and the next of each shared array."""
        optimizer = self.optimizer
        factors: Mapping[str, Node] = {}
        after: Mapping[str, Node] = {}
        own = {array.name: shared[array.name] for array in optimizer.shared}
        maker = Maker("factors", optimizer.name, optimizer.factors)
        if optimizer.factors is not None:
            factors, after = maker.pair(Mapping, scalars, own)
        maker.refuse_other_names(after, own)
        if not optimizer.schedules:
            return factors, after
        steps = shared[STEPS.name]
        if STEPS.name not in own:
            return factors, {**after, STEPS.name: _one_more(steps)}
        if not _counts(steps, after[STEPS.name]):
            raise maker.refused(
                "do not add 1 to `steps`, which a schedule takes for the number of steps"
            )
        return factors, after

    def _updated(
        self, name: str, gradient: Node, factors: Mapping[str, Node]
    ) -> list[tuple[Persistent, Node]]:
        """The parameter's, and its arrays', updates."""
        parameter = self.graph[name]
        wide = wide_dtype(parameter)
        arrays = {
            array.name: (array, self._input(f"{name}_{array.name}", _type(array, parameter, wide)))
            for array in self.optimizer.arrays
        }
        maker = Maker("rule", self.optimizer.name, self.optimizer.rule)
        found, found_arrays = maker.pair(
            Node,
            self._in(parameter, wide),
            self._in(gradient, wide),
            {n: self._in(node, wide) for n, node in factors.items()},
            {n: item.node for n, (_, item) in arrays.items()},
            about=f" for {name}",
        )
        maker.refuse_other_names(found_arrays, arrays)
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
        return free_name(name, self.names, self.taken)

    def _check(self, part: Persistent, node: Node) -> None:
        old = self.names[part.name].type
        if (node.type.dtype, node.type.shape) != (np.dtype(old.dtype), old.shape):
            optimizer = self.optimizer
            function = optimizer.rule if part.parameter else optimizer.factors
            raise InputError(
                f"{optimizer.name} makes {part.next_name}: {node.type} of {part.name}: {old}",
                where=Maker("rule", optimizer.name, function).place,
                hint=f"an update keeps dtype and shape; {SCALED}",
            )


def wide_dtype(node: Node) -> np.dtype:
    """float16 has neither the range for squares of gradients nor the digits for running means."""
    return np.promote_types(node.dtype, np.float32)


def _type(array: StateArray, parameter: Node, dtype: np.dtype) -> ArrayType:
    return array_type(dtype, () if array.scalar else parameter.shape)


def _one_more(steps: Node) -> Node:
    return add(steps, like(1, steps))


def _counts(steps: Node, after: Node) -> bool:
    """Whether `after` is steps + 1."""
    return after.primitive is add and any(
        one is steps and value_of(other) == 1 for one, other in (after.inputs, after.inputs[::-1])
    )
