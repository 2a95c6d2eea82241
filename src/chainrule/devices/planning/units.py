"""Reads and writes amounts with units: `5 us`, `25 GB/s`, `312 TFLOP/s`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from chainrule.errors import InputError

_PREFIXES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AMOUNT = re.compile(
    r"(\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d\d?)?)\s*(\S.*)?", re.ASCII | re.IGNORECASE
)
_PARTS = {"s": 0, "ms": 1, "us": 2, "µs": 2, "μs": 2, "ns": 3}  # powers of a thousandth
_BYTES = re.compile(r"([KMGTPkmgtp]?)(i?)B/s", re.ASCII)  # Gb are bits
_OPERATIONS = re.compile(r"([KMGTP]?)FLOPS?/s", re.ASCII | re.IGNORECASE)
LONGEST = 40  # characters of a wrong value that a message shows


def seconds_of(value: Any, name: str) -> float:
    """The seconds of a time: a number, or text such as `5 us`; InputError for others, and if it is
    negative or infinite."""
    return _amount(value, name, _in_seconds, 'seconds: 0.000005, or "5 us" (s, ms, us, ns)')


def bytes_each_second(value: Any, name: str) -> float:
    """The bytes each second of a bandwidth, more than 0: a number, or text such as `25 GB/s`."""
    hint = (
        'bytes each second: 25e9, or "25 GB/s" (KB, MB, GB, TB, KiB, MiB, GiB, TiB; 8 Gb, which '
        "are bits, are 1 GB)"
    )
    return _positive(_amount(value, name, _in_bytes, hint), value, name, hint)


def flops_each_second(value: Any, name: str) -> float:
    """The operations each second of products, more than 0: a number, or text: `312 TFLOP/s`."""
    hint = 'operations each second: 312e12, or "312 TFLOP/s" (MFLOP/s, GFLOP/s, TFLOP/s)'
    return _positive(_amount(value, name, _in_operations, hint), value, name, hint)


def _positive(found: float, value: Any, name: str, hint: str) -> float:
    if found == 0:
        raise InputError(f"{name} is {_shown(value)}, and it is more than 0", hint=hint)
    return found


def _amount(value: Any, name: str, unit: Callable[[str], Fraction | None], hint: str) -> float:
    found = math.nan
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value.strip())
        factor = unit(match[2] or "") if match is not None else None
        if match is not None and factor is not None:
            found = float(Fraction(match[1]) * factor)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    if not (math.isfinite(found) and found >= 0):
        raise InputError(f"{name} is {_shown(value)}", hint=hint)
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _in_seconds(unit: str) -> Fraction | None:
    power = _PARTS.get(unit or "s")
    return None if power is None else Fraction(1, 1000**power)


def _in_bytes(unit: str) -> Fraction | None:
    found = _BYTES.fullmatch(unit or "B/s")
    if found is None or (found[2] and not found[1]):
        return None
    return Fraction((1024 if found[2] else 1000) ** _PREFIXES[found[1].upper()])


def _in_operations(unit: str) -> Fraction | None:
    found = _OPERATIONS.fullmatch(unit or "FLOP/s")
    return None if found is None else Fraction(1000 ** _PREFIXES[found[1].upper()])


def in_seconds(seconds: float) -> str:
    """`5 us`, `1.3 ms`: three digits."""
    if not seconds:
        return "0 s"
    unit = next((one for one in ("s", "ms", "us") if seconds >= 1000.0 ** -_PARTS[one]), "ns")
    return f"{seconds * 1000.0 ** _PARTS[unit]:.3g} {unit}"


def in_rate(each_second: float, unit: str) -> str:
    """`25 GB/s`, `312 TFLOP/s`: three digits, in powers of 1000."""
    place = 0
    while place < 5 and each_second >= 999.5 * 1000.0**place:
        place += 1
    return f"{each_second / 1000.0**place:.3g} {''.join(_PREFIXES)[place - 1 : place]}{unit}/s"
