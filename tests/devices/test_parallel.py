"""A step that is split over ranks is the step: the same bits, or the same sums in another order."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, OPTIMIZERS, ROWS, case, network

import chainrule as cr
from chainrule.devices import stages as stages_module
from chainrule.devices.instructions import Key, Send
from chainrule.devices.threads import Mailboxes, ThreadTransport
from chainrule.errors import InputError, NameLookupError, StateError

SCHEDULES = ("gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved")
STEPS = 4


def trained(step: Any, weights: Any, batch: Any) -> tuple[dict[str, np.ndarray], list[float]]:
    state = step.init(weights)
    objectives = [step(state, batch) for _ in range(STEPS)]
    assert state.steps == STEPS
    return dict(state), objectives


def assert_near(found: Any, wanted: Any, tolerance: float) -> None:
    for name, array in wanted[0].items():
        scale = np.max(np.abs(array), initial=1e-300)
        np.testing.assert_allclose(found[0][name], array, atol=tolerance * scale, rtol=tolerance)
    np.testing.assert_allclose(found[1], wanted[1], rtol=tolerance)


@pytest.mark.sweep(151)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("model", MODELS)
def test_stages_give_the_bits_of_micro_batches(
    model: str, stages: int, schedule: str, optimizer: str
) -> None:
    step, weights, batch = case(model, optimizer, "reference")
    whole = trained(step.micro_batched(6), weights, batch)
    split = cr.parallel(step, micro_batches=6, stages=stages, schedule=schedule)
    found = trained(split, weights, batch)
    if model == "convolutional":  # NumPy's products round by the strides of what they read
        assert_near(found, whole, 1e-14)
        return
    assert found[1] == whole[1]
    for name, array in whole[0].items():
        np.testing.assert_array_equal(found[0][name], array)


@pytest.mark.slow
@pytest.mark.sweep(57)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("model", MODELS)
def test_any_split_is_the_step_to_rounding(
    model: str, executor: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages_module, "MESSAGE_SECONDS", 0.0)  # or all would lie on one stage
    step, weights, batch = case(model, optimizer, executor)
    alone = trained(step.micro_batched(6), weights, batch)
    whole = trained(step, weights, batch)
    for stages, replicas in ((2, 3), (3, 6)):
        split = cr.parallel(step, micro_batches=6, stages=stages, replicas=replicas)
        assert split.ranks == stages * replicas
        found = trained(split, weights, batch)
        assert_near(found, alone, 1e-12)
        if model not in ("normalised", "dropping"):  # whose parts are other than their whole
            assert_near(found, whole, 1e-12)


@pytest.mark.sweep(48)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_computed_again_has_the_same_bits(model: str, schedule: str) -> None:
    step, weights, batch = case(model, "momentum", "reference")
    for stages, replicas in ((4, 1), (2, 2)):
        options = {"stages": stages, "replicas": replicas, "schedule": schedule}
        kept = cr.parallel(step, micro_batches=6, **options)
        again = cr.parallel(step, micro_batches=6, recompute=True, **options)
        wanted, found = trained(kept, weights, batch), trained(again, weights, batch)
        if model == "convolutional":  # NumPy's products round by the strides of what they read
            assert_near(found, wanted, 1e-14)
            continue
        assert found[1] == wanted[1]
        for name, array in wanted[0].items():
            np.testing.assert_array_equal(found[0][name], array)


@pytest.mark.slow
def test_only_stages_with_several_micro_batches_under_way_recompute() -> None:
    step, *_ = case("network", "sgd", "reference")
    three = ("h1", "h2")
    for stages, schedule, wanted in (
        (1, "1f1b", []),
        (1, "gpipe", [0]),
        (three, "1f1b", [0, 1]),
        (three, "gpipe", [0, 1, 2]),
        (three, "zb-h1", [0, 1]),
        ((*three, "o"), "interleaved", ["0.0", "1.0"]),
    ):
        split = cr.parallel(step, micro_batches=4, stages=stages, schedule=schedule, recompute=True)
        names = [piece.name for piece in split.split_at(n=ROWS).pieces]
        assert [name for name in names if "recompute" in name] == [
            f"recompute {stage}" for stage in wanted
        ]
        kept = cr.parallel(step, micro_batches=4, stages=stages, schedule=schedule)
        for one, other in zip(split.memory(n=ROWS).ranks, kept.memory(n=ROWS).ranks, strict=True):
            assert one.peak_nbytes <= other.peak_nbytes
            if one.rank == 0 and 0 in wanted:
                assert one.parts["saved intermediates"] < other.parts["saved intermediates"]
        words = "; it is not kept, but computed again before the backward pass"
        assert split.why("h1", n=ROWS).endswith(words) == bool(wanted)
        assert not kept.why("h1", n=ROWS).endswith(words)
        assert ("recomputing" in str(split)) and "recomputing" not in str(kept)
        assert ("R recompute" in str(split.timeline(n=ROWS))) == bool(wanted)


@pytest.mark.parametrize("stages", [("h1",), ("h1", "h2")])
def test_clipping_sends_numbers_between_stages(stages: tuple[str, ...]) -> None:
    """Each stage adds up the squares of its gradients, and scales them itself."""
    step, weights, batch = case("network", "clipped", "reference")
    split = cr.parallel(step, micro_batches=6, stages=stages)
    found = split.split_at(n=ROWS)
    sent = [
        found.values[one.key.value][1].shape
        for program in found.programs
        for one in program.instructions
        if isinstance(one, Send) and one.key.micro_batch is None
    ]
    assert sent and set(sent) == {()}
    whole = trained(step.micro_batched(6), weights, batch)
    assert_near(trained(split, weights, batch), whole, 1e-14)


def test_replicas_are_added_in_their_order() -> None:
    """The bits are those of sums by hand: of each replica's parts, then of the replicas."""
    step, weights, batch = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=6, replicas=3)
    state = split.init(weights)
    split(state, batch)
    rows = ROWS // 6
    gradient = cr.grad(network, wrt="W2")
    parts = [
        gradient(**{k: v[i * rows : (i + 1) * rows] for k, v in batch.items()}, **weights)
        for i in range(6)
    ]
    sums = [parts[i] + parts[i + 1] for i in (0, 2, 4)]
    total = sums[0] + sums[1] + sums[2]
    np.testing.assert_array_equal(state["W2"], weights["W2"] - 0.1 * (total / 6))


