"""What nothing reads of a loop or a choice has no cotangent: infinite slopes of it harm nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.array([0.0, 1.0, 2.0])


def unread_rows(x: Any) -> Any:
    c, _ = cr.scan(lambda c, a: (c + a * a, np.sqrt(c)), 0.0, x)
    return c


def unread_carry(x: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        return (c[0] + a * a, np.sqrt(c[0])), None

    return cr.scan(step, (0.0, 1.0), x)[0][0]


def unread_carry_of_another(x: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        return (c[0] + a * a, np.sqrt(c[0]), c[1] + c[2]), a * a

    return np.sum(cr.scan(step, (0.0, 1.0, 1.0), x)[1])


def unread_result_of_a_choice(x: Any) -> Any:
    a, _ = cr.cond(x[1] > 0, lambda: (np.sum(x**2), np.sqrt(x[0])), lambda: (x[1], x[2]))
    return a


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "function",
    [unread_rows, unread_carry, unread_carry_of_another, unread_result_of_a_choice],
)
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_what_is_not_read_spoils_no_gradient(function: Callable[..., Any], executor: str) -> None:
    np.testing.assert_array_equal(cr.grad(function, executor=executor)(X), 2 * X)


def test_the_backward_loop_computes_nothing_for_what_is_not_read() -> None:
    graph = cr.backward(cr.trace(unread_carry_of_another, X), wrt="x")
    bodies = [one.param("body").graph for one in graph.nodes if one.primitive.name == "scan"]
    (backward,) = [one for one in bodies if one.name.endswith("_cotangent")]
    assert not any(node.primitive.name == "sqrt" for node in backward.nodes)


def test_a_carry_that_a_later_step_reads_keeps_its_cotangent() -> None:
    def delayed(x: Any) -> Any:
        def step(c: Any, a: Any) -> Any:
            return (c[1], c[2], a * a * c[0]), None

        return cr.scan(step, (x[0], x[1], x[2]), np.stack([x[1], x[2], x[0], x[1]]))[0][0]

    def unrolled(x: Any) -> Any:
        c = x[0], x[1], x[2]
        for a in (x[1], x[2], x[0], x[1]):
            c = c[1], c[2], a * a * c[0]
        return c[0]

    x = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(cr.grad(delayed)(x), cr.grad(unrolled)(x), rtol=1e-12)


def test_numbers_that_become_floats_one_after_another_are_settled() -> None:
    def step(c: Any, a: Any) -> Any:
        return (c[1], c[2], c[3], c[4], c[5], c[5] * 0.5 + a), None

    numbers, _ = cr.scan(step, (0, 0, 0, 0, 0, 1), np.arange(4.0))
    assert numbers == (0, 1, 0.5, 1.25, 2.625, 4.3125)
