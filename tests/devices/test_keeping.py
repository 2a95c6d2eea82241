"""Stages recompute only what their devices have no room for, with the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, ROWS, case
from test_parallel import trained

import chainrule as cr
from chainrule.devices import stages as stages_module
from chainrule.devices.check import check_programs
from chainrule.devices.keeping import computed_again, kept_within, most_under_way
from chainrule.plan.pipelines.orders import one_forward_one_backward, zero_bubble_2
from chainrule.plan.pipelines.stages import stages_of

PINS = {"batch": 512, "stages": 2, "replicas": 1, "ways": 1, "micro_batches": 8}


def deep(x: cr.float64["n 32"], Ws: Any):
    h = x
    for W in Ws:
        z = h @ W
        h = np.tanh(z) * np.exp(-z * z) + h
    return np.mean(h**2)


WS = [np.eye(32) / 2 for _ in range(6)]


@pytest.fixture(scope="module")
def step() -> Any:
    return cr.training_step(deep, "Ws", cr.sgd(0.1), Ws=WS, executor="reference")


@pytest.fixture(scope="module")
def bytes_of_both(step: Any) -> tuple[int, int]:
    """What a plan needs that recomputes all, and one that keeps all."""
    found = []
    for recompute in (True, False):
        split = cr.parallel(step, cr.Devices.cpu(2), schedule="gpipe", recompute=recompute, **PINS)
        assert not split.spare
        found.append(max(one.most_nbytes for one in split.memory(n=512).ranks))
    return found[0], found[1]


@pytest.mark.exhaustive
def test_less_is_computed_again_where_there_is_more_room(
    step: Any, bytes_of_both: tuple[int, int]
) -> None:
    least, most = bytes_of_both
    x = np.random.default_rng(0).normal(size=(512, 32))
    whole = step.micro_batched(8)
    wanted = whole(whole.init(Ws=WS), x=x)
    seconds = []
    for share in (0.0, 0.95):
        limit = int(least + share * (most - least))
        split = cr.parallel(step, cr.Devices.cpu(2, memory=limit), schedule="gpipe", **PINS)
        assert split.recompute and "recomputing" in str(split.candidates)
        assert max(one.most_nbytes for one in split.memory(n=512).ranks) <= limit
        assert split(split.init(Ws=WS), x=x) == wanted
        seconds.append(split.timeline(n=512).seconds)
        pinned = cr.parallel(
            step, cr.Devices.cpu(2, memory=limit), schedule="gpipe", recompute=True, **PINS
        )
        assert not pinned.spare  # what was asked for stays
        assert seconds[-1] <= pinned.timeline(n=512).seconds
    assert seconds == sorted(seconds, reverse=True) and seconds[-1] < 0.95 * seconds[0]


@pytest.mark.slow
def test_it_says_what_is_kept_all_the_same(step: Any, bytes_of_both: tuple[int, int]) -> None:
    limit = int(sum(bytes_of_both) / 2)
    split = cr.parallel(step, cr.Devices.cpu(2, memory=limit), schedule="gpipe", **PINS)
    made = split.split_at(n=512)
    kept = {made.name_of[node] for node in made.kept if node in made.name_of}
    words = "; it is not kept, but computed again before the backward pass"
    told = {name: words in split.why(name, n=512) for name in ("z", "h", "z_1", "h_1")}
    assert all(not again for name, again in told.items() if name in kept)


@pytest.mark.sweep(17)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h2", "interleaved"])
@pytest.mark.parametrize("model", MODELS)
def test_what_is_kept_in_part_has_the_same_bits(
    model: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages_module, "MESSAGE_SECONDS", 0.0)  # or all would lie on one stage
    step, weights, batch = case(model, "adamw", "reference")
    options = {"micro_batches": 6, "stages": 2, "schedule": schedule}
    kept = cr.parallel(step, **options)
    wanted = trained(kept, weights, batch)
    for nbytes in (1 << 40, 200):
        again = cr.parallel(step, recompute=True, **options)
        again = replace(again, spare=(nbytes,) * again.grid.all_chunks, _splits={})
        check_programs(again.split_at(n=ROWS).programs)
        found = trained(again, weights, batch)
        if model == "convolutional":  # NumPy's products round by the strides of what they read
            assert found[1] == pytest.approx(wanted[1], rel=1e-13)
            continue
        assert found[1] == wanted[1]
        for name, array in wanted[0].items():
            np.testing.assert_array_equal(found[0][name], array)


def test_values_that_save_most_for_their_bytes_are_kept(step: Any) -> None:
    graph = step.graph.bind(n=8)
    nodes = [node for node in graph.nodes if node.inputs][:24]
    forward = set(nodes)
    assert kept_within(nodes, forward, (), 0) == set()
    assert kept_within(nodes, forward, (), 1 << 40) >= {one for one in nodes if one.type.nbytes}
    each = int(nodes[0].type.nbytes)
    few = kept_within(nodes, forward, (), 3 * each)
    assert 0 < len(few) and sum(int(one.type.nbytes) for one in few) <= 3 * each
    last = nodes[-1]
    assert computed_again([last], forward, {last}) == set()
    all_of_it = computed_again([last], forward, ())
    assert computed_again([last], forward, few) <= all_of_it


def test_as_many_micro_batches_count_as_are_under_way() -> None:
    stages = stages_of(3, 6, 1.0, 1.0, 1.0, 0.0, 1, 1.0)
    plain, late = one_forward_one_backward(stages), zero_bubble_2(stages)
    assert [most_under_way(order, 0) for order in plain] == [3, 2, 1]
    assert [most_under_way(order, 0) for order in late] == [5, 5, 5]
