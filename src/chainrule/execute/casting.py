"""Casts arguments of other dtypes where nothing that matters is lost, and says so in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.errors import CastWarning, ChainruleError
from chainrule.graph.dtypes import dtype_kind, in_python
from chainrule.graph.graph import Graph
from chainrule.graph.parts import Input
from chainrule.tracebacks import warn_user

_said: WeakKeyDictionary[Graph, set[str]] = WeakKeyDictionary()  # of which inputs


def widens(old: np.dtype, new: np.dtype) -> bool:
    """Whether integers, such as labels of uint8, are integers of the other dtype without loss."""
    return old.kind in "iu" and new.kind in "iu" and np.can_cast(old, new, "safe")


def widened(graph: Graph, item: Input, array: np.ndarray) -> np.ndarray:
    """The integers in the dtype of the input; a CastWarning the first time for this graph."""
    said = _said.setdefault(graph, set())
    if item.name not in said:
        said.add(item.name)
        _say(graph, [item], array.dtype, item.type.dtype)
    return array.astype(item.type.dtype)


def in_own_precision(graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with floats in the dtypes that the inputs of these names have.

    A CastWarning says which were cast.  Numbers that would become infinite stay as they are, and
    so does what is no NumPy array of floats: both are refused by who takes them.
    """
    found, cast = dict(given), dict[tuple[np.dtype, np.dtype], list[Input]]()
    for item in graph.inputs:
        array, new = given.get(item.name), item.type.dtype
        if not isinstance(array, (np.ndarray, np.generic)) or item.type.weak:
            continue
        if array.ndim != item.type.ndim:
            continue
        if (
            not dtype_kind(array.dtype) == dtype_kind(new) == "f"
            or array.dtype.newbyteorder("=") == new
        ):
            continue
        with np.errstate(over="ignore"):
            narrow = array.astype(new)
        if np.array_equal(np.isfinite(narrow), np.isfinite(array)):
            found[item.name] = narrow
            cast.setdefault((array.dtype, new), []).append(item)
    for (old, new), items in cast.items():
        _say(graph, items, old, new)
    return found


def _say(graph: Graph, items: list[Input], old: np.dtype, new: np.dtype) -> None:
    first, several = items[0].name, ", ".join(item.name for item in items)
    verb = "is" if len(items) == 1 else "are"
    annotated = f", or annotate {old.name} to compute in it" if dtype_kind(new) == "f" else ""
    said = ChainruleError(  # not raised: its text has the form of every message
        f"{several} of {graph.name} {verb} given in {old.name}, and cast to {new}",
        where=items[0].node.origin.describe(),
        hint=f"np.asarray({first}, {in_python(new)}) says so beforehand{annotated}",
    )
    warn_user(str(said), CastWarning)
