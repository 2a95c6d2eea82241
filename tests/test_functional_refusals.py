"""What grad, vjp, jvp, hvp and compile refuse, and in which words."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from finite_differences import close

import chainrule as cr
from chainrule import errors
from chainrule.errors import ShapeError

Pair = namedtuple("Pair", "W b")


def polynomial(x: Any, y: Any, *, z: Any = 1.0) -> Any:
    return np.sum(x**2 * y + z * x * y**2)


X = np.ones(3)


@pytest.mark.parametrize(
    "call, error, texts",
    [
        (
            lambda: cr.grad(lambda x: np.sin(x))(X),
            errors.ShapeError,
            ["needs a floating-point scalar, got float64[3]", "reduce it (np.sum", "cr.vjp"],
        ),
        (
            lambda: cr.grad(lambda x: np.sum(x))(np.ones(3, np.int64)),
            errors.NotDifferentiableError,
            ["the argument x is int64[3]: only floating-point values have gradients", "wrt="],
        ),
        (
            lambda: cr.grad(polynomial, wrt="w")(X, X),
            errors.InputError,
            ["wrt='w' is no argument of polynomial in this call", "the arguments are: x, y"],
        ),
        (
            lambda: cr.grad(polynomial, wrt=2)(X, X),
            errors.InputError,
            ["wrt=2 is no argument of polynomial", "x, y"],
        ),
        (
            lambda: cr.grad(lambda x: np.argmax(x))(X),
            errors.ShapeError,
            ["needs a floating-point scalar, got int64[]"],
        ),
        (
            lambda: cr.jvp(lambda x: np.sin(x), (X,), (np.ones(2),)),
            errors.ShapeError,
            ["the tangent of x is float64[2], and x is float64[3]"],
        ),
        (
            lambda: cr.hvp(polynomial, (X, X), (X, np.ones((3, 1)))),
            errors.ShapeError,
            [
                "the tangent of y is float64[3, 1], and y is float64[3]",
                "a tangent has the shape of its value, and is of floats",
            ],
        ),
        (
            lambda: cr.trace(
                lambda x, v: cr.jvp(polynomial, (x, x), (v, v))[1],
                cr.float64["n"],
                cr.float64["m"],
            ),
            errors.ShapeError,
            ["the tangent of x is float64[m], and x is float64[n]"],
        ),
        (
            lambda: cr.jvp(np.sin, (X,), (X, X)),
            errors.InputError,
            ["2 arrays are given for 1", "in the containers of their values"],
        ),
        (
            lambda: cr.vjp(lambda x: np.sin(x), X)[1](np.ones(2)),
            errors.ShapeError,
            ["the seed of out is float64[2], and out is float64[3]"],
        ),
        (
            lambda: cr.vjp(lambda x: np.sin(x), X)[1]((X, X)),
            errors.InputError,
            ["2 arrays are given for 1", "in the containers of their values"],
        ),
        (
            lambda: cr.grad(lambda: 1.0)(),
            errors.InputError,
            ["called without any array or number"],
        ),
    ],
)
def test_a_refusal_says_what_and_what_to_try(call: Any, error: Any, texts: list[str]) -> None:
    with pytest.raises(error) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)


ZEROS = np.zeros(3)


def three(
    x: cr.float64["n d"], W: cr.float64["d"], c: cr.float64["d"] = ZEROS, *, k: Any = 1.0
) -> Any:
    return np.sum(x @ W * k + np.sum(c))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, W: cr.grad(three)(x),
        lambda x, W: cr.grad(three, wrt="x")(x, c=W),
        lambda x, W: cr.value_and_grad(three)(x, k=2.0),
        lambda x, W: cr.vjp(three, x),
        lambda x, W: cr.compile(three)(x),
        lambda x, W: cr.compile(cr.grad(three))(x),
    ],
)
def test_a_missing_argument_is_not_made_up_of_its_annotation(call: Any) -> None:
    with pytest.raises(errors.InputError) as caught:
        call(np.ones((2, 3)), np.ones(3))
    assert caught.value.what == "three was called without W"
    assert caught.value.where == f"{__file__}:{three.__code__.co_firstlineno}, in three"
    assert caught.value.hint == "give all its arguments: three(x, W)"


@pytest.mark.parametrize("differentiate", [cr.grad, cr.value_and_grad, cr.compile])
def test_one_named_size_is_one_number_in_one_call(differentiate: Any) -> None:
    with pytest.raises(errors.SizeError) as caught:
        differentiate(three)(np.ones((2, 3)), np.ones(3), np.ones(5))
    assert caught.value.what == (
        "axis 0 of the argument c of three is annotated d, which is 3 (d from axis 1 of x), got 5"
    )


@pytest.mark.parametrize("differentiate", [cr.jvp, cr.hvp])
def test_forward_mode_refuses_two_numbers_for_one_named_size(differentiate: Any) -> None:
    given = (np.ones((2, 3)), np.ones(3), np.ones(5))
    with pytest.raises(errors.SizeError) as caught:
        differentiate(three, given, given)
    assert caught.value.what == (
        "axis 0 of the argument c of three is annotated d, which is 3 (d from axis 1 of x), got 5"
    )
    assert caught.value.where == f"{__file__}:{three.__code__.co_firstlineno}, in three"


def test_arrays_of_another_dtype_or_length_override_the_annotation() -> None:
    x = np.ones((2, 4), np.float32)
    gradient = cr.grad(three, wrt="W")(x, np.ones(4, np.float32), np.ones(4, np.float32))
    assert gradient.dtype == np.float32 and gradient.shape == (4,)
    close(
        cr.grad(lambda c: three(np.ones((2, 3)), np.ones(3), c))(np.ones((5, 7))),
        np.full((5, 7), 2.0),
    )


def test_a_container_is_checked_against_its_annotation() -> None:
    def loss(layer: Any, x: Any) -> Any:
        return np.sum(x @ layer.W + layer.b)

    loss.__annotations__["layer"] = Pair(cr.float64["d m"], cr.float64["m"])
    loss.__annotations__["x"] = cr.float64["n d"]
    with pytest.raises(
        errors.SizeError, match=r"argument layer\.b of loss is annotated m, which is 2"
    ):
        cr.grad(loss)(Pair(np.ones((3, 2)), np.ones(5)), np.ones((4, 3)))


@pytest.mark.parametrize("differentiate", [cr.grad, cr.value_and_grad])
def test_a_message_calls_what_is_differentiated_by_its_name(differentiate: Any) -> None:
    def loss(x: Any, layer: Any) -> Any:
        return np.sum(x @ layer["W"])

    with pytest.raises(errors.ShapeError, match=r"x: float64\[2, 3\] @ layer\.W: float64\[2\]"):
        differentiate(loss, wrt="layer")(np.ones((2, 3)), {"W": np.ones(2)})


def test_a_gradient_with_respect_to_a_python_int_says_which_float_to_write() -> None:
    with pytest.raises(errors.NotDifferentiableError) as caught:
        cr.grad(polynomial)(3, 2.0)
    what = "the argument x is the Python int 3: only floating-point values have gradients"
    assert caught.value.what == what
    assert caught.value.where.endswith(", in polynomial")
    assert caught.value.hint == "write 3.0, or choose other arguments with wrt="


@pytest.mark.parametrize(
    ("function", "options", "text", "hint"),
    [
        (lambda x: (np.sum(x), x), {}, "a tuple of 2", "has_aux=True), which gives"),
        (lambda x: [np.sum(x)] * 3, {}, "a list of 3", "cr.jacobian"),
        (lambda x: ((np.sum(x), x), x), {"has_aux": True}, "a tuple of 2", "(number, anything)"),
    ],
)
def test_several_values_are_told_of_has_aux(function, options, text, hint) -> None:
    with pytest.raises(ShapeError, match=f"<lambda> returns {text}") as caught:
        cr.grad(function, **options)(np.ones(2))
    assert hint in str(caught.value) and __file__ in str(caught.value)
