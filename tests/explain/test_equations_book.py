"""The equations of section 5.3 of the book (d2l.ai), and of the README's network."""

from __future__ import annotations

import numpy as np
import pytest
from equation_values import assert_true
from equations_read_true import assert_reads_true
from graphs_to_explain import book, mlp

import chainrule as cr
from chainrule import float64
from chainrule.explain.equations import equations

# The book has z = W⁽¹⁾x, and so on; ∂J/∂o = ∂L/∂o, where L = ℓ(o, y).  λ stands before the matrix.
BOOK = {
    "z": "z = W⁽¹⁾ x ∈ ℝ^h",
    "h": "h = φ(z) = max(z, 0) ∈ ℝ^h",
    "o": "o = W⁽²⁾ h ∈ ℝ^q",
    "L": "L = ℓ(o, y) ∈ ℝ",
    "s": "s = λ/2 (‖W⁽¹⁾‖²_F + ‖W⁽²⁾‖²_F) ∈ ℝ",
    "J": "J = L + s ∈ ℝ",
    "dJ/dL": "∂J/∂L = 1 ∈ ℝ",
    "dJ/ds": "∂J/∂s = 1 ∈ ℝ",
    "ds/dW1": "∂s/∂W⁽¹⁾ = λ W⁽¹⁾ ∈ ℝ^{h×d}",
    "ds/dW2": "∂s/∂W⁽²⁾ = λ W⁽²⁾ ∈ ℝ^{q×h}",
    "dJ/do": "∂J/∂o = prod(∂J/∂L, ∂L/∂o) = softmax(o) − onehot_q(y) ∈ ℝ^q",
    "dJ/dW2": "∂J/∂W⁽²⁾ = prod(∂J/∂o, ∂o/∂W⁽²⁾) + prod(∂J/∂s, ∂s/∂W⁽²⁾) "
    "= ∂J/∂o hᵀ + λ W⁽²⁾ ∈ ℝ^{q×h}",
    "dJ/dh": "∂J/∂h = prod(∂J/∂o, ∂o/∂h) = W⁽²⁾ᵀ ∂J/∂o ∈ ℝ^h",
    "dJ/dz": "∂J/∂z = prod(∂J/∂h, ∂h/∂z) = ∂J/∂h ⊙ φ′(z) ∈ ℝ^h",
    "dJ/dW1": "∂J/∂W⁽¹⁾ = prod(∂J/∂z, ∂z/∂W⁽¹⁾) + prod(∂J/∂s, ∂s/∂W⁽¹⁾) "
    "= ∂J/∂z xᵀ + λ W⁽¹⁾ ∈ ℝ^{h×d}",
}
# Exercise 2: with a bias.
BIAS = {
    "z": "z = W⁽¹⁾ x + b⁽¹⁾ ∈ ℝ^h",
    "o": "o = W⁽²⁾ h + b⁽²⁾ ∈ ℝ^q",
    "dJ/db2": "∂J/∂b⁽²⁾ = prod(∂J/∂o, ∂o/∂b⁽²⁾) = ∂J/∂o ∈ ℝ^q",
    "dJ/db1": "∂J/∂b⁽¹⁾ = prod(∂J/∂z, ∂z/∂b⁽¹⁾) = ∂J/∂z ∈ ℝ^h",
}


@pytest.mark.parametrize("bias", [False, True], ids=["without bias", "with bias"])
def test_the_equations_are_the_books(bias: bool) -> None:
    found = equations(book(bias), indices="superscript", symbols={"weight_decay": "λ"})
    expected = {**BOOK, **BIAS} if bias else BOOK
    assert {one.name: str(one) for one in found} == expected


def test_the_equations_stand_in_the_order_of_the_book() -> None:
    assert [one.name for one in equations(book())] == list(BOOK)


def ridge(x: float64["n d"], y: float64["n"], w: float64["d"], λ=0.1):
    r = x @ w - y
    L = np.mean(r**2) + np.sum(r) * np.sum(w)
    s = λ * np.sum(w**2)
    J = 2 * L + s * L + 3
    return J


def test_each_scalar_through_which_a_parameter_reaches_the_objective_has_a_line() -> None:
    graph = cr.backward(cr.trace(ridge), wrt="w")
    found = equations(graph, shapes=False)
    backward = [one.name for one in found if one.number and one.during.order]
    assert backward == ["dJ/dL", "dL/dw", "dJ/ds", "ds/dw", "dJ/dr", "dJ/dw"]
    assert str(found["ds/dw"]) == "∂s/∂w = 2 λ w"
    assert str(found["dL/dw"]) == "∂L/∂w = ∑ r"  # of w itself: r has a term of its own
    assert [one.name for one in equations(graph, "ds/dw")] == ["ds/dw"]
    random = np.random.default_rng(3)
    given = {"x": random.normal(size=(3, 2)), "y": random.normal(size=3), "w": np.ones(2)}
    graph = graph.bind(n=3, d=2)
    run = graph.run(given)
    assert_true(graph, equations(graph), run)
    assert assert_reads_true(graph, equations(graph, shapes=False), run) == 10


def test_the_book_in_latex() -> None:
    found = equations(book(), indices="superscript", symbols={"weight_decay": "λ"})
    assert (
        found["dJ/dW2"]
        .latex()
        .endswith(
            r" = \frac{\partial J}{\partial \mathbf{o}}\,\mathbf{h}^{\top}"
            r" + \lambda\,\mathbf{W}^{(2)} \in \mathbb{R}^{q \times h}"
        )
    )
    assert r"{\mathbf{W}^{(2)}}^{\top}" in found["dJ/dh"].latex()  # not a double superscript
    assert found["s"].latex() == (
        r"s = \frac{\lambda}{2}\,(\|\mathbf{W}^{(1)}\|_{F}^{2} + \|\mathbf{W}^{(2)}\|_{F}^{2})"
        r" \in \mathbb{R}"
    )


def test_many_examples_in_rows() -> None:
    found = equations(mlp(), shapes=False)
    assert str(found["z"]) == "z = x W₁"
    assert str(found["dJ/dW2"]) == (
        "∂J/∂W₂ = prod(∂J/∂o, ∂o/∂W₂) + prod(∂J/∂s, ∂s/∂W₂) = hᵀ ∂J/∂o + weight_decay W₂"
    )


def test_the_text_as_a_whole() -> None:
    lines = str(equations(mlp())).splitlines()
    assert lines[0].startswith("Given x ∈ ℝ^{n×d}, y ∈ ℤ^n, W₁ ∈ ℝ^{d×h}")
    assert lines[2:4] == ["ℓ: cross-entropy", ""]
    assert lines[4:6] == ["Forward", " (1)  z = x W₁ ∈ ℝ^{n×h}"]
    assert "Backward" in lines and lines[-1].startswith("(15)  ∂J/∂W₁ = ")
