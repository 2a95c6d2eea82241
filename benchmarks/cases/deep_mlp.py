"""A deep network: square layers with biases and relu, a layer to the classes, training by Adam."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Prepared, Problem, Settings, leaves, map_tree, trained
from .kinks import rows_off_kinks
from .training import adam, training_variants

LEARNING_RATE = 1e-3


def objective(params, x, y):
    h = x
    for layer in params["hidden"]:
        h = np.maximum(h @ layer["W"] + layer["b"], 0)
    o = h @ params["output"]["W"] + params["output"]["b"]
    J = cr.cross_entropy(o, y)
    return J


def torch_objective(params, x, y):
    import torch.nn.functional as F

    h = x
    for layer in params["hidden"]:
        h = F.relu(F.linear(h, layer["W"], layer["b"]))
    return F.cross_entropy(F.linear(h, params["output"]["W"], params["output"]["b"]), y)


def jax_objective(params, x, y):
    import jax
    import jax.numpy as jnp

    h = x
    for layer in params["hidden"]:
        h = jax.nn.relu(h @ layer["W"] + layer["b"])
    o = h @ params["output"]["W"] + params["output"]["b"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(o), y[:, None], axis=1))


def numpy_training(problem: Problem, settings: Settings) -> Prepared:
    """Forward and backward by hand, Adam in place."""
    x, y = problem.arrays["x"], problem.arrays["y"]
    params = map_tree(np.copy, problem.parameters)
    layers = [*params["hidden"], params["output"]]
    gradients = [{name: np.empty_like(layer[name]) for name in ("W", "b")} for layer in layers]
    update = numpy_adam(leaves(layers), leaves(gradients))
    values = [x, *(np.empty((len(x), len(layer["b"])), x.dtype) for layer in layers)]
    rows = np.arange(len(y))

    def step() -> Any:
        for layer, before, after in zip(layers, values, values[1:], strict=False):
            np.matmul(before, layer["W"], out=after)
            np.add(after, layer["b"], out=after)
            if layer is not layers[-1]:
                np.maximum(after, 0, out=after)
        o = values[-1]
        np.subtract(o, o.max(axis=1, keepdims=True), out=o)
        at_labels = o[rows, y]
        np.exp(o, out=o)
        total = o.sum(axis=1, keepdims=True)
        J = np.mean(np.log(total[:, 0]) - at_labels)
        np.divide(o, total, out=o)
        o[rows, y] -= 1
        flowing = np.multiply(o, 1 / len(y), out=o)
        for index in reversed(range(len(layers))):
            before = values[index]
            np.matmul(before.T, flowing, out=gradients[index]["W"])
            np.sum(flowing, axis=0, out=gradients[index]["b"])
            if index:
                flowing = flowing @ layers[index]["W"].T
                np.multiply(flowing, before > 0, out=flowing)
        update()
        return J

    return Prepared(step, lambda J: trained(J, params))


def numpy_adam(parameters: list[np.ndarray], gradients: list[np.ndarray]) -> Any:
    """A call that updates the parameters in place; it uses the gradients up."""
    first_rate, second_rate, eps = 0.9, 0.999, 1e-8
    first, second, spare = ([np.zeros_like(p) for p in parameters] for _ in range(3))
    count = 0

    def update() -> None:
        nonlocal count
        count += 1
        rate = LEARNING_RATE / (1 - first_rate**count)
        root = (1 - second_rate**count) ** 0.5
        for p, g, m, v, s in zip(parameters, gradients, first, second, spare, strict=True):
            np.multiply(m, first_rate, out=m)
            np.multiply(v, second_rate, out=v)
            np.multiply(g, 1 - first_rate, out=s)
            np.add(m, s, out=m)
            np.square(g, out=g)
            np.multiply(g, 1 - second_rate, out=g)
            np.add(v, g, out=v)
            np.sqrt(v, out=g)
            np.divide(g, root, out=g)
            np.add(g, eps, out=g)
            np.divide(m, g, out=g)
            np.multiply(g, rate, out=g)
            np.subtract(p, g, out=p)

    return update


def problem(width: int, depth: int, classes: int, n: int) -> Problem:
    random = np.random.default_rng(0)

    def layer(outputs: int) -> dict[str, np.ndarray]:
        W = random.standard_normal((width, outputs), dtype=np.float32)
        return {"W": W * np.float32((2 / width) ** 0.5), "b": np.zeros(outputs, np.float32)}

    hidden = [layer(width) for _ in range(depth)]
    x = rows_off_kinks(random, n, [layer["W"] for layer in hidden])
    y = random.integers(0, classes, n)
    return Problem({"x": x, "y": y}, {"hidden": hidden, "output": layer(classes)})


def training_case(name: str, width: int, depth: int, classes: int, n: int) -> Case:
    return Case(
        name=name,
        title=f"deep MLP {depth}×{width} to {classes}, batch {n}, Adam",
        problem=partial(problem, width, depth, classes, n),
        variants={
            **training_variants(
                objective, torch_objective, {"jit": jax_objective}, adam(LEARNING_RATE), linear=True
            ),
            "NumPy": {"by hand": numpy_training},
        },
        trains=True,
    )
