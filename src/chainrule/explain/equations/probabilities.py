"""Derivatives of a softmax as a textbook has them: P ⊙ (v − ∑ v ⊙ P), and diag(p) − p pᵀ.

What derivatives of softmax, log softmax, logsumexp and cross-entropy compute is made of e = exp(x −
max x) and its sum s.  Here it is written as a sum of products (a polynomial), in which e is P s.
Where all s cancel, the polynomial is written with P = softmax(x) in place of e and s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.explain.equations.closed import computed
from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.polynomials import (
    ARITHMETIC,
    Denominator,
    Exponential,
    Factor,
    NotWritten,
    Polynomial,
    Product,
    Softmax,
    Sum,
    Value,
    arithmetic,
    factors_in,
    is_constant,
    ndim_of,
    of_factor,
    of_value,
    plus,
    times,
)
from chainrule.explain.equations.probability_writer import Writer, fitted
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.graph.types import ArrayType
from chainrule.nn.activations import softmax
from chainrule.primitives.arithmetic import add, divide, exp, multiply, negative, subtract
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.logic import equal, logical_not, where
from chainrule.primitives.movement import broadcast_to, reshape, transpose
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full, iota, size_of, size_value
from chainrule.tracing import new_trace

DEEPEST = 60  # operations within each other
ROOTS = (add, subtract, multiply, divide, negative, transpose, where)


class Probabilities:
    """The exponentials of one graph, and what is written with their softmax instead."""

    def __init__(self, graph: Graph, functions: Functions) -> None:
        self._names, self._functions = graph.name_of, functions
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._exponentials: dict[Node, Exponential] = {}
        for node in graph.nodes:
            if node.primitive is sum_ and (one := _exponential(node)) is not None:
                self._exponentials.setdefault(one.node, one)
        self._sizes: dict[Any, Node] = {}
        self._polynomials: dict[Node, Polynomial] = {}
        self._softmaxes: dict[Exponential, Node] = {}
        self._made: set[Node] = set()
        self._instead: dict[Node, Node] = {}

    def is_softmax(self, node: Node) -> bool:
        """Whether a node is one that was made to be written."""
        return node in self._made

    def instead(self, node: Node) -> Node:
        """The node that is written in place of this one, or the node itself."""
        if not self._exponentials or node.primitive not in ROOTS:
            return node
        derived = node.inputs[0] if node.primitive is transpose else node
        if not derived.origin.transform:
            return node
        if node not in self._instead:
            self._instead[node] = self._written(node) or node
        return self._instead[node]

    def _written(self, node: Node) -> Node | None:
        is_turned = node.primitive is transpose
        if is_turned and (node.ndim != 2 or node.inputs[0] in self._names):
            return None
        root = node.inputs[0] if is_turned else node
        try:
            polynomial = self._operation(root, 0)
            kinds = {type(one) for one in factors_in(polynomial)}
            if Softmax not in kinds or Denominator in kinds:
                return None
            with new_trace() as program:
                program.site = Origin()  # nothing takes a name
                writer = Writer(program, self.softmax, self._places)
                # A matrix diag(p) − p pᵀ is its own transpose.
                found: Any = writer.matrix(polynomial) if is_turned else writer.whole(polynomial)
                if found is None:
                    return None
                return fitted(found, root.shape).node
        except (NotWritten, ShapeError):
            return None

    def softmax(self, of: Exponential, program: Trace) -> Traced:
        """P: the program's own, or a new one."""
        if of not in self._softmaxes:
            made: Any = softmax(Traced(of.x, program), of.axis)
            self._softmaxes[of] = made.node
            self._made.add(made.node)
            self._functions.add_calls([of.x, *computed(made.node, [of.x])])
        return Traced(self._softmaxes[of], program)

    def _polynomial(self, node: Node, depth: int) -> Polynomial:
        if node not in self._polynomials:
            self._polynomials[node] = self._looked_at(node, depth)
        return self._polynomials[node]

    def _looked_at(self, node: Node, depth: int) -> Polynomial:
        if depth > DEEPEST:
            raise NotWritten
        unit = self._functions.of_result.get(node)
        if unit is not None and unit.name == "softmax":
            known = [one for one in self._exponentials.values() if one.node in unit.members]
            if len(known) == 1:
                self._softmaxes.setdefault(known[0], node)
                return {of_factor(Softmax(known[0])): 1.0}
        if node in self._names or unit is not None:
            return of_value(node)
        return self._operation(node, depth)

    def _operation(self, node: Node, depth: int) -> Polynomial:
        def of(place: int) -> Polynomial:
            return self._polynomial(node.inputs[place], depth + 1)

        match node.primitive:
            case _ if node in self._exponentials:
                one = self._exponentials[node]
                return {frozenset([(Softmax(one), 1), (Denominator(one), 1)]): 1.0}
            case one if one is full and np.isfinite(node.param("value")):
                return {frozenset(): float(node.param("value"))}
            case one if one is size_value:  # one node for each size: n/n is 1
                return of_value(self._sizes.setdefault(node.param("size"), node))
            case one if one in ARITHMETIC:
                return arithmetic(one, of)
            case one if one is divide:
                return times(of(0), self._inverse(node.inputs[1], depth + 1))
            case one if one is broadcast_to:
                return of(0)
            case one if one is where and (place := self._finite_case(node.inputs[0])):
                return of(place)
            case one if one is reshape:
                return self._reshaped(node, depth)
            case one if one is sum_ and node.param("axes") == (0,):
                return self._summed(node, depth)  # the axes that are left are still the last ones
            case _:
                return of_value(node)

    def _finite_case(self, condition: Node) -> int:
        """Which operand of a choice is taken where the sum of e is not 0, as some x are not −∞; 0
        where the condition does not ask for that."""
        while condition.primitive in (broadcast_to, reshape):
            (condition,) = condition.inputs
        if condition.primitive is logical_not:
            return 1 if self._finite_case(condition.inputs[0]) == 2 else 0
        if condition.primitive is not equal:
            return 0
        total, zero = condition.inputs
        while total.primitive in (reshape, broadcast_to):
            (total,) = total.inputs
        is_zero = zero.primitive is full and zero.param("value") == 0
        is_sum = total.primitive is sum_ and total.inputs[0] in self._exponentials
        # Elsewhere, as in attention, masks make rows of -inf, whose softmax is not 0.
        is_meant = is_zero and is_sum and any(one.name == "logsumexp" for one in _scopes(total))
        return 2 if is_meant else 0

    def _inverse(self, node: Node, depth: int) -> Polynomial:
        polynomial = self._polynomial(node, depth)
        if len(polynomial) != 1:
            return of_value(node, -1)
        ((product, number),) = polynomial.items()
        if not number:
            raise NotWritten
        return {frozenset((one, -exponent) for one, exponent in product): 1 / number}

    def _reshaped(self, node: Node, depth: int) -> Polynomial:
        """A sum that keeps its axis, and axes of length 1 that come first."""
        (inner,) = node.inputs
        if inner.primitive is sum_ and inner not in self._names:
            axes, before = inner.param("axes"), inner.inputs[0].shape
            kept = tuple([1 if at in axes else size for at, size in enumerate(before)])
            if len(axes) == 1 and node.shape == kept:
                return self._summed(inner, depth)
        longer, shorter = sorted((node.shape, inner.shape), key=len, reverse=True)
        more = len(longer) - len(shorter)
        if longer == (1,) * more + shorter:
            return self._polynomial(inner, depth + 1)
        uniform = self._polynomial(inner, depth + 1)
        return of_value(node) if any(map(ndim_of, uniform)) else uniform

    def _summed(self, node: Node, depth: int) -> Polynomial:
        (inner,), (axis,) = node.inputs, node.param("axes")
        at = axis - inner.ndim
        if inner in self._exponentials and self._exponentials[inner].axis == at:
            return {of_factor(Denominator(self._exponentials[inner])): 1.0}
        found: dict[Product, float] = {}
        for product, number in self._polynomial(inner, depth + 1).items():
            varying = frozenset(one for one in product if not is_constant(one[0], at))
            total = self._total(varying, at, depth) if varying else self._length(inner, axis)
            rest = times({product - varying: number}, total)
            found = dict(plus(found, rest, 1.0))
        return found

    def _length(self, node: Node, axis: int) -> Polynomial:
        """How long an axis is, as a number."""
        length = node.shape[axis]
        if isinstance(length, int):
            return {frozenset(): float(length)}
        made = self._sizes.get(length) or size_of(length, ArrayType(node.dtype, (), weak=False))
        return of_value(self._sizes.setdefault(length, made))

    def _total(self, varying: Product, at: int, depth: int) -> Polynomial:
        """The sum of a product whose factors all vary along the axis."""
        others = [one for one, _ in varying if not isinstance(one, Softmax)]
        if at == -1 and [isinstance(one, Value) and one.is_identity for one in others] == [True]:
            columns = ((one, exponent) for one, exponent in varying if isinstance(one, Softmax))
            return {frozenset((Softmax(one.of, is_column=True), n) for one, n in columns): 1.0}
        match [*varying]:
            case [(Softmax(), 1)]:
                return {frozenset(): 1.0}
            case [(Value(node), 1)] if (placed := _one_in_each_row(node, at)) is not None:
                return _as_column(self._polynomial(placed, depth + 1))
        return {of_factor(Sum(at, varying)): 1.0}


