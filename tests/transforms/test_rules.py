"""Both sides of every rewrite rule are equal, for NaN and inf too; the right one is cheaper."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from chainrule.execute.reference import evaluate
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import INVARIANTS
from chainrule.graph.node import Node, topological
from chainrule.graph.parts import Input
from chainrule.graph.types import array_type
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.sources import full, input_
from chainrule.transforms import simplify
from chainrule.transforms.rules import RULES, RULES_BY_ROOT, Rule

TYPE = array_type(np.dtype(np.float64), (2, 3))
X, Y = input_(index=0, type=TYPE), input_(index=1, type=TYPE)
CASES = [
    pytest.param(rule, index, id=f"{rule.name} {index}")
    for rule in RULES
    for index in range(len(rule.before(X, Y)))
]
EXCEPTIONAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e308, -1e308, 1.0, -1.0, 2.5])
EXTREME = (0 < np.abs(EXCEPTIONAL)) & (np.abs(EXCEPTIONAL) < 1e-300) | (
    np.abs(EXCEPTIONAL) == 1e308
)


def graph_of(node: Node) -> Graph:
    """The graph that computes one node from the two inputs."""
    nodes = tuple(topological([X, Y, node]))
    return Graph(
        "side",
        (Input("x", X), Input("y", Y)),
        (("out", node),),
        nodes,
        {"x": X, "y": Y, "out": node},
    )


def value(node: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return evaluate(graph_of(node), {X: x, Y: y}, [node])[node]


def ulps_apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest distance in units in the last place of the left side; NaN counts as infinite."""
    assert one.dtype == other.dtype and one.shape == other.shape
    spacing = np.spacing(np.abs(one))
    apart = np.abs(one.astype(np.float64) - other) / spacing
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0))


def disagreement(rule: Rule, index: int, seeds: int = 20) -> float:
    """How many ulp the two sides of one instance differ at most on random inputs."""
    before = rule.before(X, Y)[index]
    after = rule.after(before)
    assert after is not None, f"the rule {rule.name} does not apply to its own instance"
    worst = 0.0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        x, y = random.normal(size=(2, 2, 3)) * 10.0 ** random.integers(-3, 4, (2, 2, 3))
        worst = max(worst, ulps_apart(value(before, x, y), value(after, x, y)))
    return worst


def cost(node: Node) -> tuple[int, int, int]:
    """Floating-point operations, bytes written, nodes; inputs and uniform constants are free."""
    mine = [n for n in topological([node]) if n.primitive not in (input_, full)]
    flops = sum(n.primitive.flops(n) for n in mine)
    return flops, sum(n.type.nbytes for n in mine), len(mine)


@pytest.mark.parametrize("rule, index", CASES)
def test_both_sides_are_equal(rule: Rule, index: int) -> None:
    assert disagreement(rule, index) <= rule.ulps


@pytest.mark.parametrize("rule, index", CASES)
def test_the_right_side_has_the_same_type_and_is_cheaper(rule: Rule, index: int) -> None:
    before = rule.before(X, Y)[index]
    after = rule.after(before)
    assert after is not None and after.type == before.type
    left, right = cost(before), cost(after)
    assert all(r <= v for r, v in zip(right, left, strict=True))
    assert right < left or len(topological([after])) < len(topological([before]))
    graph = graph_of(after)
    assert all(invariant(graph) for invariant in INVARIANTS)


@pytest.mark.parametrize("rule, index", CASES)
def test_exceptional_values_give_the_same_nan_and_inf(rule: Rule, index: int) -> None:
    before = rule.before(X, Y)[index]
    after = rule.after(before)
    assert after is not None
    for seed in range(60):
        # A rule with ulps computes with other numbers on the way: these may overflow or underflow.
        values = EXCEPTIONAL[~EXTREME] if rule.ulps else EXCEPTIONAL
        x, y = np.random.default_rng(seed).choice(values, (2, 2, 3))
        left, right = value(before, x, y), value(after, x, y)
        np.testing.assert_array_equal(np.isnan(left), np.isnan(right))
        finite = np.isfinite(left)
        np.testing.assert_array_equal(left[~finite], right[~finite])


@pytest.mark.parametrize("rule, index", CASES)
def test_simplify_finds_every_instance_and_stops(rule: Rule, index: int) -> None:
    before = graph_of(rule.before(X, Y)[index])
    after = simplify(before)
    assert len(after) < len(before) or after.text() != before.text()
    assert simplify(after).text() == after.text()


def test_names_are_unique_and_roots_are_where_the_rules_are_looked_for() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.before(X, Y), f"{rule.name} has no instance to be tested on"
        covered = {node.primitive for node in rule.before(X, Y)}
        assert covered <= set(rule.roots)
        assert all(rule in RULES_BY_ROOT[root] for root in rule.roots)


F32, F64, I64 = map(np.dtype, ("float32", "float64", "int64"))


def test_a_divisor_is_not_cancelled_through_a_cast_that_truncates_or_widens() -> None:
    truncated = logic.cast(X / 3.0, dtype=I64, weak=False) * 3
    widened = logic.cast(logic.cast(X, dtype=F32, weak=False) / 3.0, dtype=F64, weak=False) * 3.0
    for node in (truncated, widened):
        assert simplify(graph_of(node)).text() == graph_of(node).text()


@pytest.mark.parametrize("factor", [1e200, 1e-200, np.inf, np.nan, 0.0])
def test_factors_whose_product_overflows_or_underflows_stay_apart(factor: float) -> None:
    node = factor * (factor * X)
    assert simplify(graph_of(node)).text() == graph_of(node).text()


def test_x_times_zero_stays() -> None:
    node = X * 0.0
    assert all(rule.after(node) is None for rule in RULES_BY_ROOT[node.primitive])


def wrong(rule: Rule, change: Any) -> Rule:
    """The rule with a fault planted in its right side."""

    def after(node: Node) -> Node | None:
        right = rule.after(node)
        return None if right is None else change(right)

    return dataclasses.replace(rule, after=after)


def instances(rule: Rule, dtype: type) -> list[int]:
    return [i for i, node in enumerate(rule.before(X, Y)) if node.type.dtype == dtype]


@pytest.mark.parametrize("rule", [r for r in RULES if not instances(r, bool)], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "change",
    [lambda out: out * 1.001, lambda out: out + 1e-3, lambda out: out * (1 + 2.0**-49)],
    ids=["0.1 % wrong", "1e-3 more", "8 ulp more"],
)
def test_a_planted_fault_is_found(rule: Rule, change: Any) -> None:
    faulty = wrong(rule, change)
    assert any(disagreement(faulty, i) > rule.ulps for i in instances(rule, float))


@pytest.mark.parametrize("rule", [r for r in RULES if instances(r, bool)], ids=lambda r: r.name)
def test_a_planted_lie_is_found(rule: Rule) -> None:
    for i in instances(rule, bool):
        assert disagreement(wrong(rule, logic.logical_not), i) > rule.ulps


def test_a_rule_that_costs_more_is_found() -> None:
    node = X * 1.0
    assert cost(arithmetic.negative(arithmetic.negative(node))) > cost(node)
