"""A size is an integer polynomial in named sizes, and a shape is a tuple of ints and sizes.

A name is an integer >= 1.  An operation whose result is constant returns an int, so a `Size` is
never constant and equal polynomials have equal terms.  `size_terms` has the words.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import product as choices
from math import gcd
from numbers import Integral
from sys import _getframe
from typing import Any, NoReturn

from chainrule.graph.sizes.asked_size import AskedSize, is_plain, no_number
from chainrule.graph.sizes.size_terms import (
    Monomial,
    Opaque,
    Terms,
    check_weight,
    constant_of,
    order_of,
    rank,
    terms_of,
    weight_of,
)

_DEEPEST_NESTING = 40  # of opaque factors; evaluation recurses this deep
_MOST_REPLACEMENTS = 6  # of opaque factors by bounds in one proof, which recurses this deep
_MOST_PROOF_TERMS = 4096  # monomials written out in one step of a proof
_LARGEST_EXPONENT = 64
_cached = lru_cache(maxsize=4096)


def _operator(
    written: str, function: Callable[[Any, Any], int | Size], neutral: int | None = None
) -> Any:
    def method(self: Size, other: int | Size) -> int | Size:
        kind = type(other)
        if kind is int:
            return self if other == neutral else function(self, other)
        if kind is Size:
            return function(self, other)
        # Not operator.index: a traced array may define it, and has its own reflected operators.
        if isinstance(other, Integral):
            return method(self, int(other))
        return no_number(written.format(self, other), self) if is_plain(other) else NotImplemented

    return method


class Size(AskedSize):
    """An immutable integer polynomial, made by `size`, `sizes`, `parse` and the operators."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Terms):
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_hash", hash(terms))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"the size {self} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:  # string hashes differ between processes
        self._refuse_to_leave(_getframe(1))
        return Size, (self.terms,)

    __add__ = __radd__ = _operator("{} + {}", lambda a, b: _add(a, b), neutral=0)
    __mul__ = __rmul__ = _operator("{} * {}", lambda a, b: _multiply(a, b), neutral=1)
    __sub__ = _operator("{} - {}", lambda a, b: _subtract(a, b), neutral=0)
    __rsub__ = _operator("{1} - {0}", lambda a, b: _subtract(b, a))
    __floordiv__ = _operator("{} // {}", lambda a, b: _divide(a, b)[0], neutral=1)
    __rfloordiv__ = _operator("{1} // {0}", lambda a, b: _divide(b, a)[0])
    __mod__ = _operator("{} % {}", lambda a, b: _divide(a, b)[1])
    __rmod__ = _operator("{1} % {0}", lambda a, b: _divide(b, a)[1])

    def __neg__(self) -> int | Size:
        return _multiply(self, -1)

    def __pow__(self, exponent: int) -> int | Size:
        if not isinstance(exponent, Integral):
            asked = f"{self} ** {exponent}"
            return no_number(asked, self) if is_plain(exponent) else NotImplemented
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise ValueError(
                f"({self})**{exponent}: the exponent of a size is 0 to {_LARGEST_EXPONENT}"
            )
        return product((self,) * int(exponent))

    def __divmod__(self, other: Any) -> tuple[int | Size, int | Size]:
        return self // other, self % other

    @staticmethod
    def _proved(a: int | Size) -> bool | None:
        return is_nonnegative(a)

    def _named(self) -> frozenset[str]:
        return names(self)


@_cached
def size(name: str) -> Size:
    """The size called `name`; ValueError if that could not be a keyword of `bind`."""
    if not re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", name) or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name for a size; write a name such as n or n_rows")
    if name in ("min", "max"):
        raise ValueError(f"{name!r} is not a name for a size: it is a function of sizes")
    return Size((((name,), 1),))


def sizes(text: str) -> Any:
    """`sizes("n d")` is a tuple of sizes, `sizes("n")` one size; commas or blanks separate."""
    match tuple(size(name) for name in text.replace(",", " ").split()):
        case ():
            raise ValueError(f"{text!r} names no size; write for example sizes('n d')")
        case (alone,):
            return alone
        case several:
            return several


# Arithmetic


def _polynomial(coefficients: Mapping[Monomial, int]) -> int | Size:
    kept = {monomial: value for monomial, value in coefficients.items() if value}
    if not kept.keys() - {()}:
        return kept.get((), 0)
    return Size(tuple(sorted(kept.items(), key=lambda term: order_of(term[0]))))


@_cached
def _add(a: int | Size, b: int | Size) -> int | Size:
    check_weight(weight_of(a) + weight_of(b))
    total = Counter(dict(terms_of(a)))
    for monomial, coefficient in terms_of(b):
        total[monomial] += coefficient
    return _polynomial(total)


@_cached
def _multiply(a: int | Size, b: int | Size) -> int | Size:
    left, right = terms_of(a), terms_of(b)
    check_weight(weight_of(a) * len(right) + weight_of(b) * len(left))
    total: Counter[Monomial] = Counter()
    for (m, c), (k, d) in choices(left, right):
        total[tuple(sorted(m + k, key=rank))] += c * d
    return _polynomial(total)


