"""Finds the arrays in the result of an operation, through containers, with their paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from chainrule.frontend.naming import Place
from chainrule.graph.node import Node


def nodes_of(result: Any) -> Iterator[tuple[Node, Place]]:
    """Each array in tuples, lists and dicts, also nested ones, with its place."""
    node = result if isinstance(result, Node) else getattr(result, "node", None)
    parts: Iterable[tuple[int | str, Any]] = ()
    length = None
    if isinstance(node, Node):
        yield node, ()
    elif isinstance(result, (tuple, list)):
        parts, length = enumerate(result), len(result)
    elif isinstance(result, dict):
        parts = [(key, part) for key, part in result.items() if isinstance(key, str)]
    for key, part in parts:
        for inner, place in nodes_of(part):
            yield inner, ((key, length), *place)
