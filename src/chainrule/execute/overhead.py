"""Estimates what libraries take beside the arrays of a run.

The constants are upper bounds of what was measured on x86-64 (OpenBLAS 0.3); tests measure them
anew.
"""

from __future__ import annotations

BLAS_NBYTES_PER_THREAD = 8 << 20  # where OpenBLAS packs matrices; measured: 1.2 to 4.4 MiB
NUMPY_NBYTES = 256 << 10  # 8192 elements (np.getbufsize()) of each operand; measured: 64 to 129 KiB


def blas_nbytes() -> int:
    """The buffers of BLAS, for all its threads."""
    from chainrule.execute.native.runtime.pool import thread_count

    return BLAS_NBYTES_PER_THREAD * thread_count()


def numpy_nbytes() -> int:
    """The buffers of NumPy."""
    return NUMPY_NBYTES
