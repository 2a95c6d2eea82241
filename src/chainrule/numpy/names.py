"""NumPy functions that are composites, and the table of all traced functions.

Functions that only some programs call are loaded when one of them is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, InputError
from chainrule.frontend.composite import note_line
from chainrule.frontend.functions.table import FUNCTIONS
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced, wrap
from chainrule.graph.node import Node
from chainrule.numpy import averages, products

Functions = dict[Any, Callable[..., Any]]


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """a limited to [a_min, a_max]; where it equals a limit both share the derivative."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if low is None and high is None:
        raise InputError("np.clip needs a lower or an upper limit", hint="np.clip(x, 0, 1)")
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def square(x: Any) -> Any:
    """x * x."""
    return x**2


@cache
def everyday() -> Functions:
    """The composites that most programs call."""
    return {**averages.AVERAGES, **products.PRODUCTS, np.clip: clip, np.square: square}


@cache
def others() -> Functions:
    """Those that only some programs call."""
    from chainrule.numpy.late_table import TABLE

    return TABLE


@cache
def of_linalg() -> Functions:
    """Those of numpy.linalg."""
    from chainrule.numpy import linalg, norms

    return {**norms.NORMS, **linalg.LINALG}


@cache
def matrix_functions() -> Functions:
    """Functions of numpy.linalg that are one primitive."""
    from chainrule.frontend.functions.linalg import LINALG

    return LINALG


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Traced):
        return value.node
    if isinstance(value, (list, tuple)):
        make: Any = getattr(type(value), "_make", type(value))  # of a named tuple
        return make([_unwrapped(item) for item in value])
    return value


def _on_nodes(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        given = [wrap(trace, arg) if isinstance(arg, Node) else arg for arg in args]
        try:
            return _unwrapped(function(*given, **kwargs))
        except ChainruleError as error:
            note_line(trace, error)
            raise

    return traced


def _all_on_nodes(group: Callable[[], Functions]) -> Callable[[], Functions]:
    return cache(lambda: {name: _on_nodes(function) for name, function in group().items()})


class Table(Mapping[Any, Callable[..., Any]]):
    """Functions in groups; a group is loaded when none before it has the function asked for."""

    def __init__(self, *groups: Callable[[], Functions]) -> None:
        self._groups = groups

    def __getitem__(self, function: Any) -> Callable[..., Any]:
        for group in self._groups:
            found = group().get(function)
            if found is not None:
                return found
        raise KeyError(function)

    def __iter__(self) -> Iterator[Any]:
        for group in self._groups:
            yield from group()

    def __len__(self) -> int:
        return sum(len(group()) for group in self._groups)


COMPOSITES = Table(everyday, others, of_linalg)
TABLE = Table(
    lambda: FUNCTIONS,
    _all_on_nodes(everyday),
    _all_on_nodes(others),
    matrix_functions,
    _all_on_nodes(of_linalg),
)
