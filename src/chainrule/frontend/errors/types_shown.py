"""Writes types and shapes in messages; refuses types that cannot exist."""

from __future__ import annotations

import operator

import numpy as np

from chainrule.errors import ShapeError
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType


def too_large(name: str, type_: ArrayType, where: str) -> ShapeError:
    """The error for an array that no computer has room for; `name` is what would make it."""
    return ShapeError(
        f"{name} would make {type_}, which has more bytes than can be counted",
        where=where,
        hint="the elements of an array take less than 2**63 bytes; check the sizes",
    )


def declared_size(value: int | Size) -> int | Size:
    """The size as it is, an int for NumPy integers; TypeError for what is no integer."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"the size {value} is a boolean, not an integer")
    return value if isinstance(value, Size) else operator.index(value)


def show_shape(shape: tuple) -> str:
    """`[n, 784]`."""
    return "[" + ", ".join(map(str, shape)) + "]"


def type_text(type_: ArrayType) -> str:
    """A type without the word weak, for messages."""
    return f"{type_.dtype.name}{show_shape(type_.shape)}"
