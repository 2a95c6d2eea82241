"""A Python number beside an array gives NumPy's dtype, whichever way it comes into the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.linspace(0.1, 0.6, 6, dtype=np.float32).reshape(2, 3)
# Functions that take numbers for arrays widen float32; those that compute with them do not.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "dot": np.dot,
    "dot, on the left": lambda x, a: np.dot(a, x),
    "inner": np.inner,
    "outer": np.outer,
    "kron": np.kron,
    "kron, on the left": lambda x, a: np.kron(a, x),
    "vdot": lambda x, a: np.vdot(x[0, :1], a),
    "tensordot": lambda x, a: np.tensordot(x, a, 0),
    "einsum": lambda x, a: np.einsum("ij,->ij", x, a),
    "convolve": lambda x, a: np.convolve(x[0], a),
    "append": lambda x, a: np.append(x, a),
    "concatenate": lambda x, a: np.concatenate([np.ravel(x), [a]]),
    "stack": lambda x, a: np.stack([x[0, 0], a]),
    "insert": lambda x, a: np.insert(x[0], 1, a),
    "matmul of a list": lambda x, a: np.matmul(x, [a] * 3),
    "where": lambda x, a: np.where(x > 0, x, a),
    "select": lambda x, a: np.select([x > 0], [x], a),
    "clip": lambda x, a: np.clip(x, 0, a),
    "hypot": np.hypot,
    "heaviside": np.heaviside,
    "full_like": np.full_like,
    "pad": lambda x, a: np.pad(x, 1, constant_values=a),
    "polyval": lambda x, a: np.polyval(x[0], a),
    "trapezoid": lambda x, a: np.trapezoid(x, dx=a),
    "gradient": lambda x, a: np.gradient(x, a, axis=1),
    "diff": lambda x, a: np.diff(x, prepend=a),
    "linspace": lambda x, a: np.linspace(x[0], a, 3),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("number", [0.5, 2, True, np.float64(0.5)], ids=repr)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_that_is_closed_over_widens_as_in_numpy(name: str, number: Any) -> None:
    function = FUNCTIONS[name]
    wanted = np.asarray(function(X, number))
    got = cr.trace(lambda x: function(x, number), X).run(x=X).outputs
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["dot", "inner", "kron", "outer", "vdot", "tensordot", "einsum"])
def test_a_number_that_is_an_argument_widens_as_in_numpy(name: str) -> None:
    function = FUNCTIONS[name]
    wanted = np.asarray(function(X, 0.5))
    graph = cr.trace(lambda x, a: function(x, a), X, 0.5)
    got = graph.run(x=X, a=0.25).outputs
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted / 2, rtol=1e-12)
    gradients = cr.grad(lambda x, a: np.sum(function(x, a)), wrt=("x", "a"))(X, 0.5)
    assert gradients[0].dtype == np.float32 and gradients[1].shape == ()


@pytest.mark.parametrize("name", ["dot", "inner", "kron"])
def test_what_widens_has_the_gradient_of_a_product(name: str) -> None:
    """The float64 referee: each of these is x times a where a is a number."""
    gradients = cr.grad(lambda x, a: np.sum(FUNCTIONS[name](x, a)), wrt=("x", "a"))(X, 0.5)
    np.testing.assert_allclose(gradients[0], np.full((2, 3), 0.5))
    np.testing.assert_allclose(gradients[1], np.sum(X, dtype=np.float64), rtol=1e-12)
