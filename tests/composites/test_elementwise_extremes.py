"""Further activations where they are bent, saturate, or are given what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

POINTS = np.array([-np.inf, -1e4, -800.0, -30.0, -1e-9, -0.0, 0.0, 1e-9, 30.0, 800.0, 1e4, np.inf])
OF_PYTORCH = {
    "silu": lambda F: F.silu,
    "log_sigmoid": lambda F: F.logsigmoid,
    "elu": lambda F: lambda x: F.elu(x, 0.7),
    "leaky_relu": lambda F: lambda x: F.leaky_relu(x, 0.2),
}
OURS = {
    "silu": cr.silu,
    "log_sigmoid": cr.log_sigmoid,
    "elu": lambda x: cr.elu(x, alpha=0.7),
    "leaky_relu": lambda x: cr.leaky_relu(x, negative_slope=0.2),
}


def first_and_second(function: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(all="ignore"):
        once = cr.grad(lambda x: np.sum(function(x)))(x)
        return once, cr.hvp(lambda x: np.sum(function(x)), x, np.ones_like(x))


@pytest.mark.peers
@pytest.mark.parametrize("name", OURS)
def test_the_conventions_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(POINTS, requires_grad=True)
    y = OF_PYTORCH[name](torch.nn.functional)(x)
    (once,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (twice,) = torch.autograd.grad(once.sum(), x)
    with np.errstate(invalid="ignore"):
        value = OURS[name](POINTS)
    theirs = [one.numpy(force=True) for one in (y, once, twice)]
    for order, (got, want) in enumerate(
        zip((value, *first_and_second(OURS[name], POINTS)), theirs, strict=True)
    ):
        # silu of an infinity is infinity times 0 there; at a bend no second derivative exists;
        # and PyTorch's second derivatives have lost their digits in the tails
        known = ~np.isnan(want) & ((POINTS != 0) | (order < 2))
        np.testing.assert_allclose(got[known], want[known], rtol=1e-13, atol=(order == 2) * 1e-14)
        assert known.sum() >= len(POINTS) - 4


@pytest.mark.parametrize("name", OURS)
def test_they_are_finite_where_their_argument_is(name: str) -> None:
    x = POINTS[np.isfinite(POINTS)]
    for array in (OURS[name](x), *first_and_second(OURS[name], x)):
        assert np.isfinite(array).all()
    assert np.isnan(cr.trace(OURS[name], np.array([np.nan, 1.0])).run(x=[np.nan, 1.0]).outputs[0])


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_they_keep_the_dtype(name: str, dtype: Any) -> None:
    x = np.array([[-1.5, 0.0, 2.0]], dtype)
    assert cr.trace(OURS[name], x).run(x=x).outputs.dtype == OURS[name](x).dtype == dtype


@pytest.mark.parametrize("name", ["log_sigmoid", "elu"])
def test_small_results_keep_their_digits(name: str) -> None:
    exact = {"log_sigmoid": (40.0, -4.248354255291589e-18), "elu": (-1e-20, -0.7e-20)}
    x, want = exact[name]
    np.testing.assert_allclose(OURS[name](np.array(x)), want, rtol=1e-15)
