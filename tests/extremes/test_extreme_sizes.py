"""Sizes that no array can have, or that are no integers: refused at the line, never allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError

V = np.arange(4.0)
OF_A_SIZE: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda x, n: np.reshape(x, (n, 3)),
    "broadcast_to": lambda x, n: np.broadcast_to(x, (n, 4)),
    "broadcast_to all": lambda x, n: np.broadcast_to(x, (n, n, n, 4)),
    "tile": lambda x, n: np.tile(x, (n, n)),
    "repeat": lambda x, n: np.repeat(np.repeat(x, n), n),
    "pad": lambda x, n: np.pad(x[:, None] * x, n),
    "pad with edges": lambda x, n: np.pad(x[:, None] * x, n, "edge"),
    "full_like": lambda x, n: np.full_like(x, 1, shape=(n, n)),
    "zeros_like": lambda x, n: np.zeros_like(x, shape=(n, n)),
    "linspace": lambda x, n: np.linspace(x[:, None] * x, 5, n),
    "logspace": lambda x, n: np.logspace(x[:, None] * x, 5, n),
    "geomspace": lambda x, n: np.geomspace(x + 1, 5, n),
    "diag": lambda x, n: np.diag(x, n) + np.diag(x, -n),
    "vander": np.vander,
    "split": np.split,
    "array_split": np.array_split,
    "resize": lambda x, n: np.resize(x, (n, n)),
    "bincount": lambda x, n: np.bincount(x.astype(int), minlength=n),
    "one_hot": lambda x, n: cr.one_hot(x.astype(int), n),
}
HUGE = [2**40, 2**62, 2**63, 2**64, 2**100]
SENSELESS = [-5, -(2**63), 1.5, float("nan"), float("inf"), "3", None]


@pytest.mark.sweep(11)
@pytest.mark.parametrize("name", OF_A_SIZE)
@pytest.mark.parametrize("size", [*HUGE, *SENSELESS], ids=str)
def test_a_size_that_cannot_be_is_refused_and_not_allocated(name: str, size: Any) -> None:
    if (name, size) in {("diag", -5), ("vander", None), ("split", None)}:
        return  # these have a meaning, or an error of their own
    tracemalloc.start()
    try:
        with pytest.raises((ChainruleError, ValueError)) as caught:
            graph = cr.trace(lambda x: OF_A_SIZE[name](x, size), V)
            graph.run(x=V)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, ChainruleError), repr(caught.value)
    assert caught.value.hint


def test_more_bytes_than_can_be_counted_are_refused_at_the_line() -> None:
    with pytest.raises(cr.errors.ShapeError, match=r"float64\[4611686018427387904, 4\]") as caught:
        cr.trace(lambda x: np.broadcast_to(x, (2**62, 4)), V)
    assert "np.broadcast_to(x, (2**62, 4))" in caught.value.where
    assert "2**63" in caught.value.hint


def test_axes_of_size_0_do_not_hide_a_size_that_cannot_be() -> None:
    with pytest.raises(cr.errors.ShapeError, match="more bytes than can be counted"):
        cr.trace(lambda x: np.zeros_like(x, shape=(0, 2**62, 4)), V)


def test_a_power_of_known_integers_is_not_computed_if_it_cannot_fit() -> None:
    def power(x: Any, n: Any) -> Any:
        return x * n**n

    with pytest.raises(cr.errors.DTypeError, match=r"1000000000\*\*1000000000 does not fit"):
        cr.trace(power, V, 10**9)
    np.testing.assert_array_equal(cr.trace(power, V, 3).run(x=V, n=3).outputs, V * 27)


@pytest.mark.parametrize("shape", [(-2, -2), (-4, -1), (2.0, 2), (4.7,)])
def test_a_shape_of_negative_or_broken_sizes_is_no_shape(shape: Any) -> None:
    with pytest.raises(ChainruleError, match="reshape"):
        cr.trace(lambda x: np.reshape(x, shape), V)


@pytest.mark.parametrize("value", [300, -129, 2**31, -(2**63)])
def test_full_like_keeps_no_part_of_a_number_that_does_not_fit(value: int) -> None:
    x = np.zeros(3, np.int8)
    with pytest.raises(ChainruleError, match="does not fit int8"):
        cr.trace(lambda x: np.full_like(x, value), x)


def test_a_step_beyond_the_axis_takes_the_first_window() -> None:
    x, w = np.ones((1, 1, 5)), np.ones((1, 1, 3))
    for stride in (9, 2**62):
        graph = cr.trace(lambda x, w, s=stride: cr.conv1d(x, w, stride=s), x, w)
        np.testing.assert_array_equal(graph.run(x=x, w=w).outputs, [[[3.0]]])
