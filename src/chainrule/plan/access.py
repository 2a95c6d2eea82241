"""Affine index maps: which element of a value a point of a loop nest means.

A loop nest runs over a *domain*, a tuple of axis lengths.  An `Affine` is `(c, k0, k1, ...)` and
means c + k0 d0 + k1 d1 + ... of the domain's indices; an `IndexMap` has one for each axis of the
value.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod

from chainrule.graph.node import Node

Affine = tuple[int, ...]
IndexMap = tuple[Affine, ...]
Domain = tuple[int, ...]


@lru_cache(maxsize=4096)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an array of this shape in C order."""
    return tuple(accumulate((1, *shape[:0:-1]), lambda a, b: a * b))[::-1] if shape else ()


def combined(terms: IndexMap, factors: tuple[int, ...], width: int) -> Affine:
    """The sum of the affine `terms`, each times its factor; `width` is that of an Affine."""
    total = [0] * width
    for term, factor in zip(terms, factors, strict=True):
        if factor:
            for place, coefficient in enumerate(term):
                total[place] += factor * coefficient
    return tuple(total)


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


@lru_cache(maxsize=4096)  # a graph has few shapes, and each is asked for many times
def natural(shape: tuple[int, ...], domain: Domain, axes: int) -> IndexMap | None:
    """The map under which the first `axes` axes of the domain run through the value in C order.

    None where the axes of the domain are not at least as fine as those of the value.
    """
    if prod(shape) != prod(domain[:axes]):
        return None
    if 0 in shape:  # no element shows which axis is which
        return _axis_by_axis(shape, domain, axes)
    flat = (0, *row_major(domain[:axes]), *(0,) * (len(domain) - axes))
    return split(flat, shape, domain)


def _axis_by_axis(shape: tuple[int, ...], domain: Domain, axes: int) -> IndexMap | None:
    """Each axis of the value, but for those of length 1, is the next one of the domain."""
    wide = [axis for axis, size in enumerate(shape) if size != 1]
    if tuple(shape[axis] for axis in wide) != domain[:axes]:
        return None
    places = {axis: place for place, axis in enumerate(wide, 1)}
    count = len(domain) + 1
    return tuple(
        tuple(int(place == places.get(axis)) for place in range(count))
        for axis in range(len(shape))
    )


def refined(domain: Domain, shape: tuple[int, ...]) -> Domain | None:
    """The domain with axes cut so that `natural` works for the shape, too; None if impossible."""
    cuts = {1}
    if 0 in domain or 0 in shape:
        return None
    for one in (domain, shape):
        running = 1
        for size in reversed(one):
            running *= size
            cuts.add(running)
    ordered = sorted(cuts)
    if any(b % a for a, b in pairwise(ordered)):
        return None
    return tuple(b // a for a, b in pairwise(ordered))[::-1]


def pulled(node: Node, where: IndexMap, domain: Domain) -> IndexMap | None:
    """Where a node that only moves its input's elements reads it; None if that is not affine."""
    source = node.inputs[0]
    match node.primitive.name:
        case "reshape":
            if node.shape == source.shape:
                return where
            width = len(domain) + 1
            return split(combined(where, row_major(node.shape), width), source.shape, domain)
        case "transpose":
            found = [where[0]] * len(where) if where else []
            for place, axis in enumerate(node.param("permutation")):
                found[axis] = where[place]
            return tuple(found)
        case "broadcast_to":
            zero = (0,) * (len(domain) + 1)
            extra = node.ndim - source.ndim
            return tuple(
                zero if size == 1 else where[extra + axis] for axis, size in enumerate(source.shape)
            )
        case "slice":
            return tuple(
                (start + step * one[0], *(step * k for k in one[1:]))
                for start, step, one in zip(
                    node.param("start"), node.param("step"), where, strict=True
                )
            )
        case "windows":
            count = len(node.param("window"))
            first = source.ndim - count
            pairs = zip(
                where[first : first + count],
                where[first + count :],
                node.param("stride"),
                node.param("dilation"),
                strict=True,
            )
            return (
                *where[:first],
                *(
                    tuple(s * a + d * b for a, b in zip(position, place, strict=True))
                    for position, place, s, d in pairs
                ),
            )
        case "identity" | "stop_gradient":
            return where
    raise AssertionError(f"{node.primitive.name} computes more than places")


def address(where: IndexMap, strides: tuple[int, ...], domain: Domain) -> Affine:
    """The element's place, in elements, for the strides of the value's array."""
    return combined(where, strides, len(domain) + 1)
