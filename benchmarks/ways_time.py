"""The ways to train of `cr.ways`, predicted and measured.

    python benchmarks/ways_time.py [--programs MLP LSTM]

For each program, the speeds of the machine are measured, ways are planned with them, and steps are
taken in each way that fits.  A line is the predicted and the measured milliseconds of a step, and
the measured by the predicted; below, how many are within 20 %, and whether the quickest three that
keep the training come in the predicted order: none took over 5 % longer than one behind it.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.advice.ways.ways import TIED

TOLERANCE = 0.2  # of the measured time
n = cr.size("n")
rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Random numbers with the spread of 1 / sqrt(inputs)."""
    inputs = shape[0] if len(shape) == 2 else np.prod(shape[1:])
    return (rng.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    """Of float32."""
    return np.zeros(shape, np.float32)


def mlp() -> tuple[Any, dict[str, Any], int]:
    """784-512-512-10."""

    def objective(x: cr.float32[n, 784], y: cr.int64[n], W1, b1, W2, b2, W3):
        h = np.tanh(np.tanh(x @ W1 + b1) @ W2 + b2)
        return cr.cross_entropy(h @ W3, y)

    hidden = {"W1": weights(784, 512), "b1": zeros(512), "W2": weights(512, 512), "b2": zeros(512)}
    return objective, {**hidden, "W3": weights(512, 10)}, 512


def deep() -> tuple[Any, dict[str, Any], int]:
    """20 layers of 128 units."""

    def objective(x: cr.float32[n, 128], W):
        h = x
        for w in W:
            h = np.tanh(h @ w)
        return np.mean((h - x) ** 2)

    return objective, {"W": [weights(128, 128) for _ in range(20)]}, 1024


def convolutions() -> tuple[Any, dict[str, Any], int]:
    """Two convolutions 5 x 5 with pooling."""

    def objective(x: cr.float32[n, 1, 28, 28], y: cr.int64[n], K1, K2, W):
        h = cr.max_pool2d(np.maximum(cr.conv2d(x, K1), 0), 2)
        h = cr.max_pool2d(np.maximum(cr.conv2d(h, K2), 0), 2)
        return cr.cross_entropy(h.reshape(h.shape[0], -1) @ W, y)

    kernels = {"K1": weights(16, 1, 5, 5), "K2": weights(32, 16, 5, 5)}
    return objective, {**kernels, "W": weights(512, 10)}, 256


def recurrent() -> tuple[Any, dict[str, Any], int]:
    """40 steps of 128 units."""

    def objective(x: cr.float32[n, 40, 32], y: cr.int64[n], U, W, V):
        def cell(h, xt):
            h = np.tanh(xt @ U + h @ W)
            return h, h

        h, _ = cr.scan(cell, np.zeros_like(x, shape=(x.shape[0], 128)), np.swapaxes(x, 0, 1))
        return cr.cross_entropy(h @ V, y)

    return objective, {"U": weights(32, 128), "W": weights(128, 128), "V": weights(128, 10)}, 128


def transformer() -> tuple[Any, dict[str, Any], int]:
    """4 blocks, 64 wide, 4 heads, length 64."""
    width, heads, length = 64, 4, 64

    def split(a):
        return np.swapaxes(a.reshape(a.shape[0], length, heads, width // heads), 1, 2)

    def block(h, Wq, Wk, Wv, Wo, W1, W2):
        z = cr.layer_norm(h)
        q, k, v = (split(z @ one) for one in (Wq, Wk, Wv))
        a = cr.softmax(q @ np.swapaxes(k, -1, -2) / 4.0) @ v
        h = h + np.swapaxes(a, 1, 2).reshape(h.shape[0], length, width) @ Wo
        return h + np.maximum(cr.layer_norm(h) @ W1, 0) @ W2

    def objective(x: cr.float32[n, 64, 64], y: cr.int64[n], blocks, V):
        h = x
        for one in blocks:
            h = block(h, *one)
        return cr.cross_entropy(np.mean(h, axis=1) @ V, y)

    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    blocks = [[weights(*shape) for shape in shapes] for _ in range(4)]
    return objective, {"blocks": blocks, "V": weights(width, 10)}, 64


def autoencoder() -> tuple[Any, dict[str, Any], int]:
    """784-256-32-256-784."""

    def objective(x: cr.float32[n, 784], Ws, bs):
        h = x
        for W, b in zip(Ws[:-1], bs[:-1], strict=True):
            h = np.maximum(h @ W + b, 0)
        return np.mean((cr.sigmoid(h @ Ws[-1] + bs[-1]) - x) ** 2)

    sizes = (784, 256, 32, 256, 784)
    Ws = [weights(*pair) for pair in itertools.pairwise(sizes)]
    return objective, {"Ws": Ws, "bs": [zeros(size) for size in sizes[1:]]}, 256


def lstm() -> tuple[Any, dict[str, Any], int]:
    """50 steps of 64 units."""
    units = 64

    def objective(x: cr.float32[n, 50, 24], y: cr.int64[n], U, W, b, V):
        def cell(state, xt):
            h, c = state
            gates = xt @ U + h @ W + b
            i, f, o, u = (gates[:, k * units : (k + 1) * units] for k in range(4))
            c = cr.sigmoid(f) * c + cr.sigmoid(i) * np.tanh(u)
            h = cr.sigmoid(o) * np.tanh(c)
            return (h, c), h

        begin = np.zeros_like(x, shape=(x.shape[0], units))
        (h, _), _ = cr.scan(cell, (begin, begin), np.swapaxes(x, 0, 1))
        return cr.cross_entropy(h @ V, y)

    gates = {"U": weights(24, 4 * units), "W": weights(units, 4 * units), "b": zeros(4 * units)}
    return objective, {**gates, "V": weights(units, 10)}, 64


def normalised() -> tuple[Any, dict[str, Any], int]:
    """Two convolutions 3 x 3 with batch normalisation."""

    def norm(h, g, b):
        mean = np.mean(h, axis=(0, 2, 3), keepdims=True)
        variance = np.mean((h - mean) ** 2, axis=(0, 2, 3), keepdims=True)
        return (h - mean) / np.sqrt(variance + 1e-5) * g[:, None, None] + b[:, None, None]

    def objective(x: cr.float32[n, 3, 16, 16], y: cr.int64[n], K1, g1, b1, K2, g2, b2, W):
        h = np.maximum(norm(cr.conv2d(x, K1), g1, b1), 0)
        h = cr.max_pool2d(np.maximum(norm(cr.conv2d(h, K2), g2, b2), 0), 2)
        return cr.cross_entropy(h.reshape(h.shape[0], -1) @ W, y)

    first = {"K1": weights(24, 3, 3, 3), "g1": zeros(24) + 1, "b1": zeros(24)}
    second = {"K2": weights(32, 24, 3, 3), "g2": zeros(32) + 1, "b2": zeros(32)}
    return objective, {**first, **second, "W": weights(32 * 36, 10)}, 128


PROGRAMS: dict[str, Callable[[], tuple[Any, dict[str, Any], int]]] = {
    "MLP": mlp,
    "deep MLP": deep,
    "convolutions": convolutions,
    "recurrent": recurrent,
    "transformer": transformer,
    "autoencoder": autoencoder,
    "LSTM": lstm,
    "batch norm": normalised,
}


def one(name: str) -> None:
    """Measure and print one program."""
    objective, parameters, batch = PROGRAMS[name]()
    step = cr.training_step(
        objective, tuple(parameters), cr.adam(), executor="native", **parameters
    )
    found = cr.ways(step, batch=batch, speeds=cr.measured_speeds(), progress=False).measure()
    ways = [way for way in found.fitting if way.measured_seconds is not None]
    print(name)
    close = 0
    for way in ways:
        predicted, measured = way.seconds * 1e3, (way.measured_seconds or 0.0) * 1e3
        close += abs(predicted / measured - 1) <= TOLERANCE
        print(f"  {way.what:40} {predicted:8.2f} {measured:8.2f} {measured / predicted:6.2f}")
    first = [way.measured_seconds or 0.0 for way in ways if way.trajectory != "other"][:3]
    pairs = itertools.combinations(first, 2)
    right = all(before <= behind * (1 + TIED) for before, behind in pairs)
    print(
        f"  {close} of {len(ways)} within {TOLERANCE:.0%}; first three in order: {right}"
        f" (to the last percent: {first == sorted(first)})",
        flush=True,
    )


def main() -> None:
    """All programs, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    for name in parser.parse_args().programs:
        one(name)


if __name__ == "__main__":
    main()
