"""What the tests train as ranks: `training_program.py FUNCTION ARGUMENTS`, arguments as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from carrying_models import carrying as carried
from parallel_models import OPTIMIZERS, n

import chainrule as cr
from chainrule import float64, int64
from chainrule.devices.job import launched

RANK = (launched() or (0, 1))[0]
ROWS, BATCH, STEPS = 84, 24, 4  # steps of an epoch; the last has 12 rows
SHAPES = {"W1": (4, 6), "b1": (6,), "W2": (6, 6), "W3": (6, 3)}
TIMES = ("seconds", "samples_per_second")
PLANS: dict[str, dict[str, Any] | None] = {
    "two stages": {"stages": 2},
    "two replicas": {"replicas": 2},
    "three stages": {"stages": 3, "schedule": "gpipe"},
    "two shards": {"ways": 2, "split": {"W1": 0}},
    "a sharded optimizer": {"replicas": 2, "shard_optimizer": True},
    "a search": {  # only two stages fit
        "devices": cr.Devices.cpu(2, memory=5000),
        "batch": BATCH,
        "ways": 1,
        "replicas": 1,
    },
    "alone": None,
}


def network(
    x: float64[n, 4],
    y: int64[n],
    W1: float64[4, 6],
    b1: float64[6],
    W2: float64[6, 6],
    W3: float64[6, 3],
    decay=0.1,
):
    h1 = np.tanh(x @ W1 + b1)
    h2 = np.tanh(h1 @ W2)
    o = h2 @ W3
    J = cr.cross_entropy(o, y) + decay * (np.sum(W1**2) + np.sum(W3**2))
    return J


def carrying(devices: bool, **options: Any) -> cr.Trainer:
    """A trainer of a network with running statistics, on ranks of threads or in one process."""
    step, weights, _ = carried("running", "scheduled")
    random = np.random.default_rng(1)
    rows = {"x": random.normal(size=(ROWS, 4)), "y": random.normal(size=(ROWS, 3))}
    usual = {"data": rows, "batch_size": BATCH, "validation": rows, "progress": False}
    if devices:
        usual |= {"devices": cr.Devices.cpu(2), "micro_batches": 6}
    else:
        step = step.micro_batched(6)
    return cr.Trainer(step, weights, **{**usual, **options})


def data(rows: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=(rows, 4)), "y": random.integers(0, 3, rows)}


def made(
    plan: str, optimizer: str = "scheduled", of: str = "reference", parts: int = 6, **options: Any
) -> cr.Trainer:
    """A trainer with all that goes on: dropout of none, but order, optimizer, history, the best;
    of a step of the executor `of`."""
    rule = OPTIMIZERS[optimizer]()
    step = cr.training_step(network, tuple(SHAPES), rule, executor=of)
    asked = PLANS[plan]
    taken = step if asked is None else cr.parallel(step, micro_batches=parts, **asked)
    taken = step if "devices" in options else taken
    random = np.random.default_rng(7)
    weights = {name: random.normal(size=shape) for name, shape in SHAPES.items()}
    usual = {"validation": data(70, 2), "accuracy": ("o", "y"), "progress": False, "log_every": 3}
    if asked is None and "accuracy" not in options:
        usual["accuracy"] = None  # a step that is not split counts, in one more array
    options = {"batch_size": BATCH, **usual, **options}
    return cr.Trainer(taken, weights, data=options.pop("data", data(ROWS, 1)), **options)


def digests(state: Any) -> dict[str, str]:
    return {name: hashlib.sha256(state[name].tobytes()).hexdigest()[:12] for name in state}


def summary(trainer: cr.Trainer) -> dict[str, Any]:
    """What a training has come to; every rank asks."""
    whole = trainer.collect()
    measures = trainer.evaluate(data(70, 2))
    scores = trainer.predict(x=data(70, 2)["x"], output="o")
    split = trainer.split
    return {
        "plan": split.candidates[0].words if split and split.candidates else "",
        "arrays": digests(whole),
        "numbers": {name: whole[name].tolist() for name in whole},
        "at": [trainer.epoch, trainer.state.steps],
        "history": [{k: v for k, v in line.items() if k not in TIMES} for line in trainer.history],
        "objective": measures.objective,
        "confusion": None if measures.confusion is None else measures.confusion.tolist(),
        "scores": hashlib.sha256(scores.tobytes()).hexdigest()[:12],
    }


def trained(plan: str, epochs: int, **options: Any) -> dict[str, Any]:
    trainer = made(plan, **options)
    trainer.fit(epochs)
    return summary(trainer)


def train(file: str, runs: list[tuple[str, int, dict[str, Any]]]) -> None:
    """Each of the trainings in turn; every rank writes what it has come to."""
    found = [trained(plan, epochs, **options) for plan, epochs, options in runs]
    Path(f"{file}-{RANK}").write_text(json.dumps(found))


def diverge(file: str, folder: str, runs: list[tuple[str, str]]) -> None:
    """Trainings whose data have an inf, each of a plan and of what its `nonfinite` says."""
    bad = data(ROWS, 1)
    bad["x"][50, 2] = np.inf
    found = []
    for plan, nonfinite in runs:
        own = f"{folder}/{plan}/{nonfinite}"
        trainer = made(plan, data=bad, folder=own, nonfinite=nonfinite, key=cr.random.key(3))
        try:
            trainer.fit(3)
        except cr.errors.NonFiniteError as error:
            found.append([str(error), trainer.state.steps, digests(trainer.collect())])
    assert len(found) == len(runs), "one was trained to the end"
    Path(f"{file}-{RANK}").write_text(json.dumps(found))


def told(file: str, folder: str, number: int, rank: int) -> None:
    """Trains until a signal ends it: number 0 is one that comes from elsewhere."""
    steps = 0

    def batches(epoch: int) -> Any:
        nonlocal steps
        for batch in cr.data.minibatches(data(ROWS, 1), BATCH, cr.random.key(1), epoch=epoch):
            if steps == 9:
                # in one write: ranks share the pipe
                print(f"begun {os.getpid()}\n", end="", flush=True)
                time.sleep(float(os.environ.get("SLOW", "0")))
                if rank == RANK and number:
                    os.kill(os.getpid(), number)
            steps += 1
            yield batch

    trainer = made("two stages", folder=folder, progress=True, data=batches)
    try:
        trainer.fit(100_000)
    finally:
        Path(f"{file}-{RANK}").write_text(json.dumps(trainer.state.steps))


def full(folder: str, rank: int) -> None:
    """From the second epoch on, no file of a rank may be longer than some bytes."""
    trainer = made("two stages", folder=folder, log_every=None)
    for epoch in trainer.epochs(4):
        if epoch.number == 1 and rank == RANK:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
    print(f"done {trainer.epoch}\n", end="", flush=True)


def apart(how: str) -> None:
    """One rank alone leaves the loop, or saves."""
    trainer = made("two stages")
    for epoch in trainer.epochs(3):
        if epoch.number == 2 and RANK == 1:
            if how == "break":
                break
            trainer.collect()


if __name__ == "__main__":
    globals()[sys.argv[1]](*map(json.loads, sys.argv[2:]))
