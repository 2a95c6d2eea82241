"""Finds which arrays of a batch have rows, and how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.data import minibatches
from chainrule.data.rows import rows_of
from chainrule.errors import InputError, ShapeError
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import flatten
from chainrule.nearest import perhaps
from chainrule.train.step.random_inputs import key_inputs

BATCHES = (
    'a batch is a dict by the names of the inputs, {"x": x, "y": y}, or a tuple or list of arrays '
    "in the order of the arguments"
)


def roots_of(graph: Graph) -> dict[str, str]:
    """For each input the argument that it belongs to: itself, or the container that it is in."""
    found = {item.name: item.name for item in graph.inputs}
    for root, structure in graph.structures.items():
        found |= dict.fromkeys(structure.leaf_names, root)
    return found


def refuse_unknown(graph: Graph, names: Iterable[str], what: str, taken: Iterable[str]) -> None:
    """InputError for a name that is no argument of the graph; `taken` are those to choose from."""
    known = set(graph.arguments) | {item.name for item in graph.inputs}
    for name in names:
        if name not in known:
            near = list(taken)
            raise InputError(
                f"{what} have {name!r}, and {graph.name} has no input of that name",
                hint=f"{perhaps(name, near)}its inputs are: {', '.join(near) or 'none'}",
            )


def row_arguments(graph: Graph, others: Iterable[str], size: object = None) -> list[str]:
    """The arguments whose first axis counts rows, the likeliest first, but for `others`.

    First those whose first axis is `size`, where that is known (in data with the time first others
    have it as their second); then those whose first axis has a name of their own, then those where
    `others` have it too (as weights of classes, beside parameters), then those where it is a
    number.
    """
    roots, left_out = roots_of(graph), set(others)
    held = [item for item in graph.inputs if {roots[item.name], item.name} & left_out]
    shared = {str(axis) for item in held for axis in item.type.shape}
    found: list[tuple[bool, bool, bool, str]] = []
    for item in graph.inputs:
        if item.type.ndim and item not in held:
            rows = item.type.shape[0]
            is_named = isinstance(rows, Size)
            likely = (not (is_named and rows == size), not is_named, str(rows) in shared)
            found.append((*likely, roots[item.name]))
    return list(dict.fromkeys(root for *_, root in sorted(found, key=lambda one: one[:3])))


def refuse_other_rows(graph: Graph, data: Mapping[str, Any]) -> None:
    """ShapeError for arrays by name where one is cut along an axis that is a later one of another:
    with the time first, rows would be cut along the time."""
    roots = roots_of(graph)
    items = [item for item in graph.inputs if {item.name, roots[item.name]} & set(data)]
    firsts = {item.type.shape[0]: item for item in items if item.type.ndim}
    for item in items:
        for axis, size in enumerate(item.type.shape[1:], 1):
            other = firsts.get(size)
            if isinstance(size, Size) and other is not None and item.type.shape[0] != size:
                raise ShapeError(
                    f"the data are cut into batches along the first axis of each array: {size} in "
                    f"{other.name}: {other.type}, which is axis {axis} in {item.name}: {item.type}",
                    where=item.node.origin.describe(),
                    hint="put the axis of the examples first in all of them, and move it in the "
                    f"objective: np.moveaxis({item.name}, 0, {axis});\nor give batches as they "
                    f"are, which are not cut: a list, to a trainer data=lambda epoch: [...]",
                )


def count_rows(batch: Mapping[str, Any], arguments: Iterable[str]) -> int:
    """The rows of a batch: the length of the first of these arguments; 1 without any."""
    for name in arguments:
        value = batch.get(name)
        if type(value) is np.ndarray:
            return len(value)
        if value is not None:
            lengths = [len(leaf) for leaf in flatten(value)[0] if np.ndim(leaf)]
            if lengths:
                return lengths[0]
    return 1


def batches_of(
    data: Any, batch_size: int, arguments: Sequence[str] = ()
) -> Iterator[Mapping[str, Any]]:
    """The rows of a dict of arrays in batches, in their order; or the batches that were given, as
    `named_batch` names their arrays.

    InputError for what is neither, and where there are none.
    """
    if isinstance(data, Mapping):
        data = minibatches(data, batch_size, shuffle=False)
    elif not isinstance(data, Iterable):
        raise InputError(
            f"data are arrays by name, or batches of them, got {type(data).__name__}", hint=BATCHES
        )
    empty = True
    for batch in data:
        empty = False
        yield named_batch(batch, arguments)
    if empty:
        raise InputError(
            "the data have no batches: there is nothing to compute with",
            hint="give at least one row; a generator of batches can be read only once",
        )


def first_batches(arrays: Mapping[str, Any], batch_size: int) -> Iterator[dict[str, Any]]:
    """A batch of each length that comes up, of views: what can be said of it without computing.

    InputError for no rows, and a batch size that makes no sense.
    """
    rows = rows_of(dict(arrays))
    if not rows.count:
        raise InputError("the data have no rows", hint="give at least one")
    minibatches(arrays, batch_size, shuffle=False)
    whole, rest = divmod(rows.count, batch_size)
    for count in [batch_size] * (whole > 0) + [rest] * (rest > 0):
        yield rows.structure.unflatten([array[:count] for array in rows.arrays])


def positions_of(graph: Graph, held: Iterable[str]) -> list[str]:
    """The arguments that a batch without names has, in order: all but those that others give, and
    those that need not be given (keys, and what has a default)."""
    roots, others = roots_of(graph), set(held)
    keys = set(key_inputs(graph, others))
    needed = [
        roots[item.name]
        for item in graph.inputs
        if item.default is None and not {item.name, roots[item.name]} & (others | keys)
    ]
    return list(dict.fromkeys(needed))


def named_batch(batch: Any, arguments: Sequence[str]) -> Mapping[str, Any]:
    """The arrays of a batch by name: of a tuple or list, as a DataLoader makes them, in the order
    of these arguments; a single array is that of the first one.

    InputError for what is no batch, and for more arrays than there are arguments.
    """
    if isinstance(batch, Mapping):
        return batch
    if hasattr(batch, "shape") or hasattr(batch, "__array__"):
        batch = (batch,)
    if not isinstance(batch, (tuple, list)):
        raise InputError(f"a batch has arrays, got {type(batch).__name__}", hint=BATCHES)
    if len(batch) > len(arguments):
        raise InputError(
            f"a batch has {len(batch)} arrays, and they would be {', '.join(arguments) or 'none'}",
            hint=BATCHES,
        )
    return dict(zip(arguments, batch, strict=False))
