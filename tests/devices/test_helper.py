"""The helper of a rank is woken promptly, and its exchanges begin when all ranks have begun."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from threading import Event
from typing import Any

import numpy as np
import pytest
from parallel_models import ROWS, case

import chainrule as cr
from chainrule.devices import overlap, workers
from chainrule.devices.helper import Helper
from chainrule.devices.instructions import AllReduce, Begin, Key
from chainrule.devices.reports.measuring import Clock, measured
from chainrule.devices.system import SHORT_SLICE, woken_promptly
from chainrule.devices.workers import in_thread

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
FORMAT = "IIQiIQQQ"


def asked() -> tuple[int, int, int]:
    """The policy, the niceness and the slice of this thread, as Linux tells them."""
    found = ctypes.create_string_buffer(struct.calcsize(FORMAT))
    assert not ctypes.CDLL(None).syscall(SCHED_GETATTR, 0, found, len(found), 0)
    _, policy, _, nice, _, slice_, *_ = struct.unpack(FORMAT, found.raw)
    return policy, nice, slice_


def has_slices() -> bool:
    return (
        sys.platform == "linux"
        and SCHED_GETATTR is not None
        and os.sched_getscheduler(0) == os.SCHED_OTHER
        and tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
    )


needs_slices = pytest.mark.skipif("not has_slices()", reason="Linux here tells no slices")


@needs_slices
def test_a_helper_has_short_slices_and_leaves_its_thread_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_idle", [])
    before, found = asked(), list[Any]()
    helper, sum_ = Helper(lambda one, arrays: found.append(asked()), "helper"), Event()
    one = AllReduce((Key(0, None),), (0, 1))
    in_thread(sum_.set, "before").wait()
    helper.begin(one, [np.zeros(1)])
    helper.wait(one)
    helper.close()
    while not workers._idle:
        sum_.wait(0.001)
    in_thread(lambda: found.append(asked()), "after").wait()
    assert found == [(*before[:2], SHORT_SLICE), before] and before[2] != SHORT_SLICE


@needs_slices
@pytest.mark.skipif("not hasattr(os, 'SCHED_BATCH')", reason="there is no such policy")
def test_a_thread_of_another_policy_keeps_it() -> None:
    found: list[Any] = []

    def work() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        found.append(asked())
        with woken_promptly():
            found.append(asked())
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    in_thread(work, "batch").wait()
    assert found[0] == found[1] and found[0][0] == os.SCHED_BATCH


def test_a_system_without_slices_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: object) -> Any:
        raise AssertionError("no call of the system is made")

    monkeypatch.setattr(ctypes, "CDLL", refused)
    monkeypatch.setattr(platform, "machine", lambda: "a processor of tomorrow")
    with woken_promptly():
        pass
    monkeypatch.setattr(sys, "platform", "darwin")
    with woken_promptly():
        pass


def test_an_exchange_begins_once_the_last_rank_has_begun_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=2, replicas=2)
    found, clocks = split.split_at(n=ROWS), []
    for rank, program in enumerate(found.programs):
        clocks.append(Clock())
        clocks[-1].times = [float(at) for at in range(len(program.instructions) + 1)]
        begins = [one.sum for one in program.instructions if isinstance(one, Begin)]
        clocks[-1].sums = [(one, 3.0 * at + rank, 3.0 * at + 2) for at, one in enumerate(begins)]
    exchanges = measured(split, found, {"n": ROWS}, clocks, 0.0).exchanges
    assert [(one.start, one.end) for one in exchanges] == [(1.0, 2.0), (4.0, 5.0), (7.0, 8.0)] * 2