def test_stages_end_where_one_says() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=4, stages=("h1", "h2"))
    pieces = {piece.name: piece.graph.names for piece in split.split_at(n=ROWS).pieces}
    assert "h1" in pieces["forward 0"] and "h2" not in pieces["forward 0"]
    assert "h2" in pieces["forward 1"] and "o" not in pieces["forward 1"]
    assert {"h2", "o", "J"} <= pieces["forward 2"].keys()
    assert "dJ/dW1" in pieces["gradients 0"] and "dJ/dW3" in pieces["gradients 2"]
    whole = trained(step.micro_batched(4), weights, batch)
    assert trained(split, weights, batch)[1] == whole[1]


def test_more_stages_than_there_is_work_for() -> None:
    step, weights, batch = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=3, stages=30)
    assert trained(split, weights, batch)[1] == trained(step.micro_batched(3), weights, batch)[1]


def test_each_size_of_batch_has_programs_of_its_own() -> None:
    step, weights, batch = case("network", "sgd", "reference")
    split, whole = cr.parallel(step, micro_batches=4, stages=2), step.micro_batched(4)
    one, other = split.init(weights), whole.init(weights)
    for rows in (24, 8, 24):
        part = {name: array[:rows] for name, array in batch.items()}
        assert split(one, part) == whole(other, part)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_an_error_on_a_rank_leaves_the_state_as_it_was() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=4, stages=3, replicas=2)
    state = split.init(weights)
    split(state, batch)
    before = dict(state)
    wrong = {**batch, "y": np.where(np.arange(ROWS) == 20, 7, batch["y"])}
    count = threading.active_count()
    with pytest.raises(IndexError, match="index 7") as caught:
        split(state, wrong)
    assert any("on rank" in note for note in caught.value.__notes__)
    assert state.steps == 1 and threading.active_count() == count
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    split(state, batch)


