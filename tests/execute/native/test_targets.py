"""The same graphs for processors with other vectors: run where this one can, compiled elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import compare, inputs_of, planned

import chainrule as cr
from chainrule.execute.native.artifact import artifact_of
from chainrule.execute.run import kept_nodes
from chainrule.machine_code.target import cross_target, host_target

RANDOM = np.random.default_rng(5)
LABELS = np.arange(9) * 3 % 13


def mlp(x: Any, W: Any, V: Any) -> Any:
    h = np.maximum(x @ W, 0)
    return cr.cross_entropy(h @ V, LABELS) + 0.1 * np.sum(W**2)


def norms(x: Any, W: Any, V: Any) -> Any:
    y = cr.layer_norm(x @ W) * cr.softmax(x @ W, axis=0)
    return np.sum(cr.gelu(y) + np.sin(y) * np.exp(-y)) + np.max(np.log1p(V**2))


def places(x: Any, W: Any, V: Any) -> Any:
    rows = np.concatenate([x[::-1, 1:], np.pad(x, ((0, 0), (0, 1)))], axis=1)
    return np.sum(np.tanh(rows) ** 3) + np.sum(W[LABELS] * 2) + np.sum(V[:, LABELS] ** 0.5)


def windows(x: Any, W: Any, V: Any) -> Any:
    images, kernel = np.reshape(x, (3, 1, 9, 7)), np.reshape(W[0, :18], (2, 1, 3, 3))
    y = cr.conv2d(images, kernel, stride=2, padding=1)
    y = y + np.sum(np.sin(cr.conv2d(images, kernel)))
    pooled = cr.max_pool2d(y, 2, 1) + cr.avg_pool2d(y, 2, 1)
    running = np.cumprod(V, axis=0) + np.cumprod(V, axis=1)
    return np.sum(pooled**2) + np.sum(running) + np.sum(V[np.argmin(V, axis=0)])


GRAPHS = (mlp, norms, places, windows)
TARGETS = {
    "this processor": (),
    "without AVX-512": ("avx512",),
    "without AVX2": ("avx2",),
}


def gradients(function: Any, dtype: str) -> Any:
    arrays = {
        "x": RANDOM.uniform(-1, 1, (9, 21)).astype(dtype),
        "W": RANDOM.uniform(-1, 1, (21, 37)).astype(dtype),
        "V": RANDOM.uniform(0.1, 1, (37, 13)).astype(dtype),
    }
    graph = cr.backward(cr.trace(function, **arrays), wrt=tuple(arrays))
    return graph, inputs_of(graph, arrays)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", GRAPHS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("without", TARGETS.values(), ids=TARGETS)
def test_values_are_the_references(function: Any, dtype: str, without: tuple[str, ...]) -> None:
    graph, inputs = gradients(function, dtype)
    rtol = 1e-11 if dtype == "float64" else 1e-4
    keep = kept_nodes(graph, "outputs")
    compare(graph, inputs, keep, rtol, target=host_target(without=without), threads=2)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("function", GRAPHS, ids=lambda f: f.__name__)
def test_code_for_aarch64_is_compiled(function: Any) -> None:
    target = cross_target("aarch64-linux-gnu")
    graph, _ = gradients(function, "float32")
    made = planned(graph, kept_nodes(graph, "outputs"), target=target, threads=2)
    code = artifact_of(made, {}, target).code
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == 183  # the number of the architecture
