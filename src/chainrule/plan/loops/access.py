"""Loop domains that fit values, and the addresses of elements in arrays."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod

from chainrule.graph.node import Node
from chainrule.primitives.affine import Affine, Domain, IndexMap, combined, row_major, split
from chainrule.primitives.primitive import Move


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
    kernel = node.primitive.kernel
    return kernel.reads(node, where, domain) if isinstance(kernel, Move) else where


def address(where: IndexMap, strides: tuple[int, ...], domain: Domain) -> Affine:
    """The element's place, in elements, for the strides of the value's array."""
    return combined(where, strides, len(domain) + 1)
