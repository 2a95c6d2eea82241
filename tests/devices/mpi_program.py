"""What the tests run as ranks: `mpi_program.py equal FILE CASES`, `fail HOW`, `refuse FILE`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from carrying_models import CARRYING, carrying
from tensor_models import case

import chainrule as cr
from chainrule.devices import overlap, splitting
from chainrule.devices.adding import added
from chainrule.devices.instructions import Send
from chainrule.devices.job import TRANSPORT, launched
from chainrule.devices.mpi import World, join

RANK = (launched() or (0, 1))[0]
STEPS = 3


def digest(state: Any) -> dict[str, str]:
    return {name: hashlib.sha256(state[name].tobytes()).hexdigest()[:12] for name in state}


@contextmanager
def patched(module: object, name: str, value: Any) -> Iterator[None]:
    """As unittest's mock and pytest's monkeypatch, which take each rank half a second to import."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def trained(
    model: str, optimizer: str, executor: str, stages: Any, replicas: int, options: Any = None
) -> Any:
    """Objectives and digests of arrays after some steps; twice with a checkpoint between them."""
    if stages == 1:  # gradients are added up by helpers
        with patched(overlap, "LEAST_NBYTES", 1):
            return _trained(model, optimizer, executor, stages, replicas, options)
    return _trained(model, optimizer, executor, stages, replicas, options)


def _trained(
    model: str, optimizer: str, executor: str, stages: Any, replicas: int, options: Any
) -> Any:
    made = carrying if model in CARRYING else case
    step, weights, batch = made(model, optimizer, executor)
    stages = stages if isinstance(stages, int) else tuple(stages)
    options = {"stages": stages, "replicas": replicas, **(options or {})}
    split = cr.parallel(step, micro_batches=6, **options)
    state = split.init(weights)
    objectives = [float(split(state, batch)) for _ in range(STEPS - 1)]
    if stages == 1 and replicas == 2 and options.keys() == {"stages", "replicas"}:
        trace = split.trace(state, batch)
        objectives.append(float(trace.objective))
        assert len(trace.measured.ranks) == 2 and all(trace.measured.ranks)
        if launched() is not None:
            assert trace.measured.hidden is not None and 0 <= trace.measured.hidden <= 1
    else:
        objectives.append(float(split(state, batch)))
    check_lent(split)
    whole = split.collect(state)
    own = sorted(state)
    rows = {name: array[:12] if name != "key" else array for name, array in batch.items()}
    again = split.restore({**whole}, steps=whole.steps)
    for one in (state, again):  # a smaller batch is split anew
        objectives += [float(split(one, rows)), float(split(one, batch))]
    if "split" not in options and (options.get("ways", 1) > 1 or options.get("shard_optimizer")):
        plain = cr.parallel(step, micro_batches=6, stages=split.ranks)  # takes the parts over
        objectives += [float(plain(state, batch)), float(split(state, batch))]
    return [objectives, digest(whole), digest(split.collect(again)), again.steps, own]


def check_lent(split: Any) -> None:
    """What a rank sends lies in memory that it shares, if there is any, and is counted."""
    if launched() is None:
        return
    made = split.latest
    sends = any(isinstance(one, Send) for program in made.programs for one in program.instructions)
    assert bool(made.lent) is sends
    lent = made.lent if join().shares_memory else {}
    both = [key for (owner, key), readers in lent.items() if RANK in (owner, *readers)]
    nbytes = sum(int(made.values[key.value][1].nbytes) for key in both)
    held = split.memory(made.sizes).ranks[RANK].parts
    assert held["messages"] >= nbytes


def check_sums() -> None:
    """Sums of all dtypes and sizes, in several buckets, have the bits of adding in order: in memory
    that ranks share, and by messages."""
    world = join()
    ranks = tuple(range(world.count))
    is_shared = sys.platform == "linux" and os.environ.get(TRANSPORT, "") != "mpi"
    _check_sums(world, ranks)
    assert (world.near[ranks, False] is not None) == world.shares_memory == is_shared
    shared, world.near = world.near, dict.fromkeys(world.near)
    _check_sums(world, ranks)
    world.near = shared


