"""What has a name keeps it in equations, and different values never read alike."""

from __future__ import annotations

import re

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.explain.equations.formula import Formula, Named
from chainrule.explain.reading.statements import FORWARD
from chainrule.explain.reading.symbols import notation_of, parted
from chainrule.transforms import jvp_graph

n, d = cr.sizes("n d")


def equations(graph: cr.Graph) -> dict[str, str]:
    return {one.name: str(one) for one in graph.equations(shapes=False)}


def weighted(x: float64[n], w: float64[n]):
    z = np.tanh(x)
    J = np.sum(z * w)
    return J


def test_an_input_that_is_a_gradient_keeps_its_name_and_the_gradient_has_an_equation():
    found = equations(cr.backward(cr.trace(weighted), wrt=("x", "w")))
    assert found["J"].endswith("J = ∑ z ⊙ w")
    assert found["dJ/dz"].endswith("∂J/∂z = w")
    assert found["dJ/dw"].endswith("∂J/∂w = z")
    assert list(found) == ["z", "J", "dJ/dw", "dJ/dz", "dJ/dx"]


def test_a_seed_that_is_the_gradient_is_said():
    def shifted(x: float64[n]):
        y = x + 1
        return y

    found = equations(cr.backward(cr.trace(shifted), wrt="x", seed="s"))
    assert found["dy/dx"].endswith("= s")


def test_means_over_different_axes_read_differently():
    def means(x: float64[n, d]):
        one = x - np.mean(x, axis=-1, keepdims=True)
        all_ = x - np.mean(x)
        least = cr.logsumexp(x)
        whole = cr.logsumexp(x, axis=None)
        return one, all_, least, whole

    right = [text.partition(" = ")[2] for text in equations(cr.trace(means)).values()]
    assert len(set(right)) == 4


def test_the_third_derivative_keeps_its_brackets_and_seeds_in_latex():
    def f(x: float64[()]):
        y = np.sin(x) * x
        return y

    second = cr.backward(cr.backward(cr.trace(f), wrt="x"), of="dy/dx", wrt="x")
    third = cr.backward(second, of="d(dy/dx)/dx", wrt="x")
    latex = notation_of(third).latex("d(d(dy/dx)/dx)/dx")
    assert latex == (
        r"\frac{\partial (\partial (\partial y / \partial x) / \partial x)}{\partial x}"
    )


def test_an_operator_of_many_shared_steps_is_drawn_at_once():
    def average(x, count):
        return np.sum(np.stack([x] * count), axis=0)

    def ensemble(x: float64[n]):
        y = average(average(average(average(x, 80), 80), 80), 80)
        return y

    assert "<svg" in cr.trace(ensemble).draw().svg()  # 80^4 operands, were all written out


def test_a_row_in_an_outer_product_stands_in_brackets():
    def f(v: float64[3], A: float64[3, 3], w: float64[3]):
        c = np.outer(v @ A, w)
        return c

    assert equations(cr.trace(f))["c"].endswith("c = (v A) wᵀ")


def stopped(x: float64[n]):
    J = np.sum(cr.stop_gradient(x) * x)
    return J


def scaled(b: float64[()], c: float64[n]):
    J = np.sum(c * b)
    return J


def gated(x: float64[n, d], W: float64[d, d], V: float64[d, d]):
    o = cr.sigmoid(x @ V)
    c = np.tanh(x @ W)
    h = o * np.tanh(c)
    J = np.sum(h)
    return J


def fitted(x: float64[n, d], w: float64[d], y: float64[n]):
    p = cr.sigmoid(x @ w)
    J = np.sum((p - y) ** 2) / 2
    return J


COINCIDENCES = [stopped, scaled, gated, fitted]


@pytest.mark.parametrize("function", COINCIDENCES)
def test_forward_equations_say_no_gradient(function):
    graph = cr.trace(function)
    alone = [str(one) for one in graph.equations()]
    both = cr.backward(graph, wrt="all").equations()
    assert [str(one) for one in both if one.during == FORWARD] == alone
    assert not any("∂" in line for line in alone)


def test_a_gradient_that_the_forward_pass_has_computed_has_its_equation_later():
    found = equations(cr.backward(cr.trace(gated), wrt="all"))
    assert list(found)[:7] == ["o", "c", "h", "J", "dJ/dh", "dJ/do", "dJ/dc"]
    assert found["h"] == "h = o ⊙ tanh(c)"
    assert found["dJ/do"] == "∂J/∂o = prod(∂J/∂h, ∂h/∂o) = tanh(c)"
    assert found["dJ/dc"].endswith("= o ⊙ (1 − tanh(c) ⊙ tanh(c))")  # 1 is ∂J/∂h, too
    assert found["a2"] == "a₂ = ∂J/∂o ⊙ o ⊙ (1 − o)"


def said(formula: Formula) -> list[str]:
    own = [formula.name] if isinstance(formula, Named) else []
    return own + [name for one in formula.operands for name in said(one)]


def order(name: str) -> int:
    parts = parted(name)
    return 0 if parts is None else 1 + order(parts[0])


@pytest.mark.parametrize("function", COINCIDENCES)
def test_no_pass_says_a_gradient_of_a_later_one(function):
    graph = cr.backward(cr.trace(function), wrt=cr.trace(function).inputs[0].name)
    of = graph.outputs[-1][0]
    found = cr.backward(graph, of=of, wrt="all", seed="v").equations()
    assert {one.during.order for one in found} >= {0, 1}
    for one in found:
        names = [name for side in one.formulas for name in said(side)]
        assert all(order(name) <= one.during.order for name in names), str(one)


