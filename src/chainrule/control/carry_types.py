"""Makes the types of a loop's carry or a choice's results agree, or refuses them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.control.trace_body import Call
from chainrule.errors import ChainruleError, DTypeError, InputError, ShapeError
from chainrule.frontend.functions.elementwise import resolve
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.structure import Structure
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.logic import cast


def converted(node: Any, type_: ArrayType) -> Any:
    """The node in this type, which has its shape."""
    return node if node.type == type_ else cast(node, dtype=type_.dtype, weak=type_.weak)


def common_type(one: ArrayType, other: ArrayType) -> ArrayType | None:
    """The type of both, where one is a Python number that the other's dtype takes; None if there
    is none."""
    if one == other:
        return one
    if one.shape != other.shape or not (one.weak or other.weak):
        return None
    found = resolve(np.maximum, (_kind(one), _kind(other)))
    return None if found is None else array_type(found[0], (), found[1])


def _kind(type_: ArrayType) -> Any:
    if not type_.weak:
        return type_.dtype
    return float if dtype_kind(type_.dtype) == "f" else int


def agreed(
    call: Callable[[Sequence[ArrayType]], Call], structure: Structure, types: list[ArrayType]
) -> tuple[Call, list[ArrayType]]:
    """The call of an iteration on carries of types that it does not change.

    Python numbers take the type that an iteration gives them.  ShapeError or DTypeError, with the
    name of the carry and both types, where it changes the type of an array.
    """
    while True:  # each time a number becomes wider, at most from integer to float and to strong
        found = call(types)
        got, nodes = found.results[0]
        refuse_other_containers(found, structure, got)
        wider = []
        for name, before, node in zip(structure.leaf_names, types, nodes, strict=True):
            both = common_type(before, node.type)
            if both is None or (both != before and not before.weak):
                raise _changed(found, name, before, node.type)
            wider.append(both)
        if wider == types:
            return found, types
        types = wider


def _changed(call: Call, name: str, before: ArrayType, after: ArrayType) -> ChainruleError:
    kind, what, remedy = ShapeError, "shape", "start with the shape that an iteration gives"
    if before.shape == after.shape:
        kind, what = DTypeError, "dtype"
        remedy = f"convert it in {call.shown} (.astype), or start with {after.dtype}"
    return kind(
        f"{call.shown} changes the {what} of {name}: it is {before} before an iteration and "
        f"{after} after",
        where=call.where,
        hint=f"a carry keeps its type from iteration to iteration; {remedy}",
    )


def refuse_other_containers(call: Call, wanted: Structure, got: Structure) -> None:
    """InputError unless an iteration returns its carries in the containers that it takes."""
    if wanted.spec == got.spec:
        return
    shown = ", ".join(got.leaf_names) or "nothing"
    raise InputError(
        f"{call.name} takes {', '.join(wanted.leaf_names) or 'nothing'} and returns {shown}",
        where=call.where,
        hint="a loop carries the same containers from iteration to iteration, with the same parts",
    )
