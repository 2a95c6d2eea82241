"""The speeds of this machine are measured, and tell times of the same plans."""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from test_calibration import flat, step_of

import chainrule as cr
from chainrule.explain.cost import measured_speeds


@pytest.mark.slow
def test_measured_speeds_are_positive_numbers_for_this_processor(monkeypatch):
    soon = replace(measured_speeds.THOROUGH, turns=1, seconds=0.001, together=0.001)
    monkeypatch.setattr(measured_speeds, "THOROUGH", soon)  # they need not be right here
    found = cr.measured_speeds()
    levels = tuple(replace(one, starting=1.0) for one in found.memory)
    known = replace(found, exchanging=1.0, window=1.0, memory=levels)
    assert all(math.isfinite(one) and one > 0 for one in flat(astuple(known)))
    assert 0 <= found.exchanging < math.inf and found.window > 0
    assert found.vector_nbytes in (32, 64)


def test_speeds_change_times_and_no_plan():
    step = step_of()
    plain = step.tradeoff(n=512)
    known = step.memory(n=512).main.program.plan.speeds
    times = {name: 2 * getattr(known, name) for name in ("multiply_add", "tile", "packing")}
    slower = step.tradeoff(n=512, speeds=replace(known, **times))
    assert [one.needed_nbytes for one in slower] == [one.needed_nbytes for one in plain]
    assert [one.again for one in slower] == [one.again for one in plain]
    assert all(a.nanoseconds > b.nanoseconds for a, b in zip(slower, plain, strict=True))
    limit = plain.points[-1].needed_nbytes
    speeds = (known, replace(known, **times))
    both = (step.fits(limit, n=512, speeds=one) for one in speeds)
    quick, slow = (fit.ways for fit in both)
    assert [way.needed_nbytes for way in quick] == [way.needed_nbytes for way in slow]
    assert min(way.nanoseconds for way in slow) > min(way.nanoseconds for way in quick)


@pytest.mark.slow
def test_a_budget_of_the_reference_executor_has_a_price():
    def objective(x: cr.float32["n 64"], Ws):
        h = x
        for W in Ws:
            h = np.tanh(h @ W)
        J = np.mean(h * h)
        return J

    Ws = [np.ones((64, 64), np.float32)] * 4
    found = cr.training_step(objective, "Ws", cr.sgd(0.1), executor="reference", Ws=Ws)
    first, *others = found.tradeoff(n=256)
    assert first.nanoseconds > 0 and first.extra == 0
    assert others[-1].again and others[-1].extra > 0.01
