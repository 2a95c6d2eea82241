"""A size is an integer polynomial in named sizes, and a shape is a tuple of ints and sizes.

Glossary: a *factor* is a name, or an `Opaque` for a `//`, `%`, min or max that did not simplify;
a *monomial* is the sorted tuple of its factors, repeated as often as they occur; *terms* are the
sorted pairs (monomial, coefficient). A name is an integer >= 1. An operation whose result is
constant returns an int, so a `Size` is never constant and equal polynomials have equal terms.
"""

from __future__ import annotations

import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import product as choices
from math import gcd
from numbers import Integral, Number, Real
from operator import add, floordiv, ge, gt, le, lt, mod, mul, sub
from sys import _getframe
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from chainrule.errors import UndecidableSize
from chainrule.graph.asking import Asking, asking, is_ours, note_text

_MOST_FACTORS = 10_000  # in one size, coefficients and the arguments of opaque factors included
_DEEPEST_NESTING = 40  # of opaque factors; evaluation recurses this deep
_MOST_REPLACEMENTS = 6  # of opaque factors by bounds in one proof, which recurses this deep
_MOST_PROOF_TERMS = 4096  # monomials written out in one step of a proof
_LARGEST_EXPONENT = 64
_cached = lru_cache(maxsize=4096)


def _is_plain(value: object) -> bool:
    return isinstance(value, (Number, Size))


def _no_number(question: str, a: Size) -> NoReturn:
    raise _unknown(
        f"{question}: a size is an integer that is not known while tracing",
        f"as a number of the program it is cr.size_value({a}, like=x), with a traced array x",
        question,
        a,
    )


def _unknown(what: str, hint: str, question: str, a: int | Size) -> UndecidableSize:
    """The error; its hint goes on with how a size becomes a number."""
    unknown = tuple(sorted(names(a)))
    binding = ", ".join(f"{name}=256" for name in unknown)
    hint += f"\n{how_to_fix(unknown)};\na graph that is there takes it by graph.bind({binding})"
    return UndecidableSize(what, hint=hint).asked(question, unknown)


def how_to_fix(unknown: Sequence[str]) -> str:
    """How sizes of these names become numbers while tracing."""
    shown = ", ".join(unknown)
    return (
        f"to fix {shown} while tracing, write a number for it in the type, or give example arrays"
    )


class Opaque(NamedTuple):
    """A floor division, remainder, minimum or maximum that did not simplify."""

    text: str
    kind: str  # "//", "%", "min" or "max"
    arguments: tuple[int | Size, ...]
    weight: int
    depth: int

    def __str__(self) -> str:
        return self.text


Monomial = tuple["str | Opaque", ...]


def _operator(function: Callable[[Any, Any], int | Size], neutral: int | None = None) -> Any:
    def method(self: Size, other: int | Size) -> int | Size:
        kind = type(other)
        if kind is int:
            return self if other == neutral else function(self, other)
        if kind is Size:
            return function(self, other)
        # Not operator.index: a traced array may define it, and has its own reflected operators.
        return method(self, int(other)) if isinstance(other, Integral) else NotImplemented

    return method


def _comparison(
    symbol: str, excess: Callable[[Any, Any], int | Size], whole: Callable[[Any], int]
) -> Any:
    def method(self: Size, other: float | Size) -> bool:
        if not isinstance(other, (Size, Real)):
            return NotImplemented
        if isinstance(other, Real) and not math.isfinite(other):
            return other > 0 if symbol in "<=" else other < 0
        bound = other if isinstance(other, Size) else whole(other)  # n < 2.5 says that n < 3
        answer = is_nonnegative(excess(self, bound))
        if answer is not None:
            return answer
        sides = [f"cr.size_value({self}, like=x)", f"{other}"]
        if isinstance(other, Size):
            sides[1] = f"cr.size_value({other}, like=x)"
        hint = f"cr.cond({sides[0]} {symbol} {sides[1]}, f, g, x) chooses when the graph runs,\n"
        hint += "with a traced array x; cr.minimum and cr.maximum compute with sizes"
        return _undecided(f"{self} {symbol} {other}", self + bound, hint)

    return method


