"""Equations of loops and choices: recurrences with the user's names, and every one of them true."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recurrences import solved

import chainrule as cr
from chainrule import float64
from chainrule.graph.graph import Graph

random = np.random.default_rng(0)
W, U, V, v = (random.normal(size=one) / 2 for one in ((3, 3), (2, 3), (3, 3), (3,)))
x, y, z = random.normal(size=(5, 2)), random.normal(size=5), random.normal(size=(5, 3))


def recurrent(
    x: float64["n 2"], y: float64["n"], W: float64["3 3"], U: float64["2 3"], v: float64["3"]
) -> Any:
    def cell(h: Any, x: Any) -> Any:
        z = x @ U + h @ W
        h = np.tanh(z)
        return h, h @ v

    h, o = cr.scan(cell, np.zeros(3), x)  # noqa: RUF059 (the equations have it)
    J = np.mean((o - y) ** 2)
    return J


def lstm(x: float64["n 2"], W: float64["5 12"]) -> Any:
    def cell(state: Any, x_t: Any) -> Any:
        h, c = state
        g = np.concatenate([h, x_t]) @ W
        i, f, o, u = cr.sigmoid(g[:3]), cr.sigmoid(g[3:6]), cr.sigmoid(g[6:9]), np.tanh(g[9:])
        c = f * c + i * u
        h = o * np.tanh(c)
        return (h, c), h

    (_, c), hs = cr.scan(cell, (np.zeros(3), np.zeros(3)), x)
    J = np.sum(hs**2) + np.sum(c)
    return J


def both_ways(z: float64["n 3"], W: float64["3 3"], V: float64["3 3"], h: float64["3"]) -> Any:
    def forth(h: Any, x: Any) -> Any:
        h = np.tanh(x + h @ W)
        return h, h

    def back(h_prev: Any, x_t: Any) -> Any:
        h_t = np.tanh(x_t + h_prev @ V)
        return h_t, 2 * h_t

    _, h1 = cr.scan(forth, h, 2 * z)
    h2, hs = cr.scan(back, h, h1, reverse=True)
    J = np.sum(h2) + np.sum(hs**2)
    return J


def chosen(z: float64["n 3"], W: float64["3 3"]) -> Any:
    def step(state: Any, row: Any) -> Any:
        h, count = state
        u = np.tanh(W @ h) * np.sum(row)

        def early(u: Any) -> Any:
            w = np.sin(u)
            return w + h

        h = cr.cond(count < 3, early, lambda u: u, u)
        return (h, count + 1), (u, count)

    (h, count), (us, counts) = cr.scan(step, (np.ones(3), np.int64(0)), z)
    J = np.sum(us**2) + np.sum(h)
    return J, count, counts


def root(a: float64[()]) -> Any:
    def newton(x: Any) -> Any:
        return (x + a / x) / 2

    r = cr.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, newton, a)
    return r


def power(b: float64[()]) -> Any:
    p = cr.fori_loop(3, 7, lambda i, p: p * b + i, b)
    return 2 * p


def crossed(a: float64[()], b: float64[()]) -> Any:
    p, q = cr.fori_loop(0, 6, lambda i, state: (state[1], state[0] + state[1]), (a, b))
    return p, q


def nested(z: float64["n 3"], W: float64["3 3"]) -> Any:
    def layer(h: Any, V: Any) -> Any:
        def inner(c: Any, row: Any) -> Any:
            return c + h @ row, None

        s, _ = cr.scan(inner, np.zeros(()), V)
        return np.tanh(h * s), None

    h, _ = cr.scan(layer, z[0], np.stack([W, W.T, W]))
    return h


def twice(z: float64["n 3"], W: float64["3 3"], V: float64["3 3"], h: float64["3"]) -> Any:
    total: Any = 0.0
    for M in (W, V):  # one line of the program calls two loops that are alike
        last, _ = cr.scan(lambda h, x, M=M: (np.tanh(x + h @ M), None), h, z)
        total = total + np.sum(last)
    J = total * 2
    return J


def there_and_back(z: float64["n 3"], W: float64["3 3"], h: float64["3"]) -> Any:
    total: Any = 0.0
    for reverse in (False, True):
        last, _ = cr.scan(lambda h, x: (np.tanh(x + h @ W), None), h, z, reverse=reverse)
        total = total + np.sum(last)
    J = total * 2
    return J


def safe(a: float64[()]) -> Any:
    b = cr.cond(a > 0, lambda: np.sqrt(a), lambda: 0 * a)
    return b


def backward(function: Any, *wrt: str) -> Graph:
    graph = cr.trace(function)
    return cr.backward(graph, of="J", wrt=wrt) if "J" in graph else cr.backward(graph, wrt=wrt)


a, b = np.array(2.0), np.array(0.7)
CASES: dict[str, tuple[Graph, dict[str, Any]]] = {
    "recurrent": (backward(recurrent, "W", "U", "v"), {"x": x, "y": y, "W": W, "U": U, "v": v}),
    "lstm": (backward(lstm, "W"), {"x": x, "W": random.normal(size=(5, 12))}),
    "both ways": (backward(both_ways, "W", "V", "z", "h"), {"z": z, "W": W, "V": V, "h": v}),
    "chosen": (backward(chosen, "W", "z"), {"z": z, "W": W}),
    "root": (cr.trace(root), {"a": a}),
    "power": (backward(power, "b"), {"b": b}),
    "crossed": (cr.trace(crossed), {"a": a, "b": b}),
    "nested": (cr.trace(nested), {"z": z, "W": W}),
    "twice": (backward(twice, "W", "V"), {"z": z, "W": W, "V": V, "h": v}),
    "there and back": (backward(there_and_back, "W", "h"), {"z": z, "W": W, "h": v}),
    "safe": (backward(safe, "a"), {"a": a}),
    "safe, not taken": (backward(safe, "a"), {"a": -a}),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", CASES)
def test_the_equations_alone_give_the_values_of_the_run(name: str) -> None:
    graph, given = CASES[name]
    run = graph.run(given)
    sizes = {"n": 5} if graph.sizes else {}
    found = solved(graph, graph.equations(shapes=False), {**given, **sizes})
    assert set(found) == {one.name for one in graph.equations() if one.number}
    for key, value in found.items():
        assert np.shape(value) == run[key].shape, key
        np.testing.assert_allclose(value, run[key], rtol=1e-12, atol=1e-12, err_msg=key)


RECURRENT = """Given x ∈ ℝ^{n×2}, y ∈ ℝ^n, W ∈ ℝ^{3×3}, U ∈ ℝ^{2×3}, v ∈ ℝ³

