"""Refuses values of a loop's iteration, a branch or one example of a batch outside of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ForeignValueError
from chainrule.graph.node import Node
from chainrule.graph.structure import flatten
from chainrule.primitives.sources import input_

if TYPE_CHECKING:
    from chainrule.frontend.trace import Trace


def refuse_inner(
    show: Callable[[Node], str],
    roots: Iterable[Node],
    inner: Container[Node],
    ends: Iterable[Node],
    settled: set[Node],
) -> None:
    """ForeignValueError where a root needs a variable that is inner; what `ends` and those settled
    are made of does not count.  `show` is how messages call a node.

    Adds to `settled` the nodes that no variable of a body or a batch reaches: each is looked at
    once.
    """
    readers: dict[Node, Node | None] = dict.fromkeys(ends)
    pending: list[tuple[Node, Node | None, bool]] = [(root, None, False) for root in roots]
    while pending:
        node, reader, is_done = pending.pop()
        if is_done:
            if all([one in settled for one in node.inputs]):
                settled.add(node)
        elif node not in readers and node not in settled:
            readers[node] = reader
            if node in inner:
                raise ForeignValueError(
                    f"{show(node)} is a value inside of a loop, a branch or a batch, and is used "
                    "outside of it",
                    where=_first_place(node, readers),
                    hint="return it from the function that has it",
                )
            if node.primitive is not input_ or node.param("index") >= 0:
                pending.append((node, None, True))
            pending += [(one, node, False) for one in node.inputs if one not in settled]


def _first_place(inner: Node, readers: Mapping[Node, Node | None]) -> str:
    """The nearest known place where it is read, or else its own."""
    reader = readers[inner]
    while reader is not None:
        place = reader.origin.describe()
        if place:
            return place
        reader = readers[reader]
    return inner.origin.describe()


def refuse_ended(program: Trace, values: Any, arguments: Any = ()) -> None:
    """The same of what a function is given or returns, where it needs a variable of a body or a
    batch that is over by another way than through these arguments."""
    if program.ended:
        roots, ends = _nodes_in(values), _nodes_in(arguments)
        refuse_inner(program.show, roots, program.ended, ends, program.settled)


def _nodes_in(value: Any) -> list[Node]:
    """The nodes of the traced arrays in a container."""
    node = getattr(value, "node", None)
    if isinstance(node, Node):
        return [node]
    if value is None or isinstance(value, (np.ndarray, np.generic, int, float, str)):
        return []
    if type(value) in (tuple, list, dict):  # the others are rare, and take their time
        parts = value.values() if isinstance(value, dict) else value
        return [node for part in parts for node in _nodes_in(part)]
    leaves, structure = flatten(value, "")
    return [] if structure.is_leaf else [node for leaf in leaves for node in _nodes_in(leaf)]
