"""An int argument that is a number of steps is a structure, as in `range`: a loop has derivatives,
and the graph a guard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError


def by_fori(x: Any, n: Any = 3) -> Any:
    return np.sum(cr.fori_loop(0, n, lambda i, v: v * x + i, x))


def by_fori_from(x: Any, n: Any = 3) -> Any:
    return np.sum(cr.fori_loop(-n, n + 1, lambda i, v: v * x + i, x))


def by_scan(x: Any, n: Any = 3) -> Any:
    return np.sum(cr.scan(lambda v, _: (v * x, v), x, None, length=n)[1])


def by_scan_of_numbers(x: Any, n: Any = 3) -> Any:
    return np.sum(x * cr.scan(lambda v, _: (v * 2.0, v), 1.0, None, length=n)[0])


def by_range(x: Any, n: Any = 3) -> Any:
    v = x
    for i in range(n):
        v = v * x + i
    return np.sum(v)


LOOPS = (by_fori, by_fori_from, by_scan, by_scan_of_numbers, by_range)
X = np.array([0.5, -1.25])


@pytest.mark.sweep(5)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_gradient_is_that_of_the_loop(loop: Any, n: int) -> None:
    steps = 1e-6 * np.eye(2)
    expected = [(loop(X + step, n) - loop(X - step, n)) / 2e-6 for step in steps]
    for given in ({"n": n}, {"n": np.int64(n).item()}):
        np.testing.assert_allclose(cr.grad(loop)(X, **given), expected, rtol=1e-7, atol=1e-8)
    slope = cr.grad(lambda x: np.sum(cr.grad(loop)(x, n) ** 2))
    by = [
        (np.sum(cr.grad(loop)(X + s, n) ** 2) - np.sum(cr.grad(loop)(X - s, n) ** 2)) / 2e-6
        for s in steps
    ]
    np.testing.assert_allclose(slope(X), by, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_graph_holds_for_its_number_of_steps_alone(loop: Any) -> None:
    graph = cr.trace(loop, x=X)
    assert str(graph).endswith("  require n == 3\n  return out")
    assert not [node for node in graph.nodes if node.primitive.name == "while_"]
    assert graph.run(x=X).outputs == pytest.approx(loop(X, 3), rel=1e-12)
    with pytest.raises(InputError, match="trace it again with n=4") as caught:
        graph.run(x=X, n=4)
    assert f"in {loop.__name__}" in caught.value.where
    assert cr.trace(loop, x=X, n=4).run(x=X, n=4).outputs == pytest.approx(loop(X, 4), rel=1e-12)


def test_an_integer_that_is_not_known_counts_in_a_while_loop() -> None:
    graph = cr.trace(by_fori, x=X, n=int)
    assert graph.guards == ()
    for n in (0, 2, 5):
        assert graph.run(x=X, n=n).outputs == pytest.approx(by_fori(X, n), rel=1e-12)


def test_aux_is_given_back_as_numbers() -> None:
    def loss(x: Any, n: int) -> Any:
        y = cr.fori_loop(0, n, lambda i, v: v * x, x)
        return np.sum(y), {"steps": n, "y": y}

    (value, aux), gradient = cr.value_and_grad(loss, has_aux=True)(X, 3)
    assert value == np.sum(X**4)
    assert aux["steps"] == 3
    np.testing.assert_allclose(aux["y"], X**4)
    np.testing.assert_allclose(gradient, 4 * X**3)
    gradient, aux = cr.grad(loss, has_aux=True)(X, 3)
    assert aux["steps"] == 3


# What Python alone can do with an integer: `n` is 3 unless it says otherwise.
USES = [
    lambda x, n: x * {3: 5.0, 4: 7.0}.get(n, 1.0),
    lambda x, n: x * (2 if n in {3, 4} else 3),
    lambda x, n: x * len({n, 3}),
    lambda x, n: x * {"w3": 2.0}[f"w{n}"],
    lambda x, n: x * (2 if str(n) == "3" else 3),
    lambda x, n: x * float(f"{n:03d}.5"),
    lambda x, n: x * (2 if repr([n]) == "[3]" else 3),
    lambda x, n: x[:-n],
    lambda x, n: x * (2 if n == 3.0 else 3) * (4 if 2.5 < n else 5),
    lambda x, n: x * len(range(-n, abs(-n))),
    lambda x, n: x * (2 if n & 1 else 3) * (n | 4) * (n ^ 1),
    lambda x, n: x * (1 << n) * (n << 1) * (n >> 1),
    lambda x, n: x * divmod(n, 2)[0] + [1.0, 2.0][divmod(7, n)[1]],
    lambda x, n: x * round(n) * (1 if -n < 0 else 2),
]


@pytest.mark.parametrize("use", USES)
def test_a_structure_takes_the_number_and_binds_the_graph_to_it(use: Any) -> None:
    x = np.arange(1.0, 7.0)
    graph = cr.trace(use, x=x, n=3)
    assert [(guard.name, guard.value) for guard in graph.guards] == [("n", 3)]
    np.testing.assert_array_equal(graph.run(x=x, n=3).outputs, use(x, 3))
    with pytest.raises(InputError, match="trace it again with n=2"):
        graph.run(x=x, n=2)


def test_an_integer_that_is_printed_stays_a_number_of_the_program() -> None:
    def program(x: Any, n: int) -> Any:
        print(f"{n} times")
        return x * n

    graph = cr.trace(program, x=X, n=3)
    assert graph.guards == ()
    np.testing.assert_array_equal(graph.run(x=X, n=5).outputs, 5 * X)


def test_a_traced_array_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        cr.trace(lambda x: {x: 1}, X)
