"""Checks that the results of a user's rule fit the values that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import optree

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.errors.types_shown import type_text
from chainrule.frontend.functions.elementwise import as_node, to_dtype, to_shape
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import in_python
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import NAMESPACE, leaf_name
from chainrule.graph.types import ArrayType
from chainrule.tracing import definition

Rule = Callable[..., Any]


def fitted(trace: Trace, value: Any, type_: ArrayType, what: str, rule: Rule) -> Node:
    """The node of a derivative that a rule returned for a value of this type.

    A Python number counts for every element.  Raises ShapeError or DTypeError.
    """
    if not isinstance(value, Traced) and isinstance(value, (bool, str)):
        raise InputError(
            f"{what} is {value!r}, which is no array",
            where=definition(rule),
            hint="return an array, a number, or None for zero",
        )
    node = as_node(trace, value)
    number = not isinstance(value, Traced) and isinstance(value, (int, float, Size))
    if node.type.shape != type_.shape and not number:
        raise ShapeError(
            f"{what} has the shape {_shape(node.type)}, but {_shape(type_)} is needed",
            where=definition(rule),
            hint="a derivative has the shape of the value that it belongs to; "
            "what was broadcast is summed again: np.sum(g, axis=...)",
        )
    if not node.type.is_float and not number:
        raise DTypeError(
            f"{what} is {type_text(node.type)}, and {type_text(type_)} is needed",
            where=definition(rule),
            hint=f"convert it: .astype({in_python(type_.dtype)})",
        )
    if node.type.dtype != type_.dtype and not node.type.weak:
        raise DTypeError(
            f"{what} is {type_text(node.type)}, and {type_text(type_)} is needed",
            where=definition(rule),
            hint=f"convert it: .astype({in_python(type_.dtype)}); "
            "np.float64(...) and float64 constants widen float32, Python numbers do not",
        )
    node = to_dtype(trace, node, type_.dtype, type_.weak and not type_.shape)
    return to_shape(trace, node, type_.shape)


def _shape(type_: ArrayType) -> str:
    return "[" + ", ".join(map(str, type_.shape)) + "]"


def leaves_for(value: Any, names: Sequence[str], root: str, what: str, rule: Rule) -> list[Any]:
    """What a rule returned for a container whose leaves have these names: one for each, None for
    zero.  None alone stands for zeros everywhere."""
    if value is None:
        return [None] * len(names)
    paths, leaves, _ = optree.tree_flatten_with_accessor(
        value, none_is_leaf=True, namespace=NAMESPACE
    )
    found = {leaf_name(root, path): leaf for path, leaf in zip(paths, leaves, strict=True)}
    if any(name not in found for name in names) or any(
        name not in names and leaf is not None for name, leaf in found.items()
    ):
        raise InputError(
            f"{what} has the parts {', '.join(found) or 'none'}; needed: {', '.join(names)}",
            where=definition(rule),
            hint="return the same containers, with None where the derivative is zero",
        )
    return [found[name] for name in names]


def parts_of(value: Any, count: int, what: str, each: str, rule: Rule) -> tuple[Any, ...]:
    """The `count` entries of the tuple that a rule has to return."""
    if isinstance(value, (tuple, list)) and len(value) == count:
        return tuple(value)
    many = isinstance(value, (tuple, list))
    got = f"{len(value)}" if many else f"a {type(value).__name__}"
    comma = "," if count == 1 else ""
    raise InputError(
        f"{what} returned {got}; a tuple of {count} is needed: {each}",
        where=definition(rule),
        hint=f"return ({', '.join(['...'] * count)}{comma}), with None where there is nothing",
    )
