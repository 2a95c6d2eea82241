"""Turns a call with containers into a function of a flat list of named float64 arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.structure import flatten
from chainrule.tracing import function_name

Wrt = str | int | Iterable[str | int] | None


@dataclass(frozen=True)
class FlatCall:
    """`function(point)` is the list of the float outputs; `names` are those of the point's arrays:
    `x`, `params.W`, `hs[0]`."""

    function: Callable[[Any], list[Any]]
    names: list[str]
    point: list[np.ndarray]


def flat_call(f: Callable[..., Any], args: tuple[Any, ...], wrt: Wrt) -> FlatCall:
    """`f(*args)` as a function of its float arrays and numbers (of those that `wrt` means).

    Everything else is passed through as it is.  Raises InputError where nothing is left.
    """
    leaves, structure = flatten(tuple(args))
    roots = _names(f, args)
    names = [n for root, a in zip(roots, args, strict=True) for n in flatten(a, root)[1].leaf_names]
    chosen = _chosen(f, args, roots, wrt)
    moving = [i in chosen for i, value in enumerate(args) for _ in flatten(value)[0]]
    for leaf, name in zip(leaves, names, strict=True):
        refuse_subclass(leaf, f"the argument {name}")
    places = [
        i
        for i, leaf in enumerate(leaves)
        if moving[i] and dtype_kind(np.asarray(leaf).dtype) == "f"
    ]
    if not places:
        raise InputError(
            f"{function_name(f)} is given no floating-point argument to differentiate",
            hint="pass float arrays, or choose other arguments with wrt=",
        )

    def function(point: Any) -> list[Any]:
        given = list(leaves)
        for place, value in zip(places, point, strict=True):
            given[place] = value
        results, _ = flatten(f(*structure.unflatten(given)))
        return [result for result in results if _is_float(result)]

    point = [np.array(leaves[place], np.float64) for place in places]
    return FlatCall(function, [names[place] for place in places], point)


def _is_float(result: Any) -> bool:
    dtype = getattr(result, "dtype", None)
    return isinstance(result, float) if dtype is None else dtype_kind(dtype) == "f"


def _names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """The name of each argument."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = named[: len(args)]
    return named + [f"argument {i}" for i in range(len(named), len(args))]


def _chosen(f: Any, args: tuple[Any, ...], names: list[str], wrt: Wrt) -> set[int]:
    """The positions of the arguments that `wrt` means."""
    asked = range(len(args)) if wrt is None else [wrt] if isinstance(wrt, (str, int)) else wrt
    found = set()
    for one in asked:
        place = names.index(one) if one in names else one
        if not isinstance(place, int) or not -len(args) <= place < len(args):
            raise InputError(
                f"wrt={one!r} is no argument of {function_name(f)} in this call",
                hint=f"the arguments are: {', '.join(names)}",
            )
        found.add(place % len(args))
    return found
