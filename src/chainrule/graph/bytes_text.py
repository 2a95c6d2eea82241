"""Writes numbers of bytes for people, `1.5 GiB`, and reads those that they write."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from operator import index

from chainrule.errors import InputError

UNITS = ("KiB", "MiB", "GiB", "TiB")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_DIGITS = r"\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*"  # 1,536 has thousands; 1,5 is no number
_AMOUNT = re.compile(rf"((?:{_DIGITS})(?:\.\d+)?)\s*(?:([KMGT]?)(i?)B)?", re.ASCII | re.IGNORECASE)


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


def nbytes_of(amount: int | str, name: str = "nbytes") -> int:
    """The bytes that an amount means: an integer, or text with a unit; `name` is the argument's.

    KiB, MiB, GiB and TiB are powers of 1024, KB, MB, GB and TB of 1000.  InputError for others.
    """
    if isinstance(amount, str):
        found = _AMOUNT.fullmatch(amount.strip())
        if found is not None and not (found[3] and not found[2]):
            number, prefix, binary = found.groups()
            base = 1024 if binary else 1000
            number = number.replace(",", "").replace("_", "")
            return int(Fraction(number) * base ** _POWERS[(prefix or "").upper()])
    elif not isinstance(amount, bool):
        with suppress(TypeError):  # of index: it is no integer, or an array of several
            if (nbytes := index(amount)) >= 0:
                return nbytes
    raise InputError(
        f"{name}={amount!r} is not an amount of memory",
        hint=f'an integer, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB: {name}="8GiB"',
    )
