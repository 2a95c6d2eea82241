"""Every composite, NumPy function and benchmark takes what its report says, from the first call to
the third, by both executors, of arguments in both orders."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import WITHIN
from measured_memory import (
    EXACT,
    aligned_nbytes,
    arrays_nbytes,
    constants_nbytes,
    error_of_runs,
    peaks_of,
)

import chainrule as cr

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tests/composites", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))
COMPOSITES = importlib.import_module("composite_cases").CASES
for more in ("elementwise_cases", "neural_cases", "reduction_cases"):
    importlib.import_module(more)  # which adds its cases
cases, training = map(importlib.import_module, ("cases", "cases.training"))

CALLS_OF = {id(case.of): [one for one in COMPOSITES if one.of is case.of] for case in COMPOSITES}

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")


@pytest.mark.sweep(47)
@WITHIN
@pytest.mark.parametrize("calls", CALLS_OF.values(), ids=lambda calls: calls[0].name)
def test_a_composite_and_its_gradient_take_what_is_said(calls: list[Any], executor: str) -> None:
    every = len(calls) - 1 or 1 if executor == "native" else 1  # the first and the last is compiled
    for case in calls[::every]:
        given = dict(zip("xyz", case.arguments(), strict=False))
        names = ", ".join(given)
        scope: dict[str, Any] = {"call": case.call, "np": np}
        exec(f"def total({names}):\n    out = call({names})\n    return np.sum(np.sin(out))", scope)
        graph = cr.backward(cr.trace(scope["total"], **given), wrt=tuple(given))
        for order in ("C", "F")[: 1 + any(array.ndim > 1 for array in given.values())]:
            mine = {name: np.asarray(array, order=order) for name, array in given.items()}
            errors = error_of_runs(graph, {}, mine, "outputs", executor, order)
            assert errors == EXACT, (case.name, order)


@pytest.mark.sweep(9)
@WITHIN
@pytest.mark.parametrize("case", cases.TINY, ids=lambda case: case.name)
def test_a_benchmark_takes_what_is_said(case: Any, executor: str) -> None:
    problem = case.problem()
    (build,) = case.variants["chainrule"].values()
    if not case.trains:
        graph = cr.trace(build.keywords["function"], *problem.arrays.values())
        arrays = dict(
            zip([item.name for item in graph.inputs], problem.arrays.values(), strict=True)
        )
        assert error_of_runs(graph, {}, arrays, "outputs", executor) == EXACT
        return
    objective, optimizer = build.keywords["objective"], build.keywords["optimizer"].chainrule()
    step, given = training.chainrule_step(problem, objective, optimizer, executor, examples=True)
    state, report = step.init(given), step.memory()
    there = arrays_nbytes(dict(state)) + arrays_nbytes(problem.arrays) + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=False)
    peaks = peaks_of(lambda: lambda: step(state, **problem.arrays))
    # where a call looks at its arguments, numbers are in arrays that are checked
    numbers = sum(item.default is not None for item in step.graph.inputs)
    slack = 8 * numbers * (executor == "native")
    errors = [peak - expected for peak in peaks]
    assert min(errors) >= 0 and max(errors) <= slack, errors
