"""What `cr.vmap` refuses, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, ShapeError

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(5, 3))
Y = RANDOM.normal(size=(5, 2))
W = RANDOM.normal(size=(3, 2))


def loss(W: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(x @ W) - y) ** 2)


def text_of(kind: type[Exception], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_lengths_that_differ() -> None:
    text = text_of(ShapeError, lambda: cr.vmap(loss, in_axes=(None, 0, 0))(W, X, Y[:4]))
    assert "the mapped axes of loss have different lengths" in text
    assert "x is float64[5, 3], mapped along axis 0 of length 5" in text
    assert "y is float64[4, 2], along axis 0 of length 4" in text

    def program(x: float64["n 3"], y: float64["m 2"]) -> Any:
        return cr.vmap(loss, in_axes=(None, 0, 0))(W, x, y)

    assert "of length n, and y is float64[m, 2]" in text_of(ShapeError, lambda: cr.trace(program))


def test_an_axis_that_does_not_exist() -> None:
    text = text_of(InputError, lambda: cr.vmap(loss, in_axes=(None, 2, 0))(W, X, Y))
    assert "the argument x of loss has 2 axes, and axis 2 is to be mapped" in text
    assert "try: from -2 to 1" in text
    text = text_of(InputError, lambda: cr.vmap(loss, in_axes=(None, 0, 0))(W, X, 1.0))
    assert "the argument y of loss has no axes" in text
    text = text_of(InputError, lambda: cr.vmap(lambda x: {"a": x}, out_axes=3)(X))
    assert "the result.a of <lambda> has 2 axes, and axis 3 is to be mapped" in text


def test_nothing_that_is_mapped() -> None:
    text = text_of(InputError, lambda: cr.vmap(loss, in_axes=None)(W, X, Y))
    assert "no argument of loss is mapped" in text


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ((0, 0), "in_axes has 2 entries, and loss was called with 3 positional arguments"),
        ("x", "in_axes='x' of loss is no axis"),
        ((None, 0, "y"), "in_axes has 'y' for y, which is no axis"),
        ((None, 0, 0.5), "in_axes has 0.5 for y, which is no axis"),
        ((None, 0, True), "in_axes has True for y, which is no axis"),
        (({"W": 0}, 0, 0), "in_axes has a dict of W for W, which is an array"),
    ],
)
def test_axes_that_do_not_fit(axes: Any, words: str) -> None:
    assert words in text_of(InputError, lambda: cr.vmap(loss, in_axes=axes)(W, X, Y))


def test_containers_of_axes_that_differ_from_the_arguments() -> None:
    f = lambda p: p["a"]["u"] * p["b"]  # noqa: E731
    value = {"a": {"u": X}, "b": X}
    text = text_of(InputError, lambda: cr.vmap(f, in_axes=({"a": {"v": 0}, "b": 0},))(value))
    assert "in_axes has a dict of v for p.a, which is a dict of u" in text
    text = text_of(InputError, lambda: cr.vmap(f, in_axes=({"a": 0},))(value))
    assert "in_axes has a dict of a for p, which is a dict of a, b" in text
    text = text_of(InputError, lambda: cr.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(X))
    assert "out_axes has a tuple of 3 for the result, which is a tuple of 2" in text


def test_a_mapped_result_cannot_be_given_whole() -> None:
    text = text_of(InputError, lambda: cr.vmap(lambda x: (x, 1.0), out_axes=None)(X))
    assert "the result[0] of <lambda> differs between the examples" in text
