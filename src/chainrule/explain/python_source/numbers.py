"""Writes sizes, constants and defaults as Python text that evaluates to the same values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.python import dtype_text, number_text

LARGEST_CONSTANT = 16  # elements; larger ones are given to the function


def size_text(size: int | Size, identifiers: Mapping[str, str]) -> str:
    """A size with spaces about its operators: `2 * n + 1`."""
    text = re.sub(r"//|[*%]", r" \g<0> ", str(size))
    return re.sub(r"[A-Za-z_]\w*", lambda found: identifiers.get(found[0], found[0]), text)


def float_text(value: Any, dtype: np.dtype) -> str:
    """A literal that is a float where the dtype is one: `2.0`."""
    text = number_text(value, dtype)
    return f"{text}.0" if dtype_kind(dtype) == "f" and text.lstrip("-").isdigit() else text


def default_text(value: Any) -> str:
    """A number that is the default of an argument."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return float_text(float(value), np.dtype(np.float64))


def constant_text(array: np.ndarray) -> str | None:
    """An expression for the array, in its order of axes too; None for one that is too large."""
    if array.size > LARGEST_CONSTANT or (array.size and dtype_kind(array.dtype) not in "biuf"):
        return None
    dtype = dtype_text(array.dtype)
    if not array.ndim:
        return f"{dtype}({float_text(array.item(), array.dtype)})"
    if not array.size:
        return f"np.zeros({array.shape}, {dtype})"
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        return None
    listed = array if array.flags.c_contiguous else array.T
    default = array.dtype in (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_))
    text = f"np.array({_listed(listed)}{'' if default else f', {dtype}'})"
    return text if array.flags.c_contiguous else f"{text}.T"


def _listed(array: np.ndarray) -> str:
    """The elements as nested lists (as deep as the array has axes)."""
    if array.ndim:
        return f"[{', '.join(map(_listed, array))}]"
    return float_text(array.item(), array.dtype)
