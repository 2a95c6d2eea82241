"""One process of `parallel.py`: steps of chainrule in one process, on threads, or as a rank.

    parallel_ranks.py alone|ranks SECONDS

Prints the seconds of each job, measured in turns, as JSON; of ranks, the first one does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from cases.transformer_objective import initial_parameters, objective, random_tokens

import chainrule as cr
from chainrule.devices.job import launched

WIDTH, ROWS, PARTS = 1024, 512, 8
SCHEDULES = ("gpipe", "1f1b", "zb-h1", "zb-h2")
TRANSFORMER = {"vocabulary": 256, "length": 64, "width": 128, "depth": 2}
BATCH = 16
TRACES = 9

n = cr.size("n")
Matrix = cr.float32[WIDTH, WIDTH]


def mlp(
    x: cr.float32[n, WIDTH],
    y: cr.float32[n, WIDTH],
    W1: Matrix,
    W2: Matrix,
    W3: Matrix,
    W4: Matrix,
):
    h = np.tanh(np.tanh(np.tanh(x @ W1) @ W2) @ W3)
    J = np.mean((np.tanh(h @ W4) - y) ** 2)
    return J


def mlp_arrays() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    weights = {f"W{number}": normal(WIDTH, WIDTH) / 32 for number in range(1, 5)}
    return weights, {"x": normal(ROWS, WIDTH), "y": normal(ROWS, WIDTH)}


def transformer_arrays() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    tokens, targets = random_tokens(TRANSFORMER["vocabulary"], TRANSFORMER["length"], BATCH)
    return {"params": initial_parameters(**TRANSFORMER)}, {"tokens": tokens, "targets": targets}


def transformer_step() -> Any:
    weights, _ = transformer_arrays()
    rows = cr.int64[n, TRANSFORMER["length"]]
    types: dict[str, Any] = {"tokens": rows, "targets": rows}
    return cr.training_step(objective, "params", cr.adamw(1e-3), params=weights["params"], **types)


Job = Callable[[], Any]


def alone() -> dict[str, Job]:
    """What ranks are measured by: whole batches, and one in parts, in one process."""
    found: dict[str, Job] = {}
    made = (
        ("mlp", cr.training_step(mlp, ("W1", "W2", "W3", "W4"), cr.sgd(0.1)), mlp_arrays()),
        ("transformer", transformer_step(), transformer_arrays()),
    )
    for name, step, (weights, batch) in made:
        parts = step.micro_batched(PARTS)
        for words, one in ((name, step), (f"{name} in {PARTS} parts", parts)):
            state = one.init(weights)
            found[words] = lambda one=one, state=state, batch=batch: one(state, batch)
    return found


def ranks() -> tuple[dict[str, Job], dict[str, Any]]:
    """Pipelines and replicas on two ranks; and the splits that are traced."""
    step = cr.training_step(mlp, ("W1", "W2", "W3", "W4"), cr.sgd(0.1))
    weights, batch = mlp_arrays()
    made = {
        f"pipeline, {one}": cr.parallel(step, micro_batches=PARTS, stages=2, schedule=one)
        for one in SCHEDULES
    }
    made["replicas of the mlp"] = cr.parallel(step, micro_batches=2, replicas=2)
    found: dict[str, Job] = {}
    traced: dict[str, Any] = {}
    for name, split in made.items():
        state = split.init(weights)
        found[name] = lambda split=split, state=state: split(state, batch)
        traced[name] = split, state, batch, {"n": ROWS}
    weights, tokens = transformer_arrays()
    split = cr.parallel(transformer_step(), micro_batches=2, replicas=2)
    state = split.init(weights)
    found["replicas of the transformer"] = lambda: split(state, tokens)
    traced["replicas of the transformer"] = split, state, tokens, {"n": BATCH}
    return found, traced


def in_turns(jobs: dict[str, Job], seconds: float) -> dict[str, list[float]]:
    """As many steps of each job, one after the other, as there is time for."""
    for job in jobs.values():
        job()
        job()
    begun = perf_counter()
    for job in jobs.values():
        job()
    count = max(5, round(seconds / (perf_counter() - begun)))
    if launched() is not None:  # all ranks take as many steps
        from chainrule.devices.mpi import join

        count = join().exchange("counts steps", count)[0]
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(count):
        for name, job in jobs.items():
            job()  # what another job has left in the caches does not count
            begun = perf_counter()
            job()
            found[name].append(perf_counter() - begun)
    return found


def told(traced: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Predicted seconds, and what share of adding up is hidden, where something is added up."""
    speeds = cr.measured_speeds()
    found = {}
    for name, (split, state, batch, sizes) in traced.items():
        one = {
            "predicted": split.timeline(sizes, speeds=speeds).step_seconds,
            "predicted of a known processor": split.timeline(sizes).step_seconds,
        }
        if "replicas" in name:
            shares = [split.trace(state, batch).measured.hidden for _ in range(TRACES)]
            one |= {"hidden": median(shares)} if shares[0] is not None else {}
        found[name] = one
    return found


def main() -> None:
    kind, seconds = sys.argv[1], float(sys.argv[2])
    jobs, traced = (alone(), {}) if kind == "alone" else ranks()
    found = in_turns(jobs, seconds)
    job = launched()
    result: dict[str, Any] = {"seconds": found}
    if traced:
        result["told"] = told(traced)
    if job is None or job[0] == 0:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