Forward
(1)  h = h_n ∈ ℝ³
     where h₀ = [0, 0, 0] ∈ ℝ³
     where z_t = x_t U + h_{t−1} W ∈ ℝ³, t = 1, …, n
     where h_t = tanh(z_t) ∈ ℝ³, t = 1, …, n
     where o_t = h_t · v ∈ ℝ, t = 1, …, n
(2)  o = [o₁, …, o_n] ∈ ℝ^n
(3)  J = mean((o − y)^{⊙2}) = ‖o − y‖²/n ∈ ℝ"""


def test_a_loop_is_a_recurrence_with_the_names_of_its_function() -> None:
    assert str(cr.trace(recurrent).equations()) == RECURRENT


def test_a_recurrence_is_the_same_in_latex_and_in_markdown() -> None:
    equations = cr.trace(recurrent).equations(shapes=False)
    step = r"\mathbf{z}_{t} = \mathbf{x}_{t}\,\mathbf{U} + \mathbf{h}_{t-1}\,\mathbf{W}"
    steps = r",\quad t = 1, \ldots, n"
    assert rf"\text{{where }} {step.replace(' =', ' & =')}{steps}" in equations.latex()
    assert f"$$\n\\text{{where }} {step}{steps}\n$$" in equations.markdown()
    assert equations["z_t"].latex() == step + steps


def test_one_equation_brings_the_recurrences_that_it_needs() -> None:
    equations = CASES["recurrent"][0].equations(["dJ/dW"], shapes=False)
    assert {one.name for one in equations} >= {"dJ/dW", "dh_{t−1}", "h_t", "z_t"}
    assert "J" not in equations and "dJ/do" not in equations


def test_what_the_backward_loop_computes_again_is_written_once() -> None:
    for name in ("recurrent", "lstm", "both ways", "chosen"):
        lefts = [str(one).partition(" = ")[0] for one in CASES[name][0].equations()]
        assert len(lefts) == len(set(lefts)), name
        assert not [one for one in lefts if one.startswith(("z⁽", "u⁽"))]


def test_the_names_of_two_loops_are_told_apart() -> None:
    found = str(cr.trace(both_ways).equations(shapes=False))
    assert "h⁽²⁾_t = tanh(x_t + h⁽²⁾_{t−1} W), t = 1, …, n" in found
    assert "h⁽³⁾_t = tanh((h₁)_t + h⁽³⁾_{t+1} V), t = n, …, 1" in found


def test_a_choice_is_written_by_cases() -> None:
    equations = cr.trace(safe).equations(shapes=False)
    assert str(equations["b"]) == "b = {√a if a > 0; 0 a otherwise}"
    cases = r"\begin{cases} \sqrt{a} & \text{if } a > 0 \\ 0 \cdot a & \text{otherwise} \end{cases}"
    assert equations["b"].latex().replace(r"0\,a", r"0 \cdot a") == f"b = {cases}"


def test_a_while_loop_says_when_it_ends() -> None:
    equations = cr.trace(root).equations(shapes=False)
    assert str(equations["r"]) == "r = x_T"
    assert str(equations["T"]) == "T = min{t ≥ 0 : ¬(|x_t · x_t − a| > 10⁻¹² a)}"
    assert (
        equations["T"].latex().startswith(r"T = \min\{t \geq 0 : \neg (|x_{t} \cdot x_{t} - a| > ")
    )


def test_a_gradient_that_comes_through_two_results_of_a_loop_is_no_product_by_one() -> None:
    def both(x: float64["n 3"], W: float64["3 3"]) -> Any:
        h, hs = cr.scan(lambda h, x: (h_ := np.tanh(x + h @ W), h_), np.zeros(3), x)
        J = np.sum(h) + np.sum(hs)
        return J

    assert "prod" not in str(cr.backward(cr.trace(both), wrt="W").equations()["dJ/dW"])


def test_a_loop_that_begins_with_zeros_that_have_a_name_is_written_with_what_it_keeps() -> None:
    def program(x: float64["n 3 2"], W: float64["3 3"], U: float64["2 3"]) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = np.tanh(x @ U + h @ W)
            return h, np.exp(-h)

        zeros = np.zeros_like(x, shape=(x.shape[0], 3))
        h, y = cr.scan(cell, zeros, np.swapaxes(x, 0, 1))
        J = np.sum(y) + np.sum(h)
        return J

    graph = cr.backward(cr.trace(program), wrt="W")
    runs = graph.memory(n=5, executor="reference").main.graph  # the loop keeps h and y
    text = str(runs.equations())
    assert "h₀ = zeros" in text and "∂J/∂W = ∑" in text


@pytest.mark.exhaustive
def test_the_work_is_linear_in_the_number_of_loops() -> None:
    def deep(count: int) -> Graph:
        def program(z: float64["n 3"], W: float64["3 3"], h: float64["3"]) -> Any:
            def cell(h: Any, x: Any) -> Any:
                u = x + h @ W
                h = np.tanh(u)
                return h, h

            for _ in range(count):
                h, z = cr.scan(cell, h, z)
            J = np.sum(h)
            return J

        return cr.backward(cr.trace(program), wrt="W")

    def calls(work: Callable[[], object]) -> int:
        profile = cProfile.Profile()
        profile.runcall(work)
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    few, many = deep(10), deep(20)
    few.draw()  # makes what is remembered for all graphs
    few.equations()
    assert calls(lambda: str(many.equations())) < 2.5 * calls(lambda: str(few.equations()))
    scenes = [calls(lambda g=g: g.draw(fold="none").scene) for g in (many, few)]
    assert scenes[0] < 2.5 * scenes[1]
