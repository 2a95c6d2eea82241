"""Records a fault in numbers: its first elements, and the operand elements they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.control.replay import Turn, turns
from chainrule.dataclass import dataclass
from chainrule.execute.reference import evaluate
from chainrule.explain.nonfinite.flow import back, is_pointwise, sizes_of
from chainrule.explain.nonfinite.trail import Trail
from chainrule.explain.nonfinite.turn_trails import Within, given
from chainrule.explain.values.statistics import Statistics, statistics_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

SHOWN = 3  # elements of the fault that are shown one by one

Index = tuple[int, ...]


@dataclass(frozen=True)
class Fault:
    """Elements that are not finite by themselves, or given so; `count` of them.

    `operands[i]` has, for the i-th of `indices`, place and value of an element of each input: the
    same place where the operation is elementwise, else, of those that it is computed from, the
    first that is not finite, or the largest.  `statistics` are those of each input, with its size;
    `arrays` the inputs themselves, `inside` the fault in a turn of a loop or a choice.
    """

    node: Node
    count: int
    indices: tuple[Index, ...]
    values: tuple[float, ...]
    operands: tuple[tuple[tuple[Index, float], ...], ...]
    statistics: tuple[Statistics, ...]
    arrays: tuple[np.ndarray, ...] = ()
    inside: Inside | None = None


@dataclass(frozen=True)
class Inside:
    """A fault in a turn of a loop or a choice, with the trail of that turn."""

    turn: Turn
    given: Mapping[Node, np.ndarray]
    trail: Trail
    fault: Fault


def replayed(
    graph: Graph, inputs: Mapping[Node, np.ndarray], node: Node, where: np.ndarray | Within
) -> Fault:
    """The fault at these elements of a value, or in a turn of it: the graph evaluated so far."""
    found: list[Fault] = []

    def watch(one: Node, values: Mapping[Node, np.ndarray]) -> None:
        if one is node:
            found.append(_fault(node, values[node], [values[x] for x in node.inputs], where))

    evaluate(graph, inputs, [node], watch=watch)
    return found[0]


def _fault(
    node: Node, value: np.ndarray, operands: Sequence[np.ndarray], where: np.ndarray | Within
) -> Fault:
    if not isinstance(where, Within):
        return fault_of(node, value, operands, where)
    turn = next(one for n, one in enumerate(turns(node, operands)) if n == where.turn)
    graph, arrays = turn.body.graph, given(turn.body, turn.inputs)
    trail = Trail(of_body=True)
    evaluate(graph, arrays, dict(graph.outputs).values(), watch=trail)
    inner = replayed(graph, arrays, where.node, where.fault)
    inside = Inside(turn, arrays, trail, inner)
    return fault_of(node, value, operands, ~np.isfinite(value), inside)


def fault_of(
    node: Node,
    value: np.ndarray,
    operands: Sequence[np.ndarray],
    wrong: np.ndarray,
    inside: Inside | None = None,
) -> Fault:
    """What is shown of a fault at the elements where `wrong` holds."""
    places = np.flatnonzero(wrong)[:SHOWN]
    indices = tuple(tuple(int(i) for i in np.unravel_index(place, value.shape)) for place in places)
    return Fault(
        node,
        int(wrong.sum()),
        indices,
        tuple(float(value[index]) for index in indices),
        tuple(
            tuple(_operand(node, place, operands, index) for place in range(len(operands)))
            for index in indices
        ),
        tuple(statistics_of(once(one)) for one in operands),
        tuple(np.array(once(one)) for one in operands) if node.inputs else (),
        inside,
    )


def once(array: np.ndarray) -> np.ndarray:
    """The array without what broadcasting repeats."""
    pairs = zip(array.strides, array.shape, strict=True)
    return array[
        tuple(slice(0, 1) if not stride and size else slice(None) for stride, size in pairs)
    ]


def _operand(
    node: Node, place: int, operands: Sequence[np.ndarray], index: Index
) -> tuple[Index, float]:
    """The element of an operand that says most about the element `index` of the result."""
    operand = operands[place]
    if is_pointwise(node):
        return index, float(operand[index])
    if not operand.size:
        return (), float("nan")
    one = np.zeros(sizes_of(node), bool)
    one[index] = True
    read = np.broadcast_to(back(node, place, one, operands[1:]), operand.shape)
    read = read if read.any() else np.ones_like(read)
    wrong = np.flatnonzero(read & ~np.isfinite(operand))
    chosen = wrong[0] if wrong.size else np.argmax(np.where(read, np.abs(operand), -1))
    found = tuple(int(i) for i in np.unravel_index(chosen, operand.shape))
    return found, float(operand[found])
