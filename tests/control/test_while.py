"""`cr.while_loop` runs as long as it has to; it has forward mode, and says why it has no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import close

import chainrule as cr
from chainrule.errors import DTypeError, NotDifferentiableError, ShapeError


def root(a: Any) -> Any:
    """The square root by Newton's method."""

    def step(x: Any) -> Any:
        return (x + a / x) / 2

    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-13 * a, step, a)


@pytest.mark.parametrize("a", [2.0, 9.0, 1e6])
def test_a_root_and_its_derivatives_forward(a: float) -> None:
    assert abs(root(a) - np.sqrt(a)) <= 1e-13 * np.sqrt(a)
    slope = cr.jvp(root, a, 1.0)[1]
    assert abs(slope - 0.5 / np.sqrt(a)) <= 1e-7 / np.sqrt(a)  # of the last iterate


def test_derivatives_are_those_of_python_s_loop() -> None:
    def python(x: Any, iterations: int) -> Any:
        for _ in range(iterations):
            x = x * np.sin(x) + 2
        return x

    def loop(x: Any) -> Any:
        return cr.while_loop(
            lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * np.sin(s[1]) + 2), (0, x)
        )[1]

    def expected(x: Any) -> Any:
        return python(x, 4)

    x, dx = np.array([0.3, 0.8]), np.array([1.0, -2.0])
    assert close(cr.jvp(loop, x, dx)[1], cr.jvp(expected, x, dx)[1])
    got, wanted = (cr.jvp(lambda x, f=f: cr.jvp(f, x, dx)[1], x, dx)[1] for f in (loop, expected))
    assert close(got, wanted, 512)


def test_reverse_mode_is_refused_with_the_reason() -> None:
    with pytest.raises(NotDifferentiableError) as refused:
        cr.grad(root)(2.0)
    text = str(refused.value)
    assert "the gradient through while_loop(step) would need the values of every iteration" in text
    assert "cr.while_loop(..., max_steps=1000) has a gradient" in text
    assert "test_while.py" in text
    constant = cr.grad(lambda x: x * cr.stop_gradient(root(x)))(2.0)
    assert close(constant, root(2.0))


def test_no_step_at_all_gives_what_it_began_with() -> None:
    assert cr.while_loop(lambda x: x < 0, lambda x: x + 1, 3.0) == 3.0
    assert cr.jvp(lambda x: cr.while_loop(lambda x: x < 0, lambda x: x * 2, x), 3.0, 1.0)[1] == 1.0


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_carries_of_several_dtypes(executor: str) -> None:
    def program(n: Any) -> Any:
        return cr.while_loop(
            lambda s: s[0] > 1,
            lambda s: (np.where(even(s[0]), half(s[0]), 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )

    def half(n: Any) -> Any:
        return (n / 2).astype(np.int64)

    def even(n: Any) -> Any:
        return half(n) * 2 == n

    last, iterations = cr.compile(program, executor=executor)(np.array(27))
    assert (last, iterations) == (1, 111)


def test_a_batch_goes_on_until_the_last_example_is_done() -> None:
    def doubled(x: Any) -> Any:
        return cr.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 2, s[1] + 1), (x, 0))

    xs = np.array([1.0, 300.0, 60.0])
    values, counts = cr.vmap(doubled)(xs)
    assert np.array_equal(values, [128.0, 300.0, 120.0])
    assert np.array_equal(counts, [7, 0, 1])
    assert cr.vmap(doubled)(np.ones(0))[0].shape == (0,)


def test_a_batch_under_one_condition() -> None:
    def grown(x: Any) -> Any:
        return cr.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]

    assert np.array_equal(cr.vmap(grown)(np.array([1.0, 2.0])), [8.0, 16.0])


def test_fori_loop_with_a_traced_bound_is_a_while_loop() -> None:
    def power(x: Any, n: Any) -> Any:
        return cr.fori_loop(0, n, lambda i, v: v * x, 1.0)

    assert power(2.0, np.array(10)) == 1024.0
    assert cr.jvp(lambda x: power(x, np.array(3)), 2.0, 1.0)[1] == 12.0
    with pytest.raises(NotDifferentiableError, match="while_loop"):
        cr.grad(lambda x, n: power(x, n))(2.0, np.array(3))


def test_carries_and_conditions_of_wrong_types_are_explained() -> None:
    def grow(x: Any) -> Any:
        return np.concatenate([x, x])

    with pytest.raises(ShapeError) as shapes:
        cr.while_loop(lambda x: np.sum(x) < 3, grow, np.ones(2))
    assert (
        "grow changes the shape of x: it is float64[2] before an iteration and float64[4] after"
        in str(shapes.value)
    )

    def below(x: Any) -> Any:
        return x < 3

    with pytest.raises(
        DTypeError, match=r"below returns bool\[2\]: the condition of a loop is one"
    ):
        cr.while_loop(below, lambda x: x + 1, np.ones(2))