def _exponential(total: Node) -> Exponential | None:
    """The exponential whose sum a node of a composite is."""
    (node,), axes = total.inputs, total.param("axes")
    if node.primitive is not exp or len(axes) != 1 or total.origin.transform:
        return None
    shifted = node.inputs[0]
    if shifted.primitive is not subtract or not any(one.symbol for one in _scopes(total)):
        return None
    x, shift = shifted.inputs
    at = axes[0] - node.ndim
    if shift.primitive is not broadcast_to or not is_constant(Value(shift.inputs[0]), at):
        return None
    return Exponential(node, x, at)


def _scopes(node: Node) -> list:
    return [] if node.origin.scope is None else node.origin.scope.outwards


def _one_in_each_row(node: Node, at: int) -> Node | None:
    """u, of zeros with an element of u in each row: what the sums of the rows are."""
    if node.primitive is not scatter_add or at != -1 or node.ndim != 2:
        return None
    u, rows, _ = node.inputs
    return u if rows.primitive is iota and u.shape == node.shape[:1] else None


def _as_column(polynomial: Polynomial) -> Polynomial:
    """A polynomial of vectors and numbers as one of columns and numbers."""

    def column(factor: Factor) -> Factor:
        is_total = isinstance(factor, Sum) and factor.axis == -1 and ndim_of(factor.factors) < 2
        if is_total or not ndim_of([(factor, 1)]):
            return factor
        if not isinstance(factor, Value):
            raise NotWritten
        node = factor.node
        made: Any = reshape(node, shape=(*node.shape, 1))
        return Value(made)

    return {
        frozenset((column(one), exponent) for one, exponent in product): number
        for product, number in polynomial.items()
    }
