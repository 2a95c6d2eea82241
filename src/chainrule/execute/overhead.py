"""Estimates what libraries take beside the arrays of a run.

The constants are upper bounds of what was measured on x86-64 (OpenBLAS 0.3); tests measure them
anew.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from chainrule.graph.node import Node
from chainrule.primitives.primitive import Contract, Library

# OpenBLAS packs a block of one matrix for each thread (measured: 0.3 to 1.1 MiB), and of the other
# one all rows, so many of their elements at once (measured: 384 and 448).  What it packs stays.
BLOCK_NBYTES = 2 << 20
PACKED_INNER = 512
BUFFER_NBYTES = 32 << 20  # of a thread for both, at most
NUMPY_NBYTES = 256 << 10  # 8192 elements (np.getbufsize()) of each operand; measured: 64 to 129 KiB
# Of an array: the end of its last page, and what malloc has before its first element.
ARRAY_NBYTES = (4 << 10) + 128
# Of freed arrays, that malloc may keep within a budget: the more, the more seldom they are given
# back.  A network of small arrays took up to 2.3 times as long where all had to be.
KEPT_NBYTES = 4 << 20
WIDE = np.dtype(np.float64)  # in which LAPACK computes
AS_COMPILED = "as it is compiled"  # more than the schedule says, or less


def blas_nbytes(nodes: Iterable[Node]) -> int:
    """The buffers of BLAS, for all its threads, where it computes what it can of these nodes of
    a concrete graph; 0 where that is nothing."""
    packed = [_packed_nbytes(node) for node in nodes if calls_blas(node)]
    if not packed:
        return 0
    threads = blas_threads()
    return min(max(packed) + BLOCK_NBYTES * threads, BUFFER_NBYTES * threads)


def calls_blas(node: Node) -> bool:
    """Whether NumPy may evaluate a node by routines of BLAS, or of LAPACK, which calls these."""
    match node.primitive.kernel:
        case Contract():
            return node.dtype in (np.float32, np.float64)
        case Library(lapack=lapack):
            return lapack
    return False


def _packed_nbytes(node: Node) -> int:
    """At most what is packed at once of the matrix whose rows are those of the result."""
    if not isinstance(node.primitive.kernel, Contract):
        longest = max((int(size) for one in node.inputs for size in one.shape[-2:]), default=0)
        return longest * min(longest, PACKED_INNER) * WIDE.itemsize
    if not int(node.type.size):
        return 0
    inner = int(node.primitive.flops(node)) // (2 * int(node.type.size))
    stacked = 1  # matrices, one of which is multiplied at a time
    for axis, (place, *_) in node.primitive.independent(node):
        stacked *= 1 if place is None else int(node.shape[axis])
    elements = int(node.inputs[0].type.size) // stacked
    return elements * min(inner, PACKED_INNER) // max(inner, 1) * node.dtype.itemsize


def blas_threads() -> int:
    """How many threads the BLAS uses that NumPy calls: what it says, or else all processors that
    this process may use."""
    ask = _asked()
    if ask is not None:
        return max(ask(), 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _asked() -> Callable[[], int] | None:
    """The function of OpenBLAS, or of MKL, that tells; None where NumPy has another BLAS."""
    module = sys.modules.get("numpy._core._multiarray_umath")
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    linked = ctypes.CDLL(path)
    names = [
        f"{prefix}openblas_get_num_threads{suffix}"
        for prefix in ("scipy_", "")
        for suffix in ("64_", "")
    ]
    found = (getattr(linked, name, None) for name in (*names, "MKL_Get_Max_Threads"))
    return next((one for one in found if one is not None), None)


def numpy_nbytes() -> int:
    """The buffers of NumPy."""
    return NUMPY_NBYTES


def arrays_nbytes(arrays: int) -> int:
    """What so many large arrays take beyond their elements."""
    return ARRAY_NBYTES * arrays
