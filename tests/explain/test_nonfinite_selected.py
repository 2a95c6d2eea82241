"""The search follows what was selected: a bad value that is left out is never blamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.explain.nonfinite import Diagnosis

INF = np.inf


def found(function: Callable[..., Any], x: Any, wrt: str = "") -> Diagnosis | None:
    graph = cr.trace(function, np.asarray(x, float))
    return (cr.backward(graph, wrt=wrt) if wrt else graph).nonfinite(x=np.asarray(x, float))


def where(x):
    return np.where(x >= 0, np.log(x), 0)


def largest(x):
    return np.maximum(np.log(x + 1), np.sqrt(np.abs(x)) - 1 / x)


def clipped(x):
    r = 1 / x
    return np.clip(r, -10, 10) + np.log(x - 3)


def largest_of_all(x):
    return np.max(1 / x)


def indexed(x):
    return np.log(x)[np.array([2, 1])]


def sliced(x):
    return np.log(x)[1:]


def rows(x):
    return np.sum(np.log(x.reshape(2, 2)), axis=1)[1:]


def product(x):
    h = np.log(x.reshape(2, 2)) @ np.ones((2, 3))
    return h[1]


def running(x):
    return np.cumsum(np.log(x))[:2]


def backwards(x):
    return np.cumsum(np.log(x)[::-1])[::-1][2:]


def solved(x):
    a = np.stack([np.diag(np.log(x[:2])), np.diag(np.log(x[2:]))])
    return np.linalg.det(a)[1]


def placed(x):
    return (np.zeros(3) * x[0]).at[np.array([0, 1, 2])].set(np.log(x[:3]))[1:]


def joined(x):
    return np.concatenate([np.log(x[:2]), np.sqrt(x[2:])])[1:]


def chosen_twice(x):
    h = np.where(x > 0, np.log(x), np.sqrt(x))
    return np.where(x > -2, 0.0, h)


def in_a_batch(x):
    return cr.vmap(lambda r: cr.cond(r >= 0, lambda r: np.log(r), lambda r: 0.0 * r, r))(x)


def rows_of_a_scan(x):
    hs = cr.scan(lambda c, r: (c, np.log(r)), 0.0, x)[1]
    return np.where(x >= 0, hs, 0.0)


def a_row_of_a_scan(x):
    return cr.scan(lambda c, r: (c + 1, np.log(r)), 0.0, x)[1][1]


def not_carried(x):
    def step(c, r):
        h = np.log(r)
        return np.where(r >= 0, c + h, c), h

    return cr.scan(step, 0.0, x)[0]


def one_of_two_carries(x):
    def step(c, r):
        return (c[0] + np.sqrt(r), c[1] + np.log(np.abs(r))), None

    return cr.scan(step, (0.0, 0.0), x)[0][1]


def elements_of_a_carry(x):
    c = cr.fori_loop(0, 3, lambda i, c: c + np.log(x - i), np.zeros(3) * x)
    return c[2]


# function, x, value or expression, became, indices, inside, cause
CASES: dict[str, tuple[Any, ...]] = {
    "where": (where, [-1, 0, 3], "log(x)", "-inf", [(1,)], (), "log of 0 is -inf"),
    "maximum": (largest, [-2, -1, 0], "log(x + 1)", "NaN", [(0,)], (), "below 0"),
    "maximum of -inf": (largest, [-1, 1, 2], None, "", [], (), ""),
    "clip": (clipped, [0, 4, 5], "log(x - 3)", "NaN", [(0,)], (), "below 0"),
    "clip of inf": (clipped, [4, 3, 5], "log(x - 3)", "-inf", [(1,)], (), "log of 0"),
    "max": (largest_of_all, [1, -0.0, 0.0], "1 / x", "inf", [(2,)], (), "1 / 0 is inf"),
    "max of -inf": (largest_of_all, [1, -0.0, 2], None, "", [], (), ""),
    "index": (indexed, [-1, 0, 3], "log(x)", "-inf", [(1,)], (), "log of 0"),
    "index of none": (indexed, [-1, 1, 3], None, "", [], (), ""),
    "slice": (sliced, [-1, 0, 3], "log(x)", "-inf", [(1,)], (), "log of 0"),
    "row": (rows, [-1, 1, 0, 2], "log(x)", "-inf", [(1, 0)], (), "log of 0"),
    "matmul": (product, [-1, 1, 0, 2], "log(x)", "-inf", [(1, 0)], (), "log of 0"),
    "cumsum": (running, [1, 0, -1], "log(x)", "-inf", [(1,)], (), "log of 0"),
    "cumsum backwards": (backwards, [-1, 1, 0], "log(x)", "-inf", [(2,)], (), "log of 0"),
    "det": (solved, [-1, 1, 0, 2], "log(x[...])", "-inf", [(0,)], (), "log of 0"),
    "set": (placed, [-1, 0, 3], "log(x)", "-inf", [(1,)], (), "log of 0"),
    "concatenate": (joined, [-1, 0, -4], "log(x[...])", "-inf", [(1,)], (), "log of 0"),
    "where twice": (chosen_twice, [-1, 0, -3], "sqrt(x)", "NaN", [(2,)], (), "negative number"),
    "cond in vmap": (in_a_batch, [-1, 0, 3], "log(x)", "-inf", [(1,)], (), "log of 0"),
    "rows of scan": (
        rows_of_a_scan, [-1, 0, 3], "log(r)", "-inf", [()],
        ("iteration 1 (of 0 to 2) of a loop",), "log of 0",
    ),
    "row of scan": (
        a_row_of_a_scan, [-1, 0, 3], "log(r)", "-inf", [()],
        ("iteration 1 (of 0 to 2) of a loop",), "log of 0",
    ),
    "rows of scan left out": (rows_of_a_scan, [-1, -2, 3], None, "", [], (), ""),
    "carry": (
        not_carried, [-1, -2, 0], "h", "-inf", [()],
        ("iteration 2 (of 0 to 2) of a loop over step",), "log of 0",
    ),
    "one carry": (
        one_of_two_carries, [-1, -2, 0], "log(absolute(r))", "-inf", [()],
        ("iteration 2 (of 0 to 2) of a loop over step",), "log of 0",
    ),
    "elements of a carry": (
        elements_of_a_carry, [-1, 0, 1], "log(x - i)", "-inf", [(2,)],
        ("iteration 1 (of 0 to 2) of a loop",), "log of 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backward", [False, True])
def test_what_was_left_out_is_not_blamed(case: str, backward: bool) -> None:
    function, x, expression, became, indices, inside, because = CASES[case]
    if backward:
        if expression is None or case == "det":
            return  # a derivative may be bad where the value is not, or refused for all matrices

        def total(x):
            return np.sum(function(x))

        one = found(total, x, wrt="x")  # of the gradient, too, the forward pass is the first
    else:
        one = found(function, x)
    if expression is None:
        assert one is None
        return
    assert one is not None
    assert expression in (one.expression, one.value)
    assert (one.became, list(one.indices), one.inside) == (became, indices, inside)
    assert because in one.because


def test_what_an_operation_refused_is_told_by_what_was_given_to_it() -> None:
    def spectrum(x):
        h = np.log(x)
        return np.linalg.eigvalsh(np.diag(h))

    one = found(spectrum, [1, -1, 2])
    assert one is not None
    assert (one.value, one.indices, one.because) == ("h", ((1,),), "log of a number below 0 is NaN")
    with pytest.raises(cr.errors.EvaluationError, match="cholesky"):  # of finite numbers: as run
        found(lambda x: np.linalg.cholesky(np.diag(x)), [1, -1])
