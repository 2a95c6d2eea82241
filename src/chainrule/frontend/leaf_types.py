"""Tells which leaves of arguments are arrays, and of what type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.annotations import ElementType
from chainrule.errors import TypeSpecError
from chainrule.frontend.functions.elementwise import COMPLEX, NUMBERS, REAL
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.structure import flatten
from chainrule.graph.types import FLOAT_SCALAR, INT_SCALAR, ArrayType, array_type

_KINDS = "fiub"


def leaf_type(value: Any, name: str) -> ArrayType | None:
    """The type of an argument's leaf; None for values that stay Python values (bool, str, ...)."""
    if type(value) is np.ndarray:
        return _type_of_array(value, value.dtype, name)
    if isinstance(value, ElementType):
        return array_type(value.dtype, ())
    if isinstance(value, ArrayType):
        return value
    if value is float or value is int:
        return FLOAT_SCALAR if value is float else INT_SCALAR
    if isinstance(value, (bool, np.bool_)) or value is None or isinstance(value, str):
        return None
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        if isinstance(value, Traced):
            value.program.refuse_leaked(value.node)
        refuse_subclass(value, f"the argument {name}")
        array = value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)
        try:
            dtype = np.dtype(array.dtype)
        except TypeError:
            dtype = np.asarray(value).dtype
        return _type_of_array(array, dtype, name)
    if isinstance(value, complex):
        raise TypeSpecError(f"the argument {name} is {value!r}, {COMPLEX}", hint=REAL)
    if isinstance(value, float):
        return FLOAT_SCALAR
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise TypeSpecError(
                f"the argument {name} is {value}, which does not fit int64",
                hint="pass it as a float",
            )
        return INT_SCALAR
    return None


def _type_of_array(array: Any, dtype: np.dtype, name: str) -> ArrayType:
    if dtype_kind(dtype) not in _KINDS or dtype.itemsize > 8:
        raise TypeSpecError(
            f"the argument {name} has dtype {dtype}, which is not traced",
            hint=REAL if dtype.kind == "c" else NUMBERS,
        )
    dtype = dtype if dtype.isnative else dtype.newbyteorder("=")
    return array_type(dtype, tuple([int(size) for size in array.shape]))


def refuse_strange_container(value: Any, name: str) -> None:
    """TypeSpecError for a container of another kind that has arrays: they would be constants."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence)):
        return
    plain = dict(value) if isinstance(value, Mapping) else list(value)
    leaves, structure = flatten(plain, name)
    kind = type(value).__name__
    for leaf, part in zip(leaves, structure.leaf_names, strict=True):
        if isinstance(leaf, (np.ndarray, ArrayType, ElementType, Traced)):
            raise TypeSpecError(
                f"the argument {name} is a {kind}, which is not taken apart, and has the array "
                f"{part}",
                hint=f"{type(plain).__name__}({name}): containers are dicts, lists, tuples, named "
                "tuples and dataclasses",
            )
