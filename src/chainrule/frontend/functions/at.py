"""`x.at[key].set(value)` and the like: a changed copy instead of an assignment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from chainrule.errors import MissingMethodError, MutationError


class At:
    """What `x.at` is: indexing it says which elements the new array has other values for."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Elements:
        return Elements(self._array, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise MutationError(
            f"x.at[{key!r}] = ... changes an array in place; traced arrays are values",
            where=self._array._here(),
            hint=f"build the array anew: x = x.at[{key!r}].set(...)",
        )

    def __repr__(self) -> str:
        return f"<at of {self._array!r}>"


class Elements:
    """The elements `x[key]`: each method gives a new array, x with these elements changed.

    Values broadcast to `x[key]` and take x's dtype.  Where a place is named more than once, all
    values are added, multiplied or compared; of `set`, `power` and `apply`, the last one stays.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Any, key: Any) -> None:
        self._array, self._key = array, key

    def __getattr__(self, name: str) -> Any:
        methods = ", ".join(one for one in dir(type(self)) if not one.startswith("_"))
        raise MissingMethodError(
            f"x.at[...] has no method {name!r}",
            where="" if name.startswith("__") else self._array._here(),
            hint=f"it has {methods}",
        )

    def _changed(self, how: str, value: Any) -> Any:
        return self._array._run(f"at.{how}", sys._getframe(2), (self._array, self._key, value), {})

    def get(self) -> Any:
        """x[key]."""
        return self._array._run("getitem", sys._getframe(1), (self._array, self._key), {})

    def set(self, value: Any) -> Any:
        """x with `x[key] = value`."""
        return self._changed("set", value)

    def add(self, value: Any) -> Any:
        """x with `x[key] += value`."""
        return self._changed("add", value)

    def subtract(self, value: Any) -> Any:
        """x with `x[key] -= value`."""
        return self._changed("subtract", value)

    def multiply(self, value: Any) -> Any:
        """x with `x[key] *= value`."""
        return self._changed("multiply", value)

    mul = multiply

    def divide(self, value: Any) -> Any:
        """x with `x[key] /= value`."""
        return self._changed("divide", value)

    def power(self, value: Any) -> Any:
        """x with `x[key] **= value`."""
        return self._changed("power", value)

    def min(self, value: Any) -> Any:
        """x with the smaller of `x[key]` and `value`; where they are equal, both share the
        derivative."""
        return self._changed("min", value)

    def max(self, value: Any) -> Any:
        """x with the larger of `x[key]` and `value`; where they are equal, both share the
        derivative."""
        return self._changed("max", value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """x with `x[key] = function(x[key])`."""
        return self._changed("apply", function)

    def __repr__(self) -> str:
        return f"<elements of {self._array!r}>"
