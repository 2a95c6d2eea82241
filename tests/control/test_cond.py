"""`cr.cond` computes one branch, and differentiates one branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import close

import chainrule as cr
from chainrule import float64
from chainrule.errors import DTypeError, InputError, ShapeError


def split(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda x: np.sin(x) * x, lambda x: x**3, x)


def python(x: Any) -> Any:
    return np.sin(x) * x if np.sum(np.asarray(x)) > 0 else x**3


X = np.array([0.4, 1.3])


@pytest.mark.parametrize("x", [X, -X])
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_values_and_gradients_are_those_of_the_branch(x: Any, executor: str) -> None:
    positive = bool(np.sum(x) > 0)
    branch = (lambda x: np.sin(x) * x) if positive else (lambda x: x**3)
    assert close(split(x), branch(x))
    for f, g in (
        (lambda x: np.sum(split(x)), lambda x: np.sum(branch(x))),
        (
            lambda x: np.sum(cr.grad(lambda x: np.sum(split(x)))(x) ** 2),
            lambda x: np.sum(cr.grad(lambda x: np.sum(branch(x)))(x) ** 2),
        ),
    ):
        assert close(cr.grad(f, executor=executor)(x), cr.grad(g, executor=executor)(x))
        got, expected = cr.jvp(f, (x,), (X,))[1], cr.jvp(g, (x,), (X,))[1]
        assert close(got, expected)


def test_one_graph_serves_both_branches() -> None:
    def J(x: float64["n"]) -> Any:
        return np.sum(split(x))

    graph = cr.backward(cr.trace(J))
    for x in (X, -X):
        assert close(graph.run(x=x)["dout/dx"], cr.grad(lambda x: np.sum(split(x)))(x))


@pytest.mark.parametrize("closes_over", [False, True])
def test_nan_in_the_branch_that_is_not_taken_reaches_no_gradient(closes_over: bool) -> None:
    def safe(x: Any) -> Any:
        if closes_over:
            return cr.cond(x > 0, lambda: np.sqrt(x) + np.log(x), lambda: 2 * x)
        return cr.cond(x > 0, lambda x: np.sqrt(x) + np.log(x), lambda x: 2 * x, x)

    for x in (-1.0, 0.0):
        assert (safe(x), cr.grad(safe)(x), cr.grad(cr.grad(safe))(x)) == (2 * x, 2.0, 0.0)
        assert cr.jvp(safe, x, 1.0)[1] == 2.0
    chosen = cr.grad(lambda x: np.where(x > 0, np.sqrt(x), 2 * x))(0.0)
    assert chosen == 2.0  # and a select gives it too, though it computes both


def test_only_the_branch_that_is_taken_is_computed() -> None:
    def program(table: Any, i: Any) -> Any:
        return cr.cond(i < 3, lambda: table[i], lambda: -1.0)

    graph = cr.trace(program, np.arange(3.0), np.array(0))
    for i, expected in (2, 2.0), (7, -1.0):
        for executor in ("reference", "native"):
            assert (
                graph.run(table=np.arange(3.0), i=np.array(i), executor=executor).outputs
                == expected
            )


@pytest.mark.parametrize("pred", [True, False, np.True_, np.array(True)])
def test_a_known_condition_is_a_condition_too(pred: Any) -> None:
    assert cr.cond(pred, lambda x: x + 1, lambda x: x - 1, 3.0) == (4.0 if pred else 2.0)


def test_results_of_several_dtypes_and_containers() -> None:
    def program(x: Any) -> Any:
        return cr.cond(
            x > 0,
            lambda: {"i": np.int64(1), "f": x, "n": 2},
            lambda: {"i": np.int64(-1), "f": x * 0.5, "n": 2.5},
        )

    for x in (np.float32(3), np.float32(-3)):
        got = program(x)
        assert (got["i"], got["f"], got["n"]) == ((1, 3, 2) if x > 0 else (-1, -1.5, 2.5))
        assert [got[key].dtype.name for key in "ifn"] == ["int64", "float32", "float64"]


def test_a_choice_for_each_example_selects() -> None:
    xs = np.array([[1.0, 2.0], [-3.0, 1.0], [0.5, 0.1]])
    got = cr.vmap(split)(xs)
    assert close(got, np.stack([split(x) for x in xs]))
    gradient = cr.vmap(cr.grad(lambda x: np.sum(split(x))))(xs)
    assert close(gradient, np.stack([cr.grad(lambda x: np.sum(split(x)))(x) for x in xs]))


def test_one_choice_for_the_whole_batch_stays_one() -> None:
    def program(p: Any, x: Any) -> Any:
        return cr.cond(p, lambda x: np.log(x), lambda x: x, x)

    xs = np.array([-1.0, -2.0])
    assert np.array_equal(cr.vmap(program, (None, 0))(np.array(False), xs), xs)
    graph = cr.trace(lambda p, xs: cr.vmap(program, (None, 0))(p, xs), np.array(True), xs)
    assert sum(node.primitive.name == "cond" for node in graph.nodes) == 1


def test_a_choice_in_a_loop() -> None:
    def step(c: Any, x: Any) -> Any:
        c = cr.cond(x > 0, lambda c: c * x, lambda c: np.sin(c), c)
        return c, c

    def python_step(c: Any, x: Any, positive: bool) -> Any:
        return c * x if positive else np.sin(c)

    xs = np.array([2.0, -1.0, 0.5])

    def python_loop(c: Any, xs: Any) -> Any:
        for i, positive in enumerate((True, False, True)):
            c = python_step(c, xs[i], positive)
        return c

    got = cr.grad(lambda c, xs: cr.scan(step, c, xs)[0], (0, 1))(0.7, xs)
    expected = cr.grad(python_loop, (0, 1))(0.7, xs)
    assert all(close(*pair) for pair in zip(got, expected, strict=True))


def test_branches_of_different_types_are_explained() -> None:
    x = np.ones(3)

    def longer(x: Any) -> Any:
        return np.concatenate([x, x])

    def same(x: Any) -> Any:
        return x

    with pytest.raises(ShapeError) as shapes:
        cr.cond(np.array(True), same, longer, x)
    assert "out is float64[3] where same is taken, and float64[6] where longer is" in str(
        shapes.value
    )
    assert "test_cond.py" in str(shapes.value)
    with pytest.raises(DTypeError, match=r"float64\[3\] where same is taken, and float32\[3\]"):
        cr.cond(np.array(True), same, lambda x: x.astype(np.float32), x)
    with pytest.raises(InputError, match=r"same returns out, pair returns out\[0\], out\[1\]"):
        cr.cond(np.array(True), same, pair, x)
    with pytest.raises(DTypeError, match=r"the condition of cond is float64\[3\], not one boolean"):
        cr.cond(x, same, same, x)


def pair(x: Any) -> Any:
    return x, x
