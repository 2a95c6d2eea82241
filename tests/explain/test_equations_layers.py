"""Layers that a user brings next: their derivatives read as in a textbook, and are true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from equation_values import assert_true
from equations_read_true import assert_reads_true

import chainrule as cr

Program = Callable[..., Any]


def embedding(tokens: Any, E: Any, W: Any) -> Any:
    e = E[tokens]
    J = np.sum((np.mean(e, axis=1) @ W) ** 2)
    return J


def tied(tokens: Any, E: Any) -> Any:
    e = np.tanh(E[tokens])
    o = e @ E.T
    J = np.sum(np.sin(o))
    return J


def max_pool(x: Any, K: Any) -> Any:
    c = cr.conv2d(x, K)
    p = cr.max_pool2d(c, 2)
    f = p.reshape(2, -1)
    J = np.sum(f**2)
    return J


def dropout(x: Any, W: Any, key: Any) -> Any:
    h = x @ W
    k = cr.dropout(h, 0.5, key=key)
    J = np.sum(np.sin(k))
    return J


def norm(W: Any) -> Any:
    s = np.linalg.norm(W)
    J = 3 * s
    return J


def batch_norm(x: Any, gamma: Any) -> Any:
    mean = np.mean(x, axis=0)
    r = (x - mean) / np.sqrt(np.var(x, axis=0) + 1e-5)
    z = r * gamma
    a = cr.relu(z)
    J = np.sum(np.sin(a))
    return J


def layer_norm(x: Any, w: Any) -> Any:
    h = cr.layer_norm(x, w)
    J = np.sum(np.sin(h))
    return J


LINES: dict[str, tuple[Program, dict[str, str]]] = {
    "embedding": (embedding, {"dJ/dE": " = scatter_{5×2}(∂J/∂e at [tokens])"}),
    "tied": (tied, {"dJ/dE": "⊙ (1 − e ⊙ e) at [tokens]) + ∑_{axis 0} (∂J/∂o)ᵀ e"}),
    "max pool": (max_pool, {"dJ/dc": " = max poolᵀ_{kernel_size = 2}(∂J/∂p, c)"}),
    "dropout": (dropout, {"dJ/dh": " = dropout_{rate = 0.5}(∂J/∂k, key)"}),
    "norm": (norm, {"dJ/dW": " = 3 (W/s)"}),
    "batch norm": (batch_norm, {"dJ/dgamma": " = ∑_{axis 0} ∂J/∂z ⊙ r"}),
    "layer norm": (
        layer_norm,
        {
            "dJ/dw": " = ∑_{axis 0} ∂J/∂h ⊙ a₂",
            "a1": "a₁ = √(var_{axis 1, keepdims}(x) + 10⁻⁵)",
            "a2": "a₂ = (x − mean_{axis 1, keepdims}(x))/a₁",
        },
    ),
}
SHAPES = {
    "embedding": {"E": (5, 2), "W": (2, 3)},
    "tied": {"E": (5, 2)},
    "max pool": {"x": (2, 2, 5, 5), "K": (3, 2, 2, 2)},
    "dropout": {"x": (3, 4), "W": (4, 5)},
    "norm": {"W": (2, 3)},
    "batch norm": {"x": (4, 3), "gamma": (3,)},
    "layer norm": {"x": (3, 4), "w": (4,)},
}


@pytest.mark.parametrize("name", LINES)
def test_layers_read_as_in_a_textbook(name: str) -> None:
    program, lines = LINES[name]
    random = np.random.default_rng(6)
    given: dict[str, Any] = {key: random.normal(size=one) for key, one in SHAPES[name].items()}
    wrt = tuple(given)
    if "tokens" in program.__code__.co_varnames:
        given["tokens"] = np.array([[0, 3, 3], [4, 0, 1]])
    if "key" in program.__code__.co_varnames:
        given["key"] = cr.random.key(3)
    graph = cr.backward(cr.trace(program, **given), wrt=wrt)
    found, run = graph.equations(shapes=False), graph.run(given)
    for key, line in lines.items():
        assert line in str(found[key]), str(found)
    assert_true(graph, found, run)
    assert assert_reads_true(graph, found, run) >= sum(one.number > 0 for one in found)
