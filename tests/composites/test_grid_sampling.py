"""grid_sample: named sizes, the identity, NaN and far places, dtypes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(13)


def sampled(x: float64["n 2 h w"], grid: float64["n r s 2"]):
    a = cr.grid_sample(x, grid)
    b = cr.grid_sample(x, grid, "bicubic", "reflection")
    c = cr.grid_sample(x, grid, "bilinear", "border", align_corners=True)
    J = np.sum(np.sin(a)) + np.sum(b**2) + np.sum(np.cos(c))
    return J


@pytest.mark.sweep(3)  # the reference; others compile long
@EITHER
def test_sizes_may_be_named(executor: str) -> None:
    graph = cr.backward(cr.trace(sampled), wrt=("x", "grid"))
    for shape, places in (((2, 2, 3, 4), (2, 2, 3, 2)), ((1, 2, 1, 2), (1, 1, 1, 2))):
        given: dict[str, Any] = {
            "x": RANDOM.normal(size=shape),
            "grid": RANDOM.uniform(-2, 2, places),
        }
        run = graph.run(**given, executor=executor)
        assert run["J"] == pytest.approx(sampled(**given), rel=1e-12)
        same = cr.backward(cr.trace(sampled, **given), wrt=("x", "grid")).run(**given)
        for name in ("dJ/dx", "dJ/dgrid"):
            np.testing.assert_allclose(run[name], same[name], rtol=1e-11, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.slow  # the quick tier compares them with PyTorch's
def test_both_orders_agree_with_finite_differences() -> None:
    x, grid = RANDOM.normal(size=(1, 2, 3, 3)), RANDOM.uniform(-1.3, 1.3, (1, 2, 2, 2))
    check_gradients(sampled, x, grid, order=2)


def test_a_grid_of_all_centres_gives_the_image() -> None:
    x = RANDOM.normal(size=(1, 2, 3, 5))
    for aligned in (False, True):
        rows, columns = (
            np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in (3, 5)
        )
        grid = np.stack(np.meshgrid(columns, rows), axis=-1)[None]
        for mode in ("bilinear", "nearest", "bicubic"):
            found = cr.grid_sample(x, grid, mode, "border", aligned)
            np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-13)


def test_far_places_are_outside_and_nan_stays_where_it_is() -> None:
    x = np.ones((1, 1, 2, 2))
    grid = np.array([[[[np.nan, 0], [np.inf, 0], [1e300, 0], [0, 0]]]])
    np.testing.assert_array_equal(cr.grid_sample(x, grid), [[[[np.nan, 0, 0, 1]]]])
    border = cr.grid_sample(x, grid, padding_mode="border")
    np.testing.assert_array_equal(border, [[[[np.nan, 1, 1, 1]]]])
    x[0, 0, 0, 0] = np.nan
    corner = cr.grid_sample(x, np.array([[[[0.5, 0.5]]]]))
    np.testing.assert_array_equal(corner, [[[[1]]]])


def test_float32_stays_float32() -> None:
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            assert cr.grid_sample(x, grid, mode, padding).dtype == np.float32
            graph = cr.trace(cr.grid_sample, x, grid)
            assert graph.outputs[0][1].type.dtype == np.float32


x, grid = np.zeros((1, 2, 3, 4)), np.zeros((1, 2, 2, 2))
REFUSALS = {
    "mode='cubic' is not known": (lambda x: cr.grid_sample(x, grid, "cubic"), "'bicubic'"),
    "padding_mode='wrap' is not known": (
        lambda x: cr.grid_sample(x, grid, "nearest", "wrap"),
        "'reflection'",
    ),
    "has 3 axes": (lambda x: cr.grid_sample(x[0], grid), "images (n, channels, height, width)"),
    "the grid float64[1, 2, 2, 3] of": (
        lambda x: cr.grid_sample(x, np.zeros((1, 2, 2, 3))),
        "a grid is (n, rows, columns, 2)",
    ),
    "and the grid float32[1, 2, 2, 2]": (
        lambda x: cr.grid_sample(x, grid.astype(np.float32)),
        "floats of one dtype",
    ),
    "has no elements": (lambda x: cr.grid_sample(x[:, :, :0], grid), "give at least one"),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str, is_traced: bool) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, x) if is_traced else call(x)
    assert text in str(caught.value) and hint in str(caught.value)
