"""Second derivatives where an operation has a rule for one mode alone: by the other mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import NotDifferentiableError

X, Y = np.array([0.5, -1.2, 2.0]), np.array([1.5, 0.3, -0.4])


@cr.custom_derivative
def product(x: Any, y: Any) -> Any:
    return np.sin(x) * y**2


product.defvjp(
    lambda x, y: (product(x, y), (x, y)),
    lambda saved, g: (g * np.cos(saved[0]) * saved[1] ** 2, g * 2 * np.sin(saved[0]) * saved[1]),
)
CUBE = cr.primitive(lambda x: x**3, name="cube", vjp=lambda g, out, x: (3 * x**2 * g,))
PUSHED = cr.primitive(lambda x: x**3, name="pushed", jvp=lambda dxs, out, x: 3 * x**2 * dxs[0])


def energy(x: Any, y: Any) -> Any:
    return np.sum(product(x, y) * np.sum(x)) + np.sum(CUBE(x * y))


def plain(x: Any, y: Any) -> Any:
    return np.sum(np.sin(x) * y**2 * np.sum(x)) + np.sum((x * y) ** 3)


def close(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("executor", ["reference", None])
def test_a_hessian_is_reverse_over_reverse(rows: int | None, executor: str | None) -> None:
    found = cr.hessian(energy, rows=rows, executor=executor)(X, Y)
    close(found, cr.hessian(plain)(X, Y))
    blocks = cr.hessian(energy, (0, 1), rows=rows)(X, Y)
    wanted = cr.hessian(plain, (0, 1))(X, Y)
    for row, one in zip(blocks, wanted, strict=True):
        for got, block in zip(row, one, strict=True):
            close(got, block)


def test_a_hessian_with_aux_and_of_containers() -> None:
    def of_dict(p: Any) -> Any:
        return energy(p["x"], p["y"]), p["x"] * 2

    found, aux = cr.hessian(of_dict, has_aux=True)({"x": X, "y": Y})
    close(found["y"]["x"], cr.hessian(plain, (0, 1))(X, Y)[1][0])
    close(aux, X * 2)


def test_a_product_with_a_vector() -> None:
    found, wanted = (cr.hvp(f, (X, Y), (Y, X)) for f in (energy, plain))
    for got, part in zip(found, wanted, strict=True):
        close(got, part)
    one = cr.hvp(lambda x: energy(x, Y), X, Y)
    close(one, cr.hessian(lambda x: plain(x, Y))(X) @ Y)


def test_in_a_traced_program_with_named_sizes() -> None:
    def program(x: cr.float64["n"], y: cr.float64["n"]) -> Any:  # type: ignore
        H = cr.hessian(energy)(x, y)
        v = cr.hvp(lambda x: energy(x, y), x, y)
        return H, v

    found, product = cr.trace(program).run(x=X, y=Y).outputs
    close(found, cr.hessian(plain)(X, Y))
    close(product, cr.hessian(plain)(X, Y) @ Y)


def test_in_a_batch_and_once_more() -> None:
    batch = np.stack([X, Y])
    found = cr.vmap(lambda x: cr.hessian(energy)(x, Y))(batch)
    close(found, np.stack([cr.hessian(plain)(one, Y) for one in batch]))
    trace = lambda f: lambda x: np.trace(cr.hessian(f)(x, Y))  # noqa: E731
    close(cr.grad(trace(energy))(X), cr.grad(trace(plain))(X))


def test_a_jacobian_takes_the_mode_that_there_is() -> None:
    wanted = np.diag(3 * X**2)
    close(cr.jacobian(CUBE)(X), wanted)
    close(cr.jacobian(PUSHED)(X), wanted)
    close(cr.jacobian(lambda x: np.sum(PUSHED(x)))(X), 3 * X**2)
    close(cr.jacobian(cr.grad(lambda x: np.sum(CUBE(x))))(X), np.diag(6 * X))


def test_a_mode_that_is_asked_for_is_not_replaced() -> None:
    with pytest.raises(NotDifferentiableError, match="no derivative rule for forward mode"):
        cr.jacfwd(CUBE)(X)
    with pytest.raises(NotDifferentiableError, match="no derivative rule for reverse mode"):
        cr.jacrev(PUSHED)(X)
    with pytest.raises(NotDifferentiableError, match="product has no rule for forward mode"):
        cr.jvp(product, (X, Y), (X, Y))


def test_where_no_mode_has_a_rule_the_refusal_is_that_of_the_first() -> None:
    opaque = cr.primitive(lambda x: 3 * x**2, name="opaque")
    once = cr.primitive(lambda x: x**3, name="once", vjp=lambda g, out, x: (opaque(x) * g,))

    def total(x: Any) -> Any:
        return np.sum(once(x))

    for second in (cr.hessian(total), lambda x: cr.hvp(total, x, x)):
        with pytest.raises(NotDifferentiableError, match="opaque has no derivative rule for forw"):
            second(X)
