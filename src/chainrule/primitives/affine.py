"""Affine index maps: the element of a value at a point of a loop nest.

A loop nest runs over a *domain*, a tuple of axis lengths.  An `Affine` is `(c, k0, k1, ...)` and
means c + k0 d0 + k1 d1 + ... of the domain's indices; an `IndexMap` has one for each axis of the
value.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

Affine = tuple[int, ...]
IndexMap = tuple[Affine, ...]
Domain = tuple[int, ...]


@lru_cache(maxsize=4096)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an array of this shape in C order."""
    return tuple(accumulate((1, *shape[:0:-1]), lambda a, b: a * b))[::-1] if shape else ()


@lru_cache(maxsize=4096)  # a graph has few of these, too
def combined(terms: IndexMap, factors: tuple[int, ...], width: int) -> Affine:
    """The sum of the affine `terms`, each times its factor; `width` is that of an Affine."""
    total = [0] * width
    for term, factor in zip(terms, factors, strict=True):
        if factor:
            for place, coefficient in enumerate(term):
                total[place] += factor * coefficient
    return tuple(total)


@lru_cache(maxsize=4096)
def split(flat: Affine, shape: tuple[int, ...], domain: Domain) -> IndexMap | None:
    """The indices into C-ordered `shape` that the flat index means; None if not affine."""
    if 0 in shape:  # never read; what depends on all axes is not computed before any loop
        return ((0, *(1,) * len(domain)),) * len(shape)
    if min(flat, default=0) < 0:
        return None
    rest = list(flat)
    found = []
    for stride, size in zip(row_major(shape), shape, strict=True):
        part = [0] * len(flat)
        if size != 1:
            part[0], rest[0] = divmod(rest[0], stride)
            for place in range(1, len(rest)):
                if rest[place] >= stride and domain[place - 1] != 1:
                    if rest[place] % stride:
                        return None
                    part[place], rest[place] = rest[place] // stride, 0
            reach = rest[0] + sum(
                k * (n - 1) for k, n in zip(rest[1:], domain, strict=True) if n > 1
            )
            if reach >= stride:
                return None
        found.append(tuple(part))
    return tuple(found)


def at_steps(start: tuple[int, ...], step: tuple[int, ...], where: IndexMap) -> IndexMap:
    """start + step * where, axis by axis."""
    return tuple(
        (first + by * one[0], *(by * k for k in one[1:]))
        for first, by, one in zip(start, step, where, strict=True)
    )
