"""Checks what machine code asks of an array: its type, its layout, and where it begins."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.execute.aligned import address_of

# Where an array object keeps the address of its first element: behind the object's head (the
# layout of NumPy's PyArrayObject, which its C interface publishes).
DATA_AT = object.__basicsize__
_read_pointer = ctypes.c_void_p.from_address


def _pointer_by_layout(array: np.ndarray) -> int:
    return _read_pointer(id(array) + DATA_AT).value or 0


_probe = np.zeros(3)[1:]
# Ten times as fast as the interface; only where it is seen to give the same.
pointer_of = _pointer_by_layout if _pointer_by_layout(_probe) == address_of(_probe) else address_of


def is_plain(array: np.ndarray) -> bool:
    """Whether code can read the array as it is: C order, every element at its natural place."""
    flags = array.flags
    return flags.carray or (flags.c_contiguous and flags.aligned)  # carray is also writeable


def plain(value: object, dtype: np.dtype) -> np.ndarray:
    """The value as an array that code can read: itself where that is so, else a copy."""
    dtype = dtype.newbyteorder("=")
    if type(value) is np.ndarray and value.dtype == dtype and is_plain(value):
        return value
    return np.require(value, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def copied_nbytes(value: object, dtype: np.dtype) -> int:
    """The bytes of the copy that `plain` makes; 0 where it makes none of an array."""
    if type(value) is not np.ndarray or (value.dtype == dtype and is_plain(value)):
        return 0
    return value.size * dtype.itemsize


def usual(dtype: np.dtype) -> np.dtype:
    """The one object that NumPy gives most arrays of an equal dtype: they can be told by `is`."""
    return np.dtype(dtype.type)


Expected = tuple[int, np.dtype, tuple[int, ...]]  # of an array: slot, dtype, shape


def binder(
    expected: Sequence[Expected | None],
) -> Callable[[Sequence[Any], Any], bool]:
    """A function of (arguments, slots): whether the arguments are plain arrays of these types and
    shapes; if so, the addresses of their elements are in the slots.

    `expected` has for each argument (slot, dtype, shape), or None for one that is not read; a
    dtype is the object that arrays have (`usual`), not an equal one.
    """
    count, ndarray = len(expected), np.ndarray
    read = [(place, *one) for place, one in enumerate(expected) if one is not None]

    def bind(arguments: Sequence[Any], slots: Any) -> bool:
        if len(arguments) != count:
            return False
        for place, slot, dtype, shape in read:
            array = arguments[place]
            if (
                type(array) is not ndarray
                or array.dtype is not dtype
                or array.shape != shape
                or not is_plain(array)
            ):
                return False
            slots[slot] = pointer_of(array)
        return True

    return bind
