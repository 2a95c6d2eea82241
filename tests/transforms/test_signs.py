"""What is said of signs is true of samples, and enough is said."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.transforms.signs import NON_NEGATIVE, NON_POSITIVE, NON_ZERO, sign

PLUS, MINUS = NON_NEGATIVE | NON_ZERO, NON_POSITIVE | NON_ZERO
KNOWN = {
    "x * x": (lambda x, y: x * x, NON_NEGATIVE),
    "-x * x": (lambda x, y: -x * x, NON_POSITIVE),
    "-(x * x) / 2": (lambda x, y: -(x * x) / 2, NON_POSITIVE),
    "-x**2 - y**2": (lambda x, y: -(x**2) - y**2, 0),  # a difference is not asked
    "-(x**2 + y**2)": (lambda x, y: -(x**2 + y**2), NON_POSITIVE),
    "x**3": (lambda x, y: x**3, 0),
    "abs(x)**3": (lambda x, y: np.abs(x) ** 3, NON_NEGATIVE),
    "x**2 + 1": (lambda x, y: x**2 + 1, PLUS),
    "-exp(x)": (lambda x, y: -np.exp(x), MINUS),
    "exp(x) * -3": (lambda x, y: np.exp(x) * -3, MINUS),
    "-exp(x) / -exp(y)": (lambda x, y: -np.exp(x) / -np.exp(y), PLUS),
    "-abs(x) * -exp(y)": (lambda x, y: -np.abs(x) * -np.exp(y), NON_NEGATIVE),
    "minimum(x, -1)": (lambda x, y: np.minimum(x, -1.0), MINUS),
    "minimum(x, 0)": (lambda x, y: np.minimum(x, 0.0), NON_POSITIVE),
    "maximum(x, 0)": (lambda x, y: np.maximum(x, 0.0), NON_NEGATIVE),
    "maximum(-abs(x), -abs(y))": (lambda x, y: np.maximum(-np.abs(x), -np.abs(y)), NON_POSITIVE),
    "sum of -x**2": (lambda x, y: np.sum(-(x**2), axis=0), NON_POSITIVE),
    "max of -exp(x)": (lambda x, y: np.max(-np.exp(x), axis=0), MINUS),
    "where": (lambda x, y: np.where(x > 0, -(y * y), -np.exp(y)), NON_POSITIVE),
    "sqrt(abs(x)) - 1": (lambda x, y: np.sqrt(np.abs(x)) - 1, 0),
    "(-abs(x) - 1)**0.5": (lambda x, y: (-np.abs(x)) ** 0.5, 0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_of_signs(name: str) -> None:
    function, expected = KNOWN[name]
    graph = cr.trace(function, x=float64[5, 4], y=float64[5, 4])
    ((_, node),) = graph.outputs
    assert sign(node) == expected
    x = np.random.default_rng(0).normal(size=(2, 5, 4))
    x[:, 0], x[0, 1] = 0, -0.0
    with np.errstate(all="ignore"):
        found = np.asarray(function(*x))
    found = found[~np.isnan(found)]
    for flag, holds in ((NON_NEGATIVE, found >= 0), (NON_POSITIVE, found <= 0)):
        assert not expected & flag or holds.all()
    assert not expected & NON_ZERO or np.all(found != 0)


def test_a_number_that_is_given_is_positive_only_for_who_takes_it_so() -> None:
    graph = cr.trace(lambda x, eps=1e-5: x * x + eps, x=float64[3])
    ((_, node),) = graph.outputs
    assert sign(node) == 0
    assert sign(node, numbers_are_positive=True) == PLUS
