"""Programs unlike networks of layers: logistic regression, an LSTM, an embedding, a mixture of
Gaussians, a Kalman filter.  An objective is written for each library as its users write it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Prepared, Problem, Settings, trained
from .training import OPTIMIZER_FORMS, adam, sgd, torch_training, training_variants

LEARNING_RATE = 0.1
CLASSES = 10
NOT_WRITTEN = "its gradient would be written by hand"
f4 = np.float32


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return random.standard_normal(shape, dtype=f4) * f4(scale)


# Logistic regression ------------------------------------------------------------------------------


def logistic(x, y, w, b):
    z = x @ w + b
    return np.mean(np.logaddexp(0, z) - y * z)


def torch_logistic(params, x, y):
    import torch

    z = x @ params["w"] + params["b"]
    return torch.nn.functional.binary_cross_entropy_with_logits(z, y)


def jax_logistic(params, x, y):
    import jax.numpy as jnp

    z = x @ params["w"] + params["b"]
    return jnp.mean(jnp.logaddexp(0, z) - y * z)


def numpy_logistic(problem: Problem, settings: Settings) -> Prepared:
    x, y = problem.arrays["x"], problem.arrays["y"]
    params = {name: array.copy() for name, array in problem.parameters.items()}

    def step() -> Any:
        z = x @ params["w"] + params["b"]
        J = np.mean(np.logaddexp(0, z) - y * z)
        dz = (1 / (1 + np.exp(-z)) - y) / len(z)
        params["w"] -= LEARNING_RATE * (dz @ x)
        params["b"] -= LEARNING_RATE * dz.sum()
        return J

    return Prepared(step, lambda J: trained(J, params))


def logistic_case(name: str, features: int, n: int) -> Case:
    def problem() -> Problem:
        random = np.random.default_rng(0)
        arrays = {"x": normal(random, n, features), "y": (random.random(n) < 0.5).astype(f4)}
        return Problem(arrays, {"w": np.zeros(features, f4), "b": np.zeros((), f4)})

    variants = training_variants(
        logistic, torch_logistic, {"jit": jax_logistic}, sgd(LEARNING_RATE)
    )
    return Case(
        name=name,
        title=f"logistic regression, SGD, {n} of {features}",
        problem=problem,
        variants={**variants, "NumPy": {"by hand": numpy_logistic}},
        trains=True,
    )


# An LSTM ------------------------------------------------------------------------------------------


def cell(ops: Any, params: Any, h: Any, c: Any, x: Any) -> tuple[Any, Any]:
    gates = x @ params["Wx"] + h @ params["Wh"] + params["b"]
    i, f, g, o = ops.split(gates)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def lstm(params, x, y):
    ops = SimpleNamespace(
        split=lambda gates: np.split(gates, 4, axis=-1), sigmoid=cr.sigmoid, tanh=np.tanh
    )
    start = np.zeros((x.shape[1], params["Wh"].shape[0]), x.dtype)
    (h, _), _ = cr.scan(lambda state, x: (cell(ops, params, *state, x), None), (start, start), x)
    return cr.cross_entropy(h @ params["V"], y)


def torch_lstm(params, x, y):
    """By the operation under torch.nn.LSTM, which has all steps in one call."""
    import torch

    start = x.new_zeros(1, x.shape[1], params["Wh"].shape[0])
    weights = [params["Wx"].T, params["Wh"].T, params["b"], torch.zeros_like(params["b"])]
    flags = True, 1, 0.0, True, False, False  # biases, layers, dropout, training, both ways, batch
    _, h, _ = torch.lstm(x, (start, start), weights, *flags)
    return torch.nn.functional.cross_entropy(h[0] @ params["V"], y)


def jax_lstm(params, x, y):
    import jax
    import jax.numpy as jnp

    ops = SimpleNamespace(
        split=lambda gates: jnp.split(gates, 4, axis=-1), sigmoid=jax.nn.sigmoid, tanh=jnp.tanh
    )
    start = jnp.zeros((x.shape[1], params["Wh"].shape[0]), x.dtype)
    (h, _), _ = jax.lax.scan(
        lambda state, x: (cell(ops, params, *state, x), None), (start, start), x
    )
    return -jax.nn.log_softmax(h @ params["V"])[np.arange(len(h)), y].mean()


def lstm_case(name: str, steps: int, n: int, inputs: int, units: int) -> Case:
    def problem() -> Problem:
        random = np.random.default_rng(0)
        params = {
            "Wx": normal(random, inputs, 4 * units, scale=inputs**-0.5),
            "Wh": normal(random, units, 4 * units, scale=units**-0.5),
            "b": np.zeros(4 * units, f4),
            "V": normal(random, units, CLASSES, scale=units**-0.5),
        }
        x = normal(random, steps, n, inputs)
        return Problem({"x": x, "y": random.integers(0, CLASSES, n)}, params)

    return Case(
        name=name,
        title=f"LSTM of {units}, Adam, {steps} steps of {n}×{inputs}",
        problem=problem,
        variants=training_variants(lstm, torch_lstm, {"jit": jax_lstm}, adam(1e-3)),
        missing={"NumPy": NOT_WRITTEN},
        trains=True,
    )


# An embedding -------------------------------------------------------------------------------------


def words(ids, y, E, W):
    return cr.cross_entropy(np.tanh(E[ids]) @ W, y)


def torch_words(params, ids, y, *, sparse=False):
    import torch

    functions = torch.nn.functional
    h = torch.tanh(functions.embedding(ids, params["E"], sparse=sparse))
    return functions.cross_entropy(h @ params["W"], y)


def jax_words(params, ids, y):
    import jax
    import jax.numpy as jnp

    logits = jnp.tanh(params["E"][ids]) @ params["W"]
    return -jax.nn.log_softmax(logits)[np.arange(len(ids)), y].mean()


def embedding_case(name: str, count: int, width: int, n: int) -> Case:
    def problem() -> Problem:
        random = np.random.default_rng(0)
        params = {
            "E": normal(random, count, width, scale=0.1),
            "W": normal(random, width, CLASSES, scale=width**-0.5),
        }
        ids, y = random.integers(0, count, n), random.integers(0, CLASSES, n)
        return Problem({"ids": ids, "y": y}, params)

    optimizer = sgd(LEARNING_RATE)
    variants = training_variants(words, torch_words, {"jit": jax_words}, optimizer)
    variants["PyTorch"]["sparse"] = partial(
        torch_training,
        objective=partial(torch_words, sparse=True),
        optimizer=partial(optimizer.torch, **OPTIMIZER_FORMS["for loop"]),
        linear=False,
        compiled=False,
    )
    return Case(
        name=name,
        title=f"embedding of {count:,}×{width}, SGD, {n} indices",
        problem=problem,
        variants=variants,
        missing={"NumPy": NOT_WRITTEN},
        trains=True,
    )


# A mixture of Gaussians ---------------------------------------------------------------------------


def mixture(x, means, logs, weights):
    z = (x[:, None, :] - means) * np.exp(-logs)
    each = cr.log_softmax(weights) - np.sum(logs, axis=-1) - 0.5 * np.sum(z * z, axis=-1)
    return -np.mean(cr.logsumexp(each, axis=-1))


def torch_mixture(params, x):
    import torch

    logs = params["logs"]
    z = (x[:, None, :] - params["means"]) * torch.exp(-logs)
    each = torch.log_softmax(params["weights"], 0) - logs.sum(-1) - 0.5 * (z * z).sum(-1)
    return -torch.logsumexp(each, -1).mean()


def jax_mixture(params, x):
    import jax
    import jax.numpy as jnp

    logs = params["logs"]
    z = (x[:, None, :] - params["means"]) * jnp.exp(-logs)
    each = jax.nn.log_softmax(params["weights"]) - logs.sum(-1) - 0.5 * (z * z).sum(-1)
    return -jax.scipy.special.logsumexp(each, -1).mean()


def mixture_case(name: str, n: int, dimensions: int, parts: int) -> Case:
    def problem() -> Problem:
        random = np.random.default_rng(0)
        params = {
            "means": normal(random, parts, dimensions),
            "logs": normal(random, parts, dimensions, scale=0.1),
            "weights": normal(random, parts, scale=0.1),
        }
        return Problem({"x": normal(random, n, dimensions, scale=2.0)}, params)

    return Case(
        name=name,
        title=f"mixture of {parts} Gaussians, SGD, {n:,} of {dimensions}",
        problem=problem,
        variants=training_variants(
            mixture, torch_mixture, {"jit": jax_mixture}, sgd(LEARNING_RATE)
        ),
        missing={"NumPy": NOT_WRITTEN},
        trains=True,
    )


# A Kalman filter ----------------------------------------------------------------------------------


def filtered(xp: Any, params: Any, C: Any, mean: Any, P: Any, y: Any) -> tuple[Any, Any, Any]:
    """One step: the mean and covariance of the state, and twice the log-likelihood of y; `xp` is
    NumPy, or a library with its names."""
    A, Q, R = params["A"], xp.diag(xp.exp(params["q"])), xp.diag(xp.exp(params["r"]))
    mean, P = A @ mean, A @ P @ A.T + Q
    S, e = C @ P @ C.T + R, y - C @ mean
    L = xp.linalg.cholesky(S)
    gain = xp.linalg.solve(S, C @ P).T
    value = -(e @ xp.linalg.solve(S, e)) - 2 * xp.log(xp.diagonal(L)).sum()
    return mean + gain @ e, P - gain @ C @ P, value


def start_of(xp: Any, C: Any) -> tuple[Any, Any]:
    return xp.zeros(C.shape[1], dtype=C.dtype), xp.eye(C.shape[1], dtype=C.dtype)


def scanned(xp: Any, scan: Callable[..., Any], params: Any, ys: Any, C: Any) -> Any:
    def step(state, y):
        mean, P, value = filtered(xp, params, C, *state, y)
        return (mean, P), value

    _, values = scan(step, start_of(xp, C), ys)
    return -0.5 * xp.mean(values)


def kalman(params, ys, C):
    return scanned(np, cr.scan, params, ys, C)


def torch_kalman(params, ys, C):
    import torch

    mean, P = start_of(torch, C)
    total = 0
    for y in ys:
        mean, P, value = filtered(torch, params, C, mean, P, y)
        total = total - value
    return total / (2 * len(ys))


def jax_kalman(params, ys, C):
    import jax
    import jax.numpy as jnp

    return scanned(jnp, jax.lax.scan, params, ys, C)


def kalman_case(name: str, steps: int, states: int, outputs: int) -> Case:
    def problem() -> Problem:
        random = np.random.default_rng(0)
        A = 0.9 * np.eye(states, dtype=f4) + normal(random, states, states, scale=0.05)
        params = {"A": A, "q": np.zeros(states, f4), "r": np.zeros(outputs, f4)}
        C = normal(random, outputs, states)
        return Problem({"ys": normal(random, steps, outputs), "C": C}, params)

    return Case(
        name=name,
        title=f"likelihood of a Kalman filter, SGD, {steps} steps of {states} states",
        problem=problem,
        variants=training_variants(kalman, torch_kalman, {"jit": jax_kalman}, sgd(LEARNING_RATE)),
        missing={"NumPy": NOT_WRITTEN},
        trains=True,
    )
