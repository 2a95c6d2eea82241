"""Which products are so much larger than their operands that they are not to be stored."""

from __future__ import annotations

from math import prod

from chainrule.graph.node import Node
from chainrule.plan.roles import FLOATS, nbytes_of
from chainrule.primitives.primitive import Contract

# Of each matrix of a product that is computed in blocks: 1,774 rows and columns in float32.  Blocks
# of smaller ones save memory, too, but take longer (1.1 to 1.4 times for lengths of 256 to 1,024).
LEAST_NBYTES = 12 << 20
LEAST_RATIO = 4  # of its bytes to those of its operands: else blocks save little


def is_far_larger(node: Node) -> bool:
    """Whether it is a product of matrices that is far larger than both."""
    return (
        isinstance(node.primitive.kernel, Contract)
        and node.ndim >= 2
        and node.dtype in FLOATS
        and prod(node.shape[-2:]) * node.dtype.itemsize >= LEAST_NBYTES
        and nbytes_of(node) >= LEAST_RATIO * sum(map(nbytes_of, node.inputs))
    )
