"""What the tests run as ranks of one program: `spread_ranks.py equal FILE`, `fail HOW`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

from tensor_models import case, error

import chainrule as cr
from chainrule.devices.job import launched

RANK = (launched() or (0, 1))[0]
PLANS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("network", "adamw", {"micro_batches": 4, "replicas": 2}),
    ("layers", "momentum", {"micro_batches": 1, "ways": 2}),
    ("layers", "adamw", {"micro_batches": 2, "replicas": 2, "shard_optimizer": True}),
)


def equal(file: str) -> None:
    """Plans on two ranks are the step on one."""
    found = {}
    for model, optimizer, options in PLANS:
        step, weights, batch = case(model, optimizer, "xla")
        split = cr.parallel(step, **options)
        whole = case(model, optimizer, "reference")[0].micro_batched(options["micro_batches"])
        state, wanted = split.init(weights), whole.init(weights)
        for _ in range(3):
            objective, other = split(state, batch), whole(wanted, batch)
            assert abs(objective / other - 1) < 1e-12
        assert state.home.newer, "the state stays on the devices"
        traced(split, state, batch)
        whole(wanted, batch)
        found[f"{model} {optimizer}"] = error(split.collect(state), wanted)
    Path(f"{file}-{RANK}").write_text(json.dumps(found))


def traced(split: cr.ParallelStep, state: cr.State, batch: dict[str, Any]) -> None:
    """A trace, which is a step, has what both ranks do, on one clock."""
    begun = perf_counter()
    trace = split.trace(state, batch)
    taken = perf_counter() - begun
    own = [[one for one in trace.operations if one.rank == rank] for rank in range(2)]
    assert [one.name for one in own[0]] == [one.name for one in own[1]]
    exchanges = [[one for one in x if one.doing in ("adding up", "gathering")] for x in own]
    for one, other in zip(*exchanges, strict=True):  # nobody ends before the other has begun
        assert one.start < other.end and other.start < one.end
    assert len(trace.measured.ranks) == 2 and 0 < trace.measured.seconds < taken


def fail(how: str) -> None:
    """Rank 1 fails before its third step; `soon`, in one of its steps."""
    if how == "early":
        import jax

        jax.devices()
    step, weights, batch = case("network", "adamw", "xla")
    split = cr.parallel(step, micro_batches=2, replicas=2)
    state = split.init(weights)
    if how == "soon":
        split(state, batch)
        if RANK == 1:
            print(f"pid {os.getpid()}", flush=True)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            split(state, batch)
    for number in range(4):
        if number == 2 and RANK == 1:
            print(f"pid {os.getpid()}", flush=True)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "raise":
                raise ValueError("rank 1 has had enough")
            if how == "leave":
                sys.exit(0)
        if number == 2 and how == "index":
            batch["y"][13] = 9
        split(state, batch)


if __name__ == "__main__":
    {"equal": equal, "fail": fail}[sys.argv[1]](sys.argv[2])