class Size:
    """An immutable integer polynomial, made by `size`, `sizes`, `parse` and the operators."""

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    _hash: int

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_hash", hash(terms))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"the size {self} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:  # string hashes differ between processes
        return Size, (self.terms,)

    def __hash__(self) -> int:
        frame = _getframe(1)
        if not is_ours.get(frame.f_globals.get("__name__")) and asking(frame) is not None:
            hint = "compare instead: n in (2, 3), or if x.shape == y.shape"
            raise _unknown(
                f"the size {self} is a key of a dict or an element of a set, and is not known "
                "while tracing",
                hint,
                f"hash of {self}",
                self,
            )
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether these are one polynomial.  In a traced function that may differ from how the
        numbers of a run compare: that they are not equal then becomes a condition."""
        if self is other:
            return True
        kind = type(other)
        if kind is Size:
            if self._hash == other._hash and self.terms == other.terms:  # type: ignore[union-attr]
                return True
        elif kind is not int and not isinstance(other, Number):
            return NotImplemented
        frame = _getframe(1)  # chainrule compares often: first of all is asked whether it does
        return not is_ours.get(frame.f_globals.get("__name__")) and _equals(self, other, frame)

    __add__ = __radd__ = _operator(lambda a, b: _add(a, b), neutral=0)
    __mul__ = __rmul__ = _operator(lambda a, b: _multiply(a, b), neutral=1)
    __sub__ = _operator(lambda a, b: _subtract(a, b), neutral=0)
    __rsub__ = _operator(lambda a, b: _subtract(b, a))
    __floordiv__ = _operator(lambda a, b: _divide(a, b)[0], neutral=1)
    __rfloordiv__ = _operator(lambda a, b: _divide(b, a)[0])
    __mod__ = _operator(lambda a, b: _divide(a, b)[1])
    __rmod__ = _operator(lambda a, b: _divide(b, a)[1])
    __lt__ = _comparison("<", lambda a, b: b - a - 1, math.ceil)
    __le__ = _comparison("<=", lambda a, b: b - a, math.floor)
    __gt__ = _comparison(">", lambda a, b: a - b - 1, math.floor)
    __ge__ = _comparison(">=", lambda a, b: a - b, math.ceil)

    def __neg__(self) -> int | Size:
        return _multiply(self, -1)

    def __pow__(self, exponent: int) -> int | Size:
        if not isinstance(exponent, Integral):
            asked = f"{self} ** {exponent}"
            return _no_number(asked, self) if _is_plain(exponent) else NotImplemented
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise ValueError(
                f"({self})**{exponent}: the exponent of a size is 0 to {_LARGEST_EXPONENT}"
            )
        return product((self,) * int(exponent))

    def __divmod__(self, other: Any) -> tuple[int | Size, int | Size]:
        return self // other, self % other

    def __truediv__(self, other: object) -> Any:
        return _no_number(f"{self} / {other}", self) if _is_plain(other) else NotImplemented

    def __rtruediv__(self, other: object) -> Any:
        return _no_number(f"{other} / {self}", self) if _is_plain(other) else NotImplemented

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """NumPy integers on the left compute with sizes; other NumPy functions are refused."""
        known = _UFUNCS.get(ufunc.__name__)
        inputs = tuple([x.item() if getattr(x, "shape", None) == () else x for x in inputs])
        plain = all(isinstance(x, (Size, Integral)) for x in inputs)
        if known is not None and method == "__call__" and plain:
            left, right = [x if isinstance(x, Size) else int(x) for x in inputs]
            if known is _equals:
                a, b = (left, right) if isinstance(left, Size) else (right, left)
                assert isinstance(a, Size)  # NumPy asks only where there is one
                same = a.terms == _terms(b) or _equals(a, b, _getframe(1))
                return same if ufunc.__name__ == "equal" else not same
            return known(left, right)
        return _no_number(f"np.{ufunc.__name__} of {self}", self)

    def __float__(self) -> NoReturn:
        return _no_number(f"float of {self}", self)

    def __bool__(self) -> bool:
        if is_positive(self) or is_positive(-self):
            return True
        found = asking(_getframe(1))
        if found is None:
            return _undecided(f"{self} != 0", self, "compare inside of a traced function")
        return not _assumed_other(found, self, f"{self} == 0")

    def __index__(self) -> int:
        hint = f"for an array of that size: np.zeros_like(x, shape=({self}, 3)), with a traced x"
        raise _unknown(f"the size {self} is not known while tracing", hint, f"{self}", self)

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self} is one size and not several: write {self} = cr.size('{self}')")

    def __str__(self) -> str:
        text = self._written()
        frame = _getframe(1)
        if not is_ours.get(frame.f_globals.get("__name__")):
            found = asking(frame)
            if found is not None:
                note_text(found, text)
        return text

    def _written(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = " - " if coefficient < 0 else " + " if text else ""
            factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
            alone = len(monomial) == 1 and not factors and (text or coefficient > 0)
            factors += [f"{f}" if alone or _is_tight(f) else f"({f})" for f in monomial]
            text += (sign if text else sign.strip()) + "*".join(factors)
        return text

    __repr__ = __str__


def _is_tight(factor: str | Opaque) -> bool:
    return isinstance(factor, str) or factor.kind in ("min", "max")


def _undecided(question: str, a: int | Size, hint: str) -> NoReturn:
    raise _unknown(f"whether {question} is not known while tracing", hint, question, a)


def _equals(a: Size, b: Any, frame: FrameType) -> bool:
    """Whether a size equals a number or size that is not the same polynomial.  Not; where that is
    not proved and a traced function asks, that it is so becomes a condition of the program."""
    found = asking(frame)
    whole = b if found is None or type(b) is Size else _whole(b)
    if found is None or whole is None:
        return False
    difference = _subtract(a, whole)
    if is_positive(difference) or is_positive(_multiply(difference, -1)):
        return False
    return _assumed_other(found, difference, f"{a} == {whole}")


def _whole(number: Any) -> int | None:
    """The integer that a number equals, if any."""
    try:
        whole = int(number.real)
    except (TypeError, ValueError, OverflowError):
        return None
    return whole if whole == number else None


def _assumed_other(found: Asking, difference: Any, question: str) -> bool:
    """False, with the condition that it is right; UndecidableSize where the sizes are not those of
    a program's inputs, so that no run would say what they are."""
    for program in found.programs:
        if names(difference) <= program.sizes:
            text = f"while tracing, {question} was taken as False"
            program.assume_not_zero(difference, text, found.frame)
            return False
    return _undecided(
        question, difference, "compare sizes of the function's own arguments, such as x.shape[0]"
    )


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


