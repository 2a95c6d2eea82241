"""What the operating system does for the processes of a job; on Linux alone."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Iterable

PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
SHARED_MEMORY = "/dev/shm/mpich_shm_"  # what MPICH leaves where a job is killed


def end_with_parent() -> None:
    """From now on, this process is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


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
