"""How a value lies in memory: the byte of its first element, and the strides of its axes."""

from __future__ import annotations

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.schedule.virtual import shown


@dataclass(frozen=True)
class Layout:
    """`offset` in bytes from the first byte of the buffer; `strides` in bytes, one for each axis.

    Strides of axes of length 1 mean nothing.
    """

    offset: int
    strides: tuple[int, ...]

    def reach(self, node: Node) -> tuple[int, int]:
        """The first byte of the node's elements, and the first byte behind them."""
        if not node.type.size:
            return self.offset, self.offset
        far = [k * (n - 1) for n, k in zip(node.shape, self.strides, strict=True)]
        low = self.offset + sum(k for k in far if k < 0)
        return low, self.offset + sum(k for k in far if k > 0) + node.dtype.itemsize

    def agrees(self, other: Layout, node: Node) -> bool:
        """Whether all elements of the node lie at the same places in both."""
        if not node.type.size:
            return True
        axes = [axis for axis, length in enumerate(node.shape) if length != 1]
        same = all(self.strides[axis] == other.strides[axis] for axis in axes)
        return same and self.offset == other.offset


def whole(node: Node) -> Layout:
    """The node's elements in C order, from the first byte on."""
    strides, step = [], node.dtype.itemsize
    for length in reversed(node.shape):
        strides.append(step)
        step *= length
    return Layout(0, tuple(reversed(strides)))


def layout_of_view(node: Node, of: Node, base: Layout, nbytes: int) -> Layout | None:
    """Where the elements of `node` are among those of `of`, which lies as `base` in `nbytes` bytes.

    None if they are not elements of `of`, or if strides cannot say where.  NumPy answers: the
    primitives between the two are evaluated on an array that has no values yet.
    """
    memory = np.empty(nbytes, np.uint8)
    array = np.ndarray(of.shape, of.dtype, memory, base.offset, base.strides)
    view = shown(node, of, array)
    return None if view is None else Layout(_address(view) - _address(memory), view.strides)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