def _terms(a: int | Size) -> tuple[tuple[Monomial, int], ...]:
    return a.terms if isinstance(a, Size) else (((), a),) if a else ()


def _constant(a: int | Size) -> int:
    return dict(_terms(a)).get((), 0)


def _weight(a: int | Size) -> int:
    return sum(1 + sum(1 if isinstance(f, str) else f.weight for f in m) for m, _ in _terms(a))


def _limit(weight: int) -> None:
    if weight > _MOST_FACTORS:
        raise ValueError(f"a size may have at most {_MOST_FACTORS} factors, this would have more")


def _rank(factor: str | Opaque) -> tuple[bool, str]:
    return isinstance(factor, Opaque), str(factor)


def _order(monomial: Monomial) -> tuple[int, list[tuple[bool, str]]]:  # graded lexicographic
    return -len(monomial), [_rank(factor) for factor in monomial]


def _polynomial(coefficients: Mapping[Monomial, int]) -> int | Size:
    kept = {monomial: value for monomial, value in coefficients.items() if value}
    if not kept.keys() - {()}:
        return kept.get((), 0)
    return Size(tuple(sorted(kept.items(), key=lambda term: _order(term[0]))))


@_cached
def _add(a: int | Size, b: int | Size) -> int | Size:
    _limit(_weight(a) + _weight(b))
    total = Counter(dict(_terms(a)))
    for monomial, coefficient in _terms(b):
        total[monomial] += coefficient
    return _polynomial(total)


@_cached
def _multiply(a: int | Size, b: int | Size) -> int | Size:
    left, right = _terms(a), _terms(b)
    _limit(_weight(a) * len(right) + _weight(b) * len(left))
    total: Counter[Monomial] = Counter()
    for (m, c), (k, d) in choices(left, right):
        total[tuple(sorted(m + k, key=_rank))] += c * d
    return _polynomial(total)