def _subtract(a: int | Size, b: int | Size) -> int | Size:
    return _add(a, _multiply(b, -1))


@_cached
def product(shape: tuple[int | Size, ...]) -> int | Size:
    """The number of elements of an array of this shape."""
    return reduce(lambda a, b: a * b, shape, 1)


def _opaque(kind: str, *arguments: int | Size) -> Size:
    inner = [f for a in arguments for m, _ in terms_of(a) for f in m if isinstance(f, Opaque)]
    weight, depth = 1 + sum(map(weight_of, arguments)), 1 + max((f.depth for f in inner), default=0)
    check_weight(weight)
    if depth > _DEEPEST_NESTING:
        raise ValueError(f"//, %, min and max of sizes nest at most {_DEEPEST_NESTING} deep")
    if kind in ("min", "max"):
        text = f"{kind}({', '.join(map(str, arguments))})"
    else:
        text = kind.join(
            f"{a}" if re.fullmatch(r"\w+|(min|max)\([^()]*\)", f"{a}") else f"({a})"
            for a in arguments
        )
    return Size((((Opaque(text, kind, arguments, weight, depth),), 1),))


# Division


def _long_division(a: int | Size, b: int | Size) -> tuple[int | Size, int | Size]:
    """The (q, r) with a = q*b + r identically, and no term of r divisible by b's leading term."""
    (lead, leading), *_ = terms_of(b)
    left, quotient, remainder = a, 0, 0
    while isinstance(left, Size) or left:
        monomial, coefficient = terms_of(left)[0]
        rest = Counter(monomial)
        rest.subtract(lead)
        factor = coefficient // leading if min(rest.values(), default=0) >= 0 else 0
        step = _polynomial({tuple(sorted(rest.elements(), key=rank)): factor})
        over = _polynomial({monomial: coefficient - factor * leading})
        quotient, remainder = quotient + step, remainder + over
        left = left - step * b - over
    return quotient, remainder


def divide_exactly(a: int | Size, b: int | Size) -> int | Size | None:
    """The q with a = q*b for every value of the names, or None where no polynomial q is one."""
    quotient, remainder = _long_division(a, b) if b != 0 else (0, 1)
    return quotient if remainder == 0 else None


@_cached
def _divide(a: int | Size, b: int | Size) -> tuple[int | Size, int | Size]:
    """(a // b, a % b), rounded like Python's; left opaque unless the sign of b is known."""
    if b == 0:
        raise ZeroDivisionError(f"({a})//0 divides a size by zero")
    if isinstance(a, int) and isinstance(b, int):
        return divmod(a, b)
    if is_positive(-b):
        quotient, remainder = _divide(-a, -b)
        return quotient, -remainder
    if not is_positive(b):
        return _opaque("//", a, b), _opaque("%", a, b)
    quotient, rest = _long_division(a, b)
    if not (isinstance(b, int) or is_nonnegative(rest)):
        quotient, rest = 0, a  # n//(n*m + 1) reads better than 1 + (n - n*m - 1)//(n*m + 1)
    if is_nonnegative(rest) and is_positive(b - rest):
        return quotient, rest
    # (common*x + extra)//(common*y) == x//y for 0 <= extra < common
    common = gcd(*(c for m, c in terms_of(rest) if m), *(c for _, c in terms_of(b)))
    extra = constant_of(rest) % common
    if common == 1:
        shared = reduce(Counter.__and__, (Counter(m) for m, _ in terms_of(rest) + terms_of(b)))
        common = product(tuple(size(f) for f in shared.elements() if isinstance(f, str)))
    if common != 1:
        x, y = divide_exactly(rest - extra, common), divide_exactly(b, common)
        assert x is not None and y is not None
        inner = _divide(x, y)
        return quotient + inner[0], common * inner[1] + extra
    shift = constant_of(rest)
    match terms_of(rest - shift):  # (x//y + shift)//b == (x + y*shift)//(y*b)
        case (((Opaque(kind="//", arguments=(x, y)),), 1),) if is_positive(y):
            return quotient + _divide(x + y * shift, y * b)[0], _opaque("%", rest, b)
    return quotient + _opaque("//", rest, b), _opaque("%", rest, b)


def minimum(a: int | Size, b: int | Size) -> int | Size:
    """The smaller of two sizes, simplified where that is provable."""
    return _extreme("min", a, b)


def maximum(a: int | Size, b: int | Size) -> int | Size:
    """The larger of two sizes, simplified where that is provable."""
    return _extreme("max", a, b)


@_cached
def _extreme(kind: str, a: int | Size, b: int | Size) -> int | Size:
    sign = 1 if kind == "min" else -1
    left, right = set(_arguments(kind, a)), set(_arguments(kind, b))
    kept = sorted(left | right, key=lambda x: (isinstance(x, int), str(x)))
    for x in tuple(kept):  # one after the other: of two that are equal one stays
        rivals = [y for y in kept if y not in (left if x in left else right)]
        if any(is_nonnegative(sign * (x - y)) for y in rivals):
            kept.remove(x)
    return kept[0] if len(kept) == 1 else _opaque(kind, *kept)


