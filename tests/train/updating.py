"""Optimizers and schedules, an objective to try them on, and referees written with NumPy."""

from __future__ import annotations

import math

import numpy as np

import chainrule as cr
from chainrule import float64

STEPS = 100
RTOL = 1e-10  # of the largest element: some 100 steps of rounding in float64, 1e-16 each

OPTIMIZERS = {
    "sgd": (cr.sgd, dict(learning_rate=0.1)),
    "sgd with decay": (cr.sgd, dict(learning_rate=0.1, weight_decay=0.03)),
    "momentum": (cr.sgd, dict(learning_rate=0.05, momentum=0.9)),
    "momentum with decay": (cr.sgd, dict(learning_rate=0.05, momentum=0.8, weight_decay=0.03)),
    "nesterov": (cr.sgd, dict(learning_rate=0.05, momentum=0.9, nesterov=True)),
    "nesterov with decay": (
        cr.sgd,
        dict(learning_rate=0.05, momentum=0.9, nesterov=True, weight_decay=0.03),
    ),
    "rmsprop": (cr.rmsprop, dict(learning_rate=0.01)),
    "rmsprop with decay": (cr.rmsprop, dict(learning_rate=0.01, alpha=0.8, weight_decay=0.03)),
    "rmsprop with momentum": (cr.rmsprop, dict(learning_rate=0.01, momentum=0.9, eps=1e-3)),
    "rmsprop centered": (cr.rmsprop, dict(learning_rate=0.01, alpha=0.9, centered=True)),
    "rmsprop with all": (
        cr.rmsprop,
        dict(learning_rate=0.005, momentum=0.5, centered=True, weight_decay=0.03),
    ),
    "adam": (cr.adam, dict(learning_rate=0.02)),
    "adam with decay": (cr.adam, dict(learning_rate=0.02, betas=(0.8, 0.95), weight_decay=0.03)),
    "adam with a large eps": (cr.adam, dict(learning_rate=0.02, eps=0.1)),
    "adam without memory": (cr.adam, dict(learning_rate=0.01, betas=(0.0, 0.0), eps=1e-3)),
    "adamw": (cr.adamw, dict(learning_rate=0.02)),
    "adamw with much decay": (cr.adamw, dict(learning_rate=0.02, weight_decay=0.5)),
    "adamw without decay": (cr.adamw, dict(learning_rate=0.02, weight_decay=0.0)),
}

SCHEDULES = {
    "step": lambda rate: cr.schedules.step(rate, every=15, factor=0.7),
    "piecewise": lambda rate: cr.schedules.piecewise(rate, boundaries=(20, 30, 70), factor=0.5),
    "cosine": lambda rate: cr.schedules.cosine(rate, steps=80, warmup=12, floor=rate / 50),
}
MAX_NORM = 0.15  # of gradients whose norms go from 3 down to 0.07: some are clipped


def objective(x: float64["n 3"], y: float64["n"], W: float64[3, 4], w: float64[4], scale=0.5):
    h = np.tanh(x @ W)
    J = np.mean((h @ w * scale - y) ** 2)
    return J


def given() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    w, scale = random.normal(size=4), np.array(0.5)
    return {"W": random.normal(size=(3, 4)), "w": w, "scale": scale}


def batch(step: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(step + 1)
    return {"x": random.normal(size=(8, 3)), "y": random.normal(size=8)}


class Referee:
    """The update of one parameter, from the papers: Sutskever et al., Tieleman and Hinton, Graves,
    Kingma and Ba, Loshchilov and Hutter."""

    def __init__(self, kind, learning_rate, weight_decay=None, **options):
        self.kind, self.rate, self.options = kind, learning_rate, options
        self.decay = (0.01 if kind == "adamw" else 0) if weight_decay is None else weight_decay
        self.t, self.m, self.v, self.velocity = 0, 0.0, 0.0, 0.0

    def after(self, W, g):
        self.t += 1
        return getattr(self, self.kind)(W, g)

    def sgd(self, W, g):
        momentum = self.options.get("momentum", 0.0)
        g = g + self.decay * W
        self.v = momentum * self.v + g
        ahead = momentum * self.v + g if self.options.get("nesterov") else self.v
        return W - self.rate * ahead

    def rmsprop(self, W, g):
        g, alpha = g + self.decay * W, self.options.get("alpha", 0.99)
        self.v = alpha * self.v + (1 - alpha) * g**2
        self.m = alpha * self.m + (1 - alpha) * g if self.options.get("centered") else 0.0
        move = g / (np.sqrt(self.v - self.m**2) + self.options.get("eps", 1e-8))
        self.velocity = self.options.get("momentum", 0.0) * self.velocity + move
        return W - self.rate * self.velocity

    def adam(self, W, g):
        return W - self.moved(g + self.decay * W)

    def adamw(self, W, g):
        return W - self.rate * self.decay * W - self.moved(g)

    def moved(self, g):
        beta1, beta2 = self.options.get("betas", (0.9, 0.999))
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * g**2
        mean, square = self.m / (1 - beta1**self.t), self.v / (1 - beta2**self.t)
        return self.rate * mean / (np.sqrt(square) + self.options.get("eps", 1e-8))


def optimizer_of(name: str, schedule: str | None = None, clips: bool = False) -> cr.Optimizer:
    """An entry of OPTIMIZERS, perhaps with a schedule of its learning rate, perhaps clipping."""
    make, options = OPTIMIZERS[name]
    rate = options["learning_rate"]
    one = make(**{**options, "learning_rate": SCHEDULES[schedule](rate) if schedule else rate})
    return cr.clip_by_global_norm(one, MAX_NORM) if clips else one


def rate_at(name: str, rate: float, t: int) -> float:
    """The learning rate of SCHEDULES[name](rate) in the step after t others, from its formula."""
    if name == "step":
        return rate * 0.7 ** (t // 15)
    if name == "piecewise":
        return rate * (1 if t < 20 else 0.5 if t < 30 else 0.25 if t < 70 else 0.125)
    if t < 12:
        return rate * t / 12
    floor, done = rate / 50, min((t - 12) / (80 - 12), 1)
    return floor + (rate - floor) * 0.5 * (1 + math.cos(math.pi * done))


def clipped(gradients: list[np.ndarray], max_norm: float) -> list[np.ndarray]:
    """The gradients times the smaller of 1 and max_norm / (norm of all of them + 1e-6)."""
    norm = np.linalg.norm(np.concatenate([np.ravel(g) for g in gradients]))
    return [g * min(1, max_norm / (norm + 1e-6)) for g in gradients]


def assert_close(state, expected):
    for name, value in expected.items():
        error = np.abs(state[name] - value).max()
        assert error <= RTOL * np.abs(value).max(), name
