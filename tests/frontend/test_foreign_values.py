"""A value of a loop's step, a branch, an example of a batch or a rule stays inside of it."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ForeignValueError

X = np.array([0.5, 1.5, 2.5])
INSIDE = "inside of a loop, a branch or a batch"


def scan(x, keep):
    cr.scan(lambda h, v: (h, keep(v)), 0.0, x)


def scan_carry(x, keep):
    cr.scan(lambda h, v: (keep(h) + v, None), x[0], x)


def scan_in_a_scan(x, keep):
    def row(h, v):
        cr.scan(lambda g, w: (g, keep(w * v)), 0.0, x)
        return h, None

    cr.scan(row, 0.0, x)


def a_branch(x, keep):
    cr.cond(x[0] > 0, lambda y: keep(y[0]), lambda y: y[1], x)


def while_loop(x, keep):
    cr.while_loop(lambda c: c < 9, lambda c: keep(c) + 1, x[0])


def condition(x, keep):
    cr.while_loop(lambda c: keep(c) < 9, lambda c: c + 1, x[0])


def bounded(x, keep):
    cr.while_loop(lambda c: c < 9, lambda c: keep(c) + 1, x[0], max_steps=20)


def fori_loop(x, keep):
    cr.fori_loop(0, 3, lambda i, c: keep(c) + 1, x[0])


def fori_index(x, keep):
    cr.fori_loop(0, x.shape[0], lambda i, c: c + keep(i * 1.0), x[0])


def vmap(x, keep):
    cr.vmap(lambda v: keep(v) * 2)(x)


def vmap_in_a_scan(x, keep):
    cr.scan(lambda h, v: (h, cr.vmap(lambda w: keep(w * v))(x)), 0.0, x)


def grad_in_a_scan(x, keep):
    cr.scan(lambda h, v: (h, keep(cr.grad(lambda w: w * w * v)(v))), 0.0, x)


def a_body_that_fails(x, keep):
    def step(h, v):
        keep(v)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cr.scan(step, 0.0, x)


def a_batch_that_fails(x, keep):
    def one(v):
        keep(v)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cr.vmap(one)(x)


BODIES = (
    scan,
    scan_carry,
    scan_in_a_scan,
    a_branch,
    while_loop,
    condition,
    bounded,
    fori_loop,
    fori_index,
    vmap,
    vmap_in_a_scan,
    grad_in_a_scan,
    a_body_that_fails,
    a_batch_that_fails,
)


def leaking(body):
    """A function that returns what `body` kept, as it is."""

    def function(x):
        kept = []

        def keep(value):
            kept.append(value)
            return value

        body(x, keep)
        return kept[-1]

    return function


ENTRIES = {
    "trace": lambda f: cr.trace(f, X),
    "compile": lambda f: cr.compile(f)(X),
    "grad": lambda f: cr.grad(f)(X),
    "value_and_grad": lambda f: cr.value_and_grad(f)(X),
    "aux of grad": lambda f: cr.grad(lambda x: (np.sum(x), f(x)), has_aux=True)(X),
    "vjp": lambda f: cr.vjp(f, X),
    "jvp": lambda f: cr.jvp(f, (X,), (X,)),
    "hvp": lambda f: cr.hvp(f, X, X),
    "jacobian": lambda f: cr.jacobian(f)(X),
    "jacfwd": lambda f: cr.jacfwd(f)(X),
    "jacobian in parts": lambda f: cr.jacobian(f, rows=1)(X),
    "hessian": lambda f: cr.hessian(f)(X),
    "cost of hessian": lambda f: cr.hessian(f).cost(X),
    "vmap": lambda f: cr.vmap(f)(np.stack([X, X])),
    "compile of grad": lambda f: cr.compile(cr.grad(f))(X),
    "trace of grad": lambda f: cr.trace(cr.grad(f), X),
    "trace of hessian": lambda f: cr.trace(cr.hessian(f), X),
    "trace of a tangent": lambda f: cr.trace(lambda x: cr.jvp(f, (x,), (x,))[1], X),
    "trace of a pull": lambda f: cr.trace(lambda x: cr.vjp(f, x)[1](1.0), X),
    "grad of grad": lambda f: cr.grad(lambda x: np.sum(cr.grad(f)(x)))(X),
    "vmap of grad": lambda f: cr.vmap(cr.grad(f))(np.stack([X, X])),
    "grad of vmap": lambda f: cr.grad(lambda x: np.sum(cr.vmap(f)(x)))(np.stack([X, X])),
    "grad of a part": lambda f: cr.grad(lambda x: np.sum(x**2) + f(x))(X),
    "grad in a scan": lambda f: cr.trace(
        lambda x: cr.scan(lambda h, v: (h + v * cr.grad(f)(x), None), x, x)[0], X
    ),
    "grad of a loop": lambda f: cr.grad(lambda x: cr.fori_loop(0, 2, lambda i, c: c + f(x), 0.0))(
        X
    ),
}


@pytest.mark.sweep(11)
@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_leaves_a_body_is_refused(entry, body) -> None:
    with pytest.raises(ForeignValueError, match=INSIDE) as caught:
        ENTRIES[entry](leaking(body))
    assert "test_foreign_values.py" in caught.value.where
    assert caught.value.hint == "return it from the function that has it"


def test_the_message_names_the_value_and_the_line() -> None:
    def total(x):
        sums = [0.0]

        def cell(h, v):
            sums[0] = sums[0] + v
            return h, None

        cr.scan(cell, 0.0, x)
        return sums[0]

    with pytest.raises(ForeignValueError) as caught:
        cr.grad(total)(X)
    assert str(caught.value).startswith(f"v: float64[] is a value {INSIDE}")
    assert "sums[0] + v" in caught.value.where


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
def test_a_derivative_at_what_left_a_body_is_refused(body) -> None:
    ways = (
        lambda v: cr.grad(lambda w: np.sum(w) * 3.0)(v),
        lambda v: cr.vjp(lambda w: w * 3.0, v)[1](1.0)[0],
        lambda v: cr.jvp(lambda w: w * 3.0, (v,), (1.0,))[1],
        lambda v: cr.jacobian(lambda w: w * 3.0)(v),
        lambda v: cr.hessian(lambda w: w**2)(v),
    )
    for way in ways:
        with pytest.raises(ForeignValueError, match=INSIDE):
            cr.trace(lambda x, way=way: way(leaking(body)(x)), X)


def _with_rules(forward, backward):
    @cr.custom_derivative
    def squared(x):
        return x**2

    squared.defvjp(forward, backward)
    return squared


def _leak(x):
    return leaking(scan)(x)


@pytest.mark.parametrize("entry", ["grad", "vjp", "jacobian", "hessian", "compile of grad"])
def test_what_leaves_a_loop_in_a_custom_derivative_is_refused(entry) -> None:
    @cr.custom_derivative
    def function(x):
        return np.sum(x) + _leak(x)

    function.defvjp(lambda x: (function(x), x), lambda x, seed: (seed * x,))
    with pytest.raises(ForeignValueError, match=INSIDE):
        ENTRIES[entry](function)


def _sum_of(rule):
    return lambda x: np.sum(rule(x))


@pytest.mark.parametrize(
    "rule",
    [
        lambda: _with_rules(lambda x: (x**2, _leak(x)), lambda kept, seed: (seed * kept,)),
        lambda: _with_rules(lambda x: (x**2, x), lambda x, seed: (seed * _leak(x),)),
    ],
    ids=["forward", "backward"],
)
@pytest.mark.parametrize("entry", ["grad", "hessian", "hvp", "grad of grad", "trace of hessian"])
def test_what_leaves_a_loop_in_a_rule_is_refused(entry, rule) -> None:
    with pytest.raises(ForeignValueError):
        ENTRIES[entry](_sum_of(rule()))


def test_values_that_a_body_reads_or_makes_alone_may_leave_it() -> None:
    def function(x):
        kept = []

        def step(h, v):
            kept.append(np.sin(x))
            return h + v * kept[-1], None

        last = cr.scan(step, np.zeros(3), x)[0]
        return np.sum(last) + np.sum(kept[-1])

    wanted = np.sin(X).sum() + (X.sum() + 1) * np.cos(X)
    np.testing.assert_allclose(cr.grad(function)(X), wanted, rtol=1e-14)


def test_derivatives_in_bodies_read_the_variables_of_bodies_that_go_on() -> None:
    def function(x):
        def step(h, v):
            cr.vmap(np.sin)(x)
            inner = cr.grad(lambda w: np.sum(cr.vmap(lambda u: u * v)(w)) ** 2)(x)
            return h + np.sum(inner), None

        return cr.scan(step, 0.0, x)[0]

    def plain(x):
        return 6 * x.sum() * np.sum(x**2)

    wanted = 6 * (np.sum(X**2) + 2 * X.sum() * X)
    np.testing.assert_allclose(function(X), plain(X), rtol=1e-14)
    np.testing.assert_allclose(cr.grad(function)(X), wanted, rtol=1e-14)
