"""Arrays without elements: every function gives what NumPy gives, or an error where NumPy does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError

SHAPES = [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)]
DTYPES = [np.float64, np.float32, np.float16, np.int8, np.bool_]
ALONG: dict[str, Callable[[Any, Any], Any]] = {
    one.__name__: lambda x, axis, one=one: one(x, axis=axis)
    for one in (
        *(np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.argmax, np.argmin),
        *(np.median, np.cumsum, np.cumprod, np.ptp, np.any, np.all, np.count_nonzero, np.sort),
        *(np.argsort, np.nansum, np.nanprod, np.nancumsum, np.flip),
    )
} | {
    "quantile": lambda x, axis: np.quantile(x, 0.3, axis=axis),
    "percentile": lambda x, axis: np.percentile(x, [30, 60], axis=axis),
    "partition": lambda x, axis: np.partition(x, 0, axis=axis),
    "argpartition": lambda x, axis: np.argpartition(x, 0, axis=axis),
    "repeat": lambda x, axis: np.repeat(x, 2, axis=axis),
    "roll": lambda x, axis: np.roll(x, 1, axis=axis),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    **{
        f"norm {order}": lambda x, axis, order=order: np.linalg.norm(x, order, axis=axis)
        for order in (0, 1, 2, 3, -1, np.inf, -np.inf)
    },
}
OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    **{
        f"norm {order}": lambda x, order=order: np.linalg.norm(x, order)
        for order in (1, 2, np.inf, "nuc", "fro")
    },
    "matrix_rank": np.linalg.matrix_rank,
    "svd": lambda x: np.linalg.svd(x, full_matrices=False),
    "pinv": np.linalg.pinv,
    "qr": np.linalg.qr,
    "lstsq": lambda x: np.linalg.lstsq(x, np.ones((x.shape[0], 2)))[0],
    "product": lambda x: x.T @ x,
    "kron": lambda x: np.kron(x, x),
}


def compare(function: Callable[[Any], Any], x: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = function(x)
        except Exception as error:
            with pytest.raises(ChainruleError):
                cr.trace(function, x).run(x=x)
            assert isinstance(error, (ValueError, TypeError, IndexError))
            return
    found = cr.trace(lambda x: function(x), x).run(x=x).outputs
    several = isinstance(wanted, tuple)
    for got, want in zip(
        found if several else [found], wanted if several else [wanted], strict=True
    ):
        assert (np.asarray(got).dtype, np.shape(got)) == (np.asarray(want).dtype, np.shape(want))
        np.testing.assert_array_equal(got, want)


@pytest.mark.sweep(19)
@pytest.mark.parametrize("name", ALONG)
def test_a_function_along_axes_of_no_elements(name: str) -> None:
    for shape in SHAPES:
        for dtype in DTYPES:
            x = np.zeros(shape, dtype)
            for axis in (None, *range(-len(shape), len(shape))):
                compare(lambda x, axis=axis: ALONG[name](x, axis), x)


@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_function_of_a_matrix_of_no_elements(name: str, shape: tuple[int, int]) -> None:
    compare(OF_MATRICES[name], np.zeros(shape))


@pytest.mark.parametrize("shape", [(0, 4, 3), (0, 4), (2, 4, 0)])
def test_group_norm_of_no_elements_is_empty(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    out, pull = cr.vjp(lambda x: cr.group_norm(x, 2), x)
    assert out.shape == shape and pull(out)[0].shape == shape
    with np.errstate(invalid="ignore"):  # a mean of nothing, as NumPy says
        assert cr.instance_norm(x).shape == shape
