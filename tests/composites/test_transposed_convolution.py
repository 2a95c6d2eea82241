"""Transposed convolution: transpose of a convolution, named sizes, refusals, both executors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, ShapeError, SizeError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(17)


def decoder(x: float64["n 4 h w"], W: float64["4 1 3 2"], b: float64["2"], V: float64["2 3 2 2"]):
    y = cr.conv_transpose2d(x, W, b, stride=(2, 1), padding=1, output_padding=(1, 0), groups=2)
    z = cr.conv_transpose2d(np.tanh(y), V, padding=(1, 0))
    J = np.sum(np.sin(z))
    return J


def arguments(rows: int, height: int, width: int) -> dict[str, Any]:
    shapes = {"x": (rows, 4, height, width), "W": (4, 1, 3, 2), "b": (2,), "V": (2, 3, 2, 2)}
    return {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}


def test_both_orders_agree_with_finite_differences() -> None:
    check_gradients(decoder, *arguments(1, 2, 3).values(), order=2)


@EITHER
def test_named_sizes_may_have_any_length(executor: str) -> None:
    step = cr.backward(cr.trace(decoder), wrt=("x", "W", "b", "V"))
    assert [str(size) for size in step["y"].type.shape] == ["n", "2", "2*h", "w - 1"]
    for shape in ((1, 2, 3), (3, 1, 5)):
        given = arguments(*shape)
        run = step.run(**given, executor=executor)
        assert run["J"] == pytest.approx(decoder(**given), rel=1e-12)
        same = cr.backward(cr.trace(decoder, **given), wrt=("x", "W")).run(**given)
        for name in ("dJ/dx", "dJ/dW"):
            np.testing.assert_allclose(run[name], same[name], rtol=1e-11, atol=1e-12)
    with pytest.raises(SizeError, match="conv_transpose2d: an axis of w becomes one of w - 1"):
        step.run(**arguments(1, 2, 1), executor=executor)


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"padding": 1, "groups": 2, "dilation": 2}])
def test_it_is_the_transpose_of_the_convolution(options: dict[str, Any]) -> None:
    """⟨conv(x), y⟩ = ⟨x, conv_transpose(y)⟩."""
    x, W = RANDOM.normal(size=(2, 4, 7, 5)), RANDOM.normal(size=(6, 4, 3, 3))
    W = W[:, : 4 // options.get("groups", 1)]
    y = RANDOM.normal(size=cr.conv2d(x, W, **options).shape)
    back = cr.conv_transpose2d(y, W, **options)
    assert back.shape == x.shape
    np.testing.assert_allclose(np.sum(cr.conv2d(x, W, **options) * y), np.sum(x * back), rtol=1e-11)


@EITHER
def test_an_empty_batch_has_empty_and_zero_gradients(executor: str) -> None:
    def J(x: Any, W: Any) -> Any:
        J = np.sum(cr.conv_transpose1d(x, W, stride=2))
        return J

    x, W = np.zeros((0, 2, 4)), np.ones((2, 3, 3))
    run = cr.backward(cr.trace(J, x, W), wrt=("x", "W")).run(x=x, W=W, executor=executor)
    assert run["dJ/dx"].shape == (0, 2, 4)
    np.testing.assert_array_equal(run["dJ/dW"], np.zeros((2, 3, 3)))


def test_nan_and_infinity_reach_their_windows_alone() -> None:
    x = np.array([[[np.nan, 1.0, 2.0, np.inf]]])
    y = cr.conv_transpose1d(x, np.ones((1, 1, 2)), stride=2)
    np.testing.assert_array_equal(y, [[[np.nan] * 2 + [1, 1, 2, 2] + [np.inf] * 2]])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_dtypes_stay_narrow(dtype: str) -> None:
    x, W = np.ones((1, 2, 3), dtype), np.ones((2, 3, 2), dtype)
    for stride in (1, 2):
        y = cr.conv_transpose1d(x, W, np.ones(3, dtype), stride)
        assert y.dtype == dtype
        traced = cr.trace(lambda x, s=stride: cr.conv_transpose1d(x, W, stride=s), x)
        assert traced.run(x=x).outputs.dtype == dtype


def test_its_symbol_and_equation() -> None:
    def layer(x: float64["n 4 h w"], W: float64["4 1 3 2"]):
        y = cr.conv_transpose2d(x, W, stride=2)
        return y

    equations = cr.trace(layer).equations()
    assert "y = ∗ᵀ_{stride = 2}(x, W)" in str(equations)
    assert r"\operatorname{conv}^{\top}" in equations.latex()


x = np.zeros((2, 4, 3, 3))
W = np.zeros((4, 2, 2, 2))
REFUSALS = [
    (
        lambda x: cr.conv_transpose2d(x, W[:3]),
        ShapeError,
        ["has 4 channels", "takes 3", "the first of the weight"],
    ),
    (
        lambda x: cr.conv_transpose2d(x, W, groups=3),
        ShapeError,
        ["4 input channels are not divisible into 3 groups"],
    ),
    (
        lambda x: cr.conv_transpose2d(x, W, np.zeros(2), groups=2),
        ShapeError,
        ["bias float64[2] does not fit the 4 output channels", "(2 in each of 2 groups)"],
    ),
    (
        lambda x: cr.conv_transpose2d(x, W[0]),
        ShapeError,
        ["has 3 axes", "(in, out / groups, rows, columns)"],
    ),
    (
        lambda x: cr.conv_transpose2d(x, W, padding=2),
        ShapeError,
        ["conv_transpose2d: an axis of 3 becomes one of 0", "pad less"],
    ),
    (
        lambda x: cr.conv_transpose2d(x[:, :, :0], W),
        ShapeError,
        ["conv_transpose2d: an axis of 0 becomes one of 1"],
    ),
    (
        lambda x: cr.conv_transpose2d(x, W, stride=2, output_padding=2),
        InputError,
        ["output_padding=2 with stride=2 and dilation=1", "less than the stride or the dilation"],
    ),
    (lambda x: cr.conv_transpose2d(x, W, padding="same"), InputError, ["padding='same'"]),
]


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize(("call", "error", "texts"), REFUSALS, ids=[r[2][0] for r in REFUSALS])
def test_a_refusal_names_the_sizes(
    call: Any, error: type, texts: list[str], is_traced: bool
) -> None:
    with pytest.raises(error) as caught:
        cr.trace(call, x) if is_traced else call(x)
    for text in texts:
        assert text in str(caught.value)
    assert ("test_transposed_convolution.py" in str(caught.value)) == is_traced
