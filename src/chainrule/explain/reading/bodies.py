"""Finds which value of a graph is which result of a loop or a choice, in their flat array."""

from __future__ import annotations

from chainrule.control import CONTROL, cond_primitive, scan_primitive
from chainrule.control.packing import result_types, strong
from chainrule.dataclass import dataclass
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import reshape, slice_

ALL = -1  # the place of the whole array


@dataclass(frozen=True)
class Result:
    """The `place`-th result of a loop or a choice `holder`; `ALL` for all in a row."""

    holder: Node
    place: int


def is_loop_or_choice(node: Node) -> bool:
    """Whether a node is a scan, a cond or a while loop."""
    return node.primitive in CONTROL


def inner_graphs(graph: Graph) -> list[Graph]:
    """The bodies in a graph, and those in them."""
    found: list[Graph] = []
    stack = [graph]
    while stack:
        for node in stack.pop().nodes:
            found += (inner := [body.graph for body in bodies_of(node)])
            stack += inner
    return found


def types_of(holder: Node) -> tuple[ArrayType, ...]:
    """The types of the results of a loop or a choice, one after another."""
    if holder.primitive is scan_primitive:
        carries, length = holder.param("carries"), holder.param("length")
        return result_types(holder.param("body"), carries, holder.dtype, length)
    body = holder.param("if_true" if holder.primitive is cond_primitive else "body")
    types = [node.type for _, node in body.graph.outputs]
    return tuple([one for one in types if one.dtype == holder.dtype])


def is_stacked(result: Result) -> bool:
    """Whether a result has a row for each iteration of a loop."""
    holder = result.holder
    if holder.primitive is not scan_primitive or result.place < 0:
        return False
    states = holder.param("body").graph.outputs[: holder.param("carries")]
    return result.place >= sum(node.dtype == holder.dtype for _, node in states)


def results(graph: Graph) -> dict[Node, Result]:
    """For each node that is a result, or all results of a loop or a choice, which it is."""
    found: dict[Node, Result] = {}
    ranges: dict[Node, tuple[Node, int | Size]] = {}  # flat parts: of what, and where they begin
    places: dict[Node, dict[tuple[int | Size, ArrayType], int]] = {}
    for node in graph.nodes:
        if is_loop_or_choice(node):
            ranges[node] = node, 0
            start: int | Size = 0
            places[node] = {}
            for place, one in enumerate(types_of(node)):
                places[node].setdefault((start, strong(one)), place)
                start = start + one.size
            found[node] = Result(node, ALL)
        elif not _is_view(node, ranges):
            continue
        else:
            holder, start = ranges[node.inputs[0]]
            ranges[node] = holder, start + (node.param("start")[0] if _is_slice(node) else 0)
        holder, start = ranges[node]
        place = places[holder].get((start, strong(node.type)))
        if place is not None:
            found[node] = Result(holder, place)
    return found


def _is_view(node: Node, ranges: dict[Node, tuple[Node, int | Size]]) -> bool:
    """Whether a node is a stretch of results, perhaps in another shape."""
    if len(node.inputs) != 1 or node.inputs[0] not in ranges:
        return False
    if node.primitive is cast:
        return node.inputs[0].dtype == node.dtype
    return node.primitive is reshape or _is_slice(node)


def _is_slice(node: Node) -> bool:
    return node.primitive is slice_ and node.param("step") == (1,)
