"""Loops and choices inside of each other, of batches and of derivatives: as if written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

X, W = np.array([0.1, 0.2, -0.3]), np.array([0.5, -0.2, 0.3])


def chosen(p: Any, x: Any, y: Any) -> Any:
    return cr.cond(np.sum(p) > 0, lambda p: np.sin(p * x), lambda p: np.cos(p + y), p)


def selected(p: Any, x: Any, y: Any) -> Any:
    return np.where(np.sum(p) > 0, np.sin(p * x), np.cos(p + y))


def loops(x: Any, w: Any) -> Any:
    def outer(c: Any, row: Any) -> tuple[Any, None]:
        def inner(d: Any, _: None) -> tuple[Any, None]:
            q = cr.vmap(lambda p: chosen(p, row, c))(np.stack([d, x]))
            return q[0] + chosen(q[1], c, row), None

        return cr.scan(inner, c, length=2)[0], None

    return cr.scan(outer, x, np.stack([w, x]))[0]


def written_out(x: Any, w: Any) -> Any:
    c = x
    for row in (w, x):
        d = c
        for _ in range(2):
            d = selected(d, row, c) + selected(selected(x, row, c), c, row)
        c = d
    return c


@pytest.mark.sweep(2)
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_choices_in_loops_in_loops_read_the_variables_of_all_of_them(executor: str) -> None:
    def order(f: Any) -> Any:
        def J(x: Any, w: Any) -> Any:
            return np.sum(f(x, w) ** 2)

        gradients = cr.grad(J, wrt=(0, 1), executor=executor)(X, W)
        product = cr.jvp(lambda w: cr.grad(J)(X, w), (W,), (X,), executor=executor)[1]
        batch = cr.vmap(f, executor=executor)(np.stack([X, W]), np.stack([W, X]))
        return [*gradients, product, batch]

    for found, expected in zip(order(loops), order(written_out), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


STEP_READS_OUTSIDE = {
    "cond": lambda x: cr.cond(True, lambda c: c + np.sum(np.sin(x)), lambda c: c, 0.0),
    "scan": lambda x: cr.scan(lambda c, t: (c + np.sum(np.sin(x)) * t, None), 0.0, np.ones(2))[0],
    "fori_loop": lambda x: cr.fori_loop(0, 2, lambda i, c: c * np.sin(x[0]) + x[1], 0.5),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", STEP_READS_OUTSIDE)
@pytest.mark.parametrize("moved", [lambda w: 2 * w, lambda w: w + 1, lambda w: w * 0.5])
@pytest.mark.parametrize("derivative", [cr.grad, cr.hessian])
def test_a_point_made_with_literals_is_not_part_of_a_body(name, moved, derivative) -> None:
    """Else the derivative taken at it, within a traced function, is 0."""
    taken, point = derivative(STEP_READS_OUTSIDE[name]), np.array([1.0, 2.0])
    wanted = taken(moved(point))
    assert np.any(wanted)
    np.testing.assert_allclose(cr.compile(lambda w: taken(moved(w)))(point), wanted)
