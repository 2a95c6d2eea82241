"""How often a loop is done: bounds of every kind of integer, sizes, and what they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, SizeError

BOUNDS = [
    (np.uint8(5), np.uint8(3)),
    (np.uint8(3), np.uint8(5)),
    (np.int8(-100), np.int8(100)),
    (np.int8(0), np.int64(200)),
    (0, np.int8(5)),
    (np.int8(3), 200),
    (np.uint8(2), np.int8(5)),
    (-3, np.uint8(4)),
]


def count(lower: Any, upper: Any, start: Any = 0.0) -> Any:
    return cr.fori_loop(lower, upper, lambda i, c: c + i, start)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_bounds_of_numpy_count_as_python_does(lower: Any, upper: Any) -> None:
    expected = float(sum(range(int(lower), int(upper))))
    assert count(lower, upper) == expected
    assert count(np.asarray(lower), np.asarray(upper)) == expected


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_traced_bounds_of_any_dtype_count_as_python_does(lower: Any, upper: Any) -> None:
    expected = float(sum(range(int(lower), int(upper))))
    both = cr.trace(count, lower=np.asarray(lower), upper=np.asarray(upper), start=0.0)
    assert both.run(lower=np.asarray(lower), upper=np.asarray(upper), start=0.0).outputs == expected
    first = cr.trace(lambda one, c: count(one, upper, c), np.asarray(lower), 0.0)
    assert first.run(one=np.asarray(lower), c=0.0).outputs == expected
    last = cr.trace(lambda one, c: count(lower, one, c), np.asarray(upper), 0.0)
    assert last.run(one=np.asarray(upper), c=0.0).outputs == expected


def test_a_bound_beyond_int64_is_refused() -> None:
    with pytest.raises(InputError, match="the bound upper of fori_loop is 9223372036854775808"):
        count(0, np.uint64(2**63))


@pytest.mark.parametrize("n", [1, 3, 5, 7])
def test_both_bounds_may_be_sizes(n: int) -> None:
    def later(x: float64["n"]) -> Any:
        return cr.fori_loop(x.shape[0], 2 * x.shape[0], lambda i, c: c * x[0] + i, 0.0)

    def fewer(x: float64["n"]) -> Any:
        return cr.fori_loop(x.shape[0], 5, lambda i, c: c * x[0] + i, x[0])

    x = np.full(n, 0.5)
    for f, start, stop, c in ((later, n, 2 * n, 0.0), (fewer, n, 5, 0.5)):
        graph = cr.backward(cr.trace(f), wrt="x")
        slope = 0.0 if f is later else 1.0
        for i in range(start, stop):
            c, slope = c * 0.5 + i, slope * 0.5 + c
        run = graph.run(x=x)
        assert run[graph.outputs[0][0]] == pytest.approx(c)
        assert run[graph.outputs[1][0]][0] == pytest.approx(slope)


def test_a_length_that_may_be_negative_is_a_condition_of_the_graph() -> None:
    def f(x: float64["n"]) -> Any:
        def double(c: Any, _: None) -> Any:
            return 2 * c, c

        return cr.scan(double, x[0], length=x.shape[0] - 3)

    graph = cr.trace(f)
    assert graph.run(x=np.ones(5)).outputs[0] == 4
    assert graph.run(x=np.ones(3)).outputs[1].shape == (0,)
    with pytest.raises(SizeError, match="double is done n - 3 times, which must not be negative"):
        graph.run(x=np.ones(2))


def test_a_loop_of_numbers_that_is_done_a_named_number_of_times_is_explained() -> None:
    def f(x: float64["n"]) -> Any:
        def grow(i: Any, c: Any) -> Any:
            return c + 1.0

        return x[0] + cr.fori_loop(0, x.shape[0], grow, 0.0)

    def g(x: float64["n"]) -> Any:
        def grow(c: Any, _: None) -> Any:
            return c + 1.0, None

        return x[0] + cr.scan(grow, 0.0, length=x.shape[0])[0]

    for one in (f, g):
        with pytest.raises(InputError, match="grow would run n times on numbers alone") as caught:
            cr.trace(one)
        assert "np.zeros_like(x, shape=())" in caught.value.hint

    def h(x: float64["n"]) -> Any:
        start = np.zeros_like(x, shape=())
        return cr.fori_loop(0, x.shape[0], lambda i, c: c + 1.0, start)

    assert cr.trace(h).run(x=np.ones(3)).outputs == 3
