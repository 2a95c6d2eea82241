"""Refuses masked arrays, matrices and arrays with units, which NumPy would take for plain ones."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError

PLAINLY = "pass np.asarray(...) of it"
WITH_MASK = f"{PLAINLY}, and a mask as an array of its own: np.where(mask, 0, values)"
_PLAIN = frozenset({np.ndarray, int, float, bool, str, type(None)})


def refuse_among(values: Iterable[Any], called: str, where: str = "") -> None:
    """The same of the arguments of a function, also in containers: UnsupportedError names it."""
    for value in values:
        if type(value) not in _PLAIN:
            refuse_subclass(value, f"an argument of {called}", where)


def refuse_subclass(value: Any, what: str, where: str = "") -> None:
    """UnsupportedError for a masked array, a matrix, or an array with units, also in a list, a
    tuple or a dict.

    `what` says how a message calls the value.  Subclasses that compute as `np.ndarray` does, such
    as np.memmap, are plain arrays.
    """
    if type(value) is np.ndarray:
        return
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            if not isinstance(item, (int, float)):
                refuse_subclass(item, f"a part of {what}", where)
        return
    # A masked array implies that numpy.ma is imported (10 ms), perhaps by another thread just now.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    is_other = isinstance(value, np.ndarray) and (
        type(value).__array_ufunc__ is not np.ndarray.__array_ufunc__
    )
    if is_other or isinstance(value, (np.matrix, masked)):
        has_mask = isinstance(value, masked)
        raise taken_for_plain(what, type(value).__name__, where, WITH_MASK if has_mask else PLAINLY)


def taken_for_plain(what: str, kind: str, where: str, hint: str) -> UnsupportedError:
    """The error for an array of this kind."""
    text = f"{what} is a {kind}, which would be taken for a plain array"
    return UnsupportedError(text, where=where, hint=hint)
