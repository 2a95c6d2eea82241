"""A step whose products are shared out to shards is the step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alone import RanksAlone
from parallel_models import OPTIMIZERS, ROWS
from tensor_models import MODELS, case
from test_parallel import STEPS, assert_near, trained
from test_rank_memory import taken_nbytes

import chainrule as cr
from chainrule import float64
from chainrule.devices.check import check_programs
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import AllGather, AllReduce, Clear, Program, ReduceScatter, Run
from chainrule.errors import InputError, InvariantError
from chainrule.schedule.records import ALIGNMENT

# Along the last axis, or the first, where no pair of products can be split in two by itself.
ASKED: dict[str, dict[str, int | None]] = {
    "network": {"W1": 0},
    "dropping": {"W1": 0},
    "skipping": {},
    "tied": {},
    "scaled": {},
    "recurrent": {"W": 1, "U": 0, "V": 0},
    "normalised": {"W1": 0},
    "shared": {"W": 1, "V": 0},
}
GRIDS = ((1, 1, 2), (2, 1, 2), (2, 3, 2), (3, 2, 2), (1, 1, 3), (1, 2, 4))


def options_of(model: str, stages: int, replicas: int, ways: int) -> dict[str, Any]:
    """What splits a model; {} where it has not so many equal parts."""
    weights = case(model, "sgd", "reference")[1]
    asked = ASKED.get(model)
    if asked is not None:
        fits = all(at is None or weights[name].shape[at] % ways == 0 for name, at in asked.items())
        asked = asked if fits else {}
    elif ways == 3:
        asked = {name: -1 for name, one in weights.items() if one.shape[-1] % 3 == 0}
    elif model == "layers" and stages == 3:  # so that much is gathered, and scattered
        asked = {"W1": 1, "W2": 1, "W3": 0, "W4": 0}
    return {"stages": stages, "replicas": replicas, "ways": ways, "split": asked}


@pytest.mark.slow
@pytest.mark.sweep(130)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("executor", ["native", "reference"])
@pytest.mark.parametrize("model", MODELS)
def test_a_split_of_products_is_the_step_to_rounding(
    model: str, executor: str, optimizer: str
) -> None:
    step, weights, batch = case(model, optimizer, executor)
    alone = trained(step.micro_batched(6), weights, batch)
    for stages, replicas, ways in GRIDS:
        options = options_of(model, stages, replicas, ways)
        split = cr.parallel(step, micro_batches=6, **options)
        assert split.ranks == stages * replicas * ways
        assert_near(trained(split, weights, batch), alone, 1e-12)


@pytest.mark.slow
@pytest.mark.sweep(52)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "interleaved"])
@pytest.mark.parametrize("model", ["residual", *(one for one in MODELS if one != "residual")])
def test_what_shards_compute_again_has_the_same_bits(model: str, schedule: str) -> None:
    """Also where a stage begins with a sum of what another one has sent."""
    step, weights, batch = case(model, "momentum", "reference")
    for stages, ways in ((2, 2), (3, 2), (5, 2), (2, 3)):
        options = {**options_of(model, stages, 1, ways), "schedule": schedule}
        kept = trained(cr.parallel(step, micro_batches=6, **options), weights, batch)
        again = cr.parallel(step, micro_batches=6, recompute=True, **options)
        found = trained(again, weights, batch)
        assert_near(found, kept, 1e-14 if model == "convolutional" else 0.0)


@pytest.mark.slow
@pytest.mark.sweep(14)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("layers", {"ways": 2}),
        ("attention", {"ways": 4, "stages": 2}),
        ("convolutional", {"ways": 2, "replicas": 2}),
        ("dropout", {"ways": 2}),
        ("shared", {"ways": 3, "stages": 3, "split": {"W": 1}}),
        ("recurrent", {"ways": 2, "split": {"W": 1, "V": 0}}),
        ("layers", {"ways": 2, "stages": 2, "schedule": "zb-h1", "recompute": True}),
        ("layers", {"ways": 2, "stages": 2, "replicas": 2, "shard_optimizer": True}),
        ("attention", {"ways": 2, "stages": 2, "schedule": "interleaved"}),
    ],
)
def test_twenty_steps_are_those_of_one_process(model: str, options: Any, optimizer: str) -> None:
    """To 1e-12 of each array, against micro-batches and against the unsplit step.

    More cannot be asked of the velocities of `recurrent`, gradients close to a minimum, where large
    terms cancel: one process that gets the same rows in another order, and so adds them in another
    order, differs from itself by 2e-12 to 8e-12 there.  Where a split differs by more than 1e-12,
    it must be by no more than four times that.
    """
    step, weights, batch = case(model, optimizer, "reference")
    whole = twenty(step, weights, batch)
    parts = twenty(step.micro_batched(4), weights, batch)
    found = twenty(cr.parallel(step, micro_batches=4, **options), weights, batch)
    off = apart(found, parts)
    if model != "dropout":  # whose parts have keys of their own
        off = np.maximum(off, apart(found, whole))
    if not off <= 1e-12:
        assert (model, optimizer) == ("recurrent", "momentum")
        assert off <= 4 * max(
            apart(twenty(step, weights, reordered(batch, seed)), whole) for seed in range(3)
        )


def twenty(step: Any, weights: Any, batch: Any) -> dict[str, np.ndarray]:
    """The state after twenty steps, and the objectives on the way."""
    state = step.init(weights)
    objectives = [step(state, batch) for _ in range(20)]
    return {**state, "objectives": np.array(objectives)}


def apart(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> float:
    """The largest difference, relative to the largest element of its array."""
    each = [
        np.max(np.abs(found[name] - array)) / np.max(np.abs(array), initial=1e-300)
        for name, array in wanted.items()
    ]
    return float(np.max(each))


def reordered(batch: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(ROWS)
    return {name: array[order] for name, array in batch.items()}


def test_an_error_on_a_shard_leaves_the_state_as_it_was() -> None:
    step, weights, batch = case("layers", "adamw", "reference")
    split = cr.parallel(step, micro_batches=4, stages=2, replicas=2, ways=2, shard_optimizer=True)
    state = split.init(weights)
    split(state, batch)
    before = dict(state)
    wrong = {**batch, "y": np.where(np.arange(ROWS) == 20, 7, batch["y"])}
    with pytest.raises(IndexError, match="index 7"):
        split(state, wrong)
    assert state.steps == 1
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    split(state, batch)


def test_masks_of_dropout_are_those_of_the_unsplit_step() -> None:
    """Each unit is dropped in the split step where it is in the whole one: else the objective of a
    step would be far off."""
    step, weights, batch = case("dropout", "sgd", "reference")
    for key in range(5):
        given = {**batch, "key": cr.random.key(key)}
        whole = step.micro_batched(2)
        split = cr.parallel(step, micro_batches=2, ways=4)
        one = split(split.init(weights), given), whole(whole.init(weights), given)
        np.testing.assert_allclose(one[0], one[1], rtol=1e-14)


# Memory ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.sweep(8)
@pytest.mark.parametrize(
    ("model", "optimizer", "options"),
    [
        ("layers", "adamw", {"ways": 2}),
        ("layers", "clipped", {"ways": 2, "stages": 2, "split": {"W1": 1, "W2": 1, "W3": 0}}),
        ("attention", "momentum", {"ways": 2, "stages": 2}),
        ("convolutional", "adamw", {"ways": 2, "replicas": 2}),
        ("dropout", "sgd", {"ways": 4}),
        ("recurrent", "adamw", {"ways": 2, "split": {"W": 1, "V": 0}}),
        ("layers", "adamw", {"replicas": 2, "shard_optimizer": True}),
        ("layers", "clipped", {"replicas": 2, "ways": 2, "shard_optimizer": True, "stages": 2}),
        ("layers", "adamw", {"ways": 2, "stages": 2, "recompute": True}),
    ],
)
def test_a_shard_takes_what_is_predicted_to_the_byte(
    model: str, optimizer: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for executor in ("reference", "native"):
        step, weights, batch = case(model, optimizer, executor)
        split = cr.parallel(step, micro_batches=4, **options)
        ranks = RanksAlone(split, weights, batch, monkeypatch)
        report = split.memory(n=ROWS)
        slack = ALIGNMENT * len(ranks.split.pieces) if executor == "native" else 0
        for rank, one in enumerate(report.ranks):
            ranks.run(rank)
            own = ranks.parts_nbytes(rank)
            taken = taken_nbytes(ranks, rank) - own  # a thread copies its parts of the state
            assert 0 <= taken - one.allocated_nbytes <= slack, (executor, rank)


# Programs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs() -> tuple[Program, ...]:
    step, *_ = case("layers", "adamw", "reference")
    split = cr.parallel(
        step,
        micro_batches=4,
        stages=2,
        replicas=2,
        ways=2,
        split={"W1": 1, "W2": 1, "W3": 0, "W4": 0},
        shard_optimizer=True,
    )
    return split.split_at(n=ROWS).programs


def change(programs: Any, rank: int, kind: type, how: Any) -> list[Program]:
    """The programs, with the first instruction of a kind of one rank replaced."""
    instructions = list(programs[rank].instructions)
    at = next(i for i, one in enumerate(instructions) if isinstance(one, kind))
    instructions[at : at + 1] = how(instructions[at], instructions)
    wrong = replace(programs[rank], instructions=tuple(instructions))
    return [wrong if one.rank == rank else one for one in programs]


@pytest.mark.parametrize("kind", [AllReduce, AllGather, ReduceScatter])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda one, _: [], "wait for ever|needs Key|the order of collectives differs"),
        (lambda one, _: [one, one], "needs Key|wait for ever|collectives differs"),
        (lambda one, _: [replace(one, group=one.group[::-1])], "collectives differs"),
        (lambda one, _: [replace(one, group=(0, 9))], "names rank 9; there is none|not in"),
        (lambda one, _: [replace(one, group=(one.group[0],))], "not in|wait|collectives differs"),
    ],
)
def test_a_planted_fault_in_an_exchange_is_found(
    programs: tuple[Program, ...], kind: type, fault: Any, told: str
) -> None:
    check_programs(programs)
    with pytest.raises(InvariantError, match=told):
        check_programs(change(programs, 3, kind, fault))


@pytest.mark.parametrize("kind", [AllGather, ReduceScatter])
def test_a_planted_fault_in_what_is_exchanged_is_found(
    programs: tuple[Program, ...], kind: type
) -> None:
    for fault in (
        lambda one, _: [replace(one, axes=(*one.axes[:-1], one.axes[-1] + 1))],
        lambda one, _: [replace(one, reads=one.reads[::-1] * 2)],
        lambda one, _: [replace(one, gives=one.reads)],
    ):
        with pytest.raises(InvariantError, match="the order of collectives differs"):
            check_programs(change(programs, 3, kind, fault))


def test_programs_exchange_as_little_as_megatron() -> None:
    """Two sums in each pass of a block of a transformer (Shoeybi et al., 2019, section 3), and
    nothing for the update."""
    step, *_ = case("attention", "adamw", "reference")
    split = cr.parallel(step, micro_batches=1, ways=2)
    for program in split.split_at(n=ROWS).programs:
        exchanges = [one for one in program.instructions if not isinstance(one, (Run, Clear))]
        sums = [len(one.reads) for one in exchanges if isinstance(one, AllReduce)]
        assert sums == [1] * len(exchanges) == [1, 1, 1, 1]


def test_ranks_are_numbered_by_shards_then_stages_then_replicas() -> None:
    grid = Grid(3, 2, 4)
    ranks = [grid.rank(r, s, w) for r in range(2) for s in range(3) for w in range(4)]
    assert ranks == list(range(24)) and grid.count == 24
    for rank in ranks:
        place = grid.replica_of(rank), grid.stage_of(rank), grid.shard_of(rank)
        assert grid.rank(*place) == rank
        assert rank in grid.group(rank, "shards") and rank in grid.group(rank, "replicas")
    assert grid.group(13, "shards") == (12, 13, 14, 15)
    assert grid.group(13, "replicas") == (1, 13)
    assert grid.of_stage(1) == [4, 5, 6, 7, 16, 17, 18, 19]


# What is told ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_split_is_shown() -> None:
    step, weights, batch = case("layers", "adamw", "reference")
    split = cr.parallel(step, micro_batches=4, ways=2, replicas=2, shard_optimizer=True)
    text = str(split)
    assert "layers on 4 ranks: 1 stage x 2 replicas x 2 ways, 4 micro-batches" in text
    assert "optimizer sharded" in text and "W1 (axis 1), b1 (axis 0)" in text
    assert split.why("W1", n=ROWS).endswith(
        "2 shards have parts of it along axis 1: what comes of its columns is only added up"
    )
    assert split.why("b2", n=ROWS).endswith("each of 2 shards has all of it")
    assert "each replica has a part of it along axis 0" in split.why("W1_m", n=ROWS)
    assert split.why("h1", n=ROWS).endswith("; each of 2 shards has its part along axis 1")
    assert split.why("o", n=ROWS).endswith("; each of 2 shards adds it up with the others")
    assert split.why("J", n=ROWS).endswith("; each of 2 shards has all of it, as the others")
    assert split.why("dJ/dh1", n=ROWS).endswith("; each of 2 shards has its part along axis 1")
    asked = cr.parallel(step, micro_batches=4, ways=2, split={"W3": -1})
    assert asked.why("W3", n=ROWS).endswith("along axis 1: you said so")
    trace = split.trace(split.init(weights), batch)
    for timeline in (trace.predicted, trace.measured):
        assert timeline.ways == 2 and timeline.grid.replicas == 2
        doing = {one.doing for spans in timeline.ranks for one in spans}
        assert {"adding up", "gathering"} <= doing
        assert "shard 1" in timeline.svg()
    names = [one["args"].get("name", "") for one in trace.trace_json()["traceEvents"]]
    assert "rank 3: stage 0, replica 1, shard 1" in names
    assert "all_reduce" in split.draw(n=ROWS).svg()
    report = split.memory(n=ROWS).json()
    assert [one["shard"] for one in report["ranks"]] == [0, 1, 0, 1]
    assert [one["replica"] for one in report["ranks"]] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"ways": 0}, "ways is 0", "an integer, 1 or more"),
        ({"ways": True}, "ways is True", "an integer, 1 or more"),
        ({"split": {"W1": 1}}, "split={'W1': 1} says how parameters are split", "ways=2"),
        ({"shard_optimizer": True}, "and there is one", "replicas=2"),
    ],
)
def test_what_does_not_fit_is_refused(options: Any, what: str, hint: str) -> None:
    step, *_ = case("layers", "sgd", "reference")
    with pytest.raises(InputError) as caught:
        cr.parallel(step, **{"micro_batches": 4, **options})
    assert what in caught.value.what and hint in str(caught.value.hint)


def test_odd_shapes_are_refused_with_advice() -> None:
    step, weights, batch = case("layers", "sgd", "reference")
    split = cr.parallel(step, micro_batches=4, ways=4, split={"W2": 1})
    with pytest.raises(InputError, match=r"axis 1 of W2, float64\[8, 6\], has no 4 equal parts"):
        split(split.init(weights), batch)
    advised = cr.parallel(step, micro_batches=4, ways=3, split={"W2": 1})
    assert_near(
        trained(advised, weights, batch), trained(step.micro_batched(4), weights, batch), 1e-12
    )


def heads_of_three(x: float64["n 4 6"], y: float64["n 4 6"], W: float64[6, 6], V: float64[6, 6]):
    """Three heads, which cannot be shared out to two ranks: they are gathered first."""
    q = np.swapaxes((x @ W).reshape(-1, 4, 3, 2), 1, 2)
    a = cr.softmax(q @ np.swapaxes(q, 2, 3), axis=-1) @ q
    J = np.mean((np.swapaxes(a, 1, 2).reshape(-1, 4, 6) @ V - y) ** 2)
    return J


def test_heads_that_cannot_be_shared_out_are_gathered() -> None:
    step = cr.training_step(heads_of_three, ("W", "V"), cr.adam(0.01), executor="reference")
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=(6, 6)) for name in ("W", "V")}
    batch = {name: random.normal(size=(8, 4, 6)) for name in ("x", "y")}
    whole = trained(step.micro_batched(2), weights, batch)
    for ways, gathers in ((2, True), (3, False)):
        split = cr.parallel(step, micro_batches=2, ways=ways, split={"W": 1, "V": 0})
        assert_near(trained(split, weights, batch), whole, 1e-12)
        kinds = {type(one) for one in split.split_at(n=8).programs[0].instructions}
        assert (AllGather in kinds) == gathers
    assert STEPS == 4


def test_a_checkpoint_goes_on_with_another_split() -> None:
    step, weights, batch = case("layers", "adamw", "reference")
    one = cr.parallel(step, micro_batches=4, ways=2)
    other = cr.parallel(step, micro_batches=4, replicas=2, shard_optimizer=True)
    whole = step.micro_batched(4)
    state, alone = one.init(weights), whole.init(weights)
    one(state, batch)
    whole(alone, batch)
    again = other.restore({**one.collect(state)}, steps=state.steps)
    assert {name: array.shape for name, array in again.items()} == {
        name: array.shape for name, array in alone.items()
    }
    np.testing.assert_allclose(other(again, batch), whole(alone, batch), rtol=1e-13)
