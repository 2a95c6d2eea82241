"""What is said of predicted and measured times of instructions, and the stamps that tell them."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chainrule.execute.native.plan_to_ir.segment_code import CLOCK
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
    assert times.is_close(0.0, 25.0)  # a tick of the clock more than nothing
    assert not times.is_close(0.0, 40.0) and not times.is_close(100.0, 20.0)
    found = [timed(*pair) for pair in [(100, 100), (10, 900), (3000, 2500), (1000, 6500)]]
    said = "50% of 4 instructions, 50% of 2 of 1000 ns and more, 26.0% of the time"
    assert times.share(found) == said


def timed(predicted, measured, number=1):
    return times.Timed("tiny", number, "8×2", "loops 8 x 2", float(predicted), float(measured))


def test_instructions_that_are_always_outside_are_told_from_those_that_swing():
    """Three processes, in each of which three instructions are measured."""
    turns = [
        [timed(100, 110, 1), timed(200, swings, 2), timed(5000, 2000, 3)]
        for swings in (210, 900, 190)
    ]
    *lines, step, first, second, third, never = times.told(turns, every=False)
    assert [line.split()[4:8] for line in lines] == [
        ["0.95", "1/3", "tiny", "2"],
        ["2.50", "3/3", "tiny", "3"],
    ]
    assert lines[0].split()[:4] == ["0.200", "0.210", "0.190", "0.900"]
    assert step == "tiny: whole step predicted 2.28, 1.76, 2.30 times as long"
    assert first.startswith("all: 67% of 3 instructions") and third.startswith("all: 67% of 3")
    assert second.startswith("all: 33% of 3 instructions, 0% of 1 of 1000 ns and more")
    assert never == "outside in every process: 1 of 3"
    assert len(list(times.told(turns, every=True))) == len(lines) + 1 + 5


@pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
@pytest.mark.parametrize("name", ["tiny-mlp", "tiny-softmax-backward", "tiny-kalman"])
def test_a_case_tells_the_plan_by_which_it_runs(name):
    (case,) = (one for one in cases.TINY if one.name == name)
    build = next(iter(case.variants["chainrule"].values()))
    prepared = build(case.problem(), case_module.Settings("native", 1))
    assert prepared.plan is not None and len(prepared.plan().works) >= 1


def stamped(runs: list[list[int]]) -> Any:
    """Code that takes so many nanoseconds between its stamps, one run after another, on a processor
    of which three ticks take a nanosecond."""
    made: Any = object.__new__(Stamped)
    made.stamps, made.first = np.zeros(CLOCK + len(runs[0]) + 1, np.int64), None
    left = iter([runs[0], *runs])  # the first does not count
    begins = itertools.count(1_999_990_000, 20_000)

    def call(graph: object, context: object) -> bool:
        begun = next(begins)
        made.stamps[:CLOCK] = divmod(begun, 1_000_000_000)
        made.stamps[CLOCK:] = 3 * (begun + np.cumsum([0, *next(left)]))
        return True

    made.machine = SimpleNamespace(call=call)
    made.plan = SimpleNamespace(graph=None, works=[1] * (len(runs[0]) - 2))
    made.context = None
    return made


def test_a_stamp_is_taken_off_what_is_measured():
    """The first time is that of a stamp alone; where ticks count, the quicker half says it."""
    runs = [[20, 20, 30, 5020], [20, 20, 40, 6020], [20, 20, 20, 5520], [90, 90, 500, 9020]]
    assert stamped(runs).least(4, 0.0) == pytest.approx((5.0, 5000.0))
    assert stamped([[30, 30, 20], [30, 30, 20]]).least(2, 0.0) == (0.0,)


def test_threads_meet_for_a_stamp_between_instructions_that_they_share(monkeypatch):
    """The second time is that of a stamp and of a meeting, which there is not without stamps.  One
    thread goes on with an instruction that it does alone, without a meeting."""
    made = stamped([[20, 220, 5220, 6220, 120, 130, 7220]] * 3)
    monkeypatch.setattr("chainrule.execute.native.stamped.parts_of", lambda work: work)
    made.plan.works = [2, 2, 1, 1, 2]
    assert made.least(2, 0.0) == pytest.approx((5000.0, 6000.0, 100.0, 110.0, 7200.0))
