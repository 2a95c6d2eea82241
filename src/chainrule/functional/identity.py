"""Makes rows of the identity as seeds, each for the derivative of one element."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast, equal
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.sources import positions, size_of, uniform

INDEX = np.dtype(np.int64)


def count_of(types: Sequence[ArrayType]) -> int | Size:
    """How many elements arrays of these types have together."""
    return sum((one.size for one in types), 0)


def identity_rows(
    types: Sequence[ArrayType], count: int | Size, first: Node | None = None
) -> list[Any]:
    """`count` rows of the identity over the elements of several arrays, beginning at row `first`
    (0 where None): for each array its part of them, of shape (count, *shape)."""
    if count_of(types) == 1 and first is None:
        return [uniform(1, one.dtype, (count, *one.shape)) for one in types]
    offsets = accumulate((one.size for one in types), initial=0)
    return [_part(one, at, count, first) for one, at in zip(types, offsets, strict=False)]


def _part(one: ArrayType, offset: int | Size, count: int | Size, first: Node | None) -> Any:
    shape = (count, one.size)
    rows: Any = positions(count, INDEX)
    if first is not None:
        rows = add(rows, broadcast_to(first, shape=(count,)))
    columns: Any = positions(one.size, INDEX)
    if not (isinstance(offset, int) and offset == 0):
        start = size_of(offset, array_type(INDEX, ()))
        columns = add(columns, broadcast_to(start, shape=(one.size,)))
    rows = broadcast_to(reshape(rows, shape=(count, 1)), shape=shape)
    same = equal(rows, broadcast_to(columns, shape=shape))
    found = cast(same, dtype=one.dtype, weak=False)
    return found if one.ndim == 1 else reshape(found, shape=(count, *one.shape))
