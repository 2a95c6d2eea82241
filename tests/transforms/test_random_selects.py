"""Random programs of selects and of functions with infinite slopes, against the branches taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy
import numpy as np
import pytest

import chainrule as cr

anp: Any = autograd.numpy
grad: Any = autograd.grad

# A program is a nested tuple: an operation and its operands; "x", or a number.
SMOOTH = ("tanh", "negative", "double", "square")
STEEP = ("sqrt", "log", "root", "cube_root_of_square", "reciprocal", "arccos", "arctanh", "log1p")
CHOICES = ("relu", "absolute", "clip", "positive", "below_one", "known")
BINARY = ("add", "multiply", "divide", "maximum", "minimum", "where", "unless")
X = np.array([-2.5, -1.0, -0.7, 0.0, 0.2, 0.5, 1.0, 1.7, 3.0])


def program(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        return "x" if rng.random() < 0.8 else rng.choice([0.0, 0.5, 1.0])
    kind = rng.choice([SMOOTH, STEEP, STEEP, CHOICES, CHOICES, BINARY, BINARY])
    count = 2 if kind is BINARY else 1
    return (rng.choice(kind), *(program(rng, rng.randint(0, depth - 1)) for _ in range(count)))


def in_numpy(one: Any, x: Any) -> Any:
    """The program with NumPy, on arrays: every branch is computed."""
    if not isinstance(one, tuple):
        return x if one == "x" else np.full(x.shape, one)
    name, a, *more = one[0], *(in_numpy(operand, x) for operand in one[1:])
    b = more[0] if more else None
    match name:
        case "tanh" | "negative" | "sqrt" | "log" | "arccos" | "arctanh" | "log1p" | "absolute":
            return getattr(np, name)(a)
        case "add" | "multiply" | "divide" | "maximum" | "minimum":
            return getattr(np, name)(a, b)
        case "double":
            return 2 * a
        case "square":
            return a**2
        case "root":
            return a**0.5
        case "cube_root_of_square":
            return np.cbrt(a) ** 2
        case "reciprocal":
            return 1 / a
        case "relu":
            return cr.relu(a)
        case "clip":
            return np.clip(a, -1, 1)
        case "positive":
            return np.where(a > 0, a, 0.5)
        case "below_one":
            return np.where(a >= 1, 0, a)
        case "known":
            return np.nan_to_num(a, nan=0.0, posinf=2.0, neginf=-2.0)
        case "where":
            return np.where(x > 0.1, a, b)
        case "unless":
            return np.where(a > b, b, 2 * a)
    raise AssertionError(name)


class AtAKink(Exception):
    """Nothing is said of this point: two numbers tie, or one that is used is not finite."""


def number(x: Any) -> float:
    """The value of what autograd differentiates, perhaps twice."""
    while hasattr(x, "_value"):
        x = x._value
    return float(x)


def taken(one: Any, x: Any) -> Any:
    """The program on one number, in which only the branches that are taken are looked at."""
    if not isinstance(one, tuple):
        return x if one == "x" else one
    name = one[0]
    if name == "where":
        return taken(one[1 if number(x) > 0.1 else 2], x)
    a, *more = (taken(operand, x) for operand in one[1:])
    b = more[0] if more else None
    at = number(a)
    if name in SMOOTH + STEEP + ("add", "multiply", "divide"):
        if not all(np.isfinite(number(operand)) for operand in (a, *more)):
            raise AtAKink
    kinks = {"relu": [0], "absolute": [0], "clip": [-1, 1]}.get(name, [])
    if at in kinks or (name in ("maximum", "minimum", "unless") and at == number(b)):
        raise AtAKink
    match name:
        case "tanh" | "sqrt" | "log" | "arccos" | "arctanh" | "log1p":
            return getattr(anp, name)(a)
        case "negative":
            return -a
        case "add":
            return a + b
        case "multiply":
            return a * b
        case "divide":
            return a / b if number(b) else float(np.divide(at, number(b)))
        case "maximum" | "minimum":
            if np.isnan(at + number(b)):
                return np.nan
            return a if (at > number(b)) == (name == "maximum") else b
        case "double":
            return 2 * a
        case "square":
            return a**2
        case "root":
            return anp.power(a, 0.5)
        case "cube_root_of_square":
            return anp.power(a**2, 1 / 3)
        case "reciprocal":
            return 1 / a if at else float(np.divide(1, at))
        case "relu":
            return 0.0 if at < 0 else a
        case "absolute":
            return a if at > 0 else -a
        case "clip":
            return float(np.sign(at)) if abs(at) > 1 else a
        case "positive":
            return a if at > 0 else 0.5
        case "below_one":
            return 0.0 if at >= 1 else a
        case "known":
            return a if np.isfinite(at) else float(np.nan_to_num(at, posinf=2.0, neginf=-2.0))
        case "unless":
            return b if at > number(b) else 2 * a
    raise AssertionError(name)


def referee(one: Any, x: np.float64) -> tuple[float, float, float] | None:
    """The value and two derivatives of the branches taken; None where they are no numbers."""
    f: Callable[[Any], Any] = lambda x: taken(one, x) + 0.0 * x  # noqa: E731
    try:
        found = float(f(x)), float(grad(f)(x)), float(grad(grad(f))(x))
    except (AtAKink, ZeroDivisionError):
        return None
    if isinstance(found[0], complex) or not np.isfinite(found).all() or max(map(abs, found)) > 1e6:
        return None
    return found


def check(seed: int) -> int:
    """Compares derivatives of one program; at how many points."""
    one = program(random.Random(seed), 4)
    points, wanted = [], []
    for x in X:
        found = referee(one, x)
        if found is not None:
            points.append(x)
            wanted.append(found)
    if not points:
        return 0
    x, (value, slope, bend) = np.array(points), np.array(wanted).T

    def f(x: Any) -> Any:
        return np.sum(in_numpy(one, x))

    def close(found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=str((seed, one)))

    graph = cr.backward(cr.trace(f, x), wrt="x")
    for executor in ("reference", "native"):
        run = graph.run(x=x, executor=executor)
        close(run[graph.outputs[0][0]], value.sum())
        close(run[graph.outputs[1][0]], slope)
    v = np.linspace(1, 2, len(x))
    close(cr.jvp(f, (x,), (v,))[1], slope @ v)
    for hessian in (
        cr.hessian(f),  # forward over reverse
        cr.jacrev(cr.grad(f)),
        cr.jacrev(cr.jacfwd(f)),
        cr.jacfwd(cr.jacfwd(f)),
    ):
        close(hessian(x), np.diag(bend))
    return len(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(12), id="few"),
        pytest.param(range(1000, 1060), id="many", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.filterwarnings("ignore:Output seems independent", "ignore:.*encountered")
def test_derivatives_are_those_of_the_branches_that_are_taken(seeds: range) -> None:
    with np.errstate(all="ignore"):
        assert sum(check(seed) for seed in seeds) > 3 * len(seeds)
