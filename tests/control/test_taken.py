"""Loops in branches that examples of a batch do not take, and in iterations after their last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule.errors import StepLimitError

X = np.array([4.0, -3.0, 0.0, 9.0])


def root(a: Any, max_steps: Any = 30) -> Any:
    """Newton's method, which does not end for a negative number."""

    def step(x: Any) -> Any:
        return (x + a / x) / 2

    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, step, a, max_steps=max_steps)


def first(a: Any) -> Any:
    return cr.cond(a > 0, lambda: root(a), lambda: -a * a)


def second(a: Any) -> Any:
    return cr.cond(a <= 0, lambda: -a * a, lambda: root(a))


def inside_a_scan(a: Any) -> Any:
    def twice(t: Any) -> Any:
        return cr.scan(lambda c, _: (c + root(t), None), 0.0, None, length=2)[0]

    def step(c: Any, t: Any) -> Any:
        return c, cr.cond(t > 0, lambda: twice(t), lambda: t)

    return np.sum(cr.scan(step, 0.0, np.stack([a, 2 * a]))[1])


def inside_a_choice(a: Any) -> Any:
    return cr.cond(
        a > 0, lambda: cr.cond(a > 5, lambda: root(a), lambda: a + root(a)), lambda: -a * a
    )


@pytest.mark.slow
@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize("f", [first, second, inside_a_scan, inside_a_choice])
def test_a_branch_that_is_not_taken_need_not_end(f: Callable[[Any], Any], executor: str) -> None:
    each = np.array([cr.compile(f)(x) for x in X])
    slopes = np.array([cr.grad(f)(x) for x in X])
    bends = np.array([cr.hessian(f)(x) for x in X])
    with np.errstate(all="ignore"):
        run = cr.backward(cr.trace(lambda x: np.sum(cr.vmap(f)(x)), X), wrt="x").run(
            x=X, executor=executor
        )
        np.testing.assert_allclose(run["out"], each.sum(), rtol=1e-12)
        np.testing.assert_allclose(run["dout/dx"], slopes, rtol=1e-12)
        np.testing.assert_allclose(cr.vmap(cr.grad(f))(X), slopes, rtol=1e-12)
        np.testing.assert_allclose(cr.jvp(cr.vmap(f), X, np.ones(4))[1], slopes, rtol=1e-12)
        np.testing.assert_allclose(cr.vmap(cr.hessian(f))(X), bends, rtol=1e-12)


def test_a_step_that_an_example_does_not_make_need_not_end() -> None:
    def f(a: Any) -> Any:
        return cr.while_loop(lambda s: s > 1, lambda s: root(s) - 0.5, a)

    each = [cr.compile(f)(x) for x in X]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(cr.compile(cr.vmap(f))(X), each, rtol=1e-12)
        slopes = [cr.jvp(f, x, 1.0)[1] for x in X]
        np.testing.assert_allclose(cr.jvp(cr.vmap(f), X, np.ones(4))[1], slopes, rtol=1e-12)


def test_a_loop_without_a_bound_in_a_branch_that_is_not_taken_ends() -> None:
    def f(a: Any) -> Any:
        return cr.cond(a > 0, lambda: root(a, None), lambda: -a * a)

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(cr.compile(cr.vmap(f))(X), [2, -9, 0, 3], rtol=1e-12)


def test_a_branch_that_is_taken_has_to_end() -> None:
    def f(a: Any) -> Any:
        return cr.cond(a > 0, lambda: root(a, 3), lambda: a)

    with pytest.raises(StepLimitError, match="max_steps=3"):
        cr.vmap(f)(X)
