"""How much memory the machine has left for this process, and the refusal of runs that need more."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from chainrule.dataclass import dataclass
from chainrule.errors import MemoryLimitError
from chainrule.execute.cgroups import groups, text_of

VARIABLE = "CHAINRULE_MEMORY_CHECK"
SWITCH = f"{VARIABLE}=0 in the environment runs it all the same"
WORTH_CHECKING = 1 << 26  # bytes: to have as many takes 10 ms, to read what is free 0.2 ms
UNLIMITED = 1 << 60  # bytes; version 1 writes a number near 2**63 where there is no limit


@dataclass(frozen=True)
class FreeMemory:
    """What is left, and where that was found."""

    nbytes: int
    source: str


def free_memory() -> FreeMemory | None:
    """The memory that this process can still have: the least that the system and cgroups leave.

    Caches of files count as free.  None where it is not known: elsewhere than on Linux.
    """
    if not sys.platform.startswith("linux"):
        return None
    found = [
        _of_machine(text_of(Path("/proc/meminfo"))),
        *_of_groups(text_of(Path("/proc/self/cgroup")), Path("/sys/fs/cgroup")),
    ]
    known = [one for one in found if one is not None]
    return min(known, key=lambda one: one.nbytes, default=None)


def resident_nbytes() -> int:
    """The bytes of this process that are in memory, its code among them; 0 where nobody says."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_back() -> None:
    """Give the system the pages that are free and that malloc keeps, where it is glibc's.

    Those of large arrays: it begins to keep them, up to 32 MiB each, when a program frees some.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], int] | None:
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return getattr(library, "malloc_trim", None)


def refuse_beyond_free(
    nbytes: int, exactly: Callable[[], int] | None = None, *, what: str = "a run"
) -> None:
    """MemoryLimitError if `what`, which is about to allocate so many bytes, cannot have them.

    With `exactly`, `nbytes` is an upper bound, and that is asked where the bound is not free.
    Looks only where there are many, and not with CHAINRULE_MEMORY_CHECK=0.
    """
    if nbytes < WORTH_CHECKING or os.environ.get(VARIABLE) == "0":
        return
    free = free_memory()
    if free is None or nbytes <= free.nbytes:
        return
    nbytes = nbytes if exactly is None else exactly()
    if nbytes > free.nbytes:
        error = MemoryLimitError(
            f"{what} needs {nbytes:,} bytes beside its arguments, and {free.nbytes:,} are free "
            f"({free.source})",
            hint=SWITCH,
        )
        error.needed_nbytes, error.free_nbytes, error.source = nbytes, free.nbytes, free.source
        raise error


def _of_machine(meminfo: str) -> FreeMemory | None:
    """What the kernel can give without swapping."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    value = fields.get("MemAvailable", "").split()
    if len(value) != 2 or not value[0].isdigit():
        return None
    return FreeMemory(int(value[0]) * 1024, "MemAvailable in /proc/meminfo")


def _of_groups(membership: str, root: Path) -> list[FreeMemory]:
    """What each control group with a limit leaves (versions 1 and 2)."""
    found = []
    for version, group in groups(membership, "memory"):
        if version == 1:
            folder = root / "memory" / group
            names, prefix = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"
        else:
            folder = root / group
            names, prefix = ("memory.max", "memory.current"), ""
        limit, used = (text_of(folder / name) for name in names)
        if not (limit.isdigit() and used.isdigit()) or int(limit) >= UNLIMITED:
            continue
        lines = (line.split() for line in text_of(folder / "memory.stat").splitlines())
        stat = {line[0]: int(line[1]) for line in lines if len(line) == 2}
        cache = sum(stat.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
        left = max(int(limit) - max(int(used) - cache, 0), 0)
        found.append(FreeMemory(left, f"{names[0]} is {int(limit):,} in {folder}"))
    return found
