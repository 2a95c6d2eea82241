"""Derivatives of reductions, running functions and statistics, of orders 1 and 2."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from chainrule.errors import KinkWarning
from chainrule.testing import check_gradients

AT_KINKS = {"corrcoef"}  # which clips at 1, the correlation of a row with itself
RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    """Numbers of which no two are equal."""
    count = int(np.prod(shape))
    return (RANDOM.permutation(count) + RANDOM.uniform(0.2, 0.8, count)).reshape(shape) / 4 - 1


def zeros_at(x: np.ndarray, *places: Any) -> np.ndarray:
    x = x.copy()
    for place in places:
        x[place] = 0
    return x


X, ROW, CUBE, ONE, SCALAR = normal(3, 4), normal(6), normal(2, 3, 2), normal(1, 1), normal()
MASK = np.array([[True, False, True, False], [False, False, True, True], [True] * 4])
PLACES, SQUARES = np.cumsum(ROW**2 + 1), np.arange(5.0) ** 2
METHODS: Any = ("linear", "lower", "higher", "midpoint", "nearest", "hazen")
MODES: Any = ("full", "same", "valid")
WEIGHTS = np.abs(normal(4)) + 0.3

CASES: list[tuple[str, Any, tuple[np.ndarray, ...]]] = [
    ("prod", lambda x: np.prod(x), (ROW,)),
    ("prod along", lambda x: np.prod(x, 1, keepdims=True), (X,)),
    ("prod over two axes", lambda x: np.prod(x, (0, 2)), (CUBE,)),
    ("prod of one zero", lambda x: np.prod(x), (zeros_at(ROW, 2),)),
    ("prod of two zeros", lambda x: np.prod(x, 1), (zeros_at(X, (0, 1), (0, 3), (1, 0)),)),
    ("prod of nothing", lambda x: np.prod(x, 0), (np.zeros((0, 3)),)),
    ("prod of a number", lambda x: np.prod(x), (SCALAR,)),
    ("prod where", lambda x: np.prod(x, 0, where=MASK, initial=2.0), (X,)),
    ("sum where", lambda x: np.sum(x * x, 1, where=MASK, initial=2.0), (X,)),
    ("max where", lambda x: np.max(x * x, 1, where=MASK, initial=-9.0), (X,)),
    ("max of an initial", lambda x, y: np.max(x, initial=y), (X, normal())),
    ("amin", lambda x: np.amin(x * x, 0), (X,)),
    ("ptp", lambda x: np.ptp(x * x, 1), (X,)),
    ("cumsum", lambda x: np.cumsum(x) ** 2, (X,)),
    ("cumsum along", lambda x: x.cumsum(-2) ** 2, (CUBE,)),
    ("cumprod", lambda x: np.cumprod(x), (X,)),
    ("cumprod of zeros", lambda x: np.cumprod(x, 1), (zeros_at(X, (0, 0), (1, 1), (1, 2)),)),
    ("cumulative_prod", lambda x: np.cumulative_prod(x, include_initial=True), (ROW,)),
    ("maximum.accumulate", lambda x: np.maximum.accumulate(x * x, axis=1), (X,)),
    ("minimum.accumulate", lambda x: np.minimum.accumulate(x * x), (CUBE,)),
    ("add.reduce", lambda x: np.add.reduce(x * x), (X,)),
    ("multiply.outer", lambda x, y: np.multiply.outer(x, y), (X, ROW)),
    ("mean where", lambda x: np.mean(x * x, 1, where=MASK), (X,)),
    ("var", lambda x: np.var(x, 1, ddof=1), (X,)),
    ("var where", lambda x: np.var(x, where=MASK, correction=1), (X,)),
    ("var around", lambda x, y: np.var(x, mean=y), (X, normal())),
    ("std", lambda x: np.std(x, (0, 1), ddof=0.5, keepdims=True), (X,)),
    ("std where", lambda x: np.std(x, 1, where=MASK), (X,)),
    ("average", lambda x, w: np.average(x, 1, weights=w), (X, WEIGHTS)),
    ("average of all", lambda x, w: np.average(x, weights=w, returned=True), (X, X**2)),
    ("median", lambda x: np.median(x * x, 1), (X,)),
    ("median of an odd number", lambda x: np.median(x * x, 0, keepdims=True), (X,)),
    ("median of all", lambda x: np.median(x * x), (CUBE,)),
    *(
        (f"quantile {method}", lambda x, m=method: np.quantile(x * x, 0.3, 1, method=m), (X,))
        for method in METHODS
    ),
    ("percentiles", lambda x: np.percentile(x * x, [10, 50, 95.5], axis=0), (X,)),
    ("nansum", lambda x: np.nansum(x * x, 1), (X,)),
    ("diff", lambda x: np.diff(x * x, 2, axis=0), (X,)),
    ("diff with ends", lambda x, y: np.diff(x * x, prepend=y, append=y * y), (X, normal())),
    ("ediff1d", lambda x, y: np.ediff1d(x * x, to_end=y), (X, ROW)),
    ("gradient", lambda x: np.gradient(x * x), (X,)),
    ("gradient between", lambda x, c: np.gradient(x, c, edge_order=2), (ROW, PLACES)),
    ("gradient by", lambda x, h: np.gradient(x, h, axis=1, edge_order=2), (X, normal() + 3)),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), (X, normal(4))),
    ("trapezoid dx", lambda y, h: np.trapezoid(y, dx=h, axis=0), (X, normal())),
    ("unwrap", lambda x: np.unwrap(x * 5) ** 2, (ROW,)),
    ("cov", lambda x: np.cov(x), (X,)),
    ("cov of two", lambda x, y: np.cov(x, y, rowvar=False), (X, normal(3))),
    ("cov weighted", lambda x, w: np.cov(x, aweights=w), (X, WEIGHTS)),
    ("corrcoef", lambda x: np.corrcoef(x)[0, 1], (X,)),
    *(
        (f"convolve {mode}", lambda a, v, m=mode: np.convolve(a, v, m), (ROW, normal(3)))
        for mode in MODES
    ),
    ("correlate", lambda a, v: np.correlate(a, v, "full"), (normal(2), ROW)),
    ("interp", lambda x, p, f: np.interp(x, p, f), (normal(5) / 2 + 1, SQUARES, normal(5))),
    ("interp beyond", lambda x, f: np.interp(x, [0, 1, 3], f), (normal(9), normal(3))),
    ("bincount", lambda w: np.bincount(np.array([0, 2, 0, 1, 2, 2]), w * w), (ROW,)),
]  # fmt: skip


@pytest.mark.sweep(11)
@pytest.mark.parametrize(("function", "given"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_derivatives_are_those_of_finite_differences(
    function: Any, given: Any, request: pytest.FixtureRequest
) -> None:
    with warnings.catch_warnings():
        if request.node.callspec.id in AT_KINKS:
            warnings.simplefilter("ignore", KinkWarning)
        check_gradients(function, *given, seed=3)