def test_what_comes_through_a_value_has_the_gradient_of_that_value():
    def residual(x: float64[n, d], W1: float64[d, d], W2: float64[d, d]):
        a = np.tanh(x @ W1)
        f = a @ W2
        out = x + f
        J = np.sum(np.sin(out))
        return J

    found = equations(cr.backward(cr.trace(residual), wrt=("x", "W1", "W2")))
    assert found["dJ/df"] == "∂J/∂f = prod(∂J/∂out, ∂out/∂f) = ∂J/∂out"
    assert found["dJ/dW2"] == "∂J/∂W₂ = prod(∂J/∂f, ∂f/∂W₂) = aᵀ ∂J/∂f"
    assert found["dJ/da"] == "∂J/∂a = prod(∂J/∂f, ∂f/∂a) = ∂J/∂f W₂ᵀ"
    assert found["dJ/dx"].endswith("W₁ᵀ + ∂J/∂out")


def test_a_value_that_is_an_upstream_gradient_too_is_one_of_both():
    """∂J/∂r is r.  In ∂J/∂S, r stands for both, and is not renamed; in ∂J/∂μ it is the gradient."""

    def likelihood(X: float64[n, d], mu: float64[d], S: float64[d]):
        r = (X - mu) / S
        J = np.sum(r**2) / 2
        return J

    found = equations(cr.backward(cr.trace(likelihood), wrt=("mu", "S")))
    assert found["dJ/dr"] == "∂J/∂r = r"
    assert found["dJ/dmu"].endswith("= ∑_{axis 0} (−(∂J/∂r)/S)")
    assert found["dJ/dS"].endswith("= ∑_{axis 0} (−r/S ⊙ r)")


def test_a_number_is_the_gradient_only_where_it_comes_from_upstream():
    def program(x: float64[n, d], W: float64[d, d]):
        z = x @ W
        h = np.tanh(x)
        J = np.sum(z) + np.sum(h)
        return J

    found = equations(cr.backward(cr.trace(program), wrt="all"))
    assert found["dJ/dz"].endswith("= 1") and found["dJ/dh"].endswith("= 1")
    assert found["dJ/dW"].endswith("= xᵀ ∂J/∂z")
    assert found["dJ/dx"].endswith("= ∂J/∂z Wᵀ + 1 − h ⊙ h")


def test_after_the_gradients_a_number_is_one_only_of_a_parameter():
    def squashed(x: float64[n]):
        h = np.tanh(x)
        J = np.sum(h)
        return J

    graph = jvp_graph(cr.backward(cr.trace(squashed), wrt="h"), wrt=("x",))
    assert "= ∑ (1 − h ⊙ h) ⊙ " in equations(graph)["J_dot"]

    def line(b: float64[()]):
        J = 2.0 * b
        return J

    step = cr.training_step(line, wrt="b", optimizer=cr.sgd(0.1, momentum=0.9))
    assert equations(step.graph)["b_velocity_next"].endswith("= momentum b_velocity + ∂J/∂b")


def test_the_second_derivative_of_an_elementwise_composite_has_its_symbol():
    def network(x: float64[n, d], W: float64[d, d]):
        z = x @ W
        a = cr.softplus(z)
        J = np.sum(a**2)
        return J

    first = cr.backward(cr.trace(network), wrt="W")
    found = equations(cr.backward(first, of="dJ/dW", wrt="W", seed="V"))
    v = "∂⟨V, ∂J/∂W⟩"
    assert found["d(dJ/dW)/d(dJ/da)"].endswith(f" = {v}/∂(∂J/∂z) ⊙ softplus′(z)")
    assert found["d(dJ/dW)/dz"] == (
        f"{v}/∂z = prod({v}/∂a, ∂a/∂z) + prod({v}/∂(∂J/∂z), ∂(∂J/∂z)/∂z)"
        f" = {v}/∂a ⊙ softplus′(z) + {v}/∂(∂J/∂z) ⊙ ∂J/∂a ⊙ softplus″(z)"
    )


def test_a_gradient_that_an_earlier_backward_pass_has_stands_in_its_own():
    def curve(x: float64[n], w: float64[()]):
        z = w * x
        a = np.log(1 + np.exp(z))
        J = np.sum(a**2)
        return J

    graph = cr.trace(curve)
    for of in ("J", "dJ/dw", "d(dJ/dw)/dw"):
        graph = cr.backward(graph, of=of, wrt="w")
    for one in graph.equations():
        assert not one.number or order(one.name) == one.during.order, str(one)


@pytest.mark.parametrize(
    "written",
    ["cr.huber(x, cr.softmax(x))", "cr.huber(cr.softmax(2 * x), 2 * x)"],
)
def test_a_partial_derivative_holds_an_argument_that_has_its_own_symbol(written):
    scope = {"np": np, "cr": cr}
    exec(f"def program(x):\n    J = {written}\n    return J\n", scope)
    graph = cr.backward(cr.trace(scope["program"], x=float64["n d"]), wrt="x")
    text = str(graph.equations(shapes=False))
    found = re.findall(r"∂ℓ\((\w+), (\w+)\)/∂(\w+)", text)
    assert len(found) == text.count("∂ℓ") == 3  # the arguments are symbols
    fractions = [*dict.fromkeys(found)]
    assert [(one == variable) + (other == variable) for one, other, variable in fractions] == [1, 1]
    assert re.search(r"where a₁ = softmax\(.*\)", text)
