"""logcumsumexp: extremes, infinities, NaN, named sizes, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ShapeError
from chainrule.testing import check_gradients

INF, NAN = np.inf, np.nan
RANDOM = np.random.default_rng(2)
ROWS = {
    "large": [1000.0, 1000, 999],
    "small": [-1000.0, -2000, -1000],
    "rising": [-1e300, -800, 0, 800, 1e300],
    "falling": [1e300, 800, 0, -800, -1e300],
    "from nothing": [-INF, -INF, -2000, -INF, -2000],
    "to infinity": [0, INF, 1, -INF],
    "NaN": [1, NAN, 2, INF],
}


@pytest.mark.parametrize("name", ROWS)
@EITHER
def test_extremes_are_those_of_logaddexp(name: str, executor: str) -> None:
    x = np.array(ROWS[name])
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.accumulate(x)
        np.testing.assert_allclose(cr.logcumsumexp(x), wanted, rtol=1e-15)
        run = cr.trace(lambda x: cr.logcumsumexp(x), x).run(x=x, executor=executor)
    np.testing.assert_allclose(run.outputs, wanted, rtol=1e-15)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["large", "small", "rising"])
def test_gradients_of_extremes_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.array(ROWS[name])
    leaf = torch.tensor(x, requires_grad=True)
    torch.sum(torch.logcumsumexp(leaf, 0)).backward()
    gradient = cr.grad(lambda x: np.sum(cr.logcumsumexp(x)))(x)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-12)


def test_all_sums_that_one_element_outweighs_have_its_slope() -> None:
    gradient = cr.grad(lambda x: np.sum(cr.logcumsumexp(x)))(np.array(ROWS["falling"]))
    np.testing.assert_array_equal(gradient, [5, 0, 0, 0, 0])  # PyTorch has 1 for the first


def test_where_all_so_far_are_minus_infinity_the_derivative_is_0() -> None:
    x = np.array([-INF, -INF, 3.0, 3.0])
    np.testing.assert_allclose(cr.grad(lambda x: cr.logcumsumexp(x)[-1])(x), [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(cr.grad(lambda x: cr.logcumsumexp(x)[1])(x), [0, 0, 0, 0])


def test_both_orders_agree_with_finite_differences() -> None:
    x = RANDOM.normal(size=(2, 4)) * 3
    check_gradients(lambda x: np.sum(np.sin(cr.logcumsumexp(x))), x, order=2)


def test_named_sizes_empty_axes_integers_and_float32() -> None:
    def running(x: float64["n t"]):
        y = cr.logcumsumexp(x, axis=0)
        return y

    x = RANDOM.normal(size=(5, 2))
    np.testing.assert_allclose(cr.trace(running).run(x=x)["y"], np.logaddexp.accumulate(x))
    assert cr.logcumsumexp(np.zeros((0, 2)), 0).shape == (0, 2)
    assert cr.logcumsumexp(np.array([1, 2])).dtype == np.float64
    assert cr.logcumsumexp(np.ones(3, np.float32)).dtype == np.float32
    for call in (lambda x: cr.logcumsumexp(x, 2), lambda x: cr.logcumsumexp(x[0, 0])):
        with pytest.raises(ShapeError, match="logcumsumexp: axis"):
            cr.trace(call, x)


def test_it_is_written_as_one_function() -> None:
    def running(x: float64["n t"]) -> Any:
        y = cr.logcumsumexp(x)
        return y

    assert "y = logcumsumexp(x)" in str(cr.trace(running).equations())
