"""Writes polynomials of softmaxes: P ⊙ (v − ∑ v ⊙ P), diag(p) − p pᵀ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from chainrule.explain.equations.polynomials import (
    Factor,
    Logistic,
    NotWritten,
    Polynomial,
    Product,
    Softmax,
    Sum,
    Value,
    has_column,
    has_sum,
    ndim_of,
    place_of,
)
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node


class Writer:
    """Writes polynomials as arithmetic of a program; `softmax` gives P, `places` the order of
    nodes."""

    def __init__(
        self,
        program: Trace,
        softmax: Callable[[Any, Trace], Traced],
        places: Mapping[Node, int],
    ) -> None:
        self.program, self._softmax, self._places = program, softmax, places

    def whole(self, polynomial: Polynomial) -> Any:
        """As a matrix diag(p) − p pᵀ, or with common factors in front."""
        found = self.matrix(polynomial)
        return self._sum(polynomial) if found is None else found

    def matrix(self, polynomial: Polynomial) -> Any:
        """c (diag(p) − p pᵀ): P ⊙ I less P as a column times P; None of something else."""
        if len(polynomial) != 2:
            return None
        first, second = sorted(polynomial, key=has_column)
        common = frozenset(one for one in first & second if not ndim_of([one]))
        if polynomial[first] != -polynomial[second]:
            return None
        of = next((one.of for one, _ in first if isinstance(one, Softmax)), None)
        if of is None or of.x.ndim != 1:
            return None
        row, column = (Softmax(of), 1), (Softmax(of, is_column=True), 1)
        others = [one for one, _ in first - common - {row}]
        are_identities = [isinstance(one, Value) and one.is_identity for one in others]
        if second - common != {row, column} or are_identities != [True]:
            return None
        p: Any = self._softmax(of, self.program)
        matrix: Any = np.diag(p) - np.outer(p, p)
        return self._by_numbers(matrix, common, polynomial[first])

    def _sum(self, polynomial: Polynomial) -> Any:
        """Common factors times the sum of what is left; positive terms first, sums last."""
        common = reduce(frozenset.__and__, polynomial)
        numbers = {abs(number) for number in polynomial.values()}
        number = numbers.pop() if len(numbers) == 1 else 1.0
        terms = [(product - common, each / number) for product, each in polynomial.items()]
        if len(terms) == 1:
            return self._product(common | terms[0][0], number * terms[0][1])
        terms.sort(key=lambda term: (term[1] < 0, has_sum(term[0]), self._order(term[0])))
        if terms[0][1] < 0:
            terms, number = [(product, -each) for product, each in terms], -number
        total = self._product(*terms[0])
        for product, each in terms[1:]:
            term = self._product(product, abs(each))
            total = total + term if each > 0 else total - term
        arrays = frozenset(one for one in common if ndim_of([one]))
        total = self._product(arrays, 1.0) * total if arrays else total
        return self._by_numbers(total, common - arrays, number)

    def _product(self, product: Product, number: float) -> Any:
        """Softmaxes first, sums last, then numbers."""
        arrays = frozenset(one for one in product if ndim_of([one]))
        probabilities = frozenset(one for one in arrays if isinstance(one[0], (Softmax, Logistic)))
        total = self._multiplied(None, probabilities)
        total = self._multiplied(total, arrays - probabilities)
        return self._by_numbers(total, product - arrays, number)

    def _order(self, product: Product) -> list[tuple[int, ...]]:
        return sorted(place_of(one, self._places) for one, _ in product)

    def _by_numbers(self, total: Any, scalars: Product, number: float) -> Any:
        whole = round(1 / number)
        is_part = abs(whole) > 1 and 1 / whole == number
        if not is_part and abs(number) != 1:
            total = number if total is None else number * total
        total = self._multiplied(total, scalars)
        total = 1.0 if total is None else total
        if is_part:
            return total / whole
        return -total if number == -1 else total

    def _multiplied(self, total: Any, factors: Product) -> Any:
        """Times factors, then over those whose exponent is negative."""

        def order(one: tuple[Factor, int]) -> tuple:
            return one[1] < 0, place_of(one[0], self._places)

        for factor, exponent in sorted(factors, key=order):
            value = self._factor(factor)
            value = value if abs(exponent) == 1 else value ** abs(exponent)
            if exponent < 0:
                total = (1.0 if total is None else total) / value
            else:
                total = value if total is None else total * value
        return total

    def _factor(self, factor: Factor) -> Any:
        match factor:
            case Value(node):
                return Traced(node, self.program)
            case Logistic():
                return self._softmax(factor, self.program)
            case Softmax(of, is_column):
                p: Any = self._softmax(of, self.program)
                return p[..., None] if is_column else p
            case Sum(axis, factors):
                last = frozenset(one for one in factors if isinstance(one[0], Softmax))
                body = self._multiplied(self._multiplied(None, factors - last), last)
                return np.sum(body, axis=axis, keepdims=True)
            case _:
                raise NotWritten


def fitted(found: Any, shape: Any) -> Any:
    """What was written in this shape: without leading axes of length 1, and repeated."""
    if (more := len(found.shape) - len(shape)) > 0:
        found = np.reshape(found, found.shape[more:])
    return found if found.shape == shape else np.broadcast_to(found, shape)
