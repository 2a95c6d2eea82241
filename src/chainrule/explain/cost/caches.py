"""Reads how much the caches of this machine's processor hold."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
MANY = 1 << 15, 1 << 20, 1 << 25
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@lru_cache(maxsize=1)
def cache_nbytes() -> tuple[int, ...]:
    """The bytes of each level that holds data, the nearest first, two or more; those of many
    processors where Linux does not say."""
    found: dict[str, int] = {}
    for one in sorted(FOLDER.glob("index*")):
        try:
            level, kind, size = ((one / name).read_text().strip() for name in _NAMES)
        except OSError:
            return MANY
        sized = re.fullmatch(r"(\d+)([KMG])", size)
        if sized is None:
            return MANY
        if kind != "Instruction":
            found[level] = int(sized[1]) * UNITS[sized[2]]
    return tuple(nbytes for _, nbytes in sorted(found.items())) if len(found) > 1 else MANY


_NAMES = ("level", "type", "size")
