"""Derivatives of a logistic function as a textbook has them: p ⊙ (1 − p) ⊙ v, (p − y)/n.

Programs write the same loss by σ(z), 1/(1 + exp(−z)), log(1 + exp(z)), logaddexp(0, z), softplus(z)
or the logsumexp of 0 and z.  What derivatives make of these are quotients of p = σ(z) and 1 − p:
exp(z) is p/(1 − p), and 1 + exp(z) is 1/(1 − p).  Here they are added up as polynomials in p.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from chainrule.errors import ShapeError
from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.logistic_reading import Reading, UndecidedError, bases_of
from chainrule.explain.equations.polynomials import Logistic, NotWritten, Polynomial, Power, Product
from chainrule.explain.equations.probability_writer import Writer, fitted
from chainrule.explain.equations.quotients import SMALL
from chainrule.frontend.traced import Traced
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.primitives.arithmetic import add, divide, logistic, multiply, negative, subtract
from chainrule.primitives.logic import where
from chainrule.primitives.movement import reshape
from chainrule.primitives.sources import full_like
from chainrule.tracing import new_trace

ROOTS = (add, subtract, multiply, divide, negative, where, reshape)
WORTH = 2  # times that products and sums are shorter than what parts of them share names with
MOST_CASES = 2  # values on whose sign something depends


class Logistics:
    """The logistic functions of one graph, and what is written with them instead."""

    def __init__(self, graph: Graph, functions: Functions) -> None:
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._bases = frozenset(bases_of(graph))
        self._opaque = {*graph.name_of, *functions.of_result}
        self._own: dict[Node, Node] = {}  # σ(z) by z: the program's own, or a new one
        self._sizes: dict[Any, Node] = {}
        self._instead: dict[Node, Node] = {}

    def instead(self, node: Node) -> Node:
        """The node that is written in place of this one, or the node itself."""
        if not self._bases or node.primitive not in ROOTS or not node.origin.transform:
            return node
        if node not in self._instead:
            self._instead[node] = self._written(node) or node
        return self._instead[node]

    def _written(self, node: Node) -> Node | None:
        try:
            polynomial, count, is_quotient = self._read(node, {})
            if not polynomial:
                return None
            most = count - 1 if is_quotient else count // WORTH
            factors = [one for product in polynomial for one in product]
            exponents = [exponent for one, exponent in factors if isinstance(one, Logistic)]
            if not exponents or min(exponents) < 0 or _length(polynomial) > most:
                return None
            if any(isinstance(one, Power) for one, _ in factors):
                return None
            with new_trace() as program:
                program.site = Origin()  # nothing takes a name
                together = {
                    one.of for one, _ in factors if isinstance(one, Logistic) and not one.is_rest
                }
                factor = partial(self._factor, together)
                writer = Writer(program, factor, self._places)
                found: Any = writer.whole(polynomial)
                return fitted(found, node.shape).node
        except (NotWritten, ShapeError):
            return None

    def _read(self, node: Node, positive: dict[Node, bool]) -> tuple[Polynomial, int, bool]:
        """What a node computes, if that is the same in all cases; how much was read, and whether
        that were quotients."""
        reading = Reading(self._bases, self._opaque, self._sizes, positive)
        try:
            polynomial = reading.root(node)
            found = polynomial, reading.count, reading.is_quotient
        except UndecidedError as error:
            if len(positive) == MOST_CASES:
                raise NotWritten from None
            found, other = (self._read(node, {**positive, error.of: one}) for one in (True, False))
            if not _are_equal(found[0], other[0]):
                raise NotWritten from None
        self._own = {**reading.own, **self._own}
        return found

    def _factor(self, together: set[Node], of: Any, program: Any) -> Any:
        """p, or 1 − p; σ(−z) where the program has no p, and p is not `together` with it."""
        base = of.of
        if of.is_rest and base not in together and base not in self._own:
            made: Any = logistic(negative(base))
            return Traced(made, program)
        if base not in self._own:
            made = logistic(base)
            self._own[base] = made
        p: Any = self._own[base]
        # Not by arithmetic of traced values, which has σ(−z) for this.
        return Traced(subtract(full_like(p, 1), p) if of.is_rest else p, program)


def _are_equal(one: Polynomial, other: Polynomial) -> bool:
    return one.keys() == other.keys() and all(abs(one[key] - other[key]) < SMALL for key in one)


def _length(polynomial: Polynomial) -> int:
    """How many operations it takes to write a polynomial out."""
    every = (one for product in polynomial for one, _ in product)
    rests = {one for one in every if isinstance(one, Logistic) and one.is_rest}
    common = frozenset.intersection(*polynomial)
    factors = _size(common) + sum(_size(product - common) or 1 for product in polynomial)
    return factors - 1 + len(rests)


def _size(product: Product) -> int:
    return sum(abs(exponent) for _, exponent in product)
