"""Has XLA read a donated array before its new values overwrite it, rather than copy it first.

On a CPU, XLA lets new values take the place of a donated array if they need all that reads it;
else it may be read later, and XLA copies it first.  A layer's gradient does not need what goes back
through the layer, and no update needs a penalty of weights: XLA would copy nearly all weights.  So
such new values are chosen by an element of each of these readers.  The choice always goes the same
way, which XLA does not know when it decides what to copy; the compiled loop has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Assemble, Gather, Generate, Map, Move

SMALL = 1 << 13  # elements that are copied in a microsecond or two
FUSED = (Map, Move, Assemble, Gather, Generate)  # the kernels that XLA computes in who reads them


def late_readers(order: Iterable[Node], overwritten: Mapping[Node, Node]) -> dict[Node, list[Node]]:
    """For new values, the nodes that read the array which these overwrite and that they do not
    need; none where an element of one of these nodes cannot be waited for, and on other devices
    than CPUs.  `overwritten` has the array of each, `order` the nodes that are evaluated.
    """
    overwritten = {new: old for new, old in overwritten.items() if int(old.type.size) > SMALL}
    if jax_here().default_backend() != "cpu":
        return {}
    readers: dict[Node, list[Node]] = {old: [] for old in overwritten.values()}
    read = {old: {old} for old in readers}  # by a node, or by those that are computed in it
    bits = {new: 1 << number for number, new in enumerate(overwritten)}
    needs: dict[Node, int] = {}  # which of those with a bit a node needs, and itself
    for node in order:
        needed = 0
        found: set[Node] = set()
        for parent in node.inputs:
            needed |= needs[parent]
            found |= read.get(parent, found)
        is_fused = isinstance(node.primitive.kernel, FUSED) and node not in overwritten
        if found and is_fused:
            read[node] = found
        elif found:
            bits.setdefault(node, 1 << len(bits))
            for old in found:
                readers[old].append(node)
        needs[node] = needed | bits.get(node, 0)
    late = {}
    for new, old in overwritten.items():
        of_new = [one for one in readers[old] if not bits[one] & needs[new]]
        if of_new and all(_can_wait_for(one, new, bits, needs, overwritten) for one in of_new):
            late[new] = of_new
    return late


def _can_wait_for(
    reader: Node,
    new: Node,
    bits: Mapping[Node, int],
    needs: Mapping[Node, int],
    overwritten: Mapping[Node, Node],
) -> bool:
    """Whether it has an element, of which there is an absolute value, before the new values."""
    is_there = reader.type.is_float and bool(reader.type.size) and reader not in overwritten
    return is_there and not bits[new] & needs[reader]


def after(readers: Iterable[Any], old: Any, new: Any) -> Any:
    """New values for which the readers are computed first: no absolute value is below zero."""
    lax = jax_here().lax
    for one in readers:
        element = one[(0,) * one.ndim]
        new = lax.select(lax.abs(element) < -1, old, new)
    return new
