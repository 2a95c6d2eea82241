"""Faults in loops within choices within loops, and in derivatives of first and second order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from nonfinite_truths import BACK, SECOND, Truth, branch, check, of

import chainrule as cr
from chainrule import float64

INF = np.inf


def scan_in_while_in_cond(x):
    def inner(c, r):
        h = np.log(r - c)
        return c + 1.0, h

    def turn(s):
        i, total = s
        _, hs = cr.scan(inner, i * 1.0, x)
        return i + 1, total + np.sum(hs)

    def looping(x):
        return cr.while_loop(lambda s: s[0] < 3, turn, (0, 0.0), max_steps=5)[1]

    def plain(x):
        return np.sum(x)

    return cr.cond(np.sum(x) > 0, looping, plain, x)


def while_in_scan(x):
    def halve(v):
        h = 1 / (v - 1)
        return v / 2 + 0 * h

    def row(c, r):
        return c + cr.while_loop(lambda v: v > 0.6, halve, r, max_steps=8), None

    return cr.scan(row, 0.0, x)[0]


def fori_in_fori(x):
    def outer(i, a):
        def inner(j, b):
            h = np.sqrt(b - i * j)
            return b + 0 * h

        return cr.fori_loop(0, 3, inner, a)

    return np.sum(cr.fori_loop(0, 3, outer, x))


def cond_in_while(x):
    def root(v):
        h = np.sqrt(v)
        return h

    def same(v):
        return v * 1.0

    def turn(s):
        i, v = s
        return i + 1, cr.cond(i == 2, root, same, v - 1)

    return cr.while_loop(lambda s: s[0] < 4, turn, (0, x), max_steps=6)[1]


def without_bound(x):
    def turn(s):
        i, v = s
        h = np.log(v - i)
        return i + 1, v + 0 * h

    return np.sum(cr.while_loop(lambda s: s[0] < 4, turn, (0, x))[1])


def root_in_scan(x):
    def cell(c, r):
        h = np.sqrt(r)
        return c + h, None

    return cr.scan(cell, 0.0, x)[0]


def root_in_bounded(x):
    def turn(s):
        i, c = s
        h = np.sqrt(x[i])
        return i + 1, c + h

    return cr.while_loop(lambda s: s[0] < 3, turn, (0, 0.0), max_steps=7)[1]


def power_in_scan(x):
    def cell(c, r):
        h = r**1.5
        return c + h, None

    return cr.scan(cell, 0.0, x)[0]


def power_in_bounded(x):
    def turn(s):
        i, c = s
        h = x[i] ** 1.5
        return i + 1, c + h

    return cr.while_loop(lambda s: s[0] < 3, turn, (0, 0.0), max_steps=7)[1]


def root_in_cond(x):
    def root(v):
        h = np.sqrt(v)
        return np.sum(h)

    def plain(v):
        return np.sum(v)

    return cr.cond(np.sum(x) > 0, root, plain, x)


def root_in_nested_scan(x):
    def inner(c, r):
        h = np.sqrt(r)
        return c + h, None

    def outer(c, row):
        return cr.scan(inner, c, row)[0], None

    return cr.scan(outer, 0.0, x.reshape(2, 2))[0]


def root_in_bounded_in_scan(x):
    def outer(c, r):
        def turn(s):
            i, v = s
            h = np.sqrt(r - i)
            return i + 1, v + h

        return c + cr.while_loop(lambda s: s[0] < 2, turn, (0, 0.0), max_steps=3)[1], None

    return cr.scan(outer, 0.0, x)[0]


def overflowing(x):
    def square(v):
        h = v * v
        return h

    return np.sum(cr.while_loop(lambda v: v[0] < INF, square, x, max_steps=30))


def softmax_rows(x):
    def cell(c, r):
        e = np.exp(np.stack([r, 0 * r]))
        p = e / np.sum(e)
        return c + p[0], None

    return cr.scan(cell, 0.0, x)[0]


def backwards(x):
    def cell(c, r):
        h = np.log(r)
        return c + h, None

    return cr.scan(cell, 0.0, x, reverse=True)[0]


def matrix(x):
    def cell(c, r):
        h = np.linalg.slogdet(r * np.eye(2))[1]
        return c + h, None

    return cr.scan(cell, 0.0, x)[0]


def gamma(x):
    def cell(c, r):
        h = cr.gammaln(r)
        return c + h, h

    return np.sum(cr.scan(cell, 0.0, x)[1])


def reciprocal_of_steps(x):
    def cell(c, r):
        h = 1 / c
        return c - r, h

    return np.sum(cr.scan(cell, 2.0, x)[1])


LOG, NEGATIVE = "log of 0 is -inf", "the square root of a negative number is NaN"
STEEP = "the derivative of sqrt at 0 is inf"
TRUTHS = {
    # hs of turn 0: log(r - c) with c = 0, 1: 5, 4; of turn 1, c = 1, 2: 4, 3; 2: c = 2, 3
    "scan, while, cond": Truth(
        scan_in_while_in_cond, [5.0, 3.0], 0, "np.log(r - c)", "-inf", (),
        (branch(True, "looping"), of(2, "turn"), of(1, "inner", 1)), LOG,
    ),
    "scan, while, cond, its gradient": Truth(
        scan_in_while_in_cond, [5.0, 3.0], 1, "np.log(r - c)", "-inf", (),
        (branch(True, "looping"), of(2, "turn"), of(1, "inner", 1)), LOG,
    ),
    "scan, while, cond: negative": Truth(
        scan_in_while_in_cond, [5.0, 0.5], 0, "np.log(r - c)", "NaN", (),
        (branch(True, "looping"), of(0, "turn"), of(1, "inner", 1)),
        "log of a number below 0 is NaN",
    ),
    # 4 -> 2 -> 1 -> 0.5: the third halving begins at 1
    "while in scan": Truth(
        while_in_scan, [3.0, 4.0], 0, "1 / (v - 1)", "inf", (),
        (of(1, "row", 1), of(2, "halve")), "1 / 0 is inf",
    ),
    "while in scan, its gradient": Truth(
        while_in_scan, [3.0, 4.0], 1, "1 / (v - 1)", "inf", (),
        (of(1, "row", 1), of(2, "halve")), "1 / 0 is inf",
    ),
    "fori in fori": Truth(
        fori_in_fori, [5.0, 1.5], 0, "np.sqrt(b - i * j)", "NaN", (1,),
        (of(1, "outer", 2), of(2, "inner", 2)), NEGATIVE,
    ),
    "cond in while": Truth(
        cond_in_while, 2.5, 0, "np.sqrt(v)", "NaN", (),
        (of(2, "turn"), branch(True, "root")), NEGATIVE,
    ),
    "cond in while, at 0": Truth(  # v = 3 - 1 - 1 - 1 in turn 2
        cond_in_while, 3.0, 1, "np.sqrt(v)", "inf", (),
        (of(2, "turn"), branch(True, "root")), STEEP, BACK,
    ),
    "no bound": Truth(
        without_bound, [9.0, 3.0], 0, "np.log(v - i)", "-inf", (1,), (of(3, "turn"),), LOG,
    ),
    "scan, gradient": Truth(
        root_in_scan, [4.0, 0.0, 1.0], 1, "np.sqrt(r)", "inf", (), (of(1, "cell", 2),), STEEP, BACK,
    ),
    "bounded, gradient": Truth(
        root_in_bounded, [4.0, 1.0, 0.0], 1, "np.sqrt(x[i])", "inf", (), (of(2, "turn"),), STEEP,
        BACK,
    ),
    "bounded, gradient, first": Truth(
        root_in_bounded, [0.0, 1.0, 1.0], 1, "np.sqrt(x[i])", "inf", (), (of(0, "turn"),), STEEP,
        BACK,
    ),
    # the second derivative of r^1.5 is 0.75 / sqrt(r)
    "scan, second": Truth(
        power_in_scan, [4.0, 0.0, 1.0], 2, "r**1.5", "inf", (), (of(1, "cell", 2),),
        "0 to the power -0.5 is inf, in the derivative of a power", SECOND,
    ),
    "bounded, second": Truth(
        power_in_bounded, [4.0, 1.0, 0.0], 2, "x[i] ** 1.5", "inf", (), (of(2, "turn"),),
        "0 to the power -0.5 is inf, in the derivative of a power", SECOND,
    ),
    "scan, gradient in the first of two": Truth(
        root_in_scan, [4.0, 0.0, 1.0], 2, "np.sqrt(r)", "inf", (), (of(1, "cell", 2),), STEEP, BACK,
    ),
    "cond, gradient": Truth(
        root_in_cond, [4.0, 0.0], 1, "np.sqrt(v)", "inf", (1,), (branch(True, "root"),), STEEP,
        BACK,
    ),
    "nested scans, gradient": Truth(
        root_in_nested_scan, [1.0, 4.0, 0.0, 9.0], 1, "np.sqrt(r)", "inf", (),
        (of(1, "outer", 1), of(0, "inner", 1)), STEEP, BACK,
    ),
    "bounded in scan, gradient": Truth(
        root_in_bounded_in_scan, [4.0, 1.0, 9.0], 1, "np.sqrt(r - i)", "inf", (),
        (of(1, "outer", 2), of(1, "turn")), STEEP, BACK,
    ),
    # 3, 9, 81, ... = 3^(2^k): above 1.8e308 where 2^k log10(3) > 308.25, so k = 10, in step 9
    "overflow": Truth(
        overflowing, [3.0, 2.0], 0, "v * v", "inf", (0,), (of(9, "square"),), "overflow: float64",
    ),
    "overflow, gradient": Truth(
        overflowing, [3.0, 2.0], 1, "v * v", "inf", (0,), (of(9, "square"),), "overflow: float64",
    ),
    "exp": Truth(
        softmax_rows, [1.0, 800.0, 2.0], 0, "np.exp(np.stack([r, 0 * r]))", "inf", (0,),
        (of(1, "cell", 2),), "exp overflows float64 above 709.8; the largest argument is 800",
    ),
    "reverse": Truth(  # it begins at the end: row 2 is done before row 0
        backwards, [0.0, 1.0, -1.0], 0, "np.log(r)", "NaN", (), (of(2, "cell", 2),), "below 0",
    ),
    "reverse, gradient": Truth(
        backwards, [0.0, 1.0, 2.0], 1, "np.log(r)", "-inf", (), (of(0, "cell", 2),), LOG,
    ),
    "slogdet": Truth(
        matrix, [1.0, 0.0], 0, "np.linalg.slogdet(r * np.eye(2))", "-inf", (1,),
        (of(1, "cell", 1),), "is singular: its determinant is 0, and the log of 0 is -inf",
    ),
    "gammaln": Truth(
        gamma, [2.0, -1.0, 0.0], 0, "cr.gammaln(r)", "inf", (), (of(1, "cell", 2),),
        "gammaln of -1 is inf: 0 and the negative integers are poles",
    ),
    "gammaln, gradient": Truth(
        gamma, [2.0, 1.0, 0.0], 1, "cr.gammaln(r)", "inf", (), (of(2, "cell", 2),),
        "gammaln of 0 is inf: 0 and the negative integers are poles",
    ),
    "a carry": Truth(
        reciprocal_of_steps, [1.0, 1.0, 1.0], 0, "1 / c", "inf", (), (of(2, "cell", 2),),
        "1 / 0 is inf",
    ),
    "a carry, gradient": Truth(
        reciprocal_of_steps, [2.0, 1.0, 1.0], 1, "1 / c", "inf", (), (of(1, "cell", 2),),
        "1 / 0 is inf",
    ),
}  # fmt: skip


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", TRUTHS)
def test_iteration_branch_element_line_pass_and_cause_are_those_written_down(name: str) -> None:
    check(TRUTHS[name])


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_trainer_tells_it_of_a_bounded_loop(executor: str) -> None:
    def objective(x: float64["n"], w: float64["n"]):
        def turn(s):
            i, c = s
            h = np.sqrt(x[i] * w[i])
            return i + 1, c + h

        J = cr.while_loop(lambda s: s[0] < 3, turn, (0, 0.0), max_steps=5)[1]
        return J

    good, bad = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 3.0])
    trainer = cr.Trainer(
        objective, {"w": np.ones(3)}, cr.sgd(1e-3), data=lambda epoch: [{"x": good}, {"x": bad}],
        progress=False, executor=executor,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(cr.errors.NonFiniteError) as caught:
            trainer.fit(1)
    assert caught.value.diagnosis.inside == (of(1, "turn"),)
    assert STEEP in str(caught.value) and "h = np.sqrt(x[i] * w[i])" in str(caught.value)
