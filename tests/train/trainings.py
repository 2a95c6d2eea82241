"""Small trainings: objectives, data and weights, and what two of them have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64, int64, uint32
from chainrule.machine_code.target import native_refusal

n = cr.size("n")
ROWS, BATCH = 100, 8  # 13 batches, the last of 4 rows
TIMES = ("seconds", "samples_per_second")
EXECUTORS = ("reference", "native") if native_refusal() is None else ("reference",)


def plain(x: float64[n, 5], y: int64[n], W1: float64[5, 7], W2: float64[7, 3]):
    h = np.tanh(x @ W1)
    o = h @ W2
    J = cr.cross_entropy(o, y)
    return J


def dropping(
    x: float64[n, 5], y: int64[n], W1: float64[5, 7], W2: float64[7, 3], key: uint32[2], rate=0.3
):
    first, second = cr.random.split(key)
    h = np.tanh(cr.dropout(x, 0.1, key=first) @ W1)
    o = cr.dropout(h, rate, key=second) @ W2
    J = cr.cross_entropy(o, y)
    return J


OPTIMIZERS: dict[str, Any] = {
    "momentum": lambda: cr.sgd(0.1, momentum=0.9),
    "adam": lambda: cr.adam(0.01),
    "scheduled": lambda: cr.clip_by_global_norm(
        cr.adamw(cr.schedules.cosine(0.02, steps=104, warmup=10)), 0.5
    ),
}


def data(rows: int = ROWS, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 5))
    return {"x": x, "y": np.argmax(x[:, :3] + 0.5 * random.normal(size=(rows, 3)), axis=1)}


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"W1": 0.5 * random.normal(size=(5, 7)), "W2": 0.5 * random.normal(size=(7, 3))}


def lines(folder: Path) -> list[dict[str, Any]]:
    """The history that a trainer wrote into its folder."""
    text = (folder / "history.jsonl").read_text("utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def trainer(objective: Any = plain, optimizer: Any = None, **options: Any) -> cr.Trainer:
    """On 100 rows in 13 batches; by reference, quietly, if nothing else is said."""
    chosen = {"data": data(), "batch_size": BATCH, "progress": False, "executor": "reference"}
    if optimizer is None:
        optimizer = cr.sgd(0.1)
    return cr.Trainer(objective, weights(), optimizer, **{**chosen, **options})


def arrays(state: cr.State) -> dict[str, bytes]:
    """All bytes of a state, by name."""
    return {name: array.tobytes() for name, array in state.items()}


def untimed(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines without the times, which differ from run to run."""
    return [{k: v for k, v in line.items() if k not in TIMES} for line in history]
