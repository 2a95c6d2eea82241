"""What a search for plans refuses, with advice that is right; and numbers in place of devices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, ROWS, case, network
from test_search_for_plans import candidates, wide_step

import chainrule as cr
from chainrule.devices.planning.choose import Search
from chainrule.errors import InputError, MemoryLimitError, NameLookupError, SizeError
from chainrule.execute.executors import executor_of


def refused(step: Any, devices: cr.Devices, batch: int, **pins: Any) -> MemoryLimitError:
    with pytest.raises(MemoryLimitError) as caught:
        cr.parallel(step, devices, batch=batch, **pins)
    return caught.value


@pytest.mark.slow
def test_a_refusal_says_which_value_does_not_fit_where() -> None:
    step = wide_step()
    error = refused(step, cr.Devices.cpu(2, memory="60 KB"), 8, replicas=1)
    assert error.what.startswith("wide with n = 8 does not fit on the devices: the smallest plan")
    assert re.search(
        r"needs [\d,]+ bytes on cpu\.\d, which has 60,000; there are W[12]", error.what
    )
    assert error.needed_nbytes > error.free_nbytes == 60_000


@pytest.mark.slow
@pytest.mark.parametrize("memory", [900, pytest.param(2500, marks=pytest.mark.exhaustive)])
def test_the_advice_of_a_refusal_is_right_when_followed(memory: int) -> None:
    step, *_ = case("network", "adamw", "reference")
    devices = cr.Devices.cpu(2, memory=memory)
    error = refused(step, devices, ROWS)
    followed = 0
    more = re.search(r"devices with ([\d,]+) bytes each", error.hint)
    assert more is not None and int(more[1].replace(",", "")) == error.needed_nbytes
    assert cr.parallel(step, cr.Devices.cpu(2, memory=error.needed_nbytes), batch=ROWS)
    smaller = re.search(r"a smaller batch, n = (\d+)", error.hint)
    if smaller is not None:
        followed += 1
        assert cr.parallel(step, devices, batch=int(smaller[1]))
    count = re.search(r"(\d+) devices of this kind", error.hint)
    if count is not None:
        followed += 1
        assert cr.parallel(step, cr.Devices.cpu(int(count[1]), memory=memory), batch=ROWS)
    assert followed or memory < 2500


@pytest.mark.slow
def test_what_all_devices_have_no_room_for_is_refused_at_once() -> None:
    """Nothing is searched for where parameters and the optimizer's arrays alone are too many."""
    step = wide_step()
    state = 3 * 2 * 4 * 900 * 4 + 8  # W1, W2, two arrays of Adam each, and the count of steps
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Search, "predictions", None)
        error = refused(step, cr.Devices.cpu(2, memory=state // 2 - 1), 8)
    assert f"alone has {state:,} bytes, and 2 devices have {state - 2:,}" in error.what
    assert "the largest are W2_v 14.1 KiB" in error.what
    assert f"{state // 2:,} bytes on each device" in error.hint
    assert (error.needed_nbytes, error.free_nbytes) == (state, state - 2)
    assert "smallest plan" in refused(step, cr.Devices.cpu(2, memory=state // 2), 8).what


@pytest.mark.slow
def test_a_budget_of_a_step_is_refused_with_the_devices_that_stand_for_it() -> None:
    step = cr.training_step(network, MODELS["network"][1], cr.sgd(0.1), memory="1 GB")
    with pytest.raises(InputError) as caught:
        cr.parallel(step, cr.Devices.cpu(2), batch=ROWS)
    assert "cr.Devices.cpu(4, memory=1000000000)" in caught.value.hint
    step, *_ = case("network", "sgd", "reference")
    assert cr.parallel(step, cr.Devices.cpu(4, memory=1000000000), batch=256, stages=2)


@pytest.mark.parametrize(
    ("options", "kind", "what", "hint"),
    [
        ({}, InputError, "a plan depends on the batch", "batch=256, which is n"),
        ({"batch": 0}, InputError, "batch is 0", "1 or more"),
        ({"batch": {"m": 3}}, SizeError, "the batch has no n", "'n': 256"),
        ({"batch": {"n": 3, "m": 3}}, SizeError, "has the size 'm'", "'n': 256"),
        ({"batch": 24, "stages": 0}, InputError, "stages is 0", "1 or more"),
        ({"batch": 24, "replicas": 2.0}, InputError, "replicas is 2.0", "1 or more"),
        ({"batch": 24, "schedule": "search"}, InputError, "schedule is 'search'", "gpipe"),
        (
            {"batch": 24, "stages": 3, "replicas": 2},
            InputError,
            "are 6 ranks, and there are 4",
            "6",
        ),
        ({"batch": 7, "replicas": 2}, InputError, "n = 7 cannot be cut", "6 or 8 rows"),
        (
            {"batch": 24, "micro_batches": 5},
            InputError,
            "n = 24 cannot be cut",
            "20 or 25 rows, or micro_batches=4 or 6",
        ),
        ({"batch": 24, "stages": ("h7",)}, NameLookupError, "h7", ""),
        ({"batch": 24, "size": "k"}, InputError, "cannot be split by the size 'k'", "'n'"),
    ],
)
def test_what_no_plan_can_have_is_refused(options: Any, kind: Any, what: str, hint: str) -> None:
    step, *_ = case("network", "sgd", "reference")
    with pytest.raises(kind) as caught:
        cr.parallel(step, cr.Devices.cpu(4), **options)
    assert what in caught.value.what and hint in caught.value.hint


def test_without_devices_or_micro_batches_it_says_what_is_missing() -> None:
    step, *_ = case("network", "sgd", "reference")
    wrong: Any
    for wrong, what in (({}, "no micro_batches"), ({"batch": 24}, "no devices")):
        with pytest.raises(InputError, match=what):
            cr.parallel(step, **wrong)


def test_a_number_of_devices_is_so_many_of_this_machine() -> None:
    step, *_ = case("network", "sgd", "reference")
    for number in (2, np.int64(2)):
        counted = cr.parallel(step, number, batch=ROWS)
        assert counted.devices == cr.Devices.cpu(2)
        assert counted.candidates == cr.parallel(step, cr.Devices.cpu(2), batch=ROWS).candidates


@pytest.mark.parametrize("wrong", [0, -1, True])
def test_a_number_of_devices_is_one_or_more(wrong: int) -> None:
    step, *_ = case("network", "sgd", "reference")
    with pytest.raises(InputError, match=f"the number of devices is {wrong}\n  try: an integer"):
        cr.parallel(step, wrong, batch=ROWS)


@pytest.mark.parametrize("wrong", [2.0, "2", [2]])
def test_what_is_no_number_and_no_devices_is_refused(wrong: Any) -> None:
    step, *_ = case("network", "sgd", "reference")
    kind = type(wrong).__name__
    with pytest.raises(InputError, match=rf"the devices of cr\.parallel are {kind}") as caught:
        cr.parallel(step, wrong, batch=ROWS)
    assert "4, so many of this machine" in caught.value.hint


def test_a_job_has_as_many_ranks_as_there_are_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    step, *_ = case("network", "sgd", "reference")
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "4")
    with pytest.raises(InputError, match="devices=2, and this job has 4 ranks") as caught:
        cr.parallel(step, 2, batch=ROWS)
    assert caught.value.hint == "devices=4, or chainrule run -n 2"
    assert cr.parallel(step, 4, batch=ROWS, stages=2, replicas=2, micro_batches=4).ranks == 4


@pytest.mark.peers
def test_a_number_of_devices_is_at_most_what_jax_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stages, ranks are threads on one device."""
    there = len(pytest.importorskip("jax").devices())
    step, *_ = case("network", "sgd", "xla")
    many = there + 1
    with pytest.raises(InputError, match=f"devices={many}, and .* 'xla' has {there} here") as told:
        cr.parallel(step, many, batch=ROWS)
    assert f"device_count={many} in the environment" in told.value.hint
    assert cr.parallel(step, 2, batch=ROWS, stages=2, micro_batches=4).ranks == 2
    monkeypatch.setattr(type(executor_of("xla")), "device_memory", lambda executor: 12345678)
    found = cr.parallel(step, there, batch=ROWS).devices
    assert found is not None and found.groups[0].memory_nbytes == 12345678
    monkeypatch.setenv("CHAINRULE_TRANSPORT", "threads")
    assert cr.parallel(step, many, batch=ROWS).devices == cr.Devices.cpu(many)


@pytest.mark.slow
def test_a_job_has_as_many_ranks_as_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    step, *_ = case("network", "sgd", "reference")
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "4")
    split = cr.parallel(step, cr.Devices.cpu(6), batch=ROWS)
    assert all(one.ranks == 4 for one in candidates(split))
    with pytest.raises(InputError, match="this job has 4 ranks, and there are 2 devices"):
        cr.parallel(step, cr.Devices.cpu(2), batch=ROWS)
    with pytest.raises(InputError, match="6 ranks, and there are 4 ranks of the job"):
        cr.parallel(step, cr.Devices.cpu(6), batch=ROWS, stages=3, replicas=2)
