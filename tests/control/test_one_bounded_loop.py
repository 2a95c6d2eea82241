"""`max_steps` reads as one while loop with T <= max_steps, and has derivatives of every order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule.graph.body import bodies_of, inner_nodes

A = np.array(2.0)


def root(a: Any) -> Any:
    def newton(x: Any) -> Any:
        y = (x + a / x) / 2
        return y

    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-9, newton, a, max_steps=40)


def of_order(order: int) -> cr.Graph:
    graph = cr.trace(root, A)
    for _ in range(order):
        graph = cr.backward(graph, wrt="a", of=graph.outputs[-1][0])
    return graph


def primitives(graph: cr.Graph) -> set[str]:
    return {node.primitive.name for node in (*graph.nodes, *inner_nodes(graph))}


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_no_graph_has_a_loop_or_a_choice_that_the_user_did_not_write(order: int) -> None:
    graph = of_order(order)
    assert not primitives(graph) & {"scan", "cond"}
    names = {str(body) for node in graph.nodes for body in bodies_of(node)}
    assert {name.replace("_cotangent", "") for name in names} == {"newton", "newton_condition"}
    for text in (str(graph), str(graph.equations()), str(graph.python()), str(graph.memory())):
        assert "segment" not in text and "step_step" not in text and "ended(" not in text


@pytest.mark.sweep(3)
@EITHER
@pytest.mark.parametrize("order", [1, 2, 3])
def test_reverse_mode_over_reverse_mode_is_right(order: int, executor: str) -> None:
    slope = {1: 0.5 * 2**-0.5, 2: -0.25 * 2**-1.5, 3: 0.375 * 2**-2.5}[order]
    found = of_order(order).run(a=A, executor=executor).outputs[-1]
    assert found == pytest.approx(slope, rel=1e-7)
    scope: dict[str, Any] = {}
    exec(str(of_order(order).python()), scope)
    assert scope["root"](A)[-1] == pytest.approx(slope, rel=1e-7)


def test_equations_are_those_of_a_while_loop_with_its_bound() -> None:
    lines = str(of_order(1).equations(shapes=False))
    assert "T = min{t ≥ 0 : ¬(|x_t · x_t − a| > 10⁻⁹)} ≤ 40" in lines
    assert "x_t = (x_{t−1} + a/x_{t−1})/2, t = 1, …, T" in lines
    assert "dx_{t−1} = −(dx_t/2)/x_{t−1} (a/x_{t−1}) + dx_t/2, t = T, …, 1" in lines
    assert lines.count("x_{t−1} + a/x_{t−1}") == 1  # not once more for the way back
    alone = cr.trace(lambda a: cr.grad(root)(a), A)  # of which only the way back is left
    lines = str(alone.equations(shapes=False))
    assert "x_t = (x_{t−1} + a/x_{t−1})/2, t = 1, …, T" in lines and "≤ 40" in lines


def counting(x: Any) -> Any:
    """A loop whose carries have two dtypes, and whose condition reads one of them."""

    def step(s: Any) -> Any:
        i, v = s
        h = np.tanh(v) * x
        return i + 1, h

    n, r = cr.while_loop(lambda s: s[0] < 12, step, (0, x), max_steps=20)
    return np.sum(r) + n


def test_carries_of_several_dtypes_are_those_of_one_loop_in_equations() -> None:
    graph = cr.backward(cr.trace(counting, np.ones(2)), wrt="x")
    lines = str(graph.equations(shapes=False))
    assert lines.count("≤ 20") == 1 and lines.count(" + 1, t = 1, …, T") == 1
    assert "h_t = tanh(h_{t−1}) ⊙ x, t = 1, …, T" in lines and ", N" not in lines


def test_a_drawing_shows_what_a_step_reads_and_nothing_else() -> None:
    graph = cr.backward(cr.trace(counting, np.ones(2)), wrt="x")
    text = graph.draw(fold="none").mermaid()
    boxes = set(re.findall(r"^ *(n\d+)[\[(]", text, re.MULTILINE))
    joined = set(re.findall(r"\b(n\d+) -", text)) | set(re.findall(r"> (n\d+)\b", text))
    assert boxes and boxes == joined


def test_drawing_plan_and_report_say_the_bound() -> None:
    graph = of_order(1)
    drawn = graph.draw(fold="none").svg()
    assert "for at most 40 iterations" in drawn and "while newton" in drawn
    plan = str(graph.compile(executor="native").plan())
    assert "at most 40 iterations while a condition holds of compiled code" in plan
    assert "at most 40 iterations while a condition holds, forth and back, of compiled code" in plan

    def sines(a: Any) -> Any:
        r = cr.while_loop(lambda x: x > 0.5, np.sin, a, max_steps=40)
        return r

    report = cr.report(cr.backward(cr.trace(sines, A), wrt="a"), {"a": A}).data
    loops = [one["loop"] for one in report["values"] if one.get("loop")]
    shown = [(one["operation"], one["limit"], one["reverse"]) for one in loops]
    assert shown == [("while", 40, None), ("while", 40, True)]


def test_costs_are_those_of_as_many_steps_as_there_may_be() -> None:
    def flops(iterations: int | None) -> Any:
        def f(a: Any) -> Any:
            return cr.while_loop(
                lambda x: x * x > a, lambda x: np.sin(x) * x, a, max_steps=iterations
            )

        return cr.trace(f, A).cost().flops

    assert flops(10) - flops(9) == flops(None)
    assert flops(0) < flops(None)


@pytest.mark.parametrize("place", range(5))
def test_nan_is_told_in_the_iteration_as_the_user_counts_them(place: int) -> None:
    def logs(x: Any) -> Any:
        def step(state: Any) -> Any:
            i, total = state
            h = np.log(x[i])
            return i + 1, total + h

        return cr.while_loop(lambda s: s[0] < 5, step, (0, 0.0), max_steps=9)[1]

    def roots(x: Any) -> Any:
        def step(state: Any) -> Any:
            i, total = state
            h = np.sqrt(x[i])
            return i + 1, total + h

        return cr.while_loop(lambda s: s[0] < 5, step, (0, 0.0), max_steps=9)[1]

    x = np.arange(1.0, 6.0)
    x[place] = 0
    for graph in (cr.trace(logs, x), cr.backward(cr.trace(logs, x), wrt="x")):
        found = graph.nonfinite(x=x)
        assert found is not None and found.inside == (f"iteration {place} of a loop over step",)
        assert found.value == "h" and "log of 0" in found.because
        assert "h = np.log(x[i])" in found.where
    found = cr.backward(cr.trace(roots, x), wrt="x").nonfinite(x=x)
    assert found is not None and found.inside == (f"iteration {place} of a loop over step",)
    assert found.because == "the derivative of sqrt at 0 is inf"
    assert "h = np.sqrt(x[i])" in found.where and found.phase == "the backward pass"


@pytest.mark.parametrize("place", range(3))
def test_a_gradient_alone_tells_the_step_of_the_loop_that_it_does_again(place: int) -> None:
    def logs(x: Any) -> Any:
        def step(state: Any) -> Any:
            i, total = state
            h = np.log(x[i])
            return i + 1, total * np.sin(total) + h

        return cr.while_loop(lambda s: s[0] < 3, step, (0, 0.5), max_steps=9)[1]

    x = np.arange(1.0, 4.0)
    x[place] = -1
    alone = cr.trace(lambda x: cr.grad(logs)(x), x)
    found = alone.nonfinite(x=x)
    if place == 2:  # of the last total nothing is read but how it was computed: 1 / x
        assert found is None
        return
    assert found is not None and found.inside == (f"iteration {place} of a loop over step",)
    assert found.because == "log of a number below 0 is NaN" and found.value == "h"
    assert "h = np.log(x[i])" in found.where


PROGRAMS = 14


def program(seed: int) -> tuple[Any, Any, np.ndarray]:
    """A bounded loop with several carries, nested in other control flow, and the same unrolled."""
    random = np.random.default_rng(seed)
    size, kind = int(random.integers(1, 4)), int(random.integers(0, 5))
    W = random.normal(size=(size, size)) / 2
    stop, most = int(random.integers(0, 6)), 6 + int(random.integers(0, 4))

    def step(state: Any, x: Any) -> Any:
        i, u, v = state
        new = np.tanh(W @ u + x * v)
        if kind == 1:
            new = cr.cond(np.sum(new) > 0, lambda a: a * np.sin(a), lambda a: a**3, new)
        if kind == 2:
            new = cr.scan(lambda c, r: (c * np.cos(r) + r, None), new, x)[0]
        if kind == 3:
            new = cr.while_loop(
                lambda s: s[0] < 2, lambda s: (s[0] + 1, np.sin(s[1]) + x * u), (0, new),
                max_steps=3,
            )[1]  # fmt: skip
        return i + 1, new, v + u * new

    def looped(x: Any) -> Any:
        def once(c: Any) -> Any:
            start = (0, x * c, np.cos(x))
            found = cr.while_loop(lambda s: s[0] < stop, lambda s: step(s, x), start,
                                  max_steps=most)  # fmt: skip
            return np.sum(found[1] ** 2) + np.sum(np.sin(found[2]))

        if kind == 4:
            return np.sum(cr.scan(lambda c, _: (once(c), c), 1.0, None, length=2)[0])
        return once(1.0)

    def unrolled(x: Any) -> Any:
        def once(c: Any) -> Any:
            state = (0, x * c, np.cos(x))
            for _ in range(stop):
                state = step(state, x)
            return np.sum(state[1] ** 2) + np.sum(np.sin(state[2]))

        return once(once(1.0)) if kind == 4 else once(1.0)

    return looped, unrolled, random.normal(size=size)


@pytest.mark.slow
@pytest.mark.sweep(14)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_derivatives_of_random_programs_are_those_of_the_unrolled_ones(seed: int) -> None:
    looped, unrolled, x = program(seed)
    u = np.random.default_rng(seed + 1000).normal(size=x.shape)
    batch = np.stack([x, u, x * u])

    def directed(f: Any) -> Any:
        return lambda x: np.sum(cr.grad(f)(x) * u)

    for made in (
        lambda f: cr.grad(f)(x),
        lambda f: cr.grad(directed(f))(x),  # reverse over reverse
        lambda f: cr.hvp(f, x, u),
        lambda f: cr.hessian(f)(x),
        lambda f: cr.jvp(lambda x: cr.jvp(f, x, u)[1], x, u)[1],
        lambda f: cr.vmap(cr.grad(f))(batch),
        lambda f: cr.vmap(cr.grad(directed(f)))(batch),
    ):
        np.testing.assert_allclose(made(looped), made(unrolled), rtol=1e-9, atol=1e-12)
