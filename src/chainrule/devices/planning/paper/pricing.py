"""Prices an element of the chain on devices that share it: seconds and bytes of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum

from chainrule.dataclass import dataclass
from chainrule.devices.planning.devices import Group, Link
from chainrule.devices.planning.paper.chain import Element
from chainrule.devices.planning.paper.ways import Spread, spread
from chainrule.devices.reports.times import adding_seconds
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Contract, Generate, Given, Move

ACCUMULATED = 4  # bytes of an element of a sum of gradients, at least


@dataclass(frozen=True)
class Price:
    """An element on each of the devices that share it.

    `forward`, `backward` and `weights` are seconds of a micro-batch, what is added up included.
    `parameter_nbytes`, `gradient_nbytes` (their sums) and `optimizer_nbytes` are there throughout;
    `kept_nbytes` are those of a micro-batch from its forward to its backward pass, `leaving_nbytes`
    is the value that goes on, `working_nbytes` the most that one operation of the backward pass
    reads and writes beside what was kept.
    """

    forward: float
    backward: float
    weights: float
    parameter_nbytes: int
    gradient_nbytes: int
    optimizer_nbytes: int
    kept_nbytes: int
    entering_nbytes: int
    leaving_nbytes: int
    working_nbytes: int


def roofline(node: Node, group: Group) -> float:
    """Seconds of a node: a product takes its operations, or its bytes if these take longer; other
    values are written once and read once; what is only moved is read where it is needed."""
    moved = int(node.type.nbytes)
    match node.primitive.kernel:
        case Given() | Move() | Generate():
            return 0.0
        case Contract():
            moved += sum(int(one.type.nbytes) for one in node.inputs)
            computing = int(node.primitive.flops(node)) / group.flops(node.dtype.name)
            return max(computing, moved / group.memory_bandwidth)
    return 2 * moved / group.memory_bandwidth


def price(
    element: Element, ways: int, group: Group, link: Link, optimizer: Mapping[Node, int]
) -> Price:
    """What an element costs each of `ways` devices; `optimizer` are the bytes of the optimizer's
    arrays of each parameter, `link` is between the devices."""
    lying = spread(element.forward, element.parameters, element.leaving, ways)
    kept = element.kept
    before = [node for node in element.backward if node in element.awaited]
    late = [node for node in element.backward if node not in element.awaited]
    added = fsum(adding_seconds(one, ways, link) for one in lying.forward_nbytes)
    back = fsum(adding_seconds(one, ways, link) for one in lying.backward_nbytes)
    own = element.parameters
    return Price(
        _seconds(element.forward, lying, group) + (added if ways > 1 else 0.0),
        _seconds(before, lying, group) + (back if ways > 1 else 0.0),
        _seconds(late, lying, group),
        sum(map(lying.nbytes, own)),
        sum(lying.nbytes(one) * max(ACCUMULATED // one.dtype.itemsize, 1) for one in own),
        sum(optimizer.get(one, 0) * lying.nbytes(one) // int(one.type.nbytes) for one in own),
        sum(map(lying.nbytes, kept)),
        sum(int(one.type.nbytes) for one in element.entering),
        int(element.leaving.type.nbytes),
        _working(element.backward, set(kept), lying),
    )


def _seconds(nodes: Iterable[Node], lying: Spread, group: Group) -> float:
    return fsum(
        roofline(node, group) / (lying.ways if _is_shared(node, lying) else 1) for node in nodes
    )


def _is_shared(node: Node, lying: Spread) -> bool:
    """Whether the devices share the work: of the backward pass, where they do forward."""
    source = node.origin.node
    return node in lying.shared or (source is not None and source in lying.shared)


def _working(nodes: Iterable[Node], kept: set[Node], lying: Spread) -> int:
    most = 0
    for node in nodes:
        if isinstance(node.primitive.kernel, Move):
            continue  # a view
        arrays = {node, *(one for one in node.inputs if one.inputs and one not in kept)}
        nbytes = sum(int(one.type.nbytes) for one in arrays)
        most = max(most, nbytes // (lying.ways if _is_shared(node, lying) else 1))
    return most
