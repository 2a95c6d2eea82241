"""What is said of predicted and measured times of instructions, and the stamps that tell them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chainrule.execute.native.stamped import Stamped
from chainrule.machine_code.target import native_refusal

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
cases, case_module, times = map(
    importlib.import_module, ("cases", "cases.case", "instruction_times")
)


def test_close_is_within_the_factor_on_both_sides():
    assert [times.is_close(100.0, b) for b in (66.0, 67.0, 150.0, 151.0)] == [
        False,
        True,
        True,
        False,
    ]
    assert times.is_close(0.0, 0.4)  # nothing is as good as half a nanosecond
    told = times.share([(100.0, 100.0), (10.0, 900.0), (3000.0, 2500.0), (1000.0, 6500.0)])
    assert told == ("50% of 4 instructions, 50% of 2 of 1000 ns and more, 26.0% of the time")


@pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
@pytest.mark.parametrize("name", ["tiny-mlp", "tiny-softmax-backward", "tiny-kalman"])
def test_a_case_tells_the_plan_by_which_it_runs(name):
    (case,) = (one for one in cases.TINY if one.name == name)
    build = next(iter(case.variants["chainrule"].values()))
    prepared = build(case.problem(), case_module.Settings("native", 1))
    assert prepared.plan is not None and len(prepared.plan().works) >= 1


def stamped(runs: list[list[int]]) -> Any:
    """Code that takes so many nanoseconds between its stamps, one run after another."""
    made: Any = object.__new__(Stamped)
    made.stamps = np.zeros((len(runs[0]) + 1, 2), np.int64)
    left = iter([runs[0], *runs])  # the first does not count

    def call(graph: object, context: object) -> bool:
        made.stamps[1:, 1] = np.cumsum(next(left))
        return True

    made.machine, made.plan = SimpleNamespace(call=call), SimpleNamespace(graph=None)
    made.context = None
    return made


def test_a_stamp_is_taken_off_what_is_measured():
    """The first time is that of a stamp alone; where ticks count, the quicker half says it."""
    runs = [[20, 30, 5020], [20, 40, 6020], [20, 20, 5520], [90, 500, 9020]]
    assert stamped(runs).least(4, 0.0) == (5.0, 5000.0)
    assert stamped([[30, 20], [30, 20]]).least(2, 0.0) == (0.0,)
