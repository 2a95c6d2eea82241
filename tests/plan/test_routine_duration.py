"""Predicted times of LAPACK's routines: every operation has its own, by what its routine reads."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.planner import plan
from chainrule.plan.routine_duration import TAKEN
from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.speeds import SPEEDS
from chainrule.primitives.primitive import Library
from chainrule.primitives.registry import PRIMITIVES


def nanoseconds(function: Any, *shapes: tuple[int, ...], dtype: str = "float64") -> int:
    """Of the last routine in the plan of a function of such arrays, on one thread."""
    types = [getattr(cr, dtype)[" ".join(map(str, shape))] for shape in shapes]
    graph = cr.trace(function, **dict(zip("ab", types, strict=False)))
    works = plan(graph, [node for _, node in graph.outputs]).works
    *_, last = (work for work in works if isinstance(work, RoutineWork))
    return work_nanoseconds(last, SPEEDS[64])


def test_every_operation_by_lapack_has_a_time() -> None:
    kernels = {one.name: one.kernel for one in PRIMITIVES}
    routines = {n for n, one in kernels.items() if isinstance(one, Library) and one.routine}
    assert routines and routines == set(TAKEN)


def solve(a, b):
    return np.linalg.solve(a, b)


def test_a_solve_by_known_factors_takes_far_less_than_they_do() -> None:
    solved = nanoseconds(solve, (300, 300), (300, 1))
    assert 20 * solved < nanoseconds(np.linalg.inv, (300, 300))
    assert 20 * solved < nanoseconds(solve, (300, 300), (300, 300))


def test_a_matrix_that_is_read_where_it_lies_is_not_copied() -> None:
    def triangular(a, b):
        return cr.solve_triangular(a, b, lower=True)

    shapes = (300, 300), (300, 1)
    narrow = nanoseconds(triangular, *shapes, dtype="float32")
    assert 3 * nanoseconds(triangular, *shapes) < narrow


def test_a_stack_takes_as_often_as_long() -> None:
    some, many = (nanoseconds(np.linalg.cholesky, (count, 20, 20)) for count in (50, 100))
    assert 1.9 * some < many < 2 * some
