"""Matrices in which tests try the primitives of linear algebra."""

from __future__ import annotations

from typing import Any

from chainrule.primitives.primitive import Sample

ANY = (-2.0, 2.0)


def _by_diagonal(n: int, high: float = 3.0) -> tuple[Any, Any]:
    """A domain of matrices that are far from singular."""
    low = tuple(tuple(2.0 if i == j else -0.5 for j in range(n)) for i in range(n))
    top = tuple(tuple(high if i == j else 0.5 for j in range(n)) for i in range(n))
    return low, top


REGULAR = {n: _by_diagonal(n) for n in (0, 1, 2, 3)}


def regular(*shapes: tuple[int, ...]) -> tuple[Sample, ...]:
    """Samples of matrices that are far from singular (and no matrices without elements)."""
    return tuple(Sample((s,), (REGULAR[s[-1]] if s[-1] else ANY,)) for s in shapes)
