"""Sums of products of softmaxes, their denominators, and other arrays: what derivatives of a
softmax are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from chainrule.dataclass import dataclass
from chainrule.explain.equations.matrices import is_identity
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import add, multiply, negative, subtract
from chainrule.primitives.primitive import Primitive

MOST_TERMS = 12
ARITHMETIC = (add, subtract, multiply, negative)


class NotWritten(Exception):
    """It is no such polynomial, or too long a one."""


@dataclass(frozen=True)
class Value:
    """An array as it is; of the identity matrix, `is_identity`."""

    node: Node
    is_identity: bool = False


@dataclass(frozen=True)
class Softmax:
    """P, or as a column, along the axis before the last."""

    of: Exponential
    is_column: bool = False


@dataclass(frozen=True)
class Denominator:
    """s, the sum of e along the axis."""

    of: Exponential


@dataclass(frozen=True)
class Logistic:
    """p = σ(z), elementwise; 1 − p where it `is_rest`."""

    of: Node
    is_rest: bool = False


@dataclass(frozen=True)
class Power:
    """exp(x)."""

    of: Node


@dataclass(frozen=True)
class Sum:
    """The sum of a product along an axis, counted from the end, which is kept."""

    axis: int
    factors: Product


Factor = Value | Softmax | Denominator | Sum | Logistic | Power
Product = frozenset[tuple[Factor, int]]  # each factor with its exponent
Polynomial = Mapping[Product, float]  # the number before each product


@dataclass(frozen=True, eq=False)
class Exponential:
    """e = exp(x − c), where c is the same along the `axis`, counted from the end."""

    node: Node
    x: Node
    axis: int


def is_constant(factor: Factor, at: int) -> bool:
    """Whether a factor is the same along an axis, counted from the end."""
    match factor:
        case Value(node):
            return -at > node.ndim or node.shape[at] == 1
        case Softmax(of, is_column):
            if is_column:
                return at == -1
            return at != of.axis and (-at > of.x.ndim or of.x.shape[at] == 1)
        case Denominator(of):
            return at == of.axis or -at > of.x.ndim or of.x.shape[at] == 1
        case Logistic(of) | Power(of):
            return -at > of.ndim or of.shape[at] == 1
        case Sum(axis, factors):
            return at == axis or all(is_constant(one, at) for one, _ in factors)


def of_value(node: Node, exponent: int = 1) -> Polynomial:
    """An array, or a power of it, as a polynomial."""
    return {frozenset([(Value(node, is_identity(node)), exponent)]): 1.0}


def of_factor(factor: Factor) -> Product:
    """The product of one factor."""
    return frozenset([(factor, 1)])


def times(x: Polynomial, y: Polynomial) -> Polynomial:
    """The product of two polynomials; NotWritten where it has too many terms."""
    found: dict[Product, float] = {}
    for one, number in x.items():
        for other, more in y.items():
            powers = Counter(dict(one))
            for factor, exponent in other:
                powers[factor] += exponent
            product = frozenset(one for one in powers.items() if one[1])
            found[product] = found.get(product, 0.0) + number * more
    return _checked(found)


def plus(x: Polynomial, y: Polynomial, sign: float) -> Polynomial:
    """x + sign y; NotWritten where it has too many terms."""
    found = dict(x)
    for product, number in y.items():
        found[product] = found.get(product, 0.0) + sign * number
    return _checked(found)


def arithmetic(primitive: Primitive, of: Callable[[int], Polynomial]) -> Polynomial:
    """What one of ARITHMETIC makes of its operands, which `of` gives by their places."""
    if primitive is multiply:
        return times(of(0), of(1))
    if primitive is negative:
        return plus({}, of(0), -1.0)
    return plus(of(0), of(1), 1.0 if primitive is add else -1.0)


def _checked(found: dict[Product, float]) -> Polynomial:
    if len(found) > MOST_TERMS:
        raise NotWritten
    return {product: number for product, number in found.items() if number}


def factors_in(polynomial: Polynomial) -> Iterable[Factor]:
    """All factors, those of sums included."""
    stack = [factor for product in polynomial for factor, _ in product]
    while stack:
        factor = stack.pop()
        yield factor
        if isinstance(factor, Sum):
            stack += [one for one, _ in factor.factors]


def ndim_of(product: Iterable[tuple[Factor, int]]) -> int:
    """How many axes a product has; 1 stands for any number of a softmax or a sum."""
    return max((_ndim(one) for one, _ in product), default=0)


def _ndim(factor: Factor) -> int:
    match factor:
        case Value(node):
            return node.ndim
        case Logistic(of) | Power(of):
            return of.ndim
        case _:
            return 1


def has_column(product: Product) -> bool:
    """Whether a softmax in it is a column."""
    return any(isinstance(one, Softmax) and one.is_column for one, _ in product)


def has_sum(product: Product) -> bool:
    """Whether one of its factors is a sum."""
    return any(isinstance(one, Sum) for one, _ in product)


def place_of(factor: Factor, places: Mapping[Node, int]) -> tuple[int, ...]:
    """Where a factor stands among others: what is computed first, first; sums last."""
    match factor:
        case Value(node):
            return 0, places.get(node, -1), places.get(node.inputs[0], -1) if node.inputs else -1
        case Softmax(of) | Denominator(of):
            return 0, places[of.node]
        case Logistic(of, is_rest):
            return 0, places.get(of, -1), is_rest
        case Power(of):
            return 0, places.get(of, -1)
        case Sum(axis, factors):
            inner = sorted(place_of(one, places) for one, _ in factors)
            return 1, axis, *(number for place in inner for number in place)
