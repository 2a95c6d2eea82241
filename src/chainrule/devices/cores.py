"""Shares the cores of a machine out to the ranks on it, and holds BLAS to a rank's share."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from chainrule.devices.job import launched
from chainrule.execute.native.products.blas import load_blas, thread_functions
from chainrule.execute.native.runtime.pool import VARIABLE, thread_count

# How many ranks of a job are on this machine, by who starts them.
ON_MACHINE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE")
SLURM = "SLURM_STEP_TASKS_PER_NODE"  # such as 4(x2),3: with one count it is that of this machine


def threads_of_rank(ranks: int) -> int:
    """How many threads a rank works on, of a step on so many ranks: its share of the cores.

    The ranks of one process share out what the process has; those of a job what its machine has,
    unless CHAINRULE_NUM_THREADS says how many are a process's, or its processors are its own.
    """
    if launched() is None:
        return max(1, thread_count() // ranks)
    if os.environ.get(VARIABLE):
        return thread_count()
    others = _on_machine()
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    if own * others <= (os.cpu_count() or 1):  # whoever started the ranks has bound them
        others = 1
    return max(1, thread_count() // others)


def _on_machine() -> int:
    """How many ranks of the job are on this machine; all where nobody says."""
    for name in ON_MACHINE:
        found = os.environ.get(name, "")
        if found.isascii() and found.isdigit() and int(found):
            return int(found)
    each, _, rest = os.environ.get(SLURM, "").partition("(")
    if each.isascii() and each.isdigit() and int(each) and "," not in rest:
        return int(each)
    return (launched() or (0, 1))[1]


Setter = Callable[[int], object]
_lock = threading.Lock()
_users = 0
_before: list[tuple[Setter, int]] = []


@contextmanager
def blas_held_to(threads: int) -> Iterator[None]:
    """Meanwhile no BLAS of this process uses more threads; afterwards as many as before.

    That is a setting of the process: products of its other threads are held to it, too.
    """
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _before[:] = [(put, get()) for put, get in _libraries()]
            for put, count in _before:
                put(min(count, threads))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for put, count in _before:
                    put(count)


def _libraries() -> list[tuple[Setter, Callable[[], int]]]:
    """What sets and tells the threads of NumPy's BLAS, and of SciPy's where it is loaded."""
    loaded = [_of_numpy()]
    if load_blas.cache_info().currsize:
        blas = load_blas()
        loaded.append((blas.set_threads_address, blas.get_threads_address))
    put, get = ctypes.CFUNCTYPE(None, ctypes.c_int), ctypes.CFUNCTYPE(ctypes.c_int)
    return [(put(one), get(other)) for one, other in loaded if one and other]


@lru_cache(maxsize=1)
def _of_numpy() -> tuple[int | None, int | None]:
    module = sys.modules.get("numpy._core._multiarray_umath")  # from NumPy 2 on
    if module is None or module.__file__ is None:
        return None, None
    found = thread_functions(ctypes.CDLL(module.__file__))
    return found["set_threads_address"], found["get_threads_address"]


def _after_fork() -> None:
    global _lock, _users
    _lock, _users = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