def _check_sums(world: World, ranks: tuple[int, ...]) -> None:
    shapes = [(), (0, 3), (1,), (7,), (530_001,), (3, 5), (550, 1000), (2,)]
    kinds = [np.float32, np.float64, np.float64, np.float32, np.float64, np.int64, np.float64]
    given = [[np.random.default_rng(rank).random(shape) for shape in shapes] for rank in ranks]
    arrays = [
        [np.asarray(9 * one - 4, kinds[i % len(kinds)]) for i, one in enumerate(own)]
        for own in given
    ]
    arrays = [[np.asfortranarray(one) for one in own] for own in arrays]
    found = added(world, arrays[world.rank], ranks, lambda: "adds")
    for number, total in enumerate(found):
        wanted = arrays[0][number].copy()
        for own in arrays[1:]:
            wanted += own[number]
        assert total.dtype == wanted.dtype
        np.testing.assert_array_equal(total, wanted)
    if world.count == 4:  # of some ranks alone
        half = (0, 2) if world.rank in (0, 2) else (1, 3)
        (total,) = added(world, [arrays[world.rank][4]], half, lambda: "adds")
        np.testing.assert_array_equal(total, arrays[half[0]][4] + arrays[half[1]][4])


def equal(file: str, cases: str) -> None:
    check_sums()
    found = [trained(*one) for one in json.loads(cases)]
    Path(f"{file}-{RANK}").write_text(json.dumps(found))


def fail(how: str) -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=("h1",))
    state = split.init(weights)
    if how == "before" and RANK == 1:
        raise ValueError("one rank alone, before the first step")
    split(state, batch)
    split(state, batch)
    print(f"pid {os.getpid()}\n", end="", flush=True)  # in one write: ranks share the pipe
    if RANK == 1:
        if how == "raise":
            raise ValueError("one rank alone")
        if how == "raise in thread":
            thread = threading.Thread(target=lambda: 1 // 0)
            thread.start()
            time.sleep(30)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "sleep":
            time.sleep(60)
        if how == "sys.exit":
            sys.exit(0)
        if how == "os._exit":
            os._exit(0)
    while how == "steps":  # until something ends the job
        split(state, batch)
        print(f"step {state.steps}\n", end="", flush=True)
        time.sleep(0.02)
    if how == "wait":
        print("waiting\n", end="", flush=True)
        time.sleep(60)
    if how == "index":  # an error inside a step, on the rank that has the last stage
        batch = {**batch, "y": np.where(np.arange(24) == 20, 7, batch["y"])}
    split(state, batch)


def refuse(file: str) -> None:
    """What each rank says to what the others do not do; the states stay as they were."""
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=("h1",))
    state = split.init(weights)
    said: dict[str, Any] = {}

    def attempt(what: str, step: Any, state: Any, batch: Any) -> None:
        try:
            step(state, batch)
        except cr.errors.ChainruleError as error:
            said[what] = f"{type(error).__name__}: {error}"

    other = RANK == 1
    flipped = {**batch, "x": np.flip(batch["x"], 0)}
    fewer = {name: array[:12] for name, array in batch.items()}
    finer = cr.parallel(step, micro_batches=12, stages=("h1",))
    shifted = split.init({**weights, "W1": weights["W1"] + 1e-9})
    attempt("other parameters", split, shifted if other else split.init(weights), batch)
    attempt("other batch", split, state, flipped if other else batch)
    attempt("other number", split, state, {**batch, "learning_rate": 0.2 if other else 0.1})
    attempt("other size", split, state, fewer if other else batch)
    attempt("other graph", finer if other else split, state, batch)
    with patched(splitting, "VERSION", "0.0.7" if other else splitting.VERSION):
        again = cr.parallel(step, micro_batches=6, stages=("h1",))
        attempt("other version", again, state, batch)
    assert state.steps == 0 and len(said) == 6
    split(state, batch)
    before = digest(state)
    attempt("other batch later", split, state, flipped if other else batch)
    with patched(overlap, "LEAST_NBYTES", 1), patched(join(), "shares_memory", False):
        replicas = cr.parallel(step, micro_batches=6, replicas=2)
        apart = replicas.init(weights)
        replicas(apart, batch)
        attempt("other batch of replicas", replicas, apart, flipped if other else batch)
        replicas(apart, batch)
    assert digest(state) == before and (state.steps, apart.steps) == (1, 2)
    later = split.restore({**split.collect(state)}, steps=1 if other else 5)
    attempt("other steps", split, later, batch)
    attempt("elsewhere", step, state, batch)
    if other:
        attempt("parameters", lambda state, _: state.parameters, state, None)
        attempt("one array", lambda state, _: state["W1"], state, None)
    trace = split.trace(state, batch)
    said["trace"] = [float(trace.objective).hex(), trace.measured.json()["ranks"]]
    split(state, batch)
    said["objective"] = float(split(state, batch)).hex()
    Path(f"{file}-{RANK}").write_text(json.dumps(said))
    sys.exit(3)


if __name__ == "__main__":
    {"equal": equal, "fail": fail, "refuse": refuse}[sys.argv[1]](*sys.argv[2:])
