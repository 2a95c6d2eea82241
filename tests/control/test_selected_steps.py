"""What a select leaves out of the results of a loop reaches no derivative, nor what it puts in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.testing import check_gradients

X = np.array([-1.5, -1.0, 0.0, 0.25, 0.5, 2.0])


def mapped(f: Any, x: Any, **more: Any) -> Any:
    """f of each row, by a scan that carries nothing."""
    return cr.scan(lambda c, t: (c, f(t)), 0.0, x, **more)[1]


def two_results(x: Any) -> Any:
    a, b = mapped(lambda t: (np.log(t), np.sqrt(t)), x)
    return np.where(x > 0, a, 0) + np.where(x > 0, b, 0)


def with_a_carry(x: Any) -> Any:
    """The carry is of numbers that are all used; what an iteration gives beside it is selected."""
    total, ys = cr.scan(lambda c, t: (c + t, c * np.log(t)), np.sum(x), x)
    return np.where(x > 0, ys, 0) + total


def batched(x: Any) -> Any:
    rows = x.reshape(2, 3)
    return np.where(rows > 0, cr.vmap(lambda row: mapped(np.log, row))(rows), 0)


def into_a_branch(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, np.sqrt, np.exp, np.where(x > 0, x, 0))


def read_by_all_steps(x: Any) -> Any:
    root = np.sqrt(x)
    return cr.scan(lambda c, t: (c, np.where(x > 0, root * t, 0)), 0.0, np.array([1.0, 2.0]))[1]


def carried_beside(x: Any) -> Any:
    """The condition of each iteration reads what the iterations before it have carried."""
    kept = np.array([0.0, 0, 0, 1, 1, 1])
    step = lambda c, t: (c + t[1], np.where(c + t[1] > 0, np.log(t[0] + 1), 0))  # noqa: E731
    return cr.scan(step, 0.0, (np.sqrt(x), kept))[1]


def both(x: Any) -> Any:
    return np.log(x) * np.sqrt(x)


# Programs, and what they are of one element of x where it is positive: elsewhere they are constant.
SELECTED = {
    "after": (lambda x: np.where(x > 0, mapped(both, x), 0), both),
    "before": (lambda x: np.sqrt(mapped(np.negative, np.where(x > 0, -x, 0))), np.sqrt),
    "inside": (lambda x: mapped(np.sqrt, np.where(x > 0, x, 0)), np.sqrt),
    "two": (two_results, lambda x: np.log(x) + np.sqrt(x)),
    "rows": (lambda x: np.where((x > 0).reshape(3, 2), mapped(np.log, x.reshape(3, 2)), 0), np.log),
    "reverse": (lambda x: np.where(x > 0, mapped(np.log, x, reverse=True), 0), np.log),
    "batch": (batched, np.log),
    "branch": (lambda x: np.where(x > 0, cr.cond(np.sum(x) > 0, np.log, np.exp, x), 0), np.log),
    "into a branch": (into_a_branch, np.sqrt),
    "before the loop": (
        lambda x: np.where(x > 0, mapped(lambda t: t**3, np.sqrt(x)), 0),
        lambda x: x**1.5,
    ),
    "in an iteration": (
        lambda x: mapped(lambda t: np.where(t > 0, np.log(t), 0), np.sqrt(x)),
        lambda x: np.log(x) / 2,
    ),
    "out of an iteration": (lambda x: np.sqrt(mapped(lambda t: np.where(t > 0, t, 0), x)), np.sqrt),
    "in an iteration and after": (
        lambda x: np.where(x > 0, mapped(lambda t: np.where(t > 0, t**3, 0), np.sqrt(x)), 0),
        lambda x: x**1.5,
    ),
    "read by all iterations": (read_by_all_steps, lambda x: 3 * np.sqrt(x)),
    "carried beside": (carried_beside, lambda x: np.log(np.sqrt(x) + 1)),
    "before a branch": (
        lambda x: np.where(x > 0, cr.cond(np.sum(x) > 0, lambda t: t**3, np.exp, np.sqrt(x)), 0),
        lambda x: x**1.5,
    ),
    "in a branch": (
        lambda x: cr.cond(np.sum(x) > 0, lambda t: np.where(t > 0, t**3, 0), np.exp, np.sqrt(x)),
        lambda x: x**1.5,
    ),
    "out of a branch": (
        lambda x: np.sqrt(cr.cond(np.sum(x) > 0, lambda t: np.where(t > 0, t, 0), np.exp, x)),
        np.sqrt,
    ),
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", SELECTED)
def test_steps_and_branches_know_what_is_selected(name: str) -> None:
    f, safe = SELECTED[name]
    right = X > 0
    slope, bend = np.zeros(6), np.zeros(6)
    h = 1e-4
    slope[right] = (safe(X[right] + h) - safe(X[right] - h)) / (2 * h)
    bend[right] = (safe(X[right] + h) - 2 * safe(X[right]) + safe(X[right] - h)) / h**2

    def total(x: Any) -> Any:
        return np.sum(f(x))

    with np.errstate(all="ignore"):
        for executor in ("reference", "native"):
            run = cr.backward(cr.trace(total, X), wrt="x").run(x=X, executor=executor)
            np.testing.assert_allclose(run["dout/dx"], slope, rtol=1e-5)
        v = np.linspace(1, 2, 6)
        np.testing.assert_allclose(cr.jvp(total, X, v)[1], slope @ v, rtol=1e-5)
        for hessian in (
            cr.hessian(total),
            cr.jacrev(cr.grad(total)),
            cr.jacfwd(cr.jacfwd(total)),
            cr.jacrev(cr.jacfwd(total)),
        ):
            np.testing.assert_allclose(hessian(X), np.diag(bend), rtol=1e-4)


def test_a_carry_goes_on_beside_a_select() -> None:
    def f(x: Any) -> Any:
        return np.sum(with_a_carry(x))

    with np.errstate(all="ignore"):
        found = cr.grad(f)(X)
        assert np.isfinite(found).all()

        def safe(x: Any) -> Any:  # the double where
            _, ys = cr.scan(lambda c, t: (c + t, c * np.log(np.where(t > 0, t, 1))), np.sum(x), x)
            return np.sum(np.where(x > 0, ys, 0) + np.sum(x) * 2)

        np.testing.assert_allclose(found, cr.grad(safe)(X), rtol=1e-12)
        check_gradients(safe, X[X != 0])


def test_loops_without_a_select_read_no_condition() -> None:
    def f(x: Any) -> Any:
        return np.sum(mapped(lambda t: np.log(t) * 2, x) ** 2) + np.sum(np.where(x > 1, x, 0))

    graph = cr.backward(cr.trace(f, X), wrt="x")
    backwards = [n for n in graph.nodes if n.primitive.name == "scan" and n.param("reverse")]
    assert len(backwards) == 1
    assert not any(one.dtype == bool for one in backwards[0].inputs)


def test_conditions_of_steps_are_made_only_where_something_may_be_infinite() -> None:
    """A relu in the iteration, and before the loop a product: nothing is stacked for it."""

    def f(x: Any) -> Any:
        return np.sum(cr.scan(lambda c, t: (cr.relu(c + t), cr.relu(t)), 0.0, 2.0 * np.sin(x))[1])

    graph = cr.backward(cr.trace(f, X), wrt="x")
    assert not [n for n in graph.nodes if n.primitive.name == "scan" and n.dtype == bool]
