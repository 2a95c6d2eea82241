"""An `ArrayType` is the dtype and the shape of an array that may not exist yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes import size_values, sizes
from chainrule.graph.sizes.sizes import Size

Shape = tuple["int | Size", ...]


class ArrayType:
    """dtype and shape of an array; sizes are integers or named (`Size`).

    A *weak* type is that of a Python scalar: 0-d, and (NEP 50) it never widens another dtype.
    Make one with `array_type`, which returns the same object for the same type.
    """

    __slots__ = ("_hash", "_nbytes", "dtype", "shape", "weak")

    dtype: np.dtype
    shape: Shape
    weak: bool
    _nbytes: int | Size | None

    def __init__(self, dtype: np.dtype, shape: Shape, weak: bool) -> None:
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "weak", weak)
        object.__setattr__(self, "_hash", hash((dtype, shape, weak)))
        object.__setattr__(self, "_nbytes", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ArrayType is frozen; cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, ArrayType)
            and self.dtype == other.dtype
            and self.shape == other.shape
            and self.weak == other.weak
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return array_type, (self.dtype, self.shape, self.weak)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int | Size:
        """The number of elements."""
        return sizes.product(self.shape)

    @property
    def nbytes(self) -> int | Size:
        """The number of bytes of the elements, without padding."""
        known = self._nbytes
        if known is None:  # planners ask for it often
            known = self.size * self.dtype.itemsize
            object.__setattr__(self, "_nbytes", known)
        return known

    @property
    def is_float(self) -> bool:
        """Whether values of this type have derivatives."""
        return dtype_kind(self.dtype) == "f"

    def with_shape(self, shape: Shape) -> ArrayType:
        """The same dtype with another shape (no longer weak unless 0-d)."""
        return array_type(self.dtype, shape, self.weak and not shape)

    def with_dtype(self, dtype: np.dtype, weak: bool = False) -> ArrayType:
        """The same shape with another dtype."""
        return array_type(dtype, self.shape, weak)

    def bind(self, values: Mapping[str, int | Size]) -> ArrayType:
        """This type with named sizes replaced by `values`."""
        shape = tuple(size_values.evaluate(axis, values) for axis in self.shape)
        return array_type(self.dtype, shape, self.weak)

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.shape))
        return f"{'weak ' if self.weak else ''}{self.dtype.name}[{axes}]"

    __repr__ = __str__


@lru_cache(maxsize=65536)
def array_type(dtype: np.dtype, shape: Shape, weak: bool = False) -> ArrayType:
    """The type of arrays of this dtype and shape; `weak` for Python scalars."""
    return ArrayType(np.dtype(dtype), shape, weak)


@lru_cache(maxsize=65536)
def exceeds_memory(type_: ArrayType) -> bool:
    """Whether the bytes do not fit a signed integer of 64 bits; as NumPy, axes of 0 aside."""
    known = [axis for axis in type_.shape if isinstance(axis, int) and axis]
    return math.prod(known) * type_.dtype.itemsize >= 2**63


FLOAT_SCALAR = array_type(np.dtype(np.float64), (), True)
INT_SCALAR = array_type(np.dtype(np.int64), (), True)


def type_of(value: object) -> ArrayType:
    """The type of a NumPy array, a NumPy scalar or a Python scalar (weak, except bool)."""
    if isinstance(value, (bool, np.bool_)):
        return array_type(np.dtype(np.bool_), ())
    if isinstance(value, int):
        return INT_SCALAR
    if isinstance(value, float) and not isinstance(value, np.generic):
        return FLOAT_SCALAR
    array = np.asarray(value)
    return array_type(array.dtype, array.shape)
