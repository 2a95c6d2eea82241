"""Estimates how long the routines of LAPACK take."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.speeds import Speeds
from chainrule.primitives.primitive import Library
from chainrule.primitives.routines import WIDE

# Nanoseconds of a routine, whatever the matrix, and of an element that is copied for it.
ROUTINE, COPIED = 20.0, 0.6


class Taken(NamedTuple):
    """What a routine takes: nanoseconds for each column and each element of its matrices, and how
    many times as long for its operations as products take for as many."""

    column: float
    element: float
    multiplying: float


# By the name of the operation, fitted on a core of a Zen 4 to matrices of 2 to 1000 rows, one or 16
# of them, with right sides of one column and of as many as rows, in float32 and float64.
TAKEN = {
    "cholesky": Taken(10.0, 1.2, 2.6),
    "solve_triangular": Taken(10.0, 0.05, 2.5),
    "lu": Taken(19.0, 2.4, 1.9),
    "solve": Taken(19.0, 0.13, 2.6),
    "inv": Taken(50.0, 8.4, 3.4),
    "qr": Taken(91.0, 11.0, 1.8),
    "eigh": Taken(30.0, 66.0, 0.11),
    "eigvalsh": Taken(36.0, 29.0, 0.0),
    "svd": Taken(290.0, 88.0, 0.54),
    "svdvals": Taken(250.0, 36.0, 2.1),
}


def routine_nanoseconds(work: RoutineWork, speeds: Speeds) -> float:
    """About how long a routine of LAPACK takes for all matrices, on one thread."""
    node, (*stack, blocks) = work.node, work.stack
    first, *others = node.inputs
    matrices = [first.shape[-2:]]
    matrices += [(m, n / blocks) for m, n in (one.shape[-2:] for one in others)]
    taken = TAKEN[node.primitive.name]
    each = ROUTINE + COPIED * work.routine.moved
    each += sum(n * (taken.column + m * taken.element) for m, n in matrices)
    operations = speeds.vector_nbytes // WIDE.itemsize * 2  # of one instruction on vectors
    multiplying = _flops(work) / operations * speeds.multiply_add
    return prod(stack) * blocks * each + taken.multiplying * multiplying


def _flops(work: RoutineWork) -> int:
    """Those of all matrices; a factor is a node of its own."""
    node = work.node
    kernel = node.primitive.kernel
    assert isinstance(kernel, Library)
    if kernel.factored is None:
        return int(node.primitive.flops(node))
    return 2 * prod(node.shape) * node.shape[-2]
