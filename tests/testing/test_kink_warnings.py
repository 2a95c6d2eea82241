"""`check_gradients` warns at every kink, inside of loops and branches too, and nowhere else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientCheckError, KinkWarning
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import as_function, check_gradients

TWO, PAIR, LINE = np.array([1.0, 2.0]), np.array([1.0, 1.0]), np.array([3.0, 1.0, 3.0])


def primitive(name, **params):
    return as_function(next(one for one in PRIMITIVES if one.name == name), **params)


def chosen(name):
    """A function whose branch such a comparison chooses; at equality one of two that differ."""
    compare = getattr(np, name)
    return lambda x: np.where(compare(x, 1.0), 3 * x * x, x)


def picked(name):
    place = getattr(np, name)
    return lambda x: np.sum(np.where(np.arange(3) == place(x), x * np.arange(1.0, 4.0), 0))


# Each primitive with kinks: a function of one array, a point at a kink, and one beside it.
TABLE = {
    "absolute": (lambda x: np.abs(x - 1), 1.0, 1.5),
    "sign": (lambda x: np.sign(x) * np.cos(x), 0.0, 0.3),
    "sqrt": (np.sqrt, 0.0, 0.3),
    "cbrt": (np.cbrt, 0.0, 0.3),
    "power": (lambda x: x**0.5, 0.0, 0.3),
    "maximum": (lambda x: np.maximum(x * x, x), 1.0, 1.5),
    "minimum": (lambda x: np.minimum(x, 1), 1.0, 1.5),
    "arcsin": (np.arcsin, 1.0, 0.5),
    "arccos": (np.arccos, -1.0, 0.5),
    "arccosh": (np.arccosh, 1.0, 1.5),
    "arctan2": (lambda x: np.arctan2(x, x * x + x), 0.0, 0.5),
    "hypot": (lambda x: np.hypot(x, 2 * x), 0.0, 0.5),
    "floor": (lambda x: x * np.floor(x), 2.0, 2.5),
    "ceil": (lambda x: x * np.ceil(x), 2.0, 2.5),
    "trunc": (lambda x: x * np.trunc(x), 2.0, 2.5),
    "rint": (lambda x: x * np.rint(x), 2.5, 2.2),
    "floor_divide": (lambda x: x * (x // 2.0), 4.0, 4.5),
    "remainder": (lambda x: x % 2.0, 4.0, 4.5),
    "fmod": (lambda x: np.fmod(x, 2.0), -4.0, -4.5),
    "copysign": (lambda x: np.copysign(x * x + 1, x), 0.0, 0.5),
    "erfinv": (lambda x: primitive("erfinv")(x), 1.0, 0.5),
    "xlogy": (lambda x: cr.xlogy(x, np.float64(0)), 0.0, None),
    "entr": (cr.entr, 0.0, 0.5),
    "i0e": (cr.i0e, 0.0, 0.5),
    "i1e": (cr.i1e, 0.0, 0.5),
    "i0e_slope": (primitive("i0e_slope"), 0.0, 0.5),
    "i1e_slope": (primitive("i1e_slope"), 0.0, 0.5),
    "bessel_derivative": (primitive("bessel_derivative", order=0, slope=2), 0.0, 0.5),
    "less": (chosen("less"), 1.0, 1.5),
    "less_equal": (chosen("less_equal"), 1.0, 1.5),
    "greater": (chosen("greater"), 1.0, 1.5),
    "greater_equal": (chosen("greater_equal"), 1.0, 1.5),
    "equal": (chosen("equal"), 1.0, 1.5),
    "not_equal": (chosen("not_equal"), 1.0, 1.5),
    "max": (np.max, LINE, TWO),
    "min": (np.min, PAIR, TWO),
    "argmax": (picked("argmax"), LINE, np.array([3.0, 1, 2])),
    "argmin": (picked("argmin"), np.array([1.0, 1, 2]), np.array([3.0, 1, 2])),
    "argsort": (lambda x: np.sort(x) @ np.arange(3.0), LINE, np.array([3.0, 1, 2])),
    "searchsorted": (
        lambda x: np.sum(x * (1 + np.searchsorted(TWO, x))),
        TWO,
        TWO + 0.5,
    ),
    "cummax": (lambda x: np.maximum.accumulate(x) @ np.arange(3.0), LINE, np.array([3.0, 1, 2])),
    "cummin": (
        lambda x: np.minimum.accumulate(x) @ np.arange(3.0),
        PAIR[[0, 1, 1]],
        LINE + TWO[[0, 0, 1]],
    ),
}


def turning(x):
    return cr.fori_loop(0, 3, lambda i, h: np.abs(h - 1) * x, x)


MORE = [
    (cr.relu, 0.0, 0.5),
    (lambda x: np.clip(x, 1, 5), 5.0, 2.0),
    (lambda x: np.median(x), np.array([1.0, 2, 2, 5, 9]), np.array([1.0, 2, 3, 5, 9])),
    (np.ptp, LINE, TWO),
    (lambda x: np.linalg.norm(x), np.zeros(2), TWO),
    (lambda x: np.linalg.norm(x, 1), np.array([0.0, 1.0]), TWO),
    (lambda x: np.sum(cr.max_pool1d(x[None, None], 2) ** 2), PAIR, TWO),
    (lambda x: np.sum(cr.leaky_relu(x)), np.array([0.0, 1.0]), TWO),
    (turning, 1.0, 1.5),
    (lambda x: cr.scan(lambda h, row: (np.abs(h) + row, h), x, np.ones(3) * x)[0], 0.0, 0.4),
    (lambda x: cr.cond(np.cos(x) > 0, lambda x: np.abs(x), lambda x: x, x), 0.0, 0.4),
    (lambda x: cr.cond(x > 0, lambda x: 2 * x, lambda x: x, x), 0.0, 0.4),
]
SMOOTH = [
    (cr.softplus, 0.0),
    (lambda x: np.logaddexp(x, 1.0), 1.0),
    (lambda x: np.linalg.norm(x) ** 2, np.zeros(2)),
    (lambda x: np.abs(x) * np.abs(x), 0.0),
    (lambda x: np.sum(np.sort(x) ** 2), LINE),
    (cr.softmax, PAIR),
    (cr.logsumexp, PAIR),
    (lambda x: x**2.0, 0.0),
    (lambda x: np.sum(np.maximum(x, np.where(x > 0, x, 2 * x))), TWO),
    (lambda x: np.sum(np.abs(np.array([1.0, 0.0])) * x), TWO),
]


def warned(f, point, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_gradients(f, point, **options)
        except GradientCheckError:  # a convention is not what differences give
            pass
    return [one for one in caught if issubclass(one.category, KinkWarning)]


def test_the_table_has_every_primitive_with_kinks():
    assert set(TABLE) == {one.name for one in PRIMITIVES if one.kink is not None}


@pytest.mark.sweep(11)
@pytest.mark.parametrize("name", TABLE)
def test_a_kink_of_a_primitive_is_warned_of(name):
    f, kink, beside = TABLE[name]
    [warning] = warned(f, kink)
    assert name in str(warning.message)
    if beside is not None:
        assert not warned(f, beside)


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("f", "kink", "beside"), MORE)
def test_a_kink_of_a_function_is_warned_of(f, kink, beside):
    assert len(warned(f, kink)) == 1
    assert not warned(f, beside)


@pytest.mark.parametrize(("f", "point"), SMOOTH)
def test_a_smooth_function_at_kinks_of_its_parts_is_not(f, point):
    assert not warned(f, point)


def test_the_order_that_is_checked_decides():
    def f(x):
        return x * np.abs(x)

    assert not warned(f, 0.0, order=1)
    assert len(warned(f, 0.0, order=2)) == 1