def _arguments(kind: str, a: int | Size) -> list[int | Size]:
    match terms_of(a):
        case (((Opaque(kind=inner, arguments=arguments),), 1),) if inner == kind:
            return list(arguments)
    return [a]


# Proofs


@_cached
def is_nonnegative(a: int | Size) -> bool | None:
    """Whether a >= 0 for all names >= 1: True or False if proved always or never, else None."""
    try:
        if _is_proved(a, _MOST_REPLACEMENTS):
            return True
        return False if _is_proved(-a - 1, _MOST_REPLACEMENTS) else None
    except ValueError:  # the proof needs a size with too many factors
        return None


def is_positive(a: int | Size) -> bool | None:
    """Whether a >= 1 for all names >= 1: True or False if proved always or never, else None."""
    return is_nonnegative(a - 1)


def is_never_zero(a: int | Size) -> bool:
    """Whether it is proved that a is not 0 for any names >= 1."""
    return bool(is_positive(a) or is_positive(-a))


def definitely_equal(a: int | Size, b: int | Size) -> bool:
    """Whether a and b are the same polynomial; False does not say that they ever differ."""
    return a == b


def _is_proved(a: int | Size, replacements: int) -> bool:
    """Whether a >= 0 follows, directly or with the deepest opaque factor replaced by a bound."""
    if isinstance(a, int) or _is_shifted_nonnegative(a):
        return isinstance(a, Size) or a >= 0
    opaque = [f for m, _ in a.terms for f in m if isinstance(f, Opaque)]
    if not opaque or not replacements:
        return False
    factor = max(opaque, key=lambda f: (f.depth, f.text))
    slope, rest = {}, {}  # a == slope*factor + rest
    for m, c in a.terms:
        where = m.index(factor) if factor in m else None
        (rest if where is None else slope)[m if where is None else m[:where] + m[where + 1 :]] = c
    slope, rest = _polynomial(slope), _polynomial(rest)

    def holds(bound: int | Size, scale: int | Size = 1) -> bool:
        return _is_proved(slope * bound + rest * scale, replacements - 1)

    if factor.kind in ("min", "max") and all(map(holds, factor.arguments)):
        return True
    if _is_proved(slope, replacements - 1):
        return any(holds(*bound) for bound in _bounds(factor)[0])
    if _is_proved(-slope, replacements - 1):
        return any(holds(*bound) for bound in _bounds(factor)[1])
    return False


_Fractions = Sequence[tuple["int | Size", "int | Size"]]


@_cached
def _bounds(factor: Opaque) -> tuple[_Fractions, _Fractions]:
    """The lower and the upper bounds of a factor, as (numerator, denominator >= 1)."""
    x, y, *_ = factor.arguments
    match factor.kind:
        case "min":
            return [], [(a, 1) for a in factor.arguments]
        case "max":
            return [(a, 1) for a in factor.arguments], []
        case "//" if is_positive(y):
            return [(x - y + 1, y)], [(x, y)]
        case "%" if is_positive(y):
            return [(0, 1)], [(y - 1, 1)] + ([(x, 1)] if is_nonnegative(x) else [])
    return [], []


@_cached
def _floor(factor: str | Opaque) -> int | None:
    """1 or 0 if the factor is proved to be at least that, else None."""
    if isinstance(factor, str):
        return 1
    x, y, *_ = factor.arguments
    for least in (1, 0):
        match factor.kind:
            case "min":
                proved = all(is_nonnegative(a - least) for a in factor.arguments)
            case "max":
                proved = any(is_nonnegative(a - least) for a in factor.arguments)
            case "//":
                proved = is_positive(y) and is_nonnegative(x - y * least)
            case _:
                proved = is_positive(y) and least == 0
        if proved:
            return least
    return None


def _is_shifted_nonnegative(a: Size) -> bool:
    """Whether writing each factor as its floor plus t, t >= 0, leaves no negative coefficient."""
    if any(_floor(f) is None for m, _ in a.terms for f in m):
        return False
    if sum(2 ** min(len(m), 20) for m, _ in a.terms) > _MOST_PROOF_TERMS:
        certain = sum(c for m, c in a.terms if all(_floor(f) for f in m))
        return all(c >= 0 for m, c in a.terms if m) and certain >= 0
    shifted: Counter[Monomial] = Counter()
    for monomial, coefficient in a.terms:
        for kept in choices(*((True, False) if _floor(f) else (True,) for f in monomial)):
            shifted[tuple(f for f, k in zip(monomial, kept, strict=True) if k)] += coefficient
    return min(shifted.values()) >= 0


# Names


@_cached
def names(a: int | Size) -> frozenset[str]:
    """The names that occur in a, those inside `//`, `%`, min and max included."""
    factors = {f for monomial, _ in terms_of(a) for f in monomial}
    inside = [names(b) for f in factors if isinstance(f, Opaque) for b in f.arguments]
    return frozenset(f for f in factors if isinstance(f, str)).union(*inside)
