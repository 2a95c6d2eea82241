"""Estimates how long compiled code takes for a node of a concrete graph, without a plan."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.plan.speeds import Speeds
from chainrule.primitives.primitive import Contract, Generate, Given, Move

WIDTH = 4  # bytes of float32, as which products of integers count


def node_nanoseconds(
    node: Node, speeds: Speeds, each_flop: Callable[[np.dtype], float] | None = None
) -> float:
    """About how long: products by their operations (`each_flop` nanoseconds each, by default on
    one thread), of other kernels those on vectors, which loops share.  What is only moved is read
    where it is needed."""
    match node.primitive.kernel:
        case Given() | Move() | Generate():
            return 0.0
        case Contract():
            each = _each_flop(node.dtype, speeds) if each_flop is None else each_flop(node.dtype)
            return speeds.product + int(node.primitive.flops(node)) * each
    lanes = speeds.vector_nbytes / node.dtype.itemsize
    return speeds.operation * max(int(node.primitive.flops(node)), prod(node.shape)) / lanes


def stored_nanoseconds(node: Node, speeds: Speeds) -> float:
    """About how long, where the value is an array of its own, which is written, and read again."""
    moved = 2 * int(node.type.nbytes) / speeds.memory[-1].nbytes_each_nanosecond
    return max(node_nanoseconds(node, speeds), moved)


def _each_flop(dtype: np.dtype, speeds: Speeds) -> float:
    """A product and a sum are two."""
    width = dtype.itemsize if dtype_kind(dtype) == "f" else WIDTH
    return speeds.multiply_add * width / (2 * speeds.vector_nbytes)
