"""What a call takes from NumPy: tracemalloc, with Python's own allocations left out of it."""

import ctypes
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx: the functions that Python allocates with in one of its three domains."""

    _fields_ = tuple((n, ctypes.c_void_p) for n in ("ctx", "malloc", "calloc", "realloc", "free"))


_get, _set = ctypes.pythonapi.PyMem_GetAllocator, ctypes.pythonapi.PyMem_SetAllocator
for _function in (_get, _set):
    _function.argtypes, _function.restype = (ctypes.c_int, ctypes.POINTER(_Allocator)), None


@contextmanager
def numpy_traced() -> Iterator[None]:
    """tracemalloc, of arrays alone: its peak then is that of NumPy's domain, to the byte.

    tracemalloc replaces Python's allocators by ones that note each block, while NumPy notes its
    arrays itself; Python gets its own allocators back, and what was noted so far is forgotten.
    """
    allocators = [_Allocator() for _ in range(3)]
    for domain, allocator in enumerate(allocators):
        _get(domain, ctypes.byref(allocator))
    tracemalloc.start()
    try:
        for domain, allocator in enumerate(allocators):
            _set(domain, ctypes.byref(allocator))
        tracemalloc.clear_traces()
        yield
        traces = tracemalloc.take_snapshot().traces
        assert {trace.domain for trace in traces} <= {np.lib.tracemalloc_domain}
    finally:
        tracemalloc.stop()


def peak_and_result(call: Callable[[], Any]) -> tuple[int, Any]:
    """The most bytes of arrays that the call had at once, of those it made; what it returns."""
    with numpy_traced():
        result = call()
        return tracemalloc.get_traced_memory()[1], result


def peak_nbytes(call: Callable[[], Any]) -> int:
    """The most bytes of arrays that the call had at once, of those it made."""
    return peak_and_result(call)[0]
