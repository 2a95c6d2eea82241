"""What has a name keeps it in equations, and different values never read alike."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule import float64
from chainrule.explain.reading.symbols import notation_of

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
