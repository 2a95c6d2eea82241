"""Reductions, running functions and statistics of arrays whose lengths have names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError, UnsupportedError

METHODS: Any = ("linear", "lower", "midpoint")
MASK = np.array([True, False, True])

FUNCTIONS = [
    lambda x: np.prod(x),
    lambda x: np.prod(x, 0),
    lambda x: np.prod(x, 1),
    lambda x: np.any(x > 1, 0),
    lambda x: np.argmin(x, 0),
    lambda x: np.argmin(x),
    lambda x: np.cumsum(x, 0),
    lambda x: np.cumsum(x),
    lambda x: np.cumprod(x, 0),
    lambda x: np.cumprod(x, 1),
    lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
    lambda x: np.maximum.accumulate(x, axis=0),
    lambda x: np.maximum.accumulate(x, axis=1),
    lambda x: np.multiply.outer(x, x),
    lambda x: np.sum(x, 0, where=MASK),
    lambda x: np.max(x, 0, where=x > 0, initial=-1.0),
    lambda x: np.mean(x, 0, where=x > -1),
    lambda x: np.mean(x, dtype=np.float32),
    lambda x: np.var(x, 0, ddof=1),
    lambda x: np.var(x, ddof=0.5),
    lambda x: np.var(x, where=x > -1, ddof=1),
    lambda x: np.std(x, 1, mean=np.zeros((1, 1))),
    lambda x: np.average(x, 1, weights=[1, 2, 3]),
    lambda x: np.average(x, 0, weights=x[:, 0] ** 2),
    lambda x: np.divide(*np.average(x, 0, returned=True)),
    lambda x: np.ptp(x, 0),
    lambda x: np.count_nonzero(x > 0, axis=0),
    lambda x: np.median(x, 0),
    lambda x: np.median(x, keepdims=True),
    lambda x: np.median(x, 1),
    *(lambda x, m=m: np.quantile(x, 0.3, 0, method=m) for m in METHODS),
    lambda x: np.percentile(x, [20, 50, 100], axis=0, keepdims=True),
    lambda x: np.nanmedian(x, 0),
    lambda x: np.nanquantile(x, 0.3, 0),
    lambda x: np.nanmean(x, 0),
    lambda x: np.nanmax(x, 0),
    lambda x: np.nanvar(x, 1),
    lambda x: np.diff(x, axis=0),
    lambda x: np.diff(x, axis=1, prepend=0),
    lambda x: np.ediff1d(x),
    lambda x: np.gradient(x, axis=0),
    lambda x: np.gradient(x, axis=1),
    lambda x: np.trapezoid(x, axis=0),
    lambda x: np.trapezoid(x, x[:, 1], axis=0),
    lambda x: np.unwrap(x, axis=0),
    lambda x: np.cov(x, rowvar=False),
    lambda x: np.cov(x),
    lambda x: np.corrcoef(x.T),
    lambda x: np.convolve(x[:, 0], [1.0, 2.0, 3.0]),
    lambda x: np.convolve([1.0, 2.0], x[:, 0], "valid"),
    lambda x: np.correlate(x[:, 0], [1.0, 2.0], "same"),
    lambda x: np.searchsorted(np.arange(3.0), x),
    lambda x: np.searchsorted(np.cumsum(x[:, 0] ** 2), x[0]),
    lambda x: np.interp(x, [0.0, 1.0, 2.0], [1.0, 3.0, 2.0]),
    lambda x: np.interp(x[0], np.cumsum(x[:, 0] ** 2), x[:, 1]),
    lambda x: np.bincount(np.argmax(x, 1), x[:, 0], minlength=3),
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("place", range(len(FUNCTIONS)))
def test_they_are_numpys_for_every_length(place: int) -> None:
    function = FUNCTIONS[place]

    def program(x: float64["n 3"]):
        out = function(x)
        return out

    graph = cr.trace(program)
    for length in (3, 4, 7):
        x = np.random.default_rng(length).standard_normal((length, 3))
        got, want = graph.run(x=x).outputs, np.asarray(function(x))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, 1e-12, 1e-12)


EXAMPLE = np.random.default_rng(4).standard_normal((4, 3))
FLOATS = [i for i, f in enumerate(FUNCTIONS) if np.asarray(f(EXAMPLE)).dtype.kind == "f"]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("place", FLOATS)
def test_their_gradients_are_those_of_known_lengths(place: int) -> None:
    function, x = FUNCTIONS[place], EXAMPLE

    def named(x: float64["n 3"]):
        out = np.sum(np.sin(function(x)))
        return out

    def known(x: Any) -> Any:
        out = np.sum(np.sin(function(x)))
        return out

    got = cr.backward(cr.trace(named), wrt="x").run(x=x)["dout/dx"]
    want = cr.backward(cr.trace(known, x), wrt="x").run(x=x)["dout/dx"]
    assert np.any(want)
    np.testing.assert_allclose(got, want, 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: np.quantile(x, 0.3, method="weibull"), "use one of linear, lower"),
        (lambda x: np.convolve(x[:, 0], x[:, 1]), "the length of one of the two has to be known"),
    ],
)
def test_what_needs_a_known_length_says_so(function: Any, text: str) -> None:
    def program(x: float64["n 3"]):
        return function(x)

    with pytest.raises(UnsupportedError, match=text):
        cr.trace(program)


def test_too_short_an_axis_is_refused_when_it_is_known() -> None:
    def program(x: float64["n 3"]):
        return np.convolve(x[:, 0], [1.0, 2.0, 3.0], "valid")

    graph = cr.trace(program)
    assert graph.run(x=np.ones((3, 3))).outputs.shape == (1,)
    with pytest.raises(ChainruleError, match=r"a window of 3 is larger than its axis of"):
        graph.run(x=np.ones((2, 3)))

    def slopes(x: float64["n 3"]):
        return np.gradient(x, axis=0, edge_order=2)

    graph = cr.trace(slopes)
    assert graph.run(x=np.ones((3, 3))).outputs.shape == (3, 3)
    with pytest.raises(ChainruleError, match="needs at least 3 elements"):
        graph.run(x=np.ones((2, 3)))
