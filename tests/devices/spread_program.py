"""What the tests run on 8 devices of one process: `spread_program.py FILE CASE...` checks cases."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from carrying_models import CARRYING, carrying
from spread_memory import limited, narrow
from tensor_models import case, error

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.devices.reports.spans import DOING
from chainrule.errors import IndexOutOfRangeError, InputError
from chainrule.execute.aligned import block

STEPS = 3
# The model, its optimizer, and the plan.
PLANS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "data": ("network", "adamw", {"micro_batches": 8, "replicas": 8}),
    "products": ("layers", "momentum", {"micro_batches": 1, "ways": 8}),
    "both": ("attention", "adamw", {"micro_batches": 4, "replicas": 4, "ways": 2}),
    "sharded": (
        "layers",
        "adamw",
        {"micro_batches": 8, "replicas": 4, "ways": 2, "shard_optimizer": True},
    ),
    "convolutions": ("convolutional", "sgd", {"micro_batches": 8, "replicas": 8}),
    "keys": ("dropout", "sgd", {"micro_batches": 4, "replicas": 2, "ways": 2}),
    # Further ones.
    "loop": ("network", "momentum", {"micro_batches": 6, "replicas": 2}),
    "masks": ("dropping", "adamw", {"micro_batches": 4, "replicas": 2}),
    "recurrent": ("recurrent", "sgd", {"micro_batches": 4, "replicas": 4}),
    "parts": ("normalised", "clipped", {"micro_batches": 4, "replicas": 2}),
    "clipped": ("layers", "clipped", {"micro_batches": 4, "ways": 8}),
    "scheduled": (
        "shared",
        "scheduled",
        {"micro_batches": 2, "ways": 2, "split": {"W": 1, "V": 0}},
    ),
    "running": ("running", "adamw", {"micro_batches": 8, "replicas": 4}),
    "running alone": ("running", "momentum", {"micro_batches": 4, "replicas": 4}),
    "averaged": ("averaged", "sgd", {"micro_batches": 4, "replicas": 2}),
    "keyed": ("keyed", "momentum", {"micro_batches": 4, "replicas": 2}),
    "centred": ("centred", "sgd", {"micro_batches": 3}),
    "one": ("scaled", "adamw", {"micro_batches": 3}),
}


def equal(name: str) -> dict[str, float]:
    """How far a plan is from the same micro-batches on one device after some steps."""
    model, optimizer, options = PLANS[name]
    make = carrying if model in CARRYING else case
    step, weights, batch = make(model, optimizer, "xla")
    reference = make(model, optimizer, "reference")[0].micro_batched(options["micro_batches"])
    split = cr.parallel(step, **options)
    state, wanted = split.init(weights), reference.init(weights)
    objectives = [
        [float(one(state, batch)), float(reference(wanted, batch))] for one in [split] * STEPS
    ]
    assert state.home.newer, "the state stays on the devices"
    off = max(abs(one / other - 1) for one, other in objectives)
    return {"objective": off, "state": error(state, wanted)}


def lying() -> None:
    """Parts of arrays lie where the plan says, and the compiler counts them so."""
    step, weights, batch = case("layers", "adamw", "xla")
    options = {"micro_batches": 4, "replicas": 4, "ways": 2, "shard_optimizer": True}
    split = cr.parallel(step, **options)
    state = split.init(weights)
    split(state, batch)
    there = state.home.away
    lying = split.split_at(n=24).lying
    expected = 0
    for name in state:
        shards = there[name].addressable_shards
        assert len(shards) == 8
        for rank, one in enumerate(sorted(shards, key=lambda one: one.device.id)):
            own = lying.part(name, there[name].shape, rank)
            assert one.data.shape == state.outlines[name][own].shape, name
            np.testing.assert_array_equal(np.asarray(one.data), state[name][own])
        expected += shards[0].data.nbytes
    assert there["W1"].addressable_shards[0].data.shape == (6, 4)
    assert there["W1_m"].addressable_shards[0].data.size == 6  # of 48
    report = split.memory(n=24)
    given = sum(one.nbytes for one in batch.values()) // 4
    numbers = 8 * len(step.scalars)
    assert report.compiled["arguments"] in range(expected + given, expected + given + numbers + 9)
    assert "on each device, the executor's compiler" in str(report)
    assert report.json()["compiled"] == report.compiled


def looked_up(y: int64["n"], E: float64["6 3"]):
    J = np.mean(E[y + y] ** 2)
    return J


def failing() -> None:
    """What a step refuses leaves the state as it was, and says which rows."""
    step, weights, batch = case("network", "adamw", "xla")
    split = cr.parallel(step, micro_batches=8, replicas=4)
    state = split.init(weights)
    split(state, batch)
    before = {name: state[name] for name in state}
    wrong = {**batch, "y": batch["y"].copy()}
    wrong["y"][13] = 7
    try:
        split(state, wrong)
    except IndexOutOfRangeError as found:
        told = f"{found} {' '.join(found.__notes__)}"
        assert "rows 12 to 14" in told and "index 7" in told and "parallel_models" in told, told
    else:
        raise AssertionError("an index out of range is refused")
    assert state.steps == 1
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    split(state, batch)
    assert state.steps == 2
    try:
        split.trace(state, wrong)
    except IndexOutOfRangeError as found:
        assert "index 7" in str(found)
    else:
        raise AssertionError("a traced step is a step")
    assert state.steps == 2
    computed = cr.training_step(looked_up, ("E",), cr.sgd(0.1), executor="xla")
    split = cr.parallel(computed, micro_batches=4, replicas=4)
    state = split.init(E=np.ones((6, 3)))
    split(state, y=np.arange(8) % 3)
    before = state["E"]
    try:
        split(state, y=np.array([0, 1, 2, 0, 1, 3, 0, 1]))
    except IndexOutOfRangeError as found:
        assert "index 6" in str(found) and "rows 4 to 5" in str(found.__notes__), found
    else:
        raise AssertionError("one device has an index that is out of range")
    assert state.steps == 1
    np.testing.assert_array_equal(state["E"], before)
    many = cr.parallel(step, micro_batches=12, replicas=12)
    try:
        many(many.init(weights), batch)
    except InputError as found:
        told = str(found)
        assert "12 devices (12 replicas x 1 way)" in told and "has 8 here (cpu)" in told, told
        assert "XLA_FLAGS=--xla_force_host_platform_device_count=12" in told
    else:
        raise AssertionError("there are 8 devices")


TRACED = (
    ("layers", {"micro_batches": 8, "replicas": 4, "ways": 2}),
    ("layers", {"micro_batches": 2, "replicas": 2, "shard_optimizer": True}),
    ("recurrent", {"micro_batches": 6, "replicas": 2}),
)


def traced() -> None:
    """A trace says when each device did what, by the names of the graph."""
    for model, options in TRACED:
        step, weights, batch = case(model, "adamw", "xla")
        split = cr.parallel(step, **options)
        state, other = split.init(weights), split.init(weights)
        begun = perf_counter()
        trace = split.trace(state, batch)
        taken = perf_counter() - begun
        assert trace.objective == split(other, batch)
        assert error(state, other) == 0
        measured = trace.measured
        assert 0 < measured.seconds < measured.step_seconds < taken
        grid, each = split.grid, options["micro_batches"] // options["replicas"]
        counts = []
        for rank, spans in enumerate(measured.ranks):
            assert spans[0].start == 0 or spans[0].doing == "waiting"
            assert all(one.end == two.start and one.doing in DOING for one, two in pairwise(spans))
            own = [one for one in trace.operations if one.rank == rank]
            first = grid.replica_of(rank) * each
            turns = {one.micro_batch for one in own} - {None}
            assert turns == set(range(first, first + each)), turns
            for turn in turns:
                at = {one.name: one for one in own if one.micro_batch == turn}
                forth, back = [at[name].start for name in NAMED[model]]
                assert forth < back, (forth, back)
                assert [at[name].doing for name in NAMED[model]] == ["forward", "backward"]
            assert all(
                one.micro_batch is not None
                for one in own
                if one.doing in ("forward", "backward") and one.name.startswith(("h", "dJ/d"))
            )
            doing = {one.doing for one in own}
            assert {"forward", "backward", "update", "adding up"} <= doing
            assert ("gathering" in doing) == ("shard_optimizer" in options)
            counts.append(
                Counter(
                    (one.name, one.doing, one.micro_batch and one.micro_batch - first)
                    for one in own
                    if one.name
                )
            )
        assert all(one == counts[0] for one in counts), "all devices do the same"
        events = trace.trace_json()["traceEvents"]
        there = {one["name"] for one in events if one["ph"] == "X"}
        assert {f"{name} {turn}" for name in NAMED[model] for turn in range(each)} <= there
        assert "value" in str(trace) and "measured" in str(trace) and "predicted" in str(trace)
    import jax  # the tests take cases from this file where there is none

    jax.profiler.start_trace(tempfile.mkdtemp())
    try:
        split.trace(state, batch)
    except InputError as found:
        assert "JAX profiles this process already" in str(found)
    else:
        raise AssertionError("only one profile at a time")
    finally:
        jax.profiler.stop_trace()
    assert state.steps == 1


# A value of the forward pass, and one of the backward pass, that are operations of their own.
NAMED = {"layers": ("h3", "dJ/dh3"), "recurrent": ("J_sum_next", "dJ/dV")}


def moving() -> None:
    """A state goes from plan to plan, and to executors without one, and numbers may change."""
    step, weights, batch = case("layers", "adamw", "xla")
    reference = case("layers", "adamw", "reference")[0]
    split = cr.parallel(step, micro_batches=2, ways=2)
    other = cr.parallel(step, micro_batches=2, replicas=2, shard_optimizer=True)
    state, wanted = split.init(weights), reference.init(weights)
    for one in (split, other, step, split, reference, split):
        taken = {**batch, "learning_rate": 0.02} if one is other else batch
        one(state, taken)
        reference(wanted, taken)
    assert error(state, wanted) < 1e-11
    again = split.restore({**state}, steps=state.steps)
    split(again, batch)
    split(state, batch)
    assert error(again, state) == 0


def settled() -> None:
    """Another first device, that the user has set for all of JAX, changes nothing."""
    import jax

    step, weights, batch = case("layers", "adamw", "xla")
    split = cr.parallel(step, micro_batches=2, replicas=2, ways=2)
    state, wanted = split.init(weights), step.micro_batched(2).init(weights)
    for device in (3, 0):
        with jax.default_device(jax.devices()[device]):
            split(state, batch)
            step.micro_batched(2)(wanted, batch)
        assert error(state, wanted) < 1e-12


def searched() -> None:
    """A search for devices finds a plan of one stage."""
    step, weights, batch = case("layers", "adamw", "xla")
    split = cr.parallel(step, cr.Devices.cpu(8), batch=24)
    assert split.stages == 1
    state, wanted = split.init(weights), step.init(weights)
    split(state, batch)
    step(wanted, batch)
    assert error(state, wanted) < 1e-11


def trained() -> None:
    """A trainer takes it as it takes other steps."""
    step, weights, batch = case("network", "momentum", "xla")
    split = cr.parallel(step, micro_batches=4, replicas=4)
    ends = []
    for one in (split, step):
        trainer = cr.Trainer(one, weights, data=batch, batch_size=12, progress=False)
        trainer.fit(2)
        ends.append(trainer.state)
    assert error(*ends) < 1e-11


def handing(
    x: float64["n 4"],
    y: float64["n 8"],
    W: float64["4 8"],
    V: float64["8 8"],
    total: float64["4"],
    big: float64[()],
    c: int64[()],
):
    h = np.tanh(x @ W)
    J = np.mean((h @ V * (1 + 0.1 * c) - y) ** 2)
    after = {"total": 0.5 * total * big + np.max(x, 0), "big": big * 1.1 + np.mean(h) * c}
    return J, {**after, "c": c + 1}


def handed() -> None:
    """State that the passes read, state of the rows themselves, and state that reads other state,
    go from replica to replica."""
    random = np.random.default_rng(0)
    weights = {"W": random.normal(size=(4, 8)), "V": random.normal(size=(8, 8))}
    weights |= {"total": random.normal(size=4), "big": np.array(1.2), "c": np.array(0)}
    batch = {"x": random.normal(size=(24, 4)), "y": random.normal(size=(24, 8))}
    made = [
        cr.training_step(
            handing, ("W", "V"), cr.adam(0.01), state=("total", "big", "c"), executor=x
        )
        for x in ("xla", "reference")
    ]
    for options in (
        {"micro_batches": 4, "replicas": 4},
        {"micro_batches": 8, "replicas": 4, "ways": 2, "shard_optimizer": True},
    ):
        both = cr.parallel(made[0], **options), made[1].micro_batched(options["micro_batches"])
        states = [one.init(weights) for one in both]
        for _ in range(STEPS):
            for one, state in zip(both, states, strict=True):
                one(state, batch)
        assert error(*states) < 1e-12


def reading(x: float32["n 64"], W: float32["64 64"], V: float32["64 64"]):
    return np.mean((np.tanh(np.tanh(x @ W) @ V) - x) ** 2)


def returned() -> None:
    """A batch is the caller's again when a step returns, also one that JAX could read in place."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(8192, 64)).astype(np.float32)
    weights = {name: random.normal(size=(64, 64)).astype(np.float32) / 8 for name in "WV"}
    step = cr.training_step(reading, ("W", "V"), cr.sgd(0.1), executor="xla")
    split = cr.parallel(step, micro_batches=1, ways=2)
    for _ in range(3):
        state = step.init(weights)
        for _ in range(5):
            x = block(rows.nbytes).view(np.float32).reshape(rows.shape)
            x[...] = rows
            J = split(state, x=x)
            x[...] = np.nan
            assert np.isfinite(J)
        assert all(np.isfinite(state[name]).all() for name in weights)


CHECKS = {one.__name__: one for one in (lying, failing, limited, traced, moving, trained, returned)}
FURTHER = {one.__name__: one for one in (searched, handed, narrow, settled)}
OTHERS = {**CHECKS, **FURTHER}


def main() -> None:
    file, *names = sys.argv[1:]
    found = {name: OTHERS[name]() if name in OTHERS else equal(name) for name in names}
    Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
