"""`nearest` finds the known names that are spelled most like an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, known: Iterable[str], count: int = 1) -> list[str]:
    """Up to `count` of the known names, the nearest first; small and capital letters are alike."""
    names = list(known)
    low = str(name).lower()
    same = [one for one in names if one.lower() == low]
    near = difflib.get_close_matches(str(name), names, n=count)
    return list(dict.fromkeys([*same, *near]))[:count]


def perhaps(name: object, known: Iterable[str]) -> str:
    """`"perhaps W1; "`, the beginning of a hint, or "" where no name is near."""
    found = nearest(name, known)
    return f"perhaps {found[0]}; " if found else ""
