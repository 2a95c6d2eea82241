"""What is remembered of a replay: a few numbers for each value that is not finite, no array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.control.turns import Turn, turns
from chainrule.explain.nonfinite.births import born, hands_on, is_finite, is_mask
from chainrule.explain.values.statistics import Statistics, statistics_of
from chainrule.graph.body import holds_bodies
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Map, Move
from chainrule.primitives.sources import input_
from chainrule.run.reference import evaluate

SHOWN = 3  # elements of the fault that are shown one by one

Index = tuple[int, ...]


@dataclass(frozen=True)
class Bad:
    """A value that is not finite: how many of its elements, and which inputs handed that on."""

    count: int
    size: int
    sources: tuple[Node, ...]


@dataclass(frozen=True)
class Fault:
    """Elements that are not finite by themselves, or given so.

    `operands[i]` has, for the i-th of `indices`, place and value of an element of each input: the
    same place where the operation is elementwise, else the first that is not finite, or the
    largest.  `statistics` are those of each input, with its size.
    """

    node: Node
    indices: tuple[Index, ...]
    values: tuple[float, ...]
    operands: tuple[tuple[tuple[Index, float], ...], ...]
    statistics: tuple[Statistics, ...]


@dataclass(frozen=True)
class Inside:
    """The first fault in a loop or a choice: in which turn, with the trail of that."""

    turn: Turn
    given: Mapping[Node, np.ndarray]
    trail: Trail
    fault: Fault


class Trail:
    """Watches a replay (`reference.evaluate(..., watch=trail)`).

    `bad` are the values that are not finite, in the order in which they were computed; `faults`
    those of them that do not come from an earlier fault.  An inf in a constant, in a Python
    number, or in a mask of 0 and -inf is no fault: it is meant, until something makes a NaN of it.
    Nor is one that a body gets from outside (`of_body`).  `inside` has for each loop and choice
    among the faults the first one in it.
    """

    def __init__(self, of_body: bool = False) -> None:
        self._of_body = of_body
        self.inside: dict[Node, Inside] = {}
        self.bad: dict[Node, Bad] = {}
        self.faults: dict[Node, Fault] = {}
        self._spoilt: set[Node] = set()  # faults, and what comes from them

    def __call__(self, node: Node, values: Mapping[Node, np.ndarray]) -> None:
        moves = isinstance(node.primitive.kernel, Move)
        if moves and not any(one in self.bad for one in node.inputs):
            return
        value = values[node]
        if is_finite(value):
            return
        operands = [values[one] for one in node.inputs]
        sources = [
            one
            for place, one in enumerate(node.inputs)
            if one in self.bad and hands_on(node, value, operands, place)
        ]
        finite = np.isfinite(value)
        self.bad[node] = Bad(
            count=value.size - int(finite.sum()),
            size=value.size,
            sources=tuple(dict.fromkeys(sources)),
        )
        if any(one in self._spoilt for one in sources):
            self._spoilt.add(node)
            return
        inside = first_inside(node, operands) if holds_bodies(node) else None
        if inside is not None:
            self.inside[node] = inside
            wrong = ~finite
        elif node.inputs:
            wrong = born(node, value, operands)
        else:
            wrong = np.isnan(value) if self._of_body else _given_wrong(node, value)
        if wrong.any():
            self._spoilt.add(node)
            self.faults[node] = fault_of(node, value, operands, wrong)

    def towards(self, targets: Iterable[Node]) -> set[Node]:
        """The values that are not finite from which something bad came to one of the targets."""
        found = {one for one in targets if one in self.bad}
        pending = list(found)
        while pending:
            for one in self.bad[pending.pop()].sources:
                if one not in found:
                    found.add(one)
                    pending.append(one)
        return found

    def after(self, node: Node) -> list[Node]:
        """The values that something bad came to from this one, in the order of the program."""
        found = {node: None}
        for one, bad in self.bad.items():
            if any(source in found for source in bad.sources):
                found[one] = None
        return list(found)[1:]


def first_inside(node: Node, operands: Sequence[np.ndarray]) -> Inside | None:
    """The first fault in a loop or a choice that reaches the end of its turn; None if none does."""
    for turn in turns(node, operands):
        if all(is_finite(one) for one in turn.outputs):
            continue
        graph, trail = turn.body.graph, Trail(of_body=True)
        pairs = zip(graph.inputs, turn.inputs, strict=True)
        given = {item.node: array for item, array in pairs}
        outputs = [one for _, one in graph.outputs]
        evaluate(graph, given, outputs, watch=trail)
        reached = trail.towards(outputs)
        for one, fault in trail.faults.items():
            if one.inputs and one in reached:
                return Inside(turn, given, trail, fault)
    return None


def fault_of(
    node: Node, value: np.ndarray, operands: Sequence[np.ndarray], wrong: np.ndarray
) -> Fault:
    """What is shown of a fault at the elements where `wrong` holds."""
    places = np.flatnonzero(wrong)[:SHOWN]
    indices = tuple(tuple(int(i) for i in np.unravel_index(place, value.shape)) for place in places)
    return Fault(
        node,
        indices,
        tuple(float(value[index]) for index in indices),
        tuple(tuple(_operand(node, one, index) for one in operands) for index in indices),
        tuple(statistics_of(once(one)) for one in operands),
    )


def once(array: np.ndarray) -> np.ndarray:
    """The array without what broadcasting repeats."""
    pairs = zip(array.strides, array.shape, strict=True)
    return array[
        tuple(slice(0, 1) if not stride and size else slice(None) for stride, size in pairs)
    ]


def _given_wrong(node: Node, value: np.ndarray) -> np.ndarray:
    """The elements that are no program's intention: NaN, and what is infinite in an input array."""
    meant = node.primitive is not input_ or node.type.weak or is_mask(value)
    return np.isnan(value) if meant else ~np.isfinite(value)


def _operand(node: Node, operand: np.ndarray, index: Index) -> tuple[Index, float]:
    """The element of an operand that says most about the element `index` of the result."""
    if isinstance(node.primitive.kernel, Map):
        return index, float(operand[index])
    if not operand.size:
        return (), float("nan")
    wrong = np.flatnonzero(~np.isfinite(operand))
    place = wrong[0] if wrong.size else np.argmax(np.abs(operand))
    found = tuple(int(i) for i in np.unravel_index(place, operand.shape))
    return found, float(operand[found])
