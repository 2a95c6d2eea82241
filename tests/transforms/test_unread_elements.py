"""Elements that nothing reads, and numbers beside those that are read, have no infinite slope."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr

X = np.array([-1.5, -1.0, -0.0, 0.0, 0.5, 2.0])

# What is read of x, or what x is put beside, where a function is infinitely steep elsewhere: the
# second derivatives of the sum of roots are those of the elements that are read.
READ = {
    "slice": (lambda x: np.sqrt(x)[4:], X > 0),
    "step": (lambda x: np.sqrt(x)[:3:-1], X > 0),
    "element": (lambda x: np.sqrt(x)[5], X == 2),
    "index": (lambda x: np.sqrt(x)[np.array([5, 4])], X > 0),
    "traced index": (lambda x: np.sqrt(x)[np.argmax(x)], X == 2),
    "sort": (lambda x: np.sqrt(np.sort(x[::-1]))[4:], X > 0),
    "order": (lambda x: np.sqrt(x)[np.argsort(x)[4:]], X > 0),
    "rows": (lambda x: [a for a in np.sqrt(x).reshape(3, 2)][2], X > 0),
    "roll": (lambda x: np.roll(np.sqrt(x), 1)[[0, 5]], X > 0),
    "split": (lambda x: np.split(np.sqrt(x), 3)[2], X > 0),
    "chain": (lambda x: np.exp(np.log(np.sqrt(x)))[4:], X > 0),
    "pad": (lambda x: np.sqrt(np.pad(x[4:], 1)), X > 0),
    "join": (lambda x: np.sqrt(np.concatenate([np.zeros(2), x[4:]])), X > 0),
    "stack": (lambda x: np.sqrt(np.stack([x[5], 0.0, x[4]])), X > 0),
    "insert": (lambda x: np.sqrt(np.insert(x[4:], 1, 0.0)), X > 0),
    "set": (lambda x: np.sqrt(cr.at(np.zeros(6))[1:3].set(x[4:])), X > 0),
    "largest": (
        lambda x: np.sqrt(np.max(np.stack([np.where(x > 0, x, -1), np.zeros(6)]), axis=0)),
        X > 0,
    ),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_elements_that_nothing_reads_and_numbers_beside_them_are_left_out(name, executor):
    f, read = READ[name]
    slope, bend = np.zeros(6), np.zeros(6)
    slope[read], bend[read] = 0.5 * X[read] ** -0.5, -0.25 * X[read] ** -1.5

    def total(x):
        return np.sum(f(x))

    with np.errstate(all="ignore"):
        run = cr.backward(cr.trace(total, X), wrt="x").run(x=X, executor=executor)
        np.testing.assert_allclose(run["dout/dx"], slope, rtol=1e-12)
        np.testing.assert_allclose(cr.jacfwd(total)(X), slope, rtol=1e-12)
        for hessian in (
            cr.hessian(total),
            cr.jacrev(cr.grad(total)),
            cr.jacfwd(cr.jacfwd(total)),
            cr.jacrev(cr.jacfwd(total)),
        ):
            np.testing.assert_allclose(hessian(X), np.diag(bend), rtol=1e-11)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.maximum(x**1.3, 0.5),
        lambda x: np.clip(x, 0.5, 3) ** 0.5 + np.where(x > 1, x**1.3, 0),
        lambda x: (x**1.3)[1:],
        lambda x: np.concatenate([x[1:] ** 1.3, np.zeros(1) ** 1.3]),
        lambda x: np.fmax(cr.cond(x[1] > 1, lambda t: t**0.5, np.tanh, x), 0.5),
        lambda x: np.maximum(cr.scan(lambda c, t: (c, t**0.5), 0.0, x)[1], 0.5),
        lambda x: cr.scan(lambda c, t: (c, np.maximum(t, 0.5)), 0.0, np.sqrt(x))[1],
        lambda x: cr.cond(x[1] > 1, lambda t: np.maximum(t, 0.5), np.tanh, np.sqrt(x)),
    ],
)
def test_a_slope_that_is_infinite_at_second_order_or_across_a_body_is_left_out(f):
    def total(x):
        return np.sum(f(x))

    x, h = np.array([0.0, 1.7]), 1e-4
    at = np.array([[0.01, 1.7 - h], [0.01, 1.7], [0.01, 1.7 + h]])
    low, middle, high = map(total, at)
    with np.errstate(all="ignore"):
        slope, bend = [0, (high - low) / (2 * h)], np.diag([0, (high - 2 * middle + low) / h**2])
        np.testing.assert_allclose(cr.grad(total)(x), slope, rtol=1e-6)
        np.testing.assert_allclose(cr.jacfwd(total)(x), slope, rtol=1e-6)
        for hessian in (
            cr.hessian(total),
            cr.jacrev(cr.grad(total)),
            cr.jacfwd(cr.jacfwd(total)),
            cr.jacrev(cr.jacfwd(total)),
        ):
            np.testing.assert_allclose(hessian(x), bend, rtol=1e-4, atol=1e-6)
