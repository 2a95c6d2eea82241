"""Numbers and text as JSON takes them: finite or words for numbers, printable text on one line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.graph.sizes.sizes import Size
from chainrule.graph.words import printable

EXACT = 2**53  # above, JavaScript's numbers do not tell integers apart
DIGITS = 9  # of computed numbers: all that float32 can say


def number(value: float) -> float | str:
    """A computed number with nine digits; "NaN", "inf" or "-inf" for what JSON cannot say."""
    if math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"


def known(value: float) -> float | str | None:
    """As `number`; None for NaN, which stands for a number that there is not."""
    return None if math.isnan(value) else number(value)


def element(value: Any) -> float | int | bool | str:
    """An element of an array, exactly: its dtype reads back the same.

    Integers that are too large for JavaScript's numbers are text.
    """
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value) if abs(int(value)) <= EXACT else str(value)
    if not np.isfinite(value):
        return number(float(value))
    return float(str(value))


def text(words: str) -> str:
    """One line without control characters and lone surrogates, which UTF-8 has no bytes for."""
    return words if words.isprintable() else printable(words)


def lines(words: str) -> str:
    """As `text`, but new lines stay."""
    return "\n".join(map(text, words.split("\n")))


def size(number: int | Size) -> int | str:
    """A size or a number of bytes; a formula where sizes are named: `4·n·hidden`."""
    return number if isinstance(number, int) else str(number).replace("*", "·")
