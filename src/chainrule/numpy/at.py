"""`cr.at(x)[key].set(value)`: `x.at` for traced arrays and for NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError, ShapeError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.at import At
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.plain import refuse_among
from chainrule.tracebacks import entry


@entry
def at(x: Any) -> At:
    """`cr.at(x)[key].set(value)` is a new array: x with `x[key] = value`.  Also `add`, `subtract`,
    `multiply`, `divide`, `power`, `min`, `max`, `apply`, and `get`.

    x, the key and the value may be traced or not: a function that writes so runs in both ways.  Of
    NumPy arrays the result is a NumPy array.  Values broadcast to `x[key]` and take x's dtype.
    Where a place is named more than once, all values are added, multiplied or compared; of `set`,
    `power` and `apply`, the last one stays.  DTypeError for a value whose dtype x does not take,
    ShapeError for one that does not broadcast, IndexError for a place that x does not have.
    """
    if isinstance(x, Traced):
        return x.at
    refuse_among([x], "cr.at")
    return At(_Numbers(np.asarray(x)))


class _Numbers:
    """A NumPy array, for `At`: what is computed of it at once, or traced with a traced operand."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def _here(self) -> str:
        return ""

    def _run(self, function: str, frame: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        trace = trace_of(args[1:])
        if trace is not None:
            x = Traced(as_node(trace, self._array), trace)
            return x._run(function, frame, (x, *args[1:]), kwargs)
        if function == "getitem":
            return self._array[args[1]]
        refuse_among(args[2:], f"cr.at(...)[...].{function.removeprefix('at.')}")
        return _changed(function.removeprefix("at."), self._array, *args[1:])

    def __repr__(self) -> str:
        return repr(self._array)


_REPEATED: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


def _changed(how: str, x: np.ndarray, key: Any, value: Any) -> Any:
    if how == "apply":
        value, how = value(x[key]), "set"
    elif how == "power":
        value, how = x[key] ** value, "set"
    elements = x[key]
    value = _fitting(how, x, value)
    while value.ndim > np.ndim(elements) and value.shape[0] == 1:
        value = value[0]
    try:
        value = np.broadcast_to(value, np.shape(elements))
    except ValueError:
        raise ShapeError(
            f"the value {value.dtype}{list(value.shape)} does not broadcast to the elements that "
            f"change, of shape {list(np.shape(elements))}",
            hint="from the last axis on, the sizes must be equal or a literal 1",
        ) from None
    out = np.array(x)
    if how == "set":
        out[key] = value
    else:
        _REPEATED[how].at(out, key, value)
    return out


def _fitting(how: str, x: np.ndarray, value: Any) -> np.ndarray:
    """The value in the dtype of x, or the refusal that a traced program has."""
    kind: Any = np.asarray(value).dtype
    if type(value) in (int, float):  # which takes the dtype of the array, if that is of its kind
        kind = x.dtype if dtype_kind(x.dtype) in ("f" if type(value) is float else "iuf") else kind
    logical = x.dtype.kind == "b" and how != "set"
    needs_float = how == "divide" and dtype_kind(x.dtype) != "f"
    if logical or needs_float or not np.can_cast(kind, x.dtype, "same_kind"):
        shown = repr(value) if np.ndim(value) == 0 else f"{kind}{list(np.shape(value))}"
        raise DTypeError(
            f".at[...].{how}: {shown} cannot change elements of {x.dtype}{list(x.shape)}",
            hint="convert one of them with .astype(...) first",
        )
    return np.asarray(value, x.dtype)
