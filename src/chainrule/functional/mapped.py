"""Spreads `in_axes` and `out_axes` over containers: the mapped axis of each array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from chainrule.errors import InputError, ShapeError
from chainrule.frontend.errors.types_shown import type_text
from chainrule.functional.arguments import argument_name
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import NAMESPACE, flatten
from chainrule.graph.types import ArrayType
from chainrule.tracing import function_name

Axis = int | None


def axes_of_arguments(function: Callable[..., Any], in_axes: Any, args: Any) -> list[list[Axis]]:
    """For each positional argument the axis of each of its leaves, None for one not mapped."""
    if in_axes is None or _is_axis(in_axes):
        in_axes = (in_axes,) * len(args)
    elif not isinstance(in_axes, (tuple, list)):
        raise InputError(
            f"in_axes={in_axes!r} of {function_name(function)} is no axis, and no tuple of them",
            hint="an integer, None, or a tuple with an entry for each argument: in_axes=(0, None)",
        )
    if len(in_axes) != len(args):
        raise InputError(
            f"in_axes has {len(in_axes)} entries, and {function_name(function)} was called with "
            f"{len(args)} positional arguments",
            hint="one entry for each; arguments given by keyword are mapped along axis 0",
        )
    pairs = zip(in_axes, args, strict=True)
    return [
        spread(axes, value, argument_name(function, place), "in_axes")
        for place, (axes, value) in enumerate(pairs)
    ]


def spread(axes: Any, value: Any, name: str, what: str) -> list[Axis]:
    """An axis for each leaf of `value`: `axes` is one for all, or a container that begins as it.

    InputError where the containers differ, naming the part.
    """
    if axes is None:
        return [None] * len(flatten(value, name)[0])
    if _is_axis(axes):
        return [operator.index(axes)] * len(flatten(value, name)[0])
    flatten(value, name)  # a dataclass is made known
    flatten(axes, what)
    ours, theirs = _parts(axes), _parts(value)
    if ours is None:
        raise InputError(
            f"{what} has {axes!r} for {name}, which is no axis",
            hint="an integer, None, or a container of them as the argument's",
        )
    if theirs is None or [key for key, _ in ours] != [key for key, _ in theirs]:
        shown = "an array" if theirs is None else f"a {type(value).__name__} of {_keys(theirs)}"
        raise InputError(
            f"{what} has a {type(axes).__name__} of {_keys(ours)} for {name}, which is {shown}",
            hint=f"{what} has one axis for a whole container, or the same keys",
        )
    pairs = zip(ours, theirs, strict=True)
    return [
        axis
        for (key, inner), (_, part) in pairs
        for axis in spread(inner, part, _part_name(name, key), what)
    ]


def batch_length(mapped: Sequence[tuple[str, ArrayType, int]], function: Any) -> int | Size:
    """The one length of all mapped axes, given as (name, type, axis).

    InputError where nothing is mapped or an axis does not exist, ShapeError where lengths differ.
    """
    if not mapped:
        raise InputError(
            f"no argument of {function_name(function)} is mapped",
            hint="at least one array needs an axis in in_axes: in_axes=(0, None)",
        )
    lengths = [(name, type_, axis, type_.shape[axis]) for name, type_, axis in mapped]
    first_name, first, first_axis, length = lengths[0]
    for name, type_, axis, other in lengths[1:]:
        if not sizes.definitely_equal(length, other):
            raise ShapeError(
                f"the mapped axes of {function_name(function)} have different lengths: "
                f"{first_name} is {type_text(first)}, mapped along axis {first_axis} of length "
                f"{length}, and {name} is {type_text(type_)}, along axis {axis} of length {other}",
                hint=f"None in in_axes passes an argument whole: in_axes=(..., None) for {name}",
            )
    return length


def within(axis: int, ndim: int, what: str, where: str = "") -> int:
    """The axis counted from the front; InputError where there is none such."""
    if not -ndim <= axis < ndim:
        have = f"{ndim} ax{'i' if ndim == 1 else 'e'}s" if ndim else "no axes"
        raise InputError(
            f"{what} has {have}, and axis {axis} is to be mapped",
            where=where,
            hint=f"from {-ndim} to {ndim - 1}" if ndim else "None passes it whole",
        )
    return axis % ndim


def _is_axis(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    """The keys and parts of a container; None for what is none."""
    try:
        found = optree.tree_flatten_one_level(value, none_is_leaf=False, namespace=NAMESPACE)
    except ValueError:
        return None
    return list(zip(found[2], found[0], strict=True))


def _keys(parts: list[tuple[Any, Any]]) -> str:
    if all(isinstance(key, int) for key, _ in parts):
        return f"{len(parts)}"
    return ", ".join(str(key) for key, _ in parts)


def _part_name(name: str, key: Any) -> str:
    return f"{name}.{key}" if isinstance(key, str) and key.isidentifier() else f"{name}[{key!r}]"
