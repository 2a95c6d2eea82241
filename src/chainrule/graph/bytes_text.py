"""Writes numbers of bytes for people: `1.5 GiB`."""

from __future__ import annotations

UNITS = ("KiB", "MiB", "GiB", "TiB")


def in_bytes(nbytes: int) -> str:
    """`40 bytes`, `256 KiB`, `1.5 GiB`: three digits, in powers of 1024."""
    if nbytes < 1024:
        return f"{nbytes} byte{'s' if nbytes != 1 else ''}"
    place = 1
    while place < len(UNITS) and nbytes >= 999.5 * 1024**place:
        place += 1
    value = nbytes / 1024**place
    text = f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
    return f"{text} {UNITS[place - 1]}"
