"""What the equations say is true: each right side, evaluated, is the value of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from equation_values import assert_true
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from namespaces import kink_distance, traced
from programs import Program, programs

import chainrule as cr
from chainrule.explain.equations import equations

SEEDS = st.integers(0, 2**32 - 1)


def tier(count: int) -> Any:
    calm = [HealthCheck.filter_too_much, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=calm)


def check(program: Program, seed: int, *, second: bool) -> None:
    arguments = program.arguments(seed, {})
    assume(kink_distance(program, arguments) > 1e-4)
    named = dict(zip(program.parameters, arguments, strict=True))
    graph = cr.backward(cr.trace(program.function(traced), **named), wrt="all")
    if second:
        of = next(name for name, _ in graph.outputs if name.startswith("dJ/d"))
        graph = cr.backward(graph, of=of, wrt=program.parameters, seed="direction")
        named["direction"] = np.asarray(np.random.default_rng(seed).normal(size=graph[of].shape))
    assert_true(graph, equations(graph), graph.run(named))


@tier(60)
@given(programs(empty=False), SEEDS)
def test_equations_of_random_programs_are_true(program: Program, seed: int) -> None:
    check(program, seed, second=False)


@tier(15)
@given(programs(empty=False), SEEDS)
def test_equations_of_second_derivatives_are_true(program: Program, seed: int) -> None:
    check(program, seed, second=True)


@pytest.mark.slow
@tier(600)
@given(programs(empty=False), SEEDS, st.booleans())
def test_equations_of_many_random_programs_are_true(
    program: Program, seed: int, second: bool
) -> None:
    check(program, seed, second=second)


def test_second_derivatives_through_composites_are_true() -> None:
    """The second pass reads what is inside the composites: their short form would be false."""

    def objective(x: Any, W: Any, V: Any) -> Any:
        h = cr.softmax(x @ W) * 2
        o = cr.gelu(h @ V)
        L = cr.cross_entropy(o, np.array([0, 1]))
        J = L + np.sum(W**2)
        return J

    random = np.random.default_rng(5)
    shapes = dict(x=(2, 3), W=(3, 4), V=(4, 2))
    arguments = {name: random.normal(size=shape) for name, shape in shapes.items()}
    graph = cr.backward(cr.trace(objective, **arguments), wrt=("W", "V"))
    graph = cr.backward(graph, of="dJ/dW", wrt=("W", "V"), seed="v")
    arguments["v"] = random.normal(size=(3, 4))
    found = equations(graph)
    assert "∂ℓ(o" in str(found["dJ/do"]) and "softmax(x W)" in str(found["h"])
    assert_true(graph, found, graph.run(arguments))
