"""Refuses arrays that NumPy would take for plain ones, and whose arithmetic is another."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError


def refuse_subclass(value: Any, what: str, where: str = "") -> None:
    """UnsupportedError for a masked array, a matrix, or an array with units, also in a list.

    `what` says how a message calls the value.  Subclasses that compute as `np.ndarray` does, such
    as np.memmap, are plain arrays.
    """
    if type(value) is np.ndarray:
        return
    if isinstance(value, (list, tuple)):
        for item in value:
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
        raise UnsupportedError(
            f"{what} is a {type(value).__name__}, which would be taken for a plain array",
            where=where,
            hint="pass np.asarray(...) of it, and a mask as an array of its own: "
            "np.where(mask, 0, values)"
            if has_mask
            else "pass np.asarray(...) of it",
        )
