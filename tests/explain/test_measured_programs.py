"""The first, second and third call of a program take what its report says, to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from executors import WITHIN
from measured_memory import (
    CALLS,
    EXACT,
    aligned_nbytes,
    arrays_nbytes,
    constants_nbytes,
    error_of_runs,
    peaks_of,
)
from memory_programs import CHOICES, PROGRAMS, Program

import chainrule as cr
from chainrule.graph.graph import Graph
from chainrule.schedule.records import ALIGNMENT

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")
QUICK = ("plain", "transposed", "averaged")  # of those whose arguments are in Fortran order
CASES = pytest.mark.parametrize(
    ("program", "order"),
    [
        pytest.param(
            program,
            order,
            id=f"{program.name} {order}",
            marks=() if order == "C" or program.name in QUICK else pytest.mark.slow,
        )
        for program in PROGRAMS
        for order in ("C", "F")
    ],
)


def error_of_steps(program: Program, executor: str, order: str) -> list[int]:
    """The same of training steps, whose state is there before."""
    given = program.arrays(order)
    step = program.step(executor)
    state = step.init(W=given["W"])
    report = step.memory(program.sizes, layout=order)
    there = arrays_nbytes(dict(state)) + given["x"].nbytes + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=False)
    peaks = peaks_of(lambda: lambda: step(state, x=given["x"]))
    # a call that looks at its arguments has the numbers of the optimizer in arrays
    looks = [executor == "native" and (order == "F" or not number) for number in range(CALLS)]
    numbers = [8 * len(step.scalars) * looking for looking in looks]
    return [peak - more - expected for peak, more in zip(peaks, numbers, strict=True)]


def error_of_micro_batches(program: Program, count: int, executor: str, order: str) -> list[int]:
    """The same of steps in parts, whose sums are made by the first one."""
    given = program.arrays(order)
    step = program.step(executor)
    state = step.init(W=given["W"])
    parts = step.micro_batched(count)
    memory = parts.memory(program.sizes, layout=order)
    there = arrays_nbytes(dict(state)) + given["x"].nbytes
    blocks = [memory.accumulating, memory.updating]
    expected = memory.peak_nbytes - there
    expected += sum(aligned_nbytes(one, recycled_results=False) for one in blocks)
    return [peak - expected for peak in peaks_of(lambda: lambda: parts(state, x=given["x"]))]


@pytest.mark.sweep(13)
@CASES
@WITHIN
def test_runs_take_what_their_reports_say(program: Program, executor: str, order: str) -> None:
    graph = cr.trace(program.objective, **program.types)
    for one in (graph, cr.backward(graph, wrt="W")):
        for keep in ("outputs", "named"):
            given = program.arrays(order)
            error = error_of_runs(one, program.sizes, given, keep, executor, order)
            assert error == EXACT, (one.name, keep)


@pytest.mark.sweep(7)
@CASES
@WITHIN
def test_steps_take_what_their_reports_say(program: Program, executor: str, order: str) -> None:
    assert error_of_steps(program, executor, order) == EXACT


@pytest.mark.sweep(13)
@CASES
@WITHIN
def test_micro_batches_take_what_is_said(program: Program, executor: str, order: str) -> None:
    """But for the alignment of the sums, and the numbers of the optimizer."""
    for error in error_of_micro_batches(program, 2, executor, order):
        assert 0 <= error <= 3 * ALIGNMENT


@WITHIN
@pytest.mark.parametrize("program", CHOICES, ids=lambda one: one.name)
def test_a_choice_takes_what_the_larger_branch_does(program: Program, executor: str) -> None:
    """Which branch will be taken is not known before."""
    given = program.arrays()
    graph = cr.backward(cr.trace(program.objective, **program.types), wrt="W")
    errors = []
    for sign in (1, -1):
        one = {**given, "x": abs(given["x"]) * sign}
        errors += error_of_runs(graph, program.sizes, one, "outputs", executor)
    assert max(errors) == 0, errors


@WITHIN
def test_a_byte_more_is_seen(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, held = PROGRAMS[0], []
    objective = program.objective
    graph = cr.trace(objective, **program.types)
    run = Graph.run

    def holding(self: Graph, *args: Any, **kwargs: Any) -> Any:
        held.append(bytes_of_numpy())
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Graph, "run", holding)
    error = error_of_runs(graph, program.sizes, program.arrays(), "outputs", executor)
    assert error == [1, 2, 3]


def bytes_of_numpy() -> Any:
    import numpy as np

    return np.empty(1, np.uint8)
