"""Reads what a node computes as a quotient of p = σ(z) and 1 − p, in one case of its choices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from chainrule.explain.equations.polynomials import (
    ARITHMETIC,
    Logistic,
    NotWritten,
    Polynomial,
    Power,
    Value,
    arithmetic,
    of_factor,
    of_value,
    plus,
    times,
)
from chainrule.explain.equations.quotients import reduced
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import (
    absolute,
    add,
    divide,
    exp,
    log1p,
    logistic,
    multiply,
    negative,
    stop_gradient,
    subtract,
)
from chainrule.primitives.logic import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from chainrule.primitives.movement import broadcast_to, concatenate, reshape, slice_
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full, size_value

DEEPEST, MOST_NODES = 80, 200  # operations within each other; that are read of one value
COUNTED = (add, subtract, multiply, divide, where, exp, logistic)
LARGER, SMALLER = (greater, greater_equal), (less, less_equal)
At = tuple[int, int] | None  # an axis that is left out, and which of its elements is meant


class UndecidedError(Exception):
    """What is computed depends on the sign of a value."""

    def __init__(self, of: Node) -> None:
        super().__init__()
        self.of = of


class Reading:
    """Reads one node; `positive` says which values are positive, `count` how much was read."""

    def __init__(
        self,
        bases: Collection[Node],
        opaque: Collection[Node],
        sizes: dict[Any, Node],
        positive: Mapping[Node, bool],
    ) -> None:
        self._bases, self._opaque, self._sizes = bases, opaque, sizes
        self._positive = positive
        self._known: dict[tuple[Node, At], Polynomial] = {}
        self._read: set[Node] = set()
        self.is_quotient = False  # whether more than products and sums of σ(z) was met
        self.own: dict[Node, Node] = {}  # what has the name of σ(z), by z

    @property
    def count(self) -> int:
        """How many operations were read."""
        return sum(node.primitive in COUNTED for node in self._read)

    def root(self, node: Node) -> Polynomial:
        """What a node computes, also where it has a name."""
        return reduced(self._operation(node, None, 0))

    def _polynomial(self, node: Node, at: At, depth: int) -> Polynomial:
        if (node, at) not in self._known:
            self._known[node, at] = self._looked_at(node, at, depth)
        return self._known[node, at]

    def _looked_at(self, node: Node, at: At, depth: int) -> Polynomial:
        if depth > DEEPEST or len(self._read) > MOST_NODES:
            raise NotWritten
        if node in self._bases:
            return self._value(node, at)
        if node not in self._opaque:
            return reduced(self._operation(node, at, depth))
        if node.primitive in (logistic, divide, subtract, exp, add) and not node.origin.transform:
            before = set(self._read), self.is_quotient
            found = reduced(self._operation(node, at, depth))
            self._read, self.is_quotient = before  # it is written as one
            factors = [one for product in found for one, _ in product]
            if all(isinstance(one, Logistic) for one in factors):
                for one in factors if found == {of_factor(factors[0]): 1.0} else ():
                    if isinstance(one, Logistic) and not one.is_rest:
                        self.own.setdefault(one.of, node)
                return found
        return self._value(node, at)

    def _value(self, node: Node, at: At) -> Polynomial:
        if at is not None:
            raise NotWritten
        return of_value(node)

    def _operation(self, node: Node, at: At, depth: int) -> Polynomial:
        self._read.add(node)

        def of(place: int) -> Polynomial:
            return self._polynomial(node.inputs[place], at, depth + 1)

        match node.primitive:
            case one if one is full and np.isfinite(node.param("value")):
                return {frozenset(): float(node.param("value"))} if node.param("value") else {}
            case one if one is size_value:
                return of_value(self._sizes.setdefault(node.param("size"), node))
            case one if one in ARITHMETIC:
                return arithmetic(one, of)
            case one if one is divide:
                return times(of(0), self._inverse(of(1)))
            case one if one is stop_gradient:
                return of(0)
            case one if one is logistic:
                return self._logistic(of(0))
            case one if one is exp:
                return self._exponential(of(0))
            case one if one is where:
                return of(1 if self._holds(node.inputs[0], at, depth) else 2)
            case one if one in (broadcast_to, reshape, slice_, concatenate, sum_):
                return self._moved(node, at, depth + 1)
            case _:
                return self._value(node, at)

    def _moved(self, node: Node, at: At, depth: int) -> Polynomial:
        """Elements where they were before; sums of two."""
        inner, shape = node.inputs[0], node.shape
        if at is not None:
            axis, place = at
            rest = (*shape[:axis], *shape[axis + 1 :])
            if node.primitive is concatenate and node.param("axis") == axis:
                if any(one.shape[axis] != 1 for one in node.inputs):
                    raise NotWritten
                return self._polynomial(node.inputs[place], (axis, 0), depth)
            if node.primitive is broadcast_to:
                return self._repeated(inner, axis - (len(shape) - inner.ndim), place, depth)
            if node.primitive is reshape and shape[axis] == 1 and rest == inner.shape:
                return self._polynomial(inner, None, depth)
            if node.primitive is slice_ and shape[axis] == 1:
                others = (*inner.shape[:axis], *inner.shape[axis + 1 :])
                if inner.shape[axis] == 2 and others == rest:
                    return self._polynomial(inner, (axis, node.param("start")[axis]), depth)
            raise NotWritten
        if node.primitive is broadcast_to:
            return self._polynomial(inner, None, depth)
        if node.primitive is reshape:
            for axis, size in enumerate(inner.shape):
                if size == 1 and (*inner.shape[:axis], *inner.shape[axis + 1 :]) == shape:
                    return self._polynomial(inner, (axis, 0), depth)
            if shape == (1, *inner.shape):
                return self._polynomial(inner, None, depth)
        if node.primitive is sum_ and len(node.param("axes")) == 1:
            (axis,) = node.param("axes")
            if inner.shape[axis] == 2:
                first, second = (self._polynomial(inner, (axis, k), depth) for k in (0, 1))
                return plus(first, second, 1.0)
        return self._value(node, None)

    def _repeated(self, inner: Node, axis: int, place: int, depth: int) -> Polynomial:
        """What is broadcast: without the axis, with length 1, or as long."""
        if axis < 0:
            return self._polynomial(inner, None, depth)
        return self._polynomial(inner, (axis, 0 if inner.shape[axis] == 1 else place), depth)

    def _logistic(self, x: Polynomial) -> Polynomial:
        match [*x.items()]:
            case [(product, sign)] if sign in (1.0, -1.0):
                match [*product]:
                    case [(Value(base), 1)] if base in self._bases:
                        return {of_factor(Logistic(base, is_rest=sign < 0)): 1.0}
        raise NotWritten

    def _inverse(self, polynomial: Polynomial) -> Polynomial:
        if len(polynomial) != 1:
            raise NotWritten
        ((product, number),) = polynomial.items()
        self.is_quotient |= any(isinstance(one, (Logistic, Power)) for one, _ in product)
        return {frozenset((one, -exponent) for one, exponent in product): 1 / number}

    def _exponential(self, x: Polynomial) -> Polynomial:
        self.is_quotient = True
        found: Polynomial = {frozenset(): 1.0}
        for product, number in x.items():
            match [*product]:
                case [(Value(base), 1)] if number in (1.0, -1.0):
                    sign = int(number)
                    if base in self._bases:
                        odds = {(Logistic(base), sign), (Logistic(base, is_rest=True), -sign)}
                        found = times(found, {frozenset(odds): 1.0})
                    else:
                        found = times(found, {frozenset([(Power(base), sign)]): 1.0})
                case _:
                    raise NotWritten
        return found

    def _holds(self, node: Node, at: At, depth: int) -> bool:
        """Whether a condition holds, for finite values."""
        match node.primitive:
            case one if one in (broadcast_to, reshape):
                return self._holds(node.inputs[0], at, depth)
            case one if one is logical_not:
                return not self._holds(node.inputs[0], at, depth)
            case one if one is logical_and:
                return self._all(node, at, depth, True)
            case one if one is logical_or:
                return not self._all(node, at, depth, False)
            case one if one in (equal, *LARGER, *SMALLER):
                return self._compared(node, at, depth)
        raise NotWritten

    def _all(self, node: Node, at: At, depth: int, wanted: bool) -> bool:
        """Whether all operands are as wanted: one that is not decides, whatever the others are."""
        is_known = True
        for one in reversed(node.inputs):
            try:
                if self._holds(one, at, depth) != wanted:
                    return False
            except NotWritten:
                is_known = False
        if not is_known:
            raise NotWritten
        return True

    def _compared(self, node: Node, at: At, depth: int) -> bool:
        x, y = node.inputs
        if y.primitive is full and np.isinf(node.inputs[1].param("value")):
            if node.primitive is equal:
                return False
            if node.primitive in SMALLER and x.primitive is absolute:
                return True
            raise NotWritten
        inside = at if x.primitive is not reshape else None
        left = self._polynomial(x if inside == at else x.inputs[0], inside, depth + 1)
        right = self._polynomial(y, at, depth + 1)
        if node.primitive is equal:
            is_positive = len(left) == 1 and all(number > 0 for number in left.values())
            if not right and is_positive and _is_power(next(iter(left))):
                return False
            raise NotWritten
        match [*plus(left, right, -1.0).items()]:
            case [(product, sign)]:
                match [*product]:
                    case [(Value(base), 1)] if base in self._bases:
                        if base not in self._positive:
                            raise UndecidedError(base)
                        is_larger = self._positive[base] == (sign > 0)
                        return is_larger == (node.primitive in LARGER)
        raise NotWritten


def _is_power(product: Any) -> bool:
    """Whether a product is of exponentials alone, so that it is positive."""
    return all(isinstance(one, (Logistic, Power)) for one, _ in product)


def bases_of(graph: Graph) -> Iterator[Node]:
    """Every z of which the graph has σ(z), or 1 + exp(z) in one of the forms that it takes."""
    for node in graph.nodes:
        if node.primitive is logistic:
            yield from _atoms(node.inputs[0], graph)
        elif node.primitive is add and any(_is_one(one) for one in node.inputs):
            for one in node.inputs:
                yield from _atoms(one.inputs[0], graph) if one.primitive is exp else ()
        elif node.primitive is log1p and node.inputs[0].primitive is exp:
            yield from _atoms(node.inputs[0].inputs[0], graph)
        elif node.primitive is sum_ and node.inputs[0].primitive is exp:
            (inner,), axes = node.inputs, node.param("axes")
            if len(axes) == 1 and inner.shape[axes[0]] == 2:
                yield from _atoms(inner.inputs[0], graph)


MADE = (negative, where, subtract, broadcast_to, reshape, concatenate, stop_gradient)


def _atoms(node: Node, graph: Graph) -> Iterator[Node]:
    """What an exponent is made of by signs and choices."""
    done: set[Node] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if one in done or one.primitive is full:
            continue
        done.add(one)
        if one.primitive in MADE and one not in graph.name_of:
            stack += one.inputs[1:] if one.primitive is where else one.inputs
        else:
            yield one


def _is_one(node: Node) -> bool:
    return node.primitive is full and node.param("value") == 1
