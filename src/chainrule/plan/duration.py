"""Estimates how long instructions take: some may run again, and the quick ones are chosen."""

from __future__ import annotations

from chainrule.graph.body import bodies_of
from chainrule.graph.node import Node
from chainrule.plan.roles import nbytes_of
from chainrule.plan.sharing import BYTES_EACH_NANOSECOND, FLOPS_EACH_NANOSECOND, Sharing
from chainrule.plan.work import Call, ForeignWork, NestWork, ProductWork, Work
from chainrule.primitives.primitive import Contract, Library

BEGINNING = 300.0  # nanoseconds in which an instruction of compiled code begins and threads meet
CALLING = 2000.0  # in which NumPy begins
BEGINNING_ITERATION = 5000.0  # of a loop
NUMPY_FLOPS_EACH_NANOSECOND = 1.0  # of what is no product


def work_nanoseconds(work: Work) -> float:
    """About how long the work takes, on the threads that share it."""
    match work:
        case NestWork():
            return BEGINNING + sum(_shared(one.sharing) for one in work.layouts)
        case ProductWork():
            return BEGINNING + sum(map(_call_nanoseconds, work.calls))
        case ForeignWork():
            return node_nanoseconds(work.node)


def _call_nanoseconds(call: Call) -> float:
    packs = [one.pack.sharing for one in (call.x, call.y) if one.pack is not None]
    return sum(map(_shared, [*packs, call.sharing]))


def _shared(sharing: Sharing) -> float:
    return sharing.nanoseconds / sharing.parts


def node_nanoseconds(node: Node) -> float:
    """About how long NumPy takes to evaluate a node of a concrete graph."""
    kernel, flops = node.primitive.kernel, int(node.primitive.flops(node))
    moved = nbytes_of(node) + sum(map(nbytes_of, dict.fromkeys(node.inputs)))
    rate = NUMPY_FLOPS_EACH_NANOSECOND
    iterations = 0
    match kernel:
        case Contract():
            rate = FLOPS_EACH_NANOSECOND
        case Library(turns=turns) if turns is not None:
            rate, iterations = FLOPS_EACH_NANOSECOND, _iterations(node)
    return CALLING + BEGINNING_ITERATION * iterations + flops / rate + moved / BYTES_EACH_NANOSECOND


def _iterations(node: Node) -> int:
    """How many there are in a loop, and in the loops in it; as far as it is known before a run."""
    kernel = node.primitive.kernel
    turns = kernel.turns if isinstance(kernel, Library) else None
    if turns is None:
        return 0
    inside = sum(_iterations(one) for body in bodies_of(node) for one in body.graph.nodes)
    return (turns(node) or 0) * (1 + inside)
