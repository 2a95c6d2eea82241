"""Copies some rows of each array in a container."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, ShapeError
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.structure import Structure, flatten


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrays of `count` rows each, and the container that they are in."""

    arrays: tuple[np.ndarray, ...]
    structure: Structure
    count: int

    def take(self, rows: slice | NDArray[np.int64]) -> Any:
        """The container with copies of these rows; what was read of files is not kept."""
        chosen = [_taken(array, rows) for array in self.arrays]
        return self.structure.unflatten(chosen)

    @property
    def row_nbytes(self) -> int:
        """The bytes of one row of all arrays."""
        return sum(array.nbytes for array in self.arrays) // max(1, self.count)

    @property
    def is_on_disk(self) -> bool:
        """Whether a row may have to be read from a file."""
        return any(isinstance(array, np.memmap) for array in self.arrays)


def rows_of(arrays: Any) -> Rows:
    """The rows of an array, or of all arrays in a tuple, list, dict or dataclass.

    Raises InputError for what is no array, ShapeError for arrays of unequal length.
    """
    leaves, structure = flatten(arrays, "arrays")
    if not leaves:
        raise InputError(
            f"there are no arrays in {arrays!r}", hint="pass an array, or a tuple or dict of some"
        )
    found = [_array(leaf, name) for leaf, name in zip(leaves, structure.leaf_names, strict=True)]
    lengths = {name: len(one) for name, one in zip(structure.leaf_names, found, strict=True)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(
            f"the arrays have different numbers of rows: {shown}",
            hint=_elsewhere(found, structure.leaf_names)
            or "row i of each array belongs to the same example",
        )
    return Rows(tuple(found), structure, len(found[0]))


def _elsewhere(arrays: Sequence[np.ndarray], names: Sequence[str]) -> str:
    """The hint where an axis other than the first has as many elements as another array has rows:
    sequences of which the first axis is time."""
    for array, name in zip(arrays, names, strict=True):
        name = name.removeprefix("arrays.")
        for rows in map(len, arrays):
            if rows != len(array) and rows in array.shape[1:]:
                axis = array.shape.index(rows, 1)
                return (
                    f"axis {axis} of {name} has {rows}: if that one counts the examples, "
                    f"np.moveaxis({name}, {axis}, 0) makes it the first;\n"
                    "cr.Trainer also takes a function that gives the batches, cut along any axis"
                )
    return ""


def _array(leaf: Any, name: str) -> np.ndarray:
    if not hasattr(leaf, "__array__"):
        raise InputError(
            f"{name} is no array but {leaf!r}, a {type(leaf).__name__}",
            hint="pass NumPy arrays: np.asarray(...)",
        )
    refuse_subclass(leaf, name)
    array = leaf if isinstance(leaf, np.memmap) else np.asarray(leaf)
    if array.ndim == 0:
        raise ShapeError(
            f"{name} has no rows: it is a single number, {array.dtype}[]",
            hint="the first axis of each array counts the examples",
        )
    return array


def _taken(array: np.ndarray, rows: slice | NDArray[np.int64]) -> np.ndarray:
    if isinstance(rows, slice):
        taken = np.array(array[rows])
    else:
        taken = np.asarray(array).take(rows, axis=0)
    release = _release_of(array)
    if release is not None:
        release(mmap.MADV_DONTNEED)
    return taken


def _release_of(array: np.ndarray) -> Callable[[int], None] | None:
    """How to tell the system that pages of a file that cannot have changed are not needed now.

    They stay in its cache; but they no longer count as memory of this process, where after an
    epoch the whole file would.
    """
    if not isinstance(array, np.memmap) or array.mode != "r":
        return None
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.base
    return getattr(base, "madvise", None)
