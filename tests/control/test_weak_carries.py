"""Loops and choices on Python numbers, as a batch: of rows of a derivative, or of examples."""

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule.testing import check_gradients


def bounded_root(a, max_steps=20):
    def newton(x):
        return (x + a / x) / 2

    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, newton, a, max_steps=max_steps)


def scanned(a):
    def step(h, _):
        return (h + a / h) / 2, None

    return cr.scan(step, a, None, length=6)[0]


def scanned_beside_numbers(a):
    """A carry of a Python number that no derivative reaches, and one that one does."""

    def step(state, v):
        h, count = state
        return ((h + a / h) / 2, count + 1.0), count * v

    (last, count), rows = cr.scan(step, (a, 0.0), np.ones(6))
    return last + 0.0 * (count + np.sum(rows))


def counted(a):
    return cr.fori_loop(0, 6, lambda i, h: (h + a / h) / 2, a)


def chosen(a):
    return cr.cond(a > 0, lambda x: x**0.5, lambda x: x, a)


def chosen_one_branch(a):
    """One branch gives what it reads from outside, which is no part of the batch."""
    return cr.cond(a > 100, lambda x: 1.0, lambda x: x**0.5, a)


def chosen_in_a_loop(a):
    def step(h, _):
        return cr.cond(h > 0, lambda x: (x + a / x) / 2, lambda x: a, h), None

    return cr.scan(step, a, None, length=6)[0]


def loop_in_a_loop(a):
    return cr.fori_loop(0, 3, lambda i, h: cr.fori_loop(0, 2, lambda j, g: (g + a / g) / 2, h), a)


ROOTS = (
    bounded_root,
    scanned,
    scanned_beside_numbers,
    counted,
    chosen,
    chosen_one_branch,
    chosen_in_a_loop,
    loop_in_a_loop,
)
VALUE, FIRST, SECOND = np.sqrt(2), 0.5 / np.sqrt(2), -0.25 / 2**1.5


def unbounded(a):
    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: (x + a / x) / 2, a)


@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize("root", ROOTS, ids=lambda one: one.__name__)
def test_derivatives_at_a_python_number_are_those_of_the_square_root(root, executor) -> None:
    for mode in ("forward", "reverse"):
        found = cr.jacobian(root, mode=mode, executor=executor)(2.0)
        np.testing.assert_allclose(found, FIRST, rtol=1e-9)
    np.testing.assert_allclose(cr.hessian(root, executor=executor)(2.0), SECOND, rtol=1e-9)
    np.testing.assert_allclose(cr.jacfwd(cr.grad(root))(2.0), SECOND, rtol=1e-9)
    np.testing.assert_allclose(cr.jacobian(cr.jacobian(root))(2.0), SECOND, rtol=1e-9)
    np.testing.assert_allclose(cr.hvp(root, 2.0, 3.0), 3 * SECOND, rtol=1e-9)


@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize("root", (*ROOTS, unbounded), ids=lambda one: one.__name__)
def test_a_batch_of_directions_at_a_python_number(root, executor) -> None:
    directions = np.array([1.0, -2.0, 0.5])

    def along(v):
        return cr.jvp(root, (2.0,), (v,))

    values, moves = cr.vmap(along, executor=executor)(directions)
    np.testing.assert_allclose(values, np.full(3, VALUE), rtol=1e-9)
    np.testing.assert_allclose(moves, FIRST * directions, rtol=1e-9)


def test_the_forward_jacobian_of_a_loop_without_bound_at_a_python_number() -> None:
    np.testing.assert_allclose(cr.jacobian(unbounded, mode="forward")(2.0), FIRST, rtol=1e-9)


@pytest.mark.parametrize("root", (*ROOTS, unbounded), ids=lambda one: one.__name__)
def test_a_batch_beside_a_python_number(root) -> None:
    """The number starts the loop, and what is mapped changes it."""
    scales = np.array([1.0, 2.0, 4.0])
    found = cr.vmap(lambda s, a: root(a * s), in_axes=(0, None))(scales, 2.0)
    np.testing.assert_allclose(found, np.sqrt(2 * scales), rtol=1e-9)


def test_results_of_a_batch_keep_the_dtype_that_one_example_has() -> None:
    def function(v, a):
        h = cr.fori_loop(0, 3, lambda i, h: h * 0.5 + a, a)
        return v * h

    rows = np.arange(3, dtype=np.float32)
    found = cr.vmap(function, in_axes=(0, None))(rows, 2.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, rows * 3.75)


def test_finite_differences_agree() -> None:
    check_gradients(bounded_root, 2.0)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("root", ROOTS, ids=lambda one: one.__name__)
def test_a_body_reads_the_variable_of_a_derivative_that_is_a_number(root) -> None:
    """It was taken for a constant of the body, and what the loop got by it was lost."""

    def scaled(s, a):
        return s * root(a)

    x = np.array(3.0)
    by_number = cr.trace(lambda s: cr.grad(scaled, wrt="a")(s, 2.0), x)
    np.testing.assert_allclose(by_number.run(s=x)["out"], 3 * FIRST, rtol=1e-9)
    second = cr.grad(lambda s: cr.grad(cr.grad(scaled, wrt="a"), wrt="a")(s, 2.0))(x)
    np.testing.assert_allclose(second, SECOND, rtol=1e-9)
    pulled = cr.compile(lambda s: cr.vjp(scaled, s, 2.0)[1](1.0))(x)
    np.testing.assert_allclose(pulled, (VALUE, 3 * FIRST), rtol=1e-9)
    matrix = cr.trace(lambda s: cr.jacobian(scaled, wrt="a")(s, 2.0), x)
    np.testing.assert_allclose(matrix.run(s=x)["out"], 3 * FIRST, rtol=1e-9)
