"""What `backward` refuses, it explains: what happened, on which line, what to try."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import errors, float64, int64

RANDOM = np.random.default_rng(7)


def objective(x: float64["n 4"], W1: float64["4 3"], W2: float64["3 2"], decay=0.1):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = np.mean(o * o)
    s = decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


ARGUMENTS = {
    "x": RANDOM.normal(size=(5, 4)),
    "W1": RANDOM.normal(size=(4, 3)),
    "W2": RANDOM.normal(size=(3, 2)),
}


def two(x: float64[3]):
    h = np.sin(x)
    a = np.sum(h)
    b = np.sum(h * x)
    return a, b


def labelled(x: float64[3], y: int64[3]):
    h = x * y
    J = np.sum(h)
    k = np.argmax(h)
    return J, k


@pytest.mark.parametrize(
    "call, error, texts",
    [
        (
            lambda: cr.backward(cr.trace(two)),
            errors.InputError,
            ["two has 2 outputs: a, b", "say which one to differentiate: of='a'"],
        ),
        (
            lambda: cr.backward(cr.trace(two), of="h"),
            errors.ShapeError,
            ["h is float64[3], not a scalar: its gradient needs a seed", "h = np.sin(x)", "seed="],
        ),
        (
            lambda: cr.backward(cr.trace(two), of="h", seed=np.ones(2)),
            errors.ShapeError,
            ["the seed has shape [2], h is float64[3]"],
        ),
        (
            lambda: cr.backward(cr.trace(two), of="h", seed="x"),
            errors.InputError,
            ["the name 'x' is taken in two", "choose another"],
        ),
        (
            lambda: cr.backward(cr.trace(labelled), of="k"),
            errors.NotDifferentiableError,
            ["k is int64[], which has no derivative", "k = np.argmax(h)"],
        ),
        (
            lambda: cr.backward(cr.trace(labelled), of="J", wrt="y"),
            errors.NotDifferentiableError,
            ["y is int64[3]: only floating-point values have gradients", "y.astype(np.float64)"],
        ),
        (
            lambda: cr.backward(cr.trace(objective), wrt="W3"),
            errors.NameLookupError,
            ["the graph objective has no value called 'W3'", "W1"],
        ),
        (
            lambda: cr.backward(cr.trace(objective), wrt=4),
            errors.InputError,
            ["wrt=4: objective has 4 arguments", "x, W1, W2, decay"],
        ),
        (
            lambda: cr.backward(cr.trace(objective), of="loss"),
            errors.NameLookupError,
            ["no value called 'loss'"],
        ),
        (
            lambda: cr.backward(cr.trace(objective), wrt="W1").run(ARGUMENTS)["dJ/dx"],
            errors.NameLookupError,
            ["no value called 'dJ/dx'", "cr.backward(..., wrt=[..., 'x'])"],
        ),
        (
            lambda: cr.backward(cr.trace(lambda: np.float64(1.0))),
            errors.InputError,
            ["function has no inputs"],
        ),
    ],
)
def test_a_refusal_says_what_and_what_to_try(call, error, texts):
    with pytest.raises(error) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)


def test_a_missing_gradient_is_a_key_error():
    with pytest.raises(KeyError):
        cr.backward(cr.trace(objective), wrt="W1").run(ARGUMENTS)["dJ/dx"]
