"""Deep, wide and interwoven graphs of 2,000 nodes are traced, differentiated, printed and run."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64

n = cr.size("n")
LENGTH = 2_000  # twice as deep as Python recurses


def chain(x: float64[n]):
    for _ in range(LENGTH // 2):
        h = np.tanh(x)
        x = h * 1.01
    J = np.sum(x)
    return J


def wide(x: float64[n]):
    parts = [np.sin(x * i) for i in range(LENGTH // 4)]
    J = np.sum(np.stack(parts))
    return J


def diamonds(x: float64[n]):
    for _ in range(LENGTH // 3):
        left = np.exp(-x)
        right = np.cos(x)
        x = left * right
    J = np.sum(x)
    return J


@pytest.mark.sweep(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [chain, pytest.param(wide, marks=pytest.mark.exhaustive), diamonds]
)
def test_a_large_graph_needs_no_recursion(program):
    graph = cr.trace(program)
    step = cr.backward(graph, wrt="x")
    assert len(graph) >= LENGTH // 2
    assert str(step).endswith("return J, dJ/dx")
    again = cr.deduplicate(cr.simplify(cr.prune(step)))
    assert len(again.structural_hash) > 64
    x, small = np.array([0.3, 0.7]), 1e-6
    run = step.run(x=x)
    direction = np.array([1.0, -2.0])
    rise = graph.run(x=x + small * direction)["J"] - graph.run(x=x - small * direction)["J"]
    slope = run["dJ/dx"] @ direction
    # the bound: rounding of J over the step, and the truncation of a smooth function
    assert abs(rise / (2 * small) - slope) <= 1e-5 * abs(slope) + 1e-16 * abs(run["J"]) / small * 10


@pytest.mark.exhaustive
def test_a_large_graph_is_differentiated_twice():
    step = cr.backward(cr.trace(chain), wrt="x")
    second = cr.backward(step, of="dJ/dx", wrt="x", seed="v")
    run = second.run(x=np.full(2, 0.5), v=np.ones(2))
    assert np.isfinite(run["d(dJ/dx)/dx"]).all()
