"""Parses amounts of memory as people write them: `8GiB`, `512 MB`, 1024."""

from __future__ import annotations

import re
from fractions import Fraction

from chainrule.errors import InputError

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(i?)B)?", re.ASCII | re.IGNORECASE)


def nbytes_of(amount: int | str) -> int:
    """The bytes that an amount means: an integer, or text with a unit.

    KiB, MiB, GiB and TiB are powers of 1024, KB, MB, GB and TB of 1000.  InputError for others.
    """
    if isinstance(amount, str):
        found = _AMOUNT.fullmatch(amount.strip().replace(",", "").replace("_", ""))
        if found is not None and not (found[3] and not found[2]):
            number, prefix, binary = found.groups()
            base = 1024 if binary else 1000
            return int(Fraction(number) * base ** _POWERS[(prefix or "").upper()])
    elif not isinstance(amount, bool) and hasattr(amount, "__index__") and amount >= 0:
        return int(amount)
    raise InputError(
        f"nbytes={amount!r} is not an amount of memory",
        hint='an integer, or a number with KiB, MiB, GiB, KB, MB or GB: nbytes="8GiB"',
    )
