"""The book's training step, 100 times beside PyTorch: the same objective and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mlp import objective

import chainrule as cr
from chainrule import float64, int64

pytestmark = pytest.mark.peers

INPUTS, HIDDEN, CLASSES, BATCH, STEPS = 20, 16, 5, 32, 100
LEARNING_RATE, WEIGHT_DECAY, RTOL = 0.5, 1e-2, 1e-10
TYPES = {"x": float64["n 20"], "W1": float64["20 16"], "W2": float64["16 5"]}


def with_bias(x, y: int64["n"], W1, b: float64["16"], W2, weight_decay=WEIGHT_DECAY):
    z = x @ W1 + b
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def torch_step(x: Any, y: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Every named value of one forward pass in PyTorch, with gradients on all of them."""
    import torch

    z = x @ parameters["W1"]
    if "b" in parameters:
        z = z + parameters["b"]
    h = torch.maximum(z, torch.zeros_like(z))
    o = h @ parameters["W2"]
    L = torch.nn.functional.cross_entropy(o, y)
    penalty = parameters["W1"].square().sum() + parameters["W2"].square().sum()
    s = WEIGHT_DECAY / 2 * penalty
    J = L + s
    values = {**parameters, "z": z, "h": h, "o": o, "L": L, "s": s, "J": J}
    for value in values.values():
        value.retain_grad()
    J.backward()
    return values


def initial(names: tuple[str, ...]) -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"W1": (INPUTS, HIDDEN), "b": (HIDDEN,), "W2": (HIDDEN, CLASSES)}
    return {name: random.normal(0, 0.3, shapes[name]) for name in names}


def batches() -> Any:
    """Batches of a teacher's labels; the last of each epoch is smaller."""
    random = np.random.default_rng(1)
    x = random.normal(size=(300, INPUTS))
    y = np.argmax(np.sin(x @ random.normal(size=(INPUTS, CLASSES))), axis=1)
    order: list[int] = []
    for _ in range(STEPS):
        if not order:
            order = list(random.permutation(len(x)))
        chosen, order = order[:BATCH], order[BATCH:]
        yield x[chosen], y[chosen]


@pytest.mark.parametrize(
    ("program", "names"), [(objective, ("W1", "W2")), (with_bias, ("W1", "b", "W2"))]
)
def test_a_hundred_steps_are_pytorchs(program: Any, names: tuple[str, ...]) -> None:
    torch = pytest.importorskip("torch")
    step = cr.backward(cr.trace(program, **TYPES), wrt=names)
    ours = initial(names)
    theirs = {n: torch.tensor(v, requires_grad=True) for n, v in ours.items()}
    first, last = None, None
    for x, y in batches():
        run = step.run(x=x, y=y, weight_decay=WEIGHT_DECAY, **ours)
        values = torch_step(torch.tensor(x), torch.tensor(y), theirs)
        np.testing.assert_allclose(run["J"], values["J"].item(), rtol=RTOL)
        for name, value in values.items():
            if name == "J":
                continue
            gradient, expected = run[f"dJ/d{name}"], value.grad.numpy()
            largest = np.abs(expected).max()
            np.testing.assert_allclose(
                gradient, expected, rtol=RTOL, atol=RTOL * largest, err_msg=f"dJ/d{name}"
            )
        ours = {n: v - LEARNING_RATE * run[f"dJ/d{n}"] for n, v in ours.items()}
        theirs = {
            n: (v.detach() - LEARNING_RATE * v.grad).requires_grad_() for n, v in theirs.items()
        }
        first, last = first or float(run["J"]), float(run["J"])
    assert last is not None and first is not None and last < 0.9 * first  # it did learn


def test_the_named_values_of_the_forward_pass_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    ours = initial(("W1", "b", "W2"))
    x, y = next(batches())
    run = cr.trace(with_bias, **TYPES).run(x=x, y=y, **ours)
    theirs = {n: torch.tensor(v, requires_grad=True) for n, v in ours.items()}
    values = torch_step(torch.tensor(x), torch.tensor(y), theirs)
    for name in ("z", "h", "o", "L", "s", "J"):
        np.testing.assert_allclose(run[name], values[name].detach().numpy(), rtol=1e-12, atol=1e-14)
