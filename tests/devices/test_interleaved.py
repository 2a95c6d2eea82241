"""Stages that have several chunks of the model: the same step, in the interleaved order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, ROWS, case
from test_parallel import assert_near, trained
from test_search_for_plans import candidates
from test_timelines import assert_is_possible, constant_times

import chainrule as cr
from chainrule.devices import stages as stages_module
from chainrule.devices.instructions import Run, Send
from chainrule.errors import InputError
from chainrule.plan.pipelines.stages import stages_of
from chainrule.plan.pipelines.timeline import timeline


@pytest.mark.sweep(41)
@pytest.mark.parametrize("options", [
    {"stages": 2, "chunks": 3}, {"stages": 2, "replicas": 3}, {"stages": 3, "recompute": True},
    {"stages": 1, "chunks": 4}, {"stages": 2, "chunks": 2, "replicas": 2, "shard_optimizer": True},
])  # fmt: skip
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("model", MODELS)
def test_stages_of_several_chunks_are_the_step(
    model: str, executor: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages_module, "MESSAGE_SECONDS", 0.0)  # or all would lie on one stage
    step, weights, batch = case(model, "clipped", executor)
    wanted = trained(step.micro_batched(6), weights, batch)
    split = cr.parallel(step, micro_batches=6, schedule="interleaved", **options)
    assert_near(trained(split, weights, batch), wanted, 1e-12)


def two_products(
    x: cr.float64["n 6"], W1: cr.float64[6, 6], W2: cr.float64[6, 6], W3: cr.float64[6, 6]
):
    """Two chunks read h, and the gradients of W2 and W3 are products with the same transposed h."""
    h = np.tanh(x @ W1)
    a = np.tanh(h @ W2)
    b = np.tanh(h @ W3)
    J = np.mean(np.sum(a * b, axis=1) ** 2)
    return J


@pytest.mark.parametrize(
    ("stages", "options"),
    [
        (1, {"stages": ("a",), "chunks": 2}),
        (1, {"stages": ("h", "a"), "chunks": 3}),
        (1, {"stages": ("a",), "chunks": 2, "replicas": 2}),
        (1, {"stages": ("a",), "chunks": 2, "ways": 2}),
        (1, {"stages": ("a",), "chunks": 2, "replicas": 2, "ways": 2}),
        (2, {"stages": ("h", "a", "b"), "chunks": 2, "ways": 2}),
    ],
)
def test_gradients_that_share_a_value_over_a_cut_are_there_in_time(
    stages: int, options: Any
) -> None:
    step = cr.training_step(two_products, ("W1", "W2", "W3"), cr.adamw(0.01), executor="reference")
    random = np.random.default_rng(4)
    weights = {name: random.normal(size=(6, 6)) for name in ("W1", "W2", "W3")}
    batch = {"x": random.normal(size=(12, 6))}
    wanted = trained(step.micro_batched(2), weights, batch)
    split = cr.parallel(step, micro_batches=2, schedule="interleaved", **options)
    assert split.stages == stages
    found = trained(split, weights, batch)
    if "ways" in options:  # products are added up in another order
        assert_near(found, wanted, 1e-14)
    else:
        assert found[1] == wanted[1]
        assert all(np.array_equal(found[0][name], wanted[0][name]) for name in weights)


def test_a_gradient_that_is_computed_early_says_where_its_parameter_is() -> None:
    step = cr.training_step(two_products, ("W1", "W2", "W3"), cr.adamw(0.01), executor="reference")
    split = cr.parallel(step, micro_batches=2, stages=("a",))
    assert split.why("W3", n=12) == (
        "W3 lies on stage 0 (rank 0), the first stage that computes a part of its gradient; it is "
        "updated there, and sent to stage 1 (rank 1) at the beginning of each step"
    )


def test_each_stage_has_the_chunks_that_one_says() -> None:
    step, weights, batch = case("skipping", "adamw", "reference")
    ends = ("a", "b", "c")
    split = cr.parallel(step, micro_batches=4, stages=ends, schedule="interleaved")
    assert (split.stages, split.chunks, split.ranks) == (2, 2, 2)
    made = split.split_at(n=ROWS)
    ran = [
        {made.pieces[one.piece].name for one in program.instructions if isinstance(one, Run)}
        for program in made.programs
    ]
    assert {one.rpartition(".")[0] for one in ran[0] if one.startswith("forward")} == {"forward 0"}
    assert {"forward 0.0", "forward 0.1", "update 0"} <= ran[0]
    assert {"forward 1.0", "forward 1.1", "update 1"} <= ran[1]
    x = made.names["x"]  # which the first and the second chunk read, on two ranks
    sent = {one.key.value for p in made.programs for one in p.instructions if isinstance(one, Send)}
    assert x not in sent
    a = next(n for n, (name, _) in made.values.items() if name == "a")
    readers = [one for one in made.programs[0].instructions if isinstance(one, Send)]
    assert {one.to for one in readers if one.key.value == a} == {1}  # and not to itself for c
    whole = trained(step.micro_batched(4), weights, batch)
    found = trained(split, weights, batch)
    assert found[1] == whole[1]
    text = str(split)
    assert "2 stages x 1 replica, 4 micro-batches, interleaved, 2 chunks each" in text
    assert "a, c" in text
    assert split.why("c", n=ROWS).startswith("c is computed on stage 0.1 (rank 0): you said")
    assert split.why("a", n=ROWS).endswith(
        "it is sent to stages 1.0 and 1.1 (rank 1), which read it"
    )
    assert len(split.draw(n=ROWS).svg()) > 1000


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"chunks": 2}, "chunks is 2, and the schedule is not inter", "schedule='interleaved'"),
        (
            {"chunks": 2, "schedule": "1f1b"},
            "the schedule is not interleaved",
            "schedule='interleaved'",
        ),
        ({"chunks": 0, "schedule": "interleaved"}, "chunks is 0", "1 or more"),
        (
            {"stages": ("h1", "h2"), "schedule": "interleaved"},
            "2 names cut the model into 3 parts, which are no 2 chunks for each stage",
            "3 names",
        ),
    ],
)
def test_chunks_that_do_not_fit_are_refused(options: Any, what: str, hint: str) -> None:
    step, *_ = case("network", "sgd", "reference")
    for given in ({"micro_batches": 4}, {"devices": cr.Devices.cpu(4), "batch": ROWS}):
        with pytest.raises(InputError) as caught:
            cr.parallel(step, **given, **options)
        assert what in caught.value.what and hint in caught.value.hint


def test_chunks_take_as_long_as_their_pipeline_on_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """All chunks but the first have gradients to send on, which leave before the rest."""
    each = {"forward": 1.0, "backward": 1.6, "gradients": 0.0, "update": 0.0}
    constant_times(monkeypatch, each, 0.05)
    step, *_ = case("skipping", "sgd", "reference")
    split = cr.parallel(step, micro_batches=8, stages=("a", "b", "c"), schedule="interleaved")
    found = split.timeline(n=ROWS)
    assert_is_possible(found)
    paper = timeline(stages_of(2, 8, 2.0, (1.6, 3.2), 0.0, 0.05, 2, 1.0), split.orders)
    assert found.seconds <= paper.duration + 1e-9
    plain = cr.parallel(step, micro_batches=8, stages=("b",)).timeline(n=ROWS)
    assert found.bubble < plain.bubble
    assert "interleaved, 2 chunks each" in str(found)


@pytest.mark.slow
def test_interleaved_pipelines_are_searched_for_or_pinned() -> None:
    """On 4 devices with quick links, stages of two chunks wait least while memory allows them."""

    def deep(x: cr.float64["n 64"], Ws: Any):
        h = x
        for W in Ws:
            h = np.tanh(h @ W)
        return np.mean(h**2)

    Ws = [np.eye(64) / 2 for _ in range(8)]
    step = cr.training_step(deep, "Ws", cr.sgd(0.1), Ws=Ws, executor="reference")
    pins = {"batch": 512, "stages": 2, "micro_batches": 4, "ways": 1, "recompute": False}
    text = cr.Devices.cpu(2).toml().replace('latency = "20 us"', 'latency = "1 ns"')
    devices = cr.Devices.parse(text.replace('"5 GB/s"', '"500 GB/s"'))
    found = cr.parallel(step, devices, **pins)
    schedules = {one.schedule: one for one in reversed(tuple(candidates(found)))}
    assert set(schedules) == {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2"}
    best, plain = schedules["interleaved"], schedules["1f1b"]
    assert best.seconds < plain.seconds and (best.chunks, plain.chunks) == (2, 1)
    assert "2 chunks" in str(found.candidates) and "2 chunks each" in best.words
    pinned = cr.parallel(step, devices, schedule="interleaved", chunks=4, **pins)
    assert (pinned.chunks, pinned.stages) == (4, 2)
    assert {(one.schedule, one.chunks) for one in candidates(pinned)} == {("interleaved", 4)}
    state, other = pinned.init(Ws=Ws), step.micro_batched(4).init(Ws=Ws)
    x = np.random.default_rng(0).normal(size=(512, 64))
    assert pinned(state, x=x) == step.micro_batched(4)(other, x=x)
