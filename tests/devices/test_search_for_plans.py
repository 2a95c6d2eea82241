"""The plan of a step on devices is the best of those that fit, by programs that were followed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, ROWS, case, network
from tensor_models import case as tensor_case

import chainrule as cr
from chainrule.devices.planning.candidates import Candidates
from chainrule.devices.planning.choose import Search
from chainrule.devices.planning.pins import Pins, Way
from chainrule.errors import MemoryLimitError

n = cr.size("n")


def wide(x: cr.float32["n 4"], W1: cr.float32["4 900"], W2: cr.float32["900 4"]):
    """Most of the bytes are in the first two products, most of the time by NumPy is after them."""
    h = np.tanh(x @ W1) @ W2
    for _ in range(20):
        h = np.tanh(h)
    J = np.mean(h**2)
    return J


def wide_step() -> Any:
    return cr.training_step(wide, ("W1", "W2"), cr.adam(), executor="reference")


def candidates(split: cr.ParallelStep) -> Candidates:
    """The plans that were compared."""
    assert split.candidates is not None
    return split.candidates


def search(devices: cr.Devices, step: Any = None, rows: int = ROWS) -> Search:
    step = step or case("network", "adamw", "reference")[0]
    ranks = tuple(range(1, devices.count + 1))
    balances, both = ("time", "memory"), (False, True)
    pins = Pins(None, None, None, None, None, balances, both, None, (1, 2), both)
    return Search(step, devices, {"n": rows}, "n", pins, ranks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "memory"),
    [
        pytest.param("network", 2500, marks=pytest.mark.exhaustive),
        pytest.param("tied", 2500, marks=pytest.mark.exhaustive),
        ("recurrent", 5500),
    ],
)
def test_the_plan_is_the_quickest_of_all_that_fit(model: str, memory: int) -> None:
    """Every plan is followed here; those that the model leaves out do not fit."""
    step, *_ = case(model, "adamw", "reference")
    devices = cr.Devices.cpu(3, memory=memory)
    found = search(devices, step, rows=6)
    split = cr.parallel(step, devices, batch=6)
    exact = {way: found.follow(way) for way in found.predictions}
    for way, one in exact.items():
        assert one.excess > 1 or way in found.possible, way
    fitting = {way: found._timed(one) for way, one in exact.items() if one.excess <= 1}
    assert 0 < len(fitting) < len(exact)
    first = candidates(split)[0]
    assert first.is_exact and first == fitting[Way(*(getattr(first, one) for one in Way._fields))]
    quickest = min(one.seconds for one in fitting.values())
    assert first.seconds <= 1.02 * quickest  # of those that the model takes for the best
    assert split.memory(n=6).peak_nbytes <= memory
    assert split.timeline(n=6).seconds == first.seconds
    seconds = [one.seconds for one in candidates(split) if one.is_exact]
    assert seconds == sorted(seconds)


@pytest.mark.slow
def test_the_chosen_plan_is_the_step() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, cr.Devices.cpu(4, memory=3000), batch=ROWS, ways=1)
    state, other = split.init(weights), step.init(weights)
    for _ in range(3):
        assert split(state, batch) == pytest.approx(step(other, batch), rel=1e-12)
    for name in other:
        np.testing.assert_allclose(state[name], other[name], rtol=1e-9)


@pytest.mark.slow
def test_what_is_pinned_stays() -> None:
    step, *_ = case("network", "sgd", "reference")
    devices = cr.Devices.cpu(6, memory="1 MiB")
    split = cr.parallel(
        step, devices, batch=ROWS, stages=2, replicas=3, micro_batches=6, schedule="zb-h1"
    )
    assert (split.stages, split.replicas, split.parts.count) == (2, 3, 6)
    assert split.schedule == "zb-h1"
    assert {one.balance for one in candidates(split)} == {"time", "memory"}
    split = cr.parallel(step, devices, batch={"n": ROWS}, stages=("h1", "h2"))
    assert split.ends == ("h1", "h2") and all(one.stages == 3 for one in candidates(split))
    split = cr.parallel(step, devices, batch=ROWS, replicas=4)
    assert {one.replicas for one in candidates(split)} == {4}
    assert all(one.ranks <= 6 for one in candidates(split))


@pytest.mark.slow
def test_what_does_not_fit_otherwise_is_computed_again() -> None:
    def deep(x: cr.float64["n 8"], Ws: Any):
        h = x
        for W in Ws:
            h = np.tanh(h @ W)
        return np.mean(h**2)

    Ws = [np.eye(8) / 2 for _ in range(8)]
    step = cr.training_step(deep, "Ws", cr.sgd(0.1), Ws=Ws, executor="reference")
    pins = {"batch": 512, "stages": 2, "micro_batches": 8, "schedule": "gpipe"}
    kept = cr.parallel(step, cr.Devices.cpu(2), **pins)
    again = cr.parallel(step, cr.Devices.cpu(2), **pins, recompute=True)
    assert not kept.recompute and again.recompute
    limit = max(one.most_nbytes for one in again.memory(n=512).ranks)
    assert limit < max(one.most_nbytes for one in kept.memory(n=512).ranks)
    found = cr.parallel(step, cr.Devices.cpu(2, memory=limit), **pins)
    assert found.recompute and found.memory(n=512).peak_nbytes <= limit
    assert "recomputing" in str(found.candidates) and "recomputing" in found.why("h", n=512)
    with pytest.raises(MemoryLimitError):
        cr.parallel(step, cr.Devices.cpu(2, memory=limit), **pins, recompute=False)
    state, other = found.init(Ws=Ws), kept.init(Ws=Ws)
    x = np.random.default_rng(0).normal(size=(512, 8))
    assert found(state, x=x) == kept(other, x=x)


@pytest.mark.slow
def test_ways_and_shared_optimizers_are_searched_for_or_pinned() -> None:
    step, weights, batch = tensor_case("layers", "adamw", "reference")
    devices = cr.Devices.cpu(2, memory="1 MiB")
    free = cr.parallel(step, devices, batch=ROWS)
    ways = cr.parallel(step, devices, batch=ROWS, ways=2)
    assert {one.ways for one in candidates(ways)} == {2}
    said = cr.parallel(step, devices, batch=ROWS, split={"W1": 1})
    assert all(one.ways > 1 for one in candidates(said)) and said.asked == {"W1": 1}
    shared = cr.parallel(step, devices, batch=ROWS, shard_optimizer=True)
    assert all(one.shard and one.replicas > 1 for one in candidates(shared))
    assert "sharded optimizer" in candidates(shared).why()
    for split in (free, ways, said, shared):
        assert all(one.ranks <= 2 for one in candidates(split))
        state, other = split.init(weights), step.init(weights)
        assert split(state, batch) == pytest.approx(step(other, batch), rel=1e-12)


@pytest.mark.exhaustive
def test_shards_fit_where_nothing_else_does() -> None:
    """One product has nearly all bytes: no stage and no replica can do with less of it."""

    def one(x: cr.float32["n 8"], W: cr.float32["8 4000"], V: cr.float32["4000 8"]):
        J = np.mean((np.tanh(x @ W) @ V) ** 2)
        return J

    step = cr.training_step(one, ("W", "V"), cr.sgd(0.1), executor="reference")
    whole = search(cr.Devices.cpu(2), step, rows=8)
    least = min(
        max(rank.most_nbytes for rank in whole.follow(way).memory.ranks)
        for way in whole.predictions
        if way.ways == 1
    )
    split = cr.parallel(step, cr.Devices.cpu(2, memory=int(0.95 * least)), batch=8)
    assert split.ways == 2 and split.memory(n=8).peak_nbytes < 0.95 * least
    assert "2 ways" in candidates(split).why()


@pytest.mark.exhaustive
def test_slow_links_leave_a_step_on_one_device_and_quick_ones_share_it() -> None:
    step = cr.training_step(network, MODELS["network"][1], cr.sgd(0.1), executor="reference")
    cpu = cr.Devices.cpu(2).toml()
    slow = cr.Devices.parse(cpu.replace("latency = 2e-05", "latency = 1"))
    quick = cr.Devices.parse(cpu.replace("latency = 2e-05", "latency = 0"))
    alone, shared = (cr.parallel(step, one, batch=4096) for one in (slow, quick))
    assert alone.ranks == 1 and shared.ranks > 1
    assert shared.timeline(n=4096).seconds < alone.timeline(n=4096).seconds
    assert "would take" in candidates(alone).why()


@pytest.mark.slow
def test_slow_devices_are_told_by_the_model_and_the_timeline() -> None:
    """The second half of the devices is a hundred times slower: the plan has no rank there."""
    text = """
    [[groups]]
    name = "{name}"
    devices = 2
    memory_bandwidth = {each}
    latency = 0
    bandwidth = 1e12
    [groups.products]
    float64 = {each}
    """
    both = text.format(name="quick", each=1e11) + text.format(name="slow", each=1e9)
    devices = cr.Devices.parse(both + "[between]\nlatency = 0\nbandwidth = 1e12")
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, devices, batch=4096)
    assert split.ranks == 2
    pinned = cr.parallel(step, devices, batch=4096, replicas=4, stages=1)
    quick, _, slow, _ = pinned.timeline(n=4096).busy
    assert slow > 20 * quick


@pytest.mark.slow
def test_stages_cut_by_memory_need_less() -> None:
    step = wide_step()
    needed = {
        balance: search(cr.Devices.cpu(2), step).follow(Way(2, 1, 8, "1f1b", balance, False)).memory
        for balance in ("time", "memory")
    }
    assert needed["memory"].peak_nbytes < 0.95 * needed["time"].peak_nbytes
    limit = max(one.most_nbytes for one in needed["memory"].ranks)
    split = cr.parallel(step, cr.Devices.cpu(2, memory=limit), batch=ROWS, micro_batches=8)
    assert split.balance == "memory" and split.memory(n=ROWS).peak_nbytes <= limit
    assert "the one with most bytes has least" in split.why("J", n=ROWS)


@pytest.mark.slow
def test_the_table_and_the_reason() -> None:
    step, *_ = case("network", "adamw", "reference")
    split = cr.parallel(step, cr.Devices.cpu(2, memory=6000), batch=ROWS)
    lines = str(candidates(split)).splitlines()
    assert re.fullmatch(
        r"network on 2 devices, n = 24: \d+ plans, of which \d+ do not fit", lines[0]
    )
    assert lines[2].split()[:4] == ["stages", "replicas", "ways", "micro-batches"]
    assert len(lines) == 3 + len(candidates(split)) == 13
    first, second, *_ = candidates(split)
    assert split.why("W1", n=ROWS).endswith(
        f"do not fit; the next best, {second.words}, would take {second_time(lines[4])}"
    )
    assert f"The plan is {first.words}: " in split.why("h1")


def second_time(line: str) -> str:
    found = re.search(r"([\d.]+ [µm]?s) +(\+\d+ %)", line)
    assert found is not None
    return f"{found[1]}, {found[2]}"


# Refusals ---------------------------------------------------------------------------------------
