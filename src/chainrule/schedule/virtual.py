"""Values that need no bytes of their own: generated, or the elements of another seen otherwise."""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from chainrule.graph.node import Node, structural_hash, topological
from chainrule.primitives.primitive import Fold, Gather, Generate, Library, Map, Move, Primitive


def shows_its_input(primitive: Primitive) -> bool:
    """Whether the result is elements of the one input at other places, and nothing else."""
    return isinstance(primitive.kernel, Move) or primitive.kernel == Map("x")


def lacking(node: Node, within: Container[Node]) -> Node | None:
    """The value without which a kernel that has those `within` cannot know `node`; None if it can.

    A kernel generates constants and positions itself, and sees through transposes and the like.
    """
    while node not in within:
        if isinstance(node.primitive.kernel, Generate):
            return None
        if not shows_its_input(node.primitive):
            return node
        node = node.inputs[0]
    return None


def operands_read(node: Node, within: Iterable[Node]) -> tuple[Node, ...]:
    """The inputs of a node; in place of the first its factor, where the routine of the node can
    read that, and it is one of those `within`."""
    kernel = node.primitive.kernel
    if not isinstance(kernel, Library) or kernel.factored is None:
        return node.inputs
    base_of, factor_of = kernel.factored
    factor = factor_of(base_of(node))
    wanted = structural_hash(topological([factor]))
    alike = (one for one in within if one.primitive is factor.primitive)
    factor = next((one for one in alike if structural_hash(topological([one])) == wanted), None)
    return node.inputs if factor is None else (factor, *node.inputs[1:])


def shown(node: Node, of: Node, array: np.ndarray) -> np.ndarray | None:
    """`node` as a view of the `array` that is `of`.

    None where `node` is not the elements of `of`, or where strides cannot express their places.
    """
    path = []
    while node is not of:
        if not shows_its_input(node.primitive):
            return None
        path.append(node)
        node = node.inputs[0]
    view = array
    for one in reversed(path):
        view = one.primitive.evaluate(np, view, **dict(one.params))
    return view if not view.size or np.may_share_memory(view, array) else None


def rearranges(node: Node) -> bool:
    """Whether an element may need elements of an input that come earlier or later in C order.

    Reductions, repetitions, and picking within a row count as keeping the order: a kernel has
    read a row before it uses what it found there.
    """
    match node.primitive.kernel:
        case Map() | Fold() | Generate():
            return False
        case Gather():
            rows = node.inputs[1]
            return lacking(rows, ()) is not None and node.inputs[0].ndim > 1
        case Move() if shows_its_input(node.primitive):
            source = node.inputs[0]
            x = np.empty(source.shape, source.dtype)
            out = node.primitive.evaluate(np, x, **dict(node.params))
            moving = [
                (n, k) for n, k in zip(out.shape, out.strides, strict=True) if n > 1 and k != 0
            ]
            once = np.empty([n for n, _ in moving], source.dtype)
            return once.size != x.size or once.strides != tuple(k for _, k in moving)
    return True
