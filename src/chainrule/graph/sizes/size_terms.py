"""Factors, monomials and terms of sizes: their order, their weight and their text.

A *factor* is a name, or an `Opaque` for a `//`, `%`, min or max that did not simplify; a *monomial*
is the sorted tuple of its factors, repeated as often as they occur; *terms* are the sorted pairs
(monomial, coefficient).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.graph.sizes.sizes import Size

_MOST_FACTORS = 10_000  # in one size, coefficients and the arguments of opaque factors included


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
Terms = tuple[tuple[Monomial, int], ...]


def terms_of(a: int | Size) -> Terms:
    """The terms of a size or of an integer."""
    return (((), a),) if type(a) is int and a else getattr(a, "terms", ())


def constant_of(a: int | Size) -> int:
    """The coefficient of the monomial without factors."""
    return dict(terms_of(a)).get((), 0)


def weight_of(a: int | Size) -> int:
    """The number of factors, coefficients and arguments of opaque factors included."""
    return sum(1 + sum(1 if isinstance(f, str) else f.weight for f in m) for m, _ in terms_of(a))


def check_weight(weight: int) -> None:
    """ValueError for a size with too many factors."""
    if weight > _MOST_FACTORS:
        raise ValueError(f"a size may have at most {_MOST_FACTORS} factors, this would have more")


def rank(factor: str | Opaque) -> tuple[bool, str]:
    """The key by which the factors of a monomial are sorted."""
    return isinstance(factor, Opaque), str(factor)


def order_of(monomial: Monomial) -> tuple[int, list[tuple[bool, str]]]:
    """The key by which terms are sorted: graded lexicographic."""
    return -len(monomial), [rank(factor) for factor in monomial]


def written(terms: Terms) -> str:
    """The text of a polynomial, as `parse_size.parse` reads it."""
    text = ""
    for monomial, coefficient in terms:
        sign = " - " if coefficient < 0 else " + " if text else ""
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        alone = len(monomial) == 1 and not factors and (text or coefficient > 0)
        factors += [f"{f}" if alone or _is_tight(f) else f"({f})" for f in monomial]
        text += (sign if text else sign.strip()) + "*".join(factors)
    return text


def _is_tight(factor: str | Opaque) -> bool:
    return isinstance(factor, str) or factor.kind in ("min", "max")
