"""Second derivatives through a softmax read as in a textbook, and are what the run computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from equation_values import assert_true
from equations_read_true import assert_reads_true

import chainrule as cr

Program = Callable[..., Any]
SHAPES = {"x": (3, 2), "W": (2, 4), "V": (2, 4), "o": (3, 4), "v": (3, 4), "p": (4,), "u": (4,)}
LABELS = {"y": np.array([1, 0, 3]), "k": np.array(2)}


def loss_of(**options: Any) -> Program:
    def product(o: Any, y: Any, v: Any) -> Any:
        Hv = cr.hvp(lambda o: cr.cross_entropy(o, y, **options), o, v)
        return Hv

    return product


def weighted(o: Any, y: Any, v: Any, u: Any) -> Any:
    Hv = cr.hvp(lambda o: cr.cross_entropy(o, y, weight=u), o, v)
    return Hv


def regression(x: Any, y: Any, W: Any, V: Any) -> Any:
    def loss(W: Any) -> Any:
        o = x @ W
        L = cr.cross_entropy(o, y)
        return L

    Hv = cr.hvp(loss, W, V)
    return Hv


def of_one_example(p: Any, k: Any) -> Any:
    H = cr.hessian(lambda z: cr.cross_entropy(z, k))(p)
    return H


def of_rows(o: Any, y: Any) -> Any:
    H = cr.hessian(lambda z: cr.cross_entropy(z, y))(o)
    return H


def of_its_sum(p: Any) -> Any:
    H = cr.hessian(lambda z: 3 * cr.logsumexp(z))(p)
    return H


def jacobian(p: Any) -> Any:
    D = cr.jacobian(cr.softmax)(p)
    return D


def of_named(p: Any) -> Any:
    def function(z: Any) -> Any:
        q = cr.softmax(z)
        return q

    D = cr.jacobian(function)(p)
    return D


def along_columns(o: Any, v: Any) -> Any:
    _, t = cr.jvp(lambda z: cr.softmax(z, axis=0), o, v)
    return t


def back(o: Any, v: Any) -> Any:
    _, pull = cr.vjp(lambda z: cr.log_softmax(z) * 2, o)
    (g,) = pull(v)
    return g


def of_product(o: Any, v: Any) -> Any:
    def entropy(z: Any) -> Any:
        return -np.sum(cr.softmax(z) * cr.log_softmax(z))

    Hv = cr.hvp(entropy, o, v)
    return Hv


EQUATIONS: dict[str, tuple[Program, str, str]] = {
    "mean": (loss_of(), "Hv = (a₁ ⊙ (v − ∑_{axis 1, keepdims} v ⊙ a₁))/3", "a₁ = softmax(o)"),
    "sum": (
        loss_of(reduction="sum"),
        "Hv = a₁ ⊙ (v − ∑_{axis 1, keepdims} v ⊙ a₁)",
        "a₁ = softmax(o)",
    ),
    "smoothed": (
        loss_of(label_smoothing=0.1),
        "Hv = (a₁ ⊙ (v − ∑_{axis 1, keepdims} v ⊙ a₁))/3",
        "a₁ = softmax(o)",
    ),
    "weighted": (weighted, "a₁ ⊙ ", "a₁ = softmax(o)"),
    "regression": (
        regression,
        "Hv = xᵀ ((a₁ ⊙ (x V − ∑_{axis 1, keepdims} x V ⊙ a₁))/3)",
        "a₁ = softmax(loss.o)",
    ),
    "Hessian": (of_one_example, "H = diag(a₁) − a₁ a₁ᵀ", "a₁ = softmax(p)"),
    "Hessian of rows": (
        of_rows,
        "H = reshape_{3×4×3×4}((a₁ ⊙ (a₂ − ∑_{axis 2, keepdims} a₂ ⊙ a₁))/3)",
        "a₂ = reshape_{12×3×4}(𝐈₁₂)",
    ),
    "logsumexp": (of_its_sum, "H = 3 (diag(a₁) − a₁ a₁ᵀ)", "a₁ = softmax(p)"),
    "Jacobian": (jacobian, "D₁ = diag(D) − D Dᵀ", "D = softmax(p)"),
    "named": (of_named, "D = diag(q) − q qᵀ", "q = softmax(p)"),
    "columns": (along_columns, "t = softmax_{axis 0}(o) ⊙ (v − ∑_{axis 0} v ⊙", "softmax"),
    "back": (back, "2 (v − softmax(o) ⊙ (∑_{axis 1, keepdims} v))", "softmax(o)"),
    "entropy": (of_product, "∑", "softmax(o)"),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_second_derivatives_of_softmax(name: str) -> None:
    program, line, other = EQUATIONS[name]
    random = np.random.default_rng(4)
    code = program.__code__
    names = code.co_varnames[: code.co_argcount]
    given = {
        one: LABELS[one] if one in LABELS else random.normal(size=SHAPES[one]) for one in names
    }
    graph = cr.trace(program, **given)
    found = graph.equations(shapes=False)
    text = str(found).replace("function.", "")
    assert line in text and other in text, text
    assert "exp(" not in text and "stop" not in text, text
    run = graph.run(given)
    assert_true(graph, found, run)
    assert assert_reads_true(graph, found, run) >= len(graph.names) - len(given)


def test_the_gradient_of_a_gradient_of_softmax_regression() -> None:
    def objective(x: Any, y: Any, W: Any) -> Any:
        o = x @ W
        L = cr.cross_entropy(o, y)
        return L

    random = np.random.default_rng(5)
    given = {one: random.normal(size=SHAPES[one]) for one in ("x", "W")} | {"y": LABELS["y"]}
    graph = cr.backward(cr.trace(objective, **given), wrt="W")
    graph = cr.backward(graph, of="dL/dW", wrt="W", seed="V")
    given["V"] = random.normal(size=SHAPES["V"])
    found, run = graph.equations(shapes=False), graph.run(given)
    assert "exp(" not in str(found)
    assert_true(graph, found, run)
    assert assert_reads_true(graph, found, run) == 7


def test_derivatives_by_a_temperature() -> None:
    """Numbers, which a softmax reaches through sums."""

    def program(p: Any, T: Any, o: Any) -> Any:
        def free(T: Any) -> Any:
            return T * cr.logsumexp(p / T) + np.mean(cr.softmax(o / T)[:, 0])

        S = cr.grad(free)(T)
        C = cr.hessian(free)(T)
        return S, C

    random = np.random.default_rng(8)
    given = {"p": random.normal(size=4), "T": np.array(1.7), "o": random.normal(size=(3, 4))}
    graph = cr.trace(program, **given)
    found, run = graph.equations(shapes=False), graph.run(given)
    assert_true(graph, found, run)
    assert_reads_true(graph, found, run)


def test_a_sum_of_exponentials_that_is_no_softmax_stays() -> None:
    def program(o: Any, v: Any) -> Any:
        s = np.sum(np.exp(o), axis=1)
        _, t = cr.jvp(lambda z: np.exp(z) / np.sum(np.exp(z), axis=0), o, v)
        return s, t

    graph = cr.trace(program, o=np.ones((3, 4)), v=np.ones((3, 4)))
    assert "softmax" not in str(graph.equations()) and "exp(o)" in str(graph.equations())