def test_a_rank_that_waits_in_vain_says_so() -> None:
    transport = ThreadTransport(1, Mailboxes(2, deadline=0.05))
    with pytest.raises(StateError, match=r"rank 1 has got nothing from rank 0 within 0\.05 s"):
        transport.receive(Key(0, 0), 0)


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"micro_batches": 6, "replicas": 4}, "6 micro-batches cannot be shared out to 4", "=8"),
        ({"micro_batches": 6, "stages": 0}, "stages is 0", "1 or more"),
        ({"micro_batches": 6, "replicas": 1.5}, "replicas is 1.5", "an integer"),
        ({"micro_batches": 6, "schedule": "fast"}, "schedule is 'fast'", "1f1b, gpipe"),
        ({"micro_batches": 6, "schedule": "search"}, "schedule is 'search'", "1f1b, gpipe"),
        ({"micro_batches": 6, "schedule": "1F1B"}, "schedule is '1F1B'", "zb-h1, zb-h2"),
        ({"micro_batches": 6, "recompute": "no"}, "recompute is 'no'", "recompute=False"),
        ({"micro_batches": 0}, "micro_batches is 0", "1 or more"),
    ],
)
def test_what_does_not_fit_is_refused(options: Any, what: str, hint: str) -> None:
    step, *_ = case("network", "sgd", "reference")
    with pytest.raises(InputError) as caught:
        cr.parallel(step, **options)
    assert what in caught.value.what and hint in str(caught.value.hint)


def test_numbers_of_numpy_are_numbers() -> None:
    step, *_ = case("network", "sgd", "reference")
    four: Any = np.int64(4)
    split = cr.parallel(step, micro_batches=four, stages=four, schedule="interleaved", chunks=four)
    assert (split.stages, split.chunks, split.parts.count, type(split.chunks)) == (4, 4, 4, int)
    two: Any = np.int64(2)
    found = cr.parallel(step, cr.Devices.cpu(two), batch=np.int64(ROWS), replicas=two)
    assert found.replicas == 2


def test_a_budget_of_one_process_is_no_budget_of_ranks() -> None:
    step = cr.training_step(
        network, ("W1", "b1", "W2", "W3"), cr.sgd(0.1), executor="reference", memory="1 GB"
    )
    with pytest.raises(InputError, match="the step has memory=1000000000, which is"):
        cr.parallel(step, micro_batches=4, stages=2)


def test_names_that_are_no_ends_are_refused() -> None:
    step, weights, batch = case("network", "sgd", "reference")
    with pytest.raises(NameLookupError, match="h9"):
        cr.parallel(step, micro_batches=4, stages=("h9",)).split_at(n=ROWS)
    split = cr.parallel(step, micro_batches=4, stages=("W2",))
    with pytest.raises(InputError, match=r"a stage cannot end with W2"):
        split(split.init(weights), batch)
    for ends in (("h2", "h1"), ("h1", "h1")):
        with pytest.raises(InputError, match=r"ends with h1 has nothing to compute") as caught:
            cr.parallel(step, micro_batches=4, stages=ends).split_at(n=ROWS)
        assert "is computed after" in str(caught.value.hint)
    with pytest.raises(InputError, match=r"cr\.parallel splits a training step, got function"):
        cr.parallel(network, micro_batches=4)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not split into 5 equal parts"):
        split = cr.parallel(step, micro_batches=5, stages=2)
        split(split.init(weights), batch)
