"""Stages on devices that differ in speed or memory have loads in proportion."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from parallel_models import case

import chainrule as cr
from chainrule.devices.proportion import cut_in_proportion

GROUP = """
[[groups]]
name = "{name}"
devices = {count}
{memory}memory_bandwidth = {speed}
latency = 1e-9
bandwidth = 1e12
[groups.products]
float64 = {speed}
"""


def mixed(*groups: tuple[float, int | None]) -> cr.Devices:
    """Two devices, each of a speed and a memory, with quick links."""
    text = "".join(
        GROUP.format(
            name=f"g{at}", count=1, speed=speed, memory=f"memory = {memory}\n" if memory else ""
        )
        for at, (speed, memory) in enumerate(groups)
    )
    return cr.Devices.parse(text + "[between]\nlatency = 1e-9\nbandwidth = 1e12")


def largest(
    stage: list[int], loads: list[float], edges: Any, sent: list[float], slowness: list[float]
) -> float:
    """The referee: the largest load, counted plainly."""
    found = [0.0] * len(slowness)
    for node, one in enumerate(stage):
        found[one] += slowness[one] * loads[node]
        readers = {stage[v] for u, v in edges if u == node} - {one}
        for other in readers:
            found[other] += sent[node]
        found[one] += sent[node] * bool(readers)
    return max(found)


@pytest.mark.parametrize("seed", range(12))
def test_the_largest_load_is_least_along_the_order(seed: int) -> None:
    """All places to cut are tried; where messages cost, taking as much as a stage may is near."""
    random = np.random.default_rng(seed)
    count, stages = 9, 3
    loads = list(random.uniform(0.1, 3.0, count))
    slowness = list(random.choice([1.0, 2.0, 5.0], stages))
    edges = [(u, v) for v in range(count) for u in range(v) if v == u + 1 or random.random() < 0.15]
    for weight in (0.0, 0.2):
        sent = list(weight * random.uniform(0, 1, count))
        found = cut_in_proportion(loads, edges, sent, slowness)
        assert found == sorted(found)
        best = min(
            largest([sum(at >= cut for cut in cuts) for at in range(count)], *rest)
            for cuts in combinations([*range(count + 1)] * 2, stages - 1)
            if list(cuts) == sorted(cuts)
            for rest in [(loads, edges, sent, slowness)]
        )
        taken = largest(found, loads, edges, sent, slowness)
        assert taken <= best * (1 + 1e-9 if not weight else 1.15)


def deep(x: cr.float64["n 64"], Ws: Any):
    h = x
    for W in Ws:
        h = np.tanh(h @ W)
    return np.mean(h**2)


@pytest.fixture(scope="module")
def step() -> Any:
    Ws = [np.eye(64) for _ in range(12)]
    return cr.training_step(deep, "Ws", cr.sgd(0.1), Ws=Ws, executor="reference")


@pytest.mark.slow
@pytest.mark.parametrize("slow_first", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_slow_device_gets_a_smaller_stage(step: Any, slow_first: bool) -> None:
    speeds = (2.5e9, 1e10) if slow_first else (1e10, 2.5e9)
    devices = mixed((speeds[0], None), (speeds[1], None))
    pins = {"batch": 256, "micro_batches": 8, "ways": 1, "recompute": False}
    split: Any = cr.parallel(step, devices, stages=2, **pins)
    found = split.timeline(n=256)
    assert max(found.busy) < 1.15 * min(found.busy)
    alike = cr.parallel(step, micro_batches=8, stages=2).split_at(n=256)
    slow = 0 if slow_first else 1
    places = [[*one.placed.owner.values()].count(slow) for one in (split.latest, alike)]
    assert places[0] < places[1]
    assert "wait for the slowest" not in split.candidates.why()
    shared: Any = cr.parallel(step, devices, stages=1, replicas=2, **pins)
    assert "ranks that share work wait for the slowest" in shared.candidates.why()
    state, other = split.init(Ws=[np.eye(64)] * 12), step.init(Ws=[np.eye(64)] * 12)
    x = np.random.default_rng(0).normal(size=(256, 64))
    assert split(state, x=x) == pytest.approx(step(other, x=x), rel=1e-12)


def test_a_small_device_gets_fewer_bytes(step: Any) -> None:
    """Two stages that need different memories fit where equal ones would not."""
    pins = {"batch": 64, "micro_batches": 8, "ways": 1, "stages": 2, "replicas": 1}
    whole = cr.parallel(step, micro_batches=8).memory(n=64).peak_nbytes
    devices = mixed((1e10, int(0.85 * whole)), (1e10, int(0.32 * whole)))
    split = cr.parallel(step, devices, **pins, recompute=False)
    most = [one.most_nbytes for one in split.memory(n=64).ranks]
    assert most[0] <= 0.85 * whole and most[1] <= 0.32 * whole and split.balance == "memory"


def test_devices_that_are_alike_are_cut_as_without_them() -> None:
    network, *_ = case("network", "sgd", "reference")
    plain = cr.parallel(network, micro_batches=4, stages=2).split_at(n=24)
    found = cr.parallel(network, cr.Devices.cpu(2), batch=24, micro_batches=4, stages=2)
    assert list(found.split_at(n=24).placed.forward.values()) == list(plain.placed.forward.values())
