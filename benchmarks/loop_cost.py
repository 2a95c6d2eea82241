"""What the loop of `cr.Trainer` costs beside the compiled step, in paired turns.

    python benchmarks/loop_cost.py [--rounds 30]

Each row compares one epoch of a trainer with the same steps in a loop written by hand: on batches
that lie ready, also with the accuracy counted, and with batches that both take from
`cr.data.minibatches`.  The networks are 784-256-10 with batches of 256 and 20-64-10 with batches of
32, trained by plain SGD.  The targets are those of the first row: 5 % of a step, and 10 µs.

What a checkpoint costs, most of it waiting for the disk, and a replay after a NaN, is told apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import measure
import numpy as np

import chainrule as cr
from chainrule import float32, int64

KEY = cr.random.key(0)
TIMING = measure.Timing()


n, d, m, c = cr.sizes("n d m c")


def objective(x: float32[n, d], y: int64[n], W1: float32[d, m], W2: float32[m, c]):
    h = np.maximum(x @ W1, 0)
    o = h @ W2
    J = cr.cross_entropy(o, y)
    return J


@dataclass(frozen=True)
class Network:
    """Widths, rows of a batch, and the steps of an epoch."""

    name: str
    widths: tuple[int, int, int]
    rows: int
    steps: int

    def weights(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(0)
        pairs = zip(("W1", "W2"), self.widths, self.widths[1:], strict=False)
        return {n: (0.05 * random.normal(size=(a, b))).astype(np.float32) for n, a, b in pairs}

    def data(self) -> dict[str, np.ndarray]:
        random, count = np.random.default_rng(1), self.rows * self.steps
        x = random.normal(size=(count, self.widths[0])).astype(np.float32)
        return {"x": x, "y": random.integers(0, self.widths[2], count)}

    def batches(self) -> list[dict[str, np.ndarray]]:
        return list(cr.data.minibatches(self.data(), self.rows, shuffle=False))


NETWORKS = (Network("medium", (784, 256, 10), 256, 40), Network("small", (20, 64, 10), 32, 1000))


def step_of() -> cr.TrainingStep:
    return cr.training_step(objective, wrt=("W1", "W2"), optimizer=cr.sgd(1e-3))


def by_hand(network: Network, batches: Callable[[int], Any]) -> Callable[[], Any]:
    """One epoch after another, the steps and nothing else."""
    step = step_of()
    state = step.init(network.weights())
    epoch = 0

    def run() -> None:
        nonlocal epoch
        epoch += 1
        for batch in batches(epoch):
            step(state, batch)

    return run


def trained(network: Network, data: Any, **options: Any) -> Callable[[], Any]:
    """One epoch after another of a trainer."""
    trainer = cr.Trainer(
        step_of(),
        network.weights(),
        data=data,
        batch_size=network.rows,
        progress=False,
        key=KEY,
        **options,
    )
    return lambda: trainer.fit(trainer.epoch + 1)


def cases(network: Network) -> dict[str, tuple[Callable, Callable]]:
    """By name: the loop written by hand, and the trainer."""
    ready, data = network.batches(), network.data()
    order = cr.random.fold_in(KEY, 0)

    def minibatches(epoch: int) -> Any:
        return cr.data.minibatches(data, network.rows, order, epoch=epoch)

    given = by_hand(network, lambda epoch: ready)
    return {
        "batches that lie ready": (given, trained(network, lambda epoch: ready)),
        "and the accuracy": (given, trained(network, lambda epoch: ready, accuracy=("o", "y"))),
        "minibatches": (by_hand(network, minibatches), trained(network, data)),
    }


def checkpoint_seconds(network: Network) -> float:
    """The median time of saving, in a folder of the system's for temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        step = step_of()
        state = step.init(network.weights())
        with cr.Checkpoints(folder, step) as checkpoints:
            taken = []
            for _ in range(20):
                begin = time.perf_counter()
                checkpoints.save(state)
                taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def replay_seconds(network: Network) -> float:
    """From the NaN in the last of 100 steps to the exception with its report."""
    batches = network.batches()[:1] * 100
    bad = {**batches[0], "x": np.full_like(batches[0]["x"], np.nan)}
    begin = 0.0

    def data(epoch: int) -> Any:
        nonlocal begin
        yield from batches[1:] if epoch == 2 else batches
        if epoch == 2:
            begin = begin or time.perf_counter()  # the replay comes here, too
            yield bad

    trainer = cr.Trainer(step_of(), network.weights(), data=data, progress=False)
    trainer.fit(1)
    try:
        trainer.fit(2)
    except cr.errors.DivergenceError:
        return time.perf_counter() - begin
    raise AssertionError("nothing was NaN")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    print(f"{'network':8}{'':26}{'by hand':>12}{'trainer':>12}{'loop':>12}{'':>6}  95 % of loop")
    for network in NETWORKS:
        for name, (hand, trainer) in cases(network).items():
            calls = {"hand": hand, "trainer": trainer}
            samples = measure.alternate(calls, rounds, TIMING)
            theirs, ours = (np.array(samples[n]) / network.steps * 1e6 for n in calls)
            found = measure.median_estimate(list(ours - theirs))
            part = measure.paired_ratio(list(ours), list(theirs)).median - 1
            interval = "" if found.low is None else f"{found.low:.2f} to {found.high:.2f}"
            print(
                f"{network.name:8}{name:26}{np.median(theirs):9.2f} µs{np.median(ours):9.2f} µs"
                f"{found.median:9.2f} µs{part:6.1%}  {interval}"
            )
    for network in NETWORKS:
        checkpoint, replay = checkpoint_seconds(network), replay_seconds(network)
        print(f"{network.name:8}{'a checkpoint':26}{1e3 * checkpoint:9.2f} ms")
        print(f"{network.name:8}{'100 steps after a NaN':26}{1e3 * replay:9.2f} ms")


if __name__ == "__main__":
    main()
