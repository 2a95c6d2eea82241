"""Derivatives of binary cross-entropy read as in a textbook, however it is written, and are what
the run computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from equation_functions import FUNCTIONS
from equation_values import assert_true
from equations_read_true import assert_reads_true

import chainrule as cr
from chainrule import float64
from chainrule.graph.graph import Graph

Loss = Callable[[Any, Any], Any]
TYPES = {"x": float64["n d"], "y": float64["n"], "w": float64["d"]}
RANDOM = np.random.default_rng(3)
GIVEN = {
    "x": RANDOM.normal(size=(5, 3)),
    "y": RANDOM.uniform(size=5),
    "w": RANDOM.normal(size=3),
    "v": RANDOM.normal(size=3),
}


def of_probabilities(p: Any, y: Any) -> Any:
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


LOSSES: dict[str, tuple[Loss, str]] = {
    "σ": (lambda z, y: of_probabilities(cr.sigmoid(z), y), ""),
    "1/(1 + exp(−z))": (lambda z, y: of_probabilities(1 / (1 + np.exp(-z)), y), ""),
    "log1p(−p)": (
        lambda z, y: (
            -np.mean(
                y * np.log(cr.sigmoid(z)) + (1 - y) * np.log1p(-cr.sigmoid(z)),
            )
        ),
        "",
    ),
    "log(1 + exp(z))": (lambda z, y: np.mean(np.log(1 + np.exp(z)) - y * z), "(σ(z) − y)/n"),
    "log1p(exp(z))": (lambda z, y: np.mean(np.log1p(np.exp(z)) - y * z), "(σ(z) − y)/n"),
    "logaddexp": (lambda z, y: np.mean(np.logaddexp(0, z) - y * z), "1/n σ(z) − 1/n ⊙ y"),
    "softplus": (lambda z, y: np.mean(cr.softplus(z) - y * z), "1/n σ(z) − 1/n ⊙ y"),
    "logsumexp of rows": (
        lambda z, y: np.mean(cr.logsumexp(np.stack([np.zeros_like(z), z]), axis=0) - y * z),
        "(σ(z) − y)/n",
    ),
    "logsumexp of columns": (
        lambda z, y: np.mean(cr.logsumexp(np.stack([np.zeros_like(z), z], axis=-1)) - y * z),
        "(σ(z) − y)/n",
    ),
    "with logits": (cr.binary_cross_entropy_with_logits, "(σ(z) − y)/n"),
}


def checked(graph: Graph) -> str:
    """The equations, which give what the run gives."""
    given = {item.name: GIVEN[item.name] for item in graph.inputs}
    concrete = graph.bind(n=5, d=3)
    equations, run = concrete.equations(shapes=False), concrete.run(given)
    assert_true(concrete, equations, run)
    assert_reads_true(concrete, equations, run)
    return str(graph.equations(shapes=False))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_the_hessian_times_a_vector_is_that_of_a_textbook(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, gradient = LOSSES[name]
    monkeypatch.setitem(FUNCTIONS, "ℓ", lambda _, z, y: cr.binary_cross_entropy_with_logits(z, y))

    def product(x: Any, y: Any, w: Any, v: Any) -> Any:
        def objective(w: Any) -> Any:
            z = x @ w
            L = loss(z, y)
            return L

        Hv = cr.hvp(objective, w, v)
        return Hv

    text = checked(cr.trace(product, **TYPES, v=float64["d"]))
    p = "σ(objective.z)"
    assert f"Hv = xᵀ (({p} ⊙ (1 − {p}) ⊙ x v)/n)" in text, text
    if not gradient:
        return

    def first(x: Any, y: Any, w: Any) -> Any:
        z = x @ w
        L = loss(z, y)
        return L

    text = checked(cr.backward(cr.trace(first, **TYPES), wrt="w"))
    assert f"∂L/∂z = {gradient}" in text.replace("prod(∂L/∂L, ∂L/∂z) = ", ""), text


def test_a_named_probability_is_called_by_its_name() -> None:
    def product(x: Any, y: Any, w: Any, v: Any) -> Any:
        def objective(w: Any) -> Any:
            p = 1 / (1 + np.exp(-(x @ w + 1)))
            L = of_probabilities(p, y) + 0.1 * np.sum(w**2)
            return L

        Hv = cr.hvp(objective, w, v)
        return Hv

    text = checked(cr.trace(product, **TYPES, v=float64["d"]))
    p = "objective.p"
    assert f"Hv = xᵀ (({p} ⊙ (1 − {p}) ⊙ x v)/n) + 0.2 v" in text, text


def test_margins_have_the_square_of_the_label() -> None:
    def product(x: Any, y: Any, w: Any, v: Any) -> Any:
        Hv = cr.hvp(lambda w: np.sum(np.logaddexp(0, -y * (x @ w))), w, v)
        return Hv

    text = checked(cr.trace(product, **TYPES, v=float64["d"]))
    assert "Hv = xᵀ (a₁ ⊙ (1 − a₁) ⊙ y^{⊙2} ⊙ x v)" in text, text
    assert "a₁ = σ(−y ⊙ x w)" in text and "if" not in text, text


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        lambda z, y: np.sum(1 / (2 + np.exp(-z))),
        lambda z, y: np.sum(np.exp(-(z**2)) + np.exp(z) * y),
        lambda z, y: np.sum(np.logaddexp(z, 2 * y)),
        lambda z, y: np.sum(np.where(z > 0, np.log1p(np.exp(-z)), z**2)),
        lambda z, y: np.sum(np.log1p(np.exp(z)) / np.exp(y * z)),
        lambda z, y: np.sum(cr.sigmoid(z) ** 3 / (1 - cr.sigmoid(z)) * np.abs(z)),
    ],
)
def test_what_is_no_polynomial_of_it_is_true_as_well(loss: Loss) -> None:
    def product(x: Any, y: Any, w: Any, v: Any) -> Any:
        Hv = cr.hvp(lambda w: loss(x @ w, y), w, v)
        return Hv

    checked(cr.trace(product, **TYPES, v=float64["d"]))


def test_gates_of_a_cell_stay_as_they_are() -> None:
    def program(x: Any, y: Any, w: Any) -> Any:
        o = cr.sigmoid(x @ w)
        c = np.tanh(o * y)
        h = (1 - o) * y + o * c
        L = np.sum(h**2)
        return L

    text = checked(cr.backward(cr.trace(program, **TYPES), wrt="w"))
    assert "⊙ o ⊙ (1 − o)" in text, text
