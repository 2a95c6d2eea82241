"""The network of the README, one hidden layer with weight decay in the objective: training by SGD,
and the product of its Hessian with a vector.

d inputs, h hidden values, q classes, n rows in a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float32, int64

from .case import Case, Prepared, Problem, Settings
from .functions import chainrule_function, function_variants
from .kinks import rows_off_kinks
from .limits import matrix_products_of
from .training import sgd, training_variants

LEARNING_RATE, WEIGHT_DECAY = 0.1, 1e-3

n, d, h, q = cr.sizes("n d h q")


def objective(
    x: float32[n, d],
    y: int64[n],
    W1: float32[d, h],
    W2: float32[h, q],
    weight_decay=WEIGHT_DECAY,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def torch_objective(params, x, y):
    import torch

    h = torch.relu(x @ params["W1"])
    L = torch.nn.functional.cross_entropy(h @ params["W2"], y)
    s = WEIGHT_DECAY / 2 * (params["W1"].square().sum() + params["W2"].square().sum())
    return L + s


def jax_objective(params, x, y):
    import jax
    import jax.numpy as jnp

    o = jax.nn.relu(x @ params["W1"]) @ params["W2"]
    L = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(o), y[:, None], axis=1))
    return L + WEIGHT_DECAY / 2 * (jnp.sum(params["W1"] ** 2) + jnp.sum(params["W2"] ** 2))


def numpy_training(problem: Problem, settings: Settings) -> Prepared:
    """Forward and backward by hand, the updates in place."""
    x, y = problem.arrays["x"], problem.arrays["y"]
    W1, W2 = (problem.parameters[name].copy() for name in ("W1", "W2"))
    rows = np.arange(len(y))
    z, o = (np.empty((len(x), W.shape[1]), x.dtype) for W in (W1, W2))
    dh, dW1, dW2 = np.empty_like(z), np.empty_like(W1), np.empty_like(W2)

    def step() -> Any:
        np.matmul(x, W1, out=z)
        np.maximum(z, 0, out=z)  # h from here on
        np.matmul(z, W2, out=o)
        np.subtract(o, o.max(axis=1, keepdims=True), out=o)
        at_labels = o[rows, y]
        np.exp(o, out=o)
        total = o.sum(axis=1, keepdims=True)
        penalty = np.dot(W1.ravel(), W1.ravel()) + np.dot(W2.ravel(), W2.ravel())
        J = np.mean(np.log(total[:, 0]) - at_labels) + WEIGHT_DECAY / 2 * penalty
        np.divide(o, total, out=o)
        o[rows, y] -= 1
        np.multiply(o, 1 / len(y), out=o)  # dJ/do from here on
        np.matmul(z.T, o, out=dW2)
        np.matmul(o, W2.T, out=dh)
        np.multiply(dh, z > 0, out=dh)
        np.matmul(x.T, dh, out=dW1)
        for W, dW in ((W1, dW1), (W2, dW2)):
            np.multiply(W, 1 - LEARNING_RATE * WEIGHT_DECAY, out=W)
            np.multiply(dW, LEARNING_RATE, out=dW)
            np.subtract(W, dW, out=W)
        return J

    return Prepared(step, lambda J: {"J": np.array(J), "W1": W1.copy(), "W2": W2.copy()})


def problem(d: int, h: int, q: int, n: int) -> Problem:
    random = np.random.default_rng(0)
    W1 = random.standard_normal((d, h), dtype=np.float32) * np.float32((2 / d) ** 0.5)
    W2 = random.standard_normal((h, q), dtype=np.float32) * np.float32((1 / h) ** 0.5)
    x, y = rows_off_kinks(random, n, [W1]), random.integers(0, q, n)
    return Problem({"x": x, "y": y}, {"W1": W1, "W2": W2})


def training_case(name: str, d: int, h: int, q: int, n: int) -> Case:
    optimizer = sgd(LEARNING_RATE)
    return Case(
        name=name,
        title=f"MLP {d}-{h}-{q}, batch {n}, weight decay, SGD",
        problem=partial(problem, d, h, q, n),
        variants={
            **training_variants(
                objective, torch_objective, {"jit": jax_objective}, optimizer, examples=False
            ),
            "NumPy": {"by hand": numpy_training},
        },
        yardsticks={"its matrix products alone": partial(matrix_products_of, objective=objective)},
        trains=True,
    )


def hessian_problem(d: int, h: int, q: int, n: int) -> Problem:
    """The arguments x, y, W1, W2, and V1, V2 of the weights' shapes."""
    start, random = problem(d, h, q, n), np.random.default_rng(1)
    vectors = {
        f"V{name[1:]}": random.standard_normal(W.shape, dtype=np.float32)
        for name, W in start.parameters.items()
    }
    return Problem({**start.arrays, **start.parameters, **vectors})


