"""Rewrites arrays that are padded with zeros and added: joins pieces that lie side by side."""

from __future__ import annotations

from chainrule.graph.node import Node
from chainrule.primitives import movement

M = movement


def joined_pads(node: Node) -> Node | None:
    """A sum of two pieces side by side, each on zeros, is the pieces joined."""
    x, y = node.inputs
    if x.primitive is not M.pad or y.primitive is not M.pad or x is y:
        return None
    if any(step != 1 for one in (x, y) for step in one.param("step")):
        return None
    starts, others = x.param("start"), y.param("start")
    shape, other_shape = x.inputs[0].type.shape, y.inputs[0].type.shape
    moved = [axis for axis in range(x.ndim) if starts[axis] != others[axis]]
    if len(moved) != 1:
        return None
    axis = moved[0]
    if any(k != axis and shape[k] != other_shape[k] for k in range(x.ndim)):
        return None
    if others[axis] == starts[axis] + shape[axis]:
        parts, start = (x.inputs[0], y.inputs[0]), starts
    elif starts[axis] == others[axis] + other_shape[axis]:
        parts, start = (y.inputs[0], x.inputs[0]), others
    else:
        return None
    flat = [
        piece
        for part in parts
        for piece in (
            part.inputs
            if part.primitive is M.concatenate and part.param("axis") == axis
            else (part,)
        )
    ]
    joined = M.concatenate(*flat, axis=axis)
    return M.pad(joined, start=start, step=x.param("step"), shape=x.type.shape)


def unpadded(node: Node) -> Node | None:
    """Padding that adds nothing."""
    x = node.inputs[0]
    return x if x.type.shape == node.type.shape and set(node.param("step")) <= {1} else None
