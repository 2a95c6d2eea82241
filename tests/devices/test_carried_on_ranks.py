"""State that is not trained has, on ranks, the bits of micro-batches that one process takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_program
from alone import RanksAlone
from carrying_models import CARRYING, carrying
from parallel_models import ROWS
from test_parallel import SCHEDULES, assert_near, trained
from test_rank_memory import taken_nbytes

import chainrule as cr
from chainrule.devices import stages as stages_module
from chainrule.errors import InputError

PARTS = 6
STATE = tuple(name for _, _, names in CARRYING.values() for name in names)


def assert_same(found: Any, wanted: Any) -> None:
    assert found[1] == wanted[1]
    for name, array in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], array, err_msg=name)


@pytest.fixture(autouse=True)
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages_module, "MESSAGE_SECONDS", 0.0)  # or all would lie on one stage


@pytest.mark.sweep(47)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("model", CARRYING)
def test_each_part_sees_what_the_one_before_left(
    model: str, stages: int, schedule: str, recompute: bool
) -> None:
    """Replicas of one part each add up in the order of parts, so the bits are the same there."""
    step, weights, batch = carrying(model)
    wanted = trained(step.micro_batched(PARTS), weights, batch)
    options = {"stages": stages, "schedule": schedule, "recompute": recompute}
    for replicas in (1, PARTS):
        if model == "centred" and (replicas > 1 or (stages > 1 and schedule == "interleaved")):
            continue  # ranks would wait
        split = cr.parallel(step, micro_batches=PARTS, replicas=replicas, **options)
        assert_same(trained(split, weights, batch), wanted)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("model", ["running", "averaged", "keyed"])
def test_replicas_go_on_from_each_other(model: str, replicas: int) -> None:
    """After a step the state has the bits of one process; later, gradients of replicas are added
    in another order."""
    step, weights, batch = carrying(model)
    whole = step.micro_batched(PARTS)
    for stages in (1, 2):
        split = cr.parallel(step, micro_batches=PARTS, stages=stages, replicas=replicas)
        state, other = split.init(weights), whole.init(weights)
        split(state, batch), whole(other, batch)
        for name in step.carried:
            np.testing.assert_array_equal(state[name], other[name], err_msg=name)
            assert not np.array_equal(state[name], weights[name]) or name == "zeros"
        assert_near(trained(split, weights, batch), trained(whole, weights, batch), 1e-12)


@pytest.mark.sweep(17)
@pytest.mark.parametrize("options", [
    {"ways": 2, "split": {"W1": 0}}, {"ways": 5, "split": {"W1": 1}},
    {"replicas": 2, "shard_optimizer": True}, {"replicas": 2, "stages": 2, "recompute": True},
    {"stages": 2, "ways": 2, "split": {"W1": 0}},
])  # fmt: skip
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("model", ["running", "averaged", "keyed"])
def test_any_split_carries_the_state_to_rounding(model: str, executor: str, options: Any) -> None:
    step, weights, batch = carrying(model, "clipped", executor)
    wanted = trained(step.micro_batched(PARTS), weights, batch)
    split = cr.parallel(step, micro_batches=PARTS, **options)
    assert_near(trained(split, weights, batch), wanted, 1e-12)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("model", CARRYING)
def test_its_bytes_are_those_of_each_rank(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, weights, batch = carrying(model)
    for options in ({}, {"stages": 2}, {"stages": 2, "recompute": True}, {"replicas": 2}):
        if model == "centred" and "replicas" in options:
            continue
        split = cr.parallel(step, micro_batches=PARTS, **options)
        ranks = RanksAlone(split, weights, batch, monkeypatch)
        report = split.memory(n=ROWS)
        for rank, one in enumerate(report.ranks):
            ranks.run(rank)  # plans are made, and kept
            assert taken_nbytes(ranks, rank) == one.allocated_nbytes, (options, rank)
        held = {v.name for one in report.ranks for v in one.held if v.kind == "carried state"}
        assert held <= {*STATE, *(f"{name}_next" for name in STATE)} and held
        assert "carried state" in str(report)


@pytest.mark.exhaustive
def test_a_trainer_searches_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """The plan that is found, bit for bit; and in one process from there, to rounding."""
    whole, split = training_program.carrying(False), training_program.carrying(True)
    assert split.split.ranks > 1
    whole.fit(4), split.fit(4)
    for epochs in (2, 4):
        again = training_program.carrying(True, folder=tmp_path)
        again.fit(epochs)
    other = training_program.carrying(False, folder=tmp_path)
    assert other.epoch == 4
    for name in whole.state:
        np.testing.assert_array_equal(again.state[name], split.state[name], err_msg=name)
        np.testing.assert_array_equal(other.state[name], split.state[name], err_msg=name)
        np.testing.assert_allclose(split.state[name], whole.state[name], 1e-12, 1e-14)
    last = [one.history[-1]["validation_objective"] for one in (split, whole)]
    assert last[0] == pytest.approx(last[1], rel=1e-12)


def test_an_error_in_a_later_replica_leaves_the_state_as_it_was() -> None:
    def looked_up(
        x: cr.int64["n"], W: cr.float64["5 3"], seen: cr.float64["3"], count: cr.int64[()]
    ):
        h = np.take(W, x, axis=0)
        return np.mean(h**2), {"seen": seen + np.mean(h, 0), "count": count + 1}

    step = cr.training_step(
        looked_up, "W", cr.sgd(0.1), state=("seen", "count"), executor="reference"
    )
    split = cr.parallel(step, micro_batches=4, replicas=2)
    state = split.init(W=np.ones((5, 3)), seen=np.zeros(3), count=np.array(0))
    x = np.arange(8) % 5
    split(state, x=x)
    before = dict(state)
    with pytest.raises(IndexError, match="index 9"):
        split(state, x=np.where(np.arange(8) == 7, 9, x))
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    split(state, x=x)
    assert state["count"] == 8


def test_state_for_which_replicas_would_wait_is_refused() -> None:
    step, *_ = carrying("centred")
    devices = {"devices": cr.Devices.cpu(4), "batch": ROWS}
    for more in ({}, devices):
        with pytest.raises(InputError, match="mean is state that the objective reads") as caught:
            cr.parallel(step, micro_batches=PARTS, replicas=2, **more)
        assert "centred" in caught.value.where and "stages= or ways=" in caught.value.hint
    split = cr.parallel(step, micro_batches=PARTS, stages=3, schedule="interleaved")
    with pytest.raises(InputError, match="for ever") as caught:
        split.split_at(n=ROWS)
    assert "mean is state that stage 0.0 reads, and that follows" in caught.value.what
    assert caught.value.hint == "schedule='1f1b', where no stage has several chunks"


@pytest.mark.slow
def test_plans_are_searched_for_a_number_of_micro_batches() -> None:
    step, weights, batch = carrying("centred")
    with pytest.raises(InputError, match="carries mean, scale, which each part of a batch") as one:
        cr.parallel(step, cr.Devices.cpu(4), batch=ROWS)
    assert "micro_batches=8" in one.value.hint
    split = cr.parallel(step, cr.Devices.cpu(4), batch=ROWS, micro_batches=PARTS)
    assert split.candidates is not None
    assert {(one.replicas, one.chunks) for one in split.candidates} == {(1, 1)}
    assert_same(trained(split, weights, batch), trained(step.micro_batched(PARTS), weights, batch))


def test_reports_say_where_it_lies() -> None:
    step, weights, batch = carrying("running")
    split = cr.parallel(step, micro_batches=PARTS, stages=("h1",), replicas=2)
    split(split.init(weights), batch)
    assert split.why("mean1").startswith(
        "mean1 is state that the objective carries: it lies on stage 0 (ranks 0, 2), where what "
        "follows it is computed; each replica goes on from what the one before it leaves"
    )
    assert "it lies on stage 1 (ranks 1, 3)" in split.why("var2")
    assert len(split.draw().svg()) > 1000 and "mean1" in str(split)
    text = str(split.timeline(n=ROWS))
    assert "F forward" in text
    pieces = {piece.name for piece in split.split_at(n=ROWS).pieces}
    assert {"forward 0, state", "forward 1, state"} <= pieces
