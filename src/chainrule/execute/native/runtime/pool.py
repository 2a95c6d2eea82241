"""A few threads that run one native function together: those that come in time.

All of it is machine code: the interpreter only starts the threads.  In LLVM's words:

    i64  run(ptr pool, ptr function, ptr argument, i64 count)
    i64  function(ptr argument, i64 index, i64 count)
    void wait(ptr counter, i64 target)

`run` calls the function in the calling thread with index 0, at once.  Until that call returns,
workers that look for work join it, each with an index of its own from 1 to `count - 1`, given in
the order in which they come.  `run` returns when all that have joined have returned; a worker
that comes later never calls the function, so its argument may then be freed.  Nobody is waited
for who has not joined: index 0 may be the only one, and the function must share its work
out to whoever comes.  The status is that of index 0 if it is not 0, or else the first other than
0 that a worker gave, or else 0.

`count` is lowered to the threads that there are.  While the pool works for another thread (or for
a function that calls `run` again), and in a child process whose threads were not started anew,
`run` calls the function once with index 0 of 1.

`wait` returns when the i64 at `counter`, which others raise, is at least `target`; what they
wrote before they raised it (with release) can then be read.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.execute.cgroups import groups, text_of
from chainrule.execute.native.runtime.pool_code import MOST_WORKERS, POOL, POOL_NBYTES, runtime_text
from chainrule.machine_code.target import (
    Library,
    compile_object,
    host_target,
    load_objects,
)

MOST_THREADS = MOST_WORKERS + 1
VARIABLE = "CHAINRULE_NUM_THREADS"

RUN = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)


@dataclass(frozen=True)
class Pool:
    """The threads of this process; the addresses are good until it ends, and after a fork."""

    address: int
    run_address: int
    wait_address: int

    @property
    def threads(self) -> int:
        """How many run together at most, the calling one included.

        1 in a child process, until it calls `pool`.
        """
        return _field(POOL["THREADS"]).value

    def run(self, function: int, argument: int, count: int) -> int:
        """`run` as above, by addresses; other threads of Python go on meanwhile."""
        return RUN(self.run_address)(self.address, function, argument, count)


def pool(threads: int) -> Pool:
    """The pool of this process, with at least this many threads (the caller's included).

    Threads are started when they are first asked for (0.1 ms each), and never end: they sleep.
    There is one pool, which grows.  Fewer are there if the system refuses more, and never more
    than MOST_THREADS.  The first call compiles the runtime (2 to 4 ms).  A call that starts nothing
    takes under 1 µs; who runs in a child process made by `fork` calls it again there, or else
    runs on one thread.
    """
    if not _runtime.cache_info().currsize:
        with _starting:  # one thread makes both, and all others take the same
            _memory()
            _runtime()
    memory = _memory()
    library = _runtime()
    if _field(POOL["THREADS"]).value < min(threads, MOST_THREADS):
        with _starting:
            _start(library.address("chainrule_worker"), min(threads, MOST_THREADS))
    return Pool(
        address=memory,
        run_address=library.address("chainrule_run"),
        wait_address=library.address("chainrule_wait"),
    )


_starting = threading.Lock()


def _start(worker: int, threads: int) -> None:
    """Start workers until there are as many; they are never waited for."""
    process = ctypes.CDLL(None)
    # Signals are for the threads that Python knows: workers inherit a mask that blocks them all.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        for index in range(_field(POOL["THREADS"]).value, threads):
            thread = ctypes.c_void_p()
            failed = process.pthread_create(
                ctypes.byref(thread),
                None,
                ctypes.c_void_p(worker),
                ctypes.c_void_p(_memory()),
            )
            if failed:
                return
            process.pthread_detach(thread)
            _field(POOL["THREADS"]).value = index + 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@lru_cache
def _runtime() -> Library:
    """The code of the pool; the cache keeps it, for the workers stand in it to the end."""
    target = host_target()
    # Unoptimised: it compiles in 2 ms instead of 7, and threads that wait gain nothing from speed.
    return load_objects([compile_object(runtime_text(target.architecture), target, opt=0)], {})


@lru_cache
def _memory() -> int:
    """The address of the pool's memory: zeros, of one thread, never freed (workers look at it)."""
    allocate = ctypes.CDLL(None).aligned_alloc
    allocate.argtypes, allocate.restype = (ctypes.c_size_t, ctypes.c_size_t), ctypes.c_void_p
    address = allocate(128, POOL_NBYTES)
    if address is None:
        raise MemoryError(f"no {POOL_NBYTES} bytes for the pool of threads")
    ctypes.memset(address, 0, POOL_NBYTES)
    ctypes.c_int64.from_address(address + POOL["THREADS"]).value = 1
    return address


def _field(offset: int) -> ctypes.c_int64:
    """Eight bytes of the pool's memory."""
    return ctypes.c_int64.from_address(_memory() + offset)


def _forget_threads() -> None:
    """In a child process, right after `fork`: its memory is a copy, but the threads are not there.

    The pool stays where it is, with one thread, so that code which knows its address can run.
    """
    global _starting
    _starting = threading.Lock()
    if _memory.cache_info().currsize:
        ctypes.memset(_memory(), 0, POOL_NBYTES)
        _field(POOL["THREADS"]).value = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def thread_count() -> int:
    """How many threads to use: CHAINRULE_NUM_THREADS, or else what this process is given.

    That is the number of cores (not of their hardware threads) that it may run on, at most the
    whole processors in its cgroup's quota, at least 1.  Reads small files: about 0.1 ms.
    InputError where the variable is not a whole number from 1 on.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked:
        if asked.isascii() and asked.isdigit() and int(asked) >= 1:
            return min(int(asked), MOST_THREADS)
        raise InputError(
            f"the environment variable {VARIABLE} is {asked!r}, which is no number of threads",
            hint=f"set it to a whole number from 1 on, or unset it: {VARIABLE}=2",
        )
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = _cores(os.sched_getaffinity(0), Path("/sys/devices/system/cpu"))
    quota = _quota(text_of(Path("/proc/self/cgroup")), Path("/sys/fs/cgroup"))
    return max(1, min(cores, int(quota)) if quota else cores)


def _cores(cpus: Collection[int], folder: Path) -> int:
    """The number of cores that these processors belong to; each is its own where not known."""
    known = {cpu: text_of(folder / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    return len({siblings or cpu for cpu, siblings in known.items()})


def _quota(membership: str, root: Path) -> float | None:
    """The processors that the process's cgroups grant it (versions 1 and 2); None: no limit."""
    limits: list[float] = []
    for version, group in groups(membership, "cpu"):
        if version == 1:
            folder = root / "cpu" / group
            pair = [text_of(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        else:
            pair = text_of(root / group / "cpu.max").split()
        if len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit():
            limits.append(int(pair[0]) / int(pair[1]))
    return min(limits, default=None)
