"""What loops give is called as the program stores it, and as its equations are written."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ShapeError


def lstm(x: cr.float64["t n"], U: cr.float64["n n"], h0: cr.float64["n"], c0: cr.float64["n"]):
    def step(state, x_t):
        h, c = state
        c = np.tanh(x_t) * c
        h = np.tanh(h @ U + c)
        return (h, c), h

    (h, c), hs = cr.scan(step, (h0, c0), x)
    J = np.sum(h * c) + np.sum(hs)
    return J


def test_the_states_of_a_scan_are_called_as_they_are_unpacked() -> None:
    graph = cr.trace(lstm)
    assert {"h", "c", "hs", "J"} <= graph.names.keys()
    lines = str(graph.equations()).splitlines()
    assert "(1)  h = h_t ∈ ℝ^n" in lines
    assert "     where c_s = tanh(x_s) ⊙ c_{s−1} ∈ ℝ^n, s = 1, …, t" in lines
    assert "     where h_s = tanh(h_{s−1} U + c_s) ∈ ℝ^n, s = 1, …, t" in lines
    assert "(4)  J = ∑ h ⊙ c + ∑ hs ∈ ℝ" in lines


def test_what_is_kept_whole_says_where_in_it() -> None:
    def f(x):
        state = cr.while_loop(lambda s: s["a"] < 9, lambda s: {"a": s["a"] * 2, "b": s["a"]},
                              {"a": x, "b": x})  # fmt: skip
        pair = cr.cond(x > 0, lambda: (x * 2, x * 3), lambda: (x, -x))
        return state["a"] + state["b"] + pair[0] * pair[1]

    names = cr.trace(f, np.float64(1)).names.keys()
    assert {"state.a", "state.b", "pair[0]", "pair[1]"} <= names


@pytest.mark.parametrize("traced", [False, True], ids=["number", "traced bound"])
def test_fori_loop_has_the_names_of_its_function(traced: bool) -> None:
    def f(x: cr.float64["n"], k: cr.int64[""]):
        w = cr.fori_loop(0, k if traced else 5, lambda i, w: w * 0.5 + x * i, x)
        return np.sum(w)

    graph = cr.trace(f)
    assert graph.names["w"].shape == graph.input("x").node.shape
    assert not [name for name in graph.names if "[" in name]
    body = graph.names["w"].param("body").graph
    assert {"i", "w"} <= {item.name for item in body.inputs}
    assert "w" not in {name for name, _ in body.outputs} - {"w_next"}
    text = str(graph.equations())
    assert "_{s−1} + " in text or "_{t−1} + " in text
    assert "value" not in text and "state" not in text


def test_states_that_change_places_have_the_names_of_the_results() -> None:
    def f(x: cr.float64["n"]):
        a, b = cr.fori_loop(0, 3, lambda i, ab: (ab[1], ab[0] + i), (x, x * 2))
        return np.sum(a * b)

    lines = [line.strip() for line in str(cr.trace(f).equations()).splitlines()]
    assert "where a_t = b_{t−1} ∈ ℝ^n, t = 1, …, 3" in lines or (
        "where a_s = b_{s−1} ∈ ℝ^n, s = 1, …, 3" in lines
    )
    assert not [line for line in lines if "ab" in line]


@pytest.mark.parametrize("bound", [3, np.arange(4)[3]], ids=["Python", "NumPy"])
def test_errors_in_a_fori_loop_show_the_line_of_its_function(bound) -> None:
    def doubled(i, w):
        return np.concatenate([w, w])

    def f(x):
        return np.sum(cr.fori_loop(0, bound, doubled, x))

    with pytest.raises(ShapeError, match="doubled changes the shape of w") as caught:
        cr.trace(f, np.ones(3))
    assert __file__ in str(caught.value) and "in doubled" in str(caught.value)
    assert "control/api.py" not in str(caught.value)


def test_errors_show_the_line_of_a_partial_function_too() -> None:
    def doubled(scale, i, w):
        return np.concatenate([w, scale * w])

    with pytest.raises(ShapeError, match="doubled changes the shape of w") as caught:
        cr.trace(lambda x: cr.fori_loop(0, 3, functools.partial(doubled, 2), x), np.ones(3))
    assert "in doubled" in str(caught.value)


def test_a_function_of_any_arguments_goes_by_default_names() -> None:
    def f(x):
        return np.sum(cr.fori_loop(0, 3, lambda *args: args[1] * 2, x))

    names = {item.name for item in next(
        node for node in cr.trace(f, np.ones(3)).nodes if "body" in dict(node.params)
    ).param("body").graph.inputs}  # fmt: skip
    assert "value" in names
    np.testing.assert_array_equal(f(np.ones(3)), 24)


def test_gradients_in_containers_are_called_as_they_are_stored() -> None:
    def loss(params, x):
        return np.sum(np.tanh(x @ params["W"] + params["b"]) ** 2)

    def step(params, x):
        J, grads = cr.value_and_grad(loss)(params, x)
        dW, db = cr.grad(lambda W, b: loss({"W": W, "b": b}, x), (0, 1))(params["W"], params["b"])
        return J, grads, dW + params["W"], db

    params = {"W": np.ones((3, 2)), "b": np.zeros(2)}
    names = cr.trace(step, params, np.ones((4, 3))).names.keys()
    assert {"grads.W", "grads.b", "dW", "db"} <= names


def masked(again: bool):
    """A masked network; its states are stored as h and c, or again as h_new and c_new."""

    def objective(
        x: cr.float64["T n 3"],
        mask: cr.float64["T n 1"],
        W: cr.float64["3 8"],
        U: cr.float64["8 8"],
    ):
        def cell(carry, inputs):
            h, c = carry
            x_t, m = inputs
            c_new = c + np.tanh(x_t @ W + h @ U)
            h_new = np.tanh(c_new)
            if again:
                c_new = m * c_new + (1 - m) * c
                h_new = m * h_new + (1 - m) * h
                return (h_new, c_new), None
            c = m * c_new + (1 - m) * c
            h = m * h_new + (1 - m) * h
            return (h, c), None

        zero = np.zeros_like(x, shape=(x.shape[1], 8))
        (h, c), _ = cr.scan(cell, (zero, zero), (x, mask))  # noqa: RUF059 (the name is tested)
        J = np.sum(h**2)
        return J

    return objective


@pytest.mark.parametrize("again", [False, True])
def test_a_candidate_and_the_state_have_names_of_their_own(again: bool) -> None:
    graph = cr.backward(cr.trace(masked(again)), wrt="W")
    lines = [line.strip() for line in str(graph.equations(shapes=False)).splitlines()]
    assert "where c_t = mask_t ⊙ c_new_t + (1 − mask_t) ⊙ c_{t−1}, t = 1, …, T" in lines
    assert "where h_new_t = tanh(c_new_t), t = 1, …, T" in lines
    # what the backward loop computes again, where the forward loop computes 1 - m twice
    assert not [line for line in lines if "⁽" in line]
    assert sum(line.startswith("where c_new_t") for line in lines) == 1
    assert "c_new" in graph.draw().svg()


def test_what_is_thrown_away_has_no_name() -> None:
    def helper(x):
        y = np.exp(x)
        return y

    def f(x):
        _ = np.sin(x)
        _, ys = cr.scan(lambda h, t: (h + t, h * t), 0.0, x)
        _ = helper(x)
        return np.sum(ys) + np.sum(_)

    names = cr.trace(f, np.ones(3)).names.keys()
    assert "ys" in names and "helper.y" in names
    assert not [name for name in names if name.startswith("_")]