def _subtract(a: int | Size, b: int | Size) -> int | Size:
    return _add(a, _multiply(b, -1))


@_cached
def product(shape: tuple[int | Size, ...]) -> int | Size:
    """The number of elements of an array of this shape."""
    return reduce(lambda a, b: a * b, shape, 1)


def _opaque(kind: str, *arguments: int | Size) -> Size:
    inner = [f for a in arguments for m, _ in _terms(a) for f in m if isinstance(f, Opaque)]
    weight, depth = 1 + sum(map(_weight, arguments)), 1 + max((f.depth for f in inner), default=0)
    _limit(weight)
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
    (lead, leading), *_ = _terms(b)
    left, quotient, remainder = a, 0, 0
    while isinstance(left, Size) or left:
        monomial, coefficient = _terms(left)[0]
        rest = Counter(monomial)
        rest.subtract(lead)
        factor = coefficient // leading if min(rest.values(), default=0) >= 0 else 0
        step = _polynomial({tuple(sorted(rest.elements(), key=_rank)): factor})
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
    common = gcd(*(c for m, c in _terms(rest) if m), *(c for _, c in _terms(b)))
    extra = _constant(rest) % common
    if common == 1:
        shared = reduce(Counter.__and__, (Counter(m) for m, _ in _terms(rest) + _terms(b)))
        common = product(tuple(size(f) for f in shared.elements() if isinstance(f, str)))
    if common != 1:
        x, y = divide_exactly(rest - extra, common), divide_exactly(b, common)
        assert x is not None and y is not None
        inner = _divide(x, y)
        return quotient + inner[0], common * inner[1] + extra
    shift = _constant(rest)
    match _terms(rest - shift):  # (x//y + shift)//b == (x + y*shift)//(y*b)
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
    match _terms(a):
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


# Values and text


@_cached
def names(a: int | Size) -> frozenset[str]:
    """The names that occur in a, those inside `//`, `%`, min and max included."""
    factors = {f for monomial, _ in _terms(a) for f in monomial}
    inside = [names(b) for f in factors if isinstance(f, Opaque) for b in f.arguments]
    return frozenset(f for f in factors if isinstance(f, str)).union(*inside)


def evaluate(a: int | Size, env: Mapping[str, int | Size]) -> int | Size:
    """a with the names in env replaced; an int if no name is left. Values must be >= 1."""
    if not isinstance(a, Size):
        return a
    total: int | Size = 0
    for monomial, value in a.terms:
        for f in monomial:
            if isinstance(f, Opaque):
                value = value * _evaluate_opaque(f, env)
            else:
                value = value * (env[f] if f in env else size(f))
        total = total + value
    return total


def _evaluate_opaque(factor: Opaque, env: Mapping[str, int | Size]) -> int | Size:
    x, *others = (evaluate(a, env) for a in factor.arguments)
    if factor.kind in _EXTREMES:
        return reduce(_EXTREMES[factor.kind], others, x)
    if others[0] == 0:
        raise ZeroDivisionError(f"{factor} divides by zero: {factor.arguments[1]} is 0")
    return (floordiv if factor.kind == "//" else mod)(x, others[0])


def solve(pattern: int | Size, value: int, env: Mapping[str, int]) -> dict[str, int] | None:
    """The {name: int} that makes the pattern equal value, {} if it already is, else None.

    None where the pattern, with env's names replaced, is not linear in one name, or where the
    answer is not an integer >= 1. `solve(2*n + 1, 7, {})` is `{"n": 3}`.
    """
    difference = evaluate(pattern, env) - value
    constant = _constant(difference)
    match _terms(difference - constant):
        case ():
            return {} if constant == 0 else None
        case (((str() as name,), slope),) if -constant % slope == 0 and -constant // slope >= 1:
            return {name: -constant // slope}
    return None


_UFUNCS: dict[str, Any] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "floor_divide": floordiv,
    "remainder": mod,
    "equal": _equals,
    "not_equal": _equals,
    "less": lt,
    "less_equal": le,
    "greater": gt,
    "greater_equal": ge,
}
_EXTREMES = {"min": minimum, "max": maximum}
