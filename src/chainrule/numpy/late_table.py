"""The table of NumPy functions that are loaded when first called, without numpy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.numpy import (
    binning,
    by_row,
    choosing,
    comparing,
    correlation,
    creating,
    diagonals,
    differences,
    elementwise,
    finite,
    joining,
    nan_functions,
    ordering,
    padding,
    quantiles,
    rearranging,
    rounded,
    splitting,
    updates,
)

TABLE: dict[Any, Callable[..., Any]] = {
    **elementwise.ELEMENTWISE,
    **finite.FINITE,
    **rounded.ROUNDED,
    **nan_functions.NAN_FUNCTIONS,
    **quantiles.QUANTILES,
    **differences.DIFFERENCES,
    **correlation.CORRELATION,
    **binning.BINNING,
    **ordering.ORDERING,
    **updates.UPDATES,
    **rearranging.REARRANGING,
    **joining.JOINING,
    **splitting.SPLITTING,
    **diagonals.DIAGONALS,
    **padding.PADDING,
    **creating.CREATING,
    **choosing.CHOOSING,
    **comparing.COMPARING,
    **by_row.BY_ROW,
}
