"""Formulas evaluated with NumPy and the values of a run: derivatives by central differences.

Nothing here knows how the equations were found: φ' and ∂ℓ/∂o are differences of the values of what
they are derivatives of, and prod(∂J/∂o, ∂o/∂W) is the sum over the elements of o.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.explain.equations import Equations
from chainrule.explain.equations.formula import (
    Auxiliary,
    Called,
    Chain,
    Curved,
    Formula,
    Named,
    Pulled,
    Slope,
    Total,
    Unit,
)
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.arithmetic import stop_gradient
from chainrule.primitives.sources import input_

STEP = 1e-6
WIDE_STEP = 1e-4  # of second differences, whose rounding is 1e-16 / STEP²


class Values:
    """The values of formulas of one graph, for the numbers of one run."""

    def __init__(self, graph: Graph, equations: Equations, run: Mapping[str, Any]) -> None:
        self.run = run
        self.known = {node: np.asarray(run[name]) for name, node in graph.names.items()}
        self.auxiliary = {one.node: one.formulas[0] for one in equations if not one.number}

    def of(self, formula: Formula) -> np.ndarray:
        """The value of a formula, in the shape of the node that it stands for."""
        value = self._of(formula)
        return np.broadcast_to(value, formula.node.shape)

    def _of(self, formula: Formula) -> np.ndarray:
        match formula:
            case Named(name=name):
                return np.asarray(self.run[name])
            case Auxiliary():
                return self.of(self.auxiliary[formula.node])
            case Called(unit=Unit() as unit):
                arguments = zip(unit.variables, map(self.of, formula.operands), strict=True)
                return self._computed(unit.result, dict(arguments))
            case Slope(unit=Unit() as unit, variable=Node() as variable):
                given = dict(zip(unit.variables, map(self.of, formula.operands), strict=True))
                if variable.shape == unit.result.shape:
                    return self._slope(unit.result, variable, given)
                return self._pulled(np.ones(()), unit.result, variable, given)
            case Curved(unit=Unit() as unit, variable=Node() as variable):
                *factors, x = map(self.of, formula.operands)
                curve = self._curve(unit.result, variable, x)
                return np.prod(np.broadcast_arrays(curve, *factors), axis=0)
            case Pulled(unit=Unit() as unit, variable=Node() as variable):
                upstream, *operands = map(self.of, formula.operands)
                given = dict(zip(unit.variables, operands, strict=True))
                if formula.is_elementwise:
                    return upstream * self._slope(unit.result, variable, given)
                return self._pulled(upstream, unit.result, variable, given)
            case Chain(consumer=Node() as consumer, variable=Node() as variable, reads=reads):
                given = {node: self._node(node) for node in (*reads, variable)}
                return self._pulled(self.of(formula.operands[0]), consumer, variable, given)
            case Total():
                return sum((self.of(one) for one in formula.operands), np.zeros(()))
            case _:
                operands = [self.of(one) for one in formula.operands]
                params = dict(formula.node.params)
                return np.asarray(formula.node.primitive.evaluate(np, *operands, **params))

    def local(self, chain: Chain) -> np.ndarray:
        """The derivative of a scalar in a chain rule by what its equation reads."""
        assert chain.consumer is not None and chain.variable is not None
        given = {node: self._node(node) for node in (*chain.reads, chain.variable)}
        return self._pulled(np.ones(()), chain.consumer, chain.variable, given)

    def _node(self, node: Node) -> np.ndarray:
        """The value of any node of the graph, computed from named ones."""
        return self._computed(node, {})

    def _computed(
        self,
        result: Node,
        given: Mapping[Node, np.ndarray],
        before: Mapping[Node, np.ndarray] | None = None,
    ) -> np.ndarray:
        """The value of a node; `given` values replace those of the run, and what they flow into.

        What goes through `stop_gradient` stays as it was `before` the given values were moved.
        """
        values: dict[Node, np.ndarray] = dict(given)
        changed = set(given)
        for node in topological([result]):
            if node in values:
                continue
            is_changed = any(parent in changed for parent in node.inputs)
            if is_changed:
                changed.add(node)
            elif node in self.known:
                values[node] = self.known[node]
                continue
            assert node.primitive is not input_
            if node.primitive is stop_gradient and before is not None:
                values[node] = self._computed(node, before)
                continue
            operands = [values[parent] for parent in node.inputs]
            params = dict(node.params)
            values[node] = np.asarray(node.primitive.evaluate(np, *operands, **params))
        return values[result]

    def _slope(self, result: Node, variable: Node, given: Mapping[Node, np.ndarray]) -> np.ndarray:
        """The derivative of each element by the element of the variable at its place."""
        x = given[variable]
        ahead = self._computed(result, {**given, variable: x + STEP}, given)
        behind = self._computed(result, {**given, variable: x - STEP}, given)
        return (ahead - behind) / (2 * STEP)

    def _curve(self, result: Node, variable: Node, x: np.ndarray) -> np.ndarray:
        """The second derivative of each element by the element of the variable at its place."""
        ahead, here, behind = (
            self._computed(result, {variable: x + step}, {variable: x})
            for step in (WIDE_STEP, 0, -WIDE_STEP)
        )
        return (ahead - 2 * here + behind) / WIDE_STEP**2

    def _pulled(
        self,
        upstream: np.ndarray,
        result: Node,
        variable: Node,
        given: Mapping[Node, np.ndarray],
    ) -> np.ndarray:
        """The sum of upstream times the derivative by each element of the variable."""
        x = np.asarray(given[variable], np.float64)
        total = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            ahead, behind = x.copy(), x.copy()
            ahead[place] += STEP
            behind[place] -= STEP
            difference = self._computed(result, {**given, variable: ahead}, given)
            difference = difference - self._computed(result, {**given, variable: behind}, given)
            total[place] = np.sum(upstream * difference) / (2 * STEP)
        return total


def chains(equations: Equations) -> dict[str, Chain]:
    """The links of chain rules, by the names of their local derivatives."""
    found = [part for one in equations for side in one.formulas for part in (side, *side.operands)]
    return {part.local: part for part in found if isinstance(part, Chain)}


def assert_true(graph: Graph, equations: Equations, run: Mapping[str, Any]) -> int:
    """Every right side of every equation has the value of the run; how many there are."""
    values, links, count = Values(graph, equations, run), chains(equations), 0
    for one in equations:
        expected = values._node(one.node)
        if one.number and one.name not in graph.names:
            expected = values.local(links[one.name])
        for formula in one.formulas:
            got = values.of(formula)
            assert got.shape == expected.shape, f"{one}\nhas shape {got.shape}"
            # Central differences: rounding of about 1e-16 / 1e-6 of the largest value that enters.
            scale = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
            np.testing.assert_allclose(
                got, expected, rtol=2e-5, atol=2e-6 * scale, err_msg=str(one), equal_nan=True
            )
            count += 1
    return count