def hessian_product(x, y, W1, W2, V1, V2):
    def J(W1, W2):
        return objective(x, y, W1, W2)

    return cr.hvp(J, (W1, W2), (V1, V2))


def gradient(x, y, W1, W2):
    return cr.grad(objective, wrt=("W1", "W2"))(x, y, W1, W2)


def torch_double_backward(x, y, W1, W2, V1, V2):
    import torch

    J = torch_objective({"W1": W1, "W2": W2}, x, y)
    gradients = torch.autograd.grad(J, (W1, W2), create_graph=True)
    return torch.autograd.grad(gradients, (W1, W2), grad_outputs=(V1, V2))


def _torch_gradient(x: Any, y: Any) -> Callable[[Any], Any]:
    import torch

    return torch.func.grad(lambda params: torch_objective(params, x, y))


def torch_forward_over_reverse(x, y, W1, W2, V1, V2):
    import torch

    params, vectors = {"W1": W1, "W2": W2}, {"W1": V1, "W2": V2}
    product = torch.func.jvp(_torch_gradient(x, y), (params,), (vectors,))[1]
    return product["W1"], product["W2"]


def torch_reverse_over_reverse(x, y, W1, W2, V1, V2):
    import torch

    _, pull, *_ = torch.func.vjp(_torch_gradient(x, y), {"W1": W1, "W2": W2})
    product = pull({"W1": V1, "W2": V2})[0]
    return product["W1"], product["W2"]


def jax_forward_over_reverse(x, y, W1, W2, V1, V2):
    import jax

    gradient = jax.grad(lambda params: jax_objective(params, x, y))
    product = jax.jvp(gradient, ({"W1": W1, "W2": W2},), ({"W1": V1, "W2": V2},))[1]
    return product["W1"], product["W2"]


def jax_reverse_over_reverse(x, y, W1, W2, V1, V2):
    import jax

    gradient = jax.grad(lambda params: jax_objective(params, x, y))
    product = jax.vjp(gradient, {"W1": W1, "W2": W2})[1]({"W1": V1, "W2": V2})[0]
    return product["W1"], product["W2"]


def numpy_hessian_product(x, y, W1, W2, V1, V2):
    """Pearlmutter, Fast exact multiplication by the Hessian (1994): the tangent of each line."""
    one_hot = np.zeros((len(y), W2.shape[1]), x.dtype)
    one_hot[np.arange(len(y)), y] = 1
    share = 1 / len(y)

    def call() -> Any:
        h = x @ W1
        mask = h > 0
        np.multiply(h, mask, out=h)
        moved_h = x @ V1
        np.multiply(moved_h, mask, out=moved_h)
        p = h @ W2
        np.exp(p - p.max(axis=1, keepdims=True), out=p)
        p /= p.sum(axis=1, keepdims=True)
        moved_o = moved_h @ W2 + h @ V2
        moved_do = p * (moved_o - np.sum(p * moved_o, axis=1, keepdims=True)) * share
        do = (p - one_hot) * share
        moved_dW2 = moved_h.T @ do + h.T @ moved_do + WEIGHT_DECAY * V2
        moved_dz = moved_do @ W2.T + do @ V2.T
        np.multiply(moved_dz, mask, out=moved_dz)
        return x.T @ moved_dz + WEIGHT_DECAY * V1, moved_dW2

    return call


def gradient_alone(problem: Problem, settings: Settings) -> Prepared:
    first = Problem({name: problem.arrays[name] for name in ("x", "y", "W1", "W2")})
    return chainrule_function(first, settings, function=gradient, names=("dW1", "dW2"))


def hessian_case(name: str, d: int, h: int, q: int, n: int) -> Case:
    transforms = {
        "jvp of grad": torch_forward_over_reverse,
        "vjp of grad": torch_reverse_over_reverse,
    }
    return Case(
        name=name,
        title=f"Hessian-vector product of the MLP {d}-{h}-{q}, batch {n}",
        problem=partial(hessian_problem, d, h, q, n),
        variants=function_variants(
            ("HV1", "HV2"),
            chainrule={"cr.hvp": hessian_product},
            torch={"double backward": torch_double_backward, **transforms},
            compiled=transforms,
            jax={
                "jvp of grad": jax_forward_over_reverse,
                "vjp of grad": jax_reverse_over_reverse,
            },
            numpy={"by hand": numpy_hessian_product},
            differentiable={"double backward": ("W1", "W2")},
        ),
        yardsticks={"chainrule's gradient": gradient_alone},
    )
