"""What the operating system does for the processes of a job; on Linux alone."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # the number of the system call
SCHED_ATTR = "IIQiIQQQ"  # struct sched_attr of <linux/sched/types.h>, in its first version
SHORT_SLICE = 100_000  # nanoseconds: the least that Linux takes
SHARED_MEMORY = "/dev/shm/mpich_shm_"  # what MPICH leaves where a job is killed


def end_with_parent() -> None:
    """From now on, this process is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


@contextmanager
def woken_promptly() -> Iterator[None]:
    """Lets this thread work soon after it wakes, also where another one keeps its core busy.

    It asks Linux for short slices of time: since Linux 6.12, a thread with shorter ones goes before
    others, which it would wait for up to 3 ms otherwise.  It gets no more time in all.
    """
    _ask_for_slices(SHORT_SLICE)
    try:
        yield
    finally:
        _ask_for_slices(0)


def _ask_for_slices(nanoseconds: int) -> None:
    """Of this thread; 0 for the usual ones.  Where that cannot be, nothing changes."""
    number = SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    size = struct.calcsize(SCHED_ATTR)
    asked = struct.pack(SCHED_ATTR, size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, asked, 0)


def shared_memory_of(pid: int) -> set[str]:
    """The files of MPICH's shared memory that a process has mapped."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return {line.split()[5] for line in file if SHARED_MEMORY in line}
    except OSError:  # another system, or the process has ended
        return set()


def unlink(paths: Iterable[str]) -> None:
    """Removes files; who has mapped them keeps their memory."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:  # another rank was first
            pass


def file_without_name(nbytes: int) -> int:
    """The descriptor of a file in memory, of which nothing stays; -1 where there is none."""
    try:
        made = os.memfd_create("chainrule")
        os.posix_fallocate(made, 0, nbytes)  # else a process may be killed when it writes there
    except (AttributeError, OSError):
        return -1
    return made


def file_of(pid: int, descriptor: int) -> int:
    """The descriptor of another process's file; -1 where this process does not see it."""
    try:
        return os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
    except OSError:
        return -1


def mapped(descriptor: int, nbytes: int) -> mmap.mmap | None:
    """The memory of a file that processes share; None without one."""
    try:
        return mmap.mmap(descriptor, nbytes) if descriptor >= 0 else None
    except (OSError, ValueError):
        return None
