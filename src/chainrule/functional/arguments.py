"""Selects the arguments that `wrt` names, and checks that seeds and tangents fit them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from chainrule.errors import InputError, ShapeError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.types_shown import type_text
from chainrule.frontend.leaf_types import leaf_type
from chainrule.frontend.trace import Trace
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.structure import flatten
from chainrule.graph.types import ArrayType
from chainrule.tracing import definition, function_name, written_name

Wrt = str | int | Iterable[str | int] | None


def parameters_of(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def takes_keywords(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter such as `**options`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.kind is one.VAR_KEYWORD for one in parameters)


def argument_name(function: Callable[..., Any], key: int | str) -> str:
    names = parameters_of(function)
    return names[key] if isinstance(key, int) and key < len(names) else str(key)


def positions_of(function: Callable[..., Any], args: Any, kwargs: Any, wrt: Wrt) -> list[Any]:
    """The positions (int) or keywords (str) of the arguments that `wrt` means."""
    parameters = parameters_of(function)
    chosen = (0,) if wrt is None else (wrt,) if isinstance(wrt, (str, int)) else tuple(wrt)
    found: list[Any] = []
    for one in chosen:
        if isinstance(one, str) and one not in kwargs and one in parameters[: len(args)]:
            one = parameters.index(one)
        if isinstance(one, int) and -len(args) <= one < len(args):
            found.append(one % len(args))
        elif isinstance(one, str) and one in kwargs:
            found.append(one)
        else:
            given = parameters[: len(args)] or [*range(len(args))]
            raise InputError(
                f"wrt={one!r} is no argument of {function_name(function)} in this call",
                hint=f"the arguments are: {', '.join(map(str, [*given, *kwargs]))}",
            )
    return found


def require_function(function: Any) -> None:
    """InputError for what cannot be called."""
    if not callable(function):
        raise InputError(
            f"a function is needed, got {function!r}",
            hint="give the function itself, not its result: cr.grad(f)(x), not cr.grad(f(x))",
        )


def check_call(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """InputError where a call lacks arguments that have no default."""
    try:
        parameters = inspect.signature(function).parameters
        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return  # no signature, or arguments that it has no place for: that is refused later
    required = [
        name
        for name, one in parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    missing = [name for name in required if name not in given]
    if missing:
        name = function_name(function)
        raise InputError(
            f"{name} was called without {', '.join(missing)}",
            where=definition(function),
            hint=f"give all its arguments: {written_name(function)}({', '.join(required)})",
        )


def check_count(given: int, wanted: int) -> None:
    if given != wanted:
        raise InputError(
            f"{given} arrays are given for {wanted}",
            hint="give seeds and tangents in the containers of their values",
        )


def seeds_of_floats(seed: Any, outputs: list[Node]) -> tuple[list[Any], list[Node]]:
    """The seeds of the floating-point outputs, and these; seeds of others count for nothing."""
    leaves = flatten(seed, "seed")[0]
    check_count(len(leaves), len(outputs))
    pairs = [p for p in zip(leaves, outputs, strict=True) if p[1].type.is_float]
    return [leaf for leaf, _ in pairs], [node for _, node in pairs]


def check_like(given: ArrayType, wanted: ArrayType, what: str, name: str, where: str = "") -> None:
    """ShapeError for a seed or tangent that does not fit the value called `name`."""
    number = given.weak and not wanted.shape  # a Python number for a scalar
    if not number and (given.shape != wanted.shape or not given.is_float):
        raise ShapeError(
            f"the {what} of {name} is {type_text(given)}, and {name} is {type_text(wanted)}",
            where=where,
            hint=f"a {what} has the shape of its value, and is of floats",
        )


def input_arrays(graph: Graph, function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arrays among the arguments by the names of the graph's inputs."""
    found: dict[str, Any] = {}
    for root, part in named_arguments(function, args, kwargs, defaults=True).items():
        leaves, structure = flatten(part, root)
        for leaf_name, leaf in zip(structure.leaf_names, leaves, strict=True):
            if leaf_type(leaf, leaf_name) is not None:
                found[leaf_name] = leaf
    return {item.name: found.get(item.name, item.default) for item in graph.inputs}


def named_arguments(function: Any, args: Any, kwargs: Any, *, defaults: bool) -> dict[str, Any]:
    """The arguments by the names under which they are traced (`a[0]` for those of `*a`)."""
    signature = inspect.signature(function)
    found: dict[str, Any] = {}
    bound = signature.bind(*args, **kwargs)
    if defaults:
        bound.apply_defaults()
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"{name}[{i}]": part for i, part in enumerate(value)})
        else:
            found[name] = value
    return found


def trace_in(args: Any, kwargs: Any) -> Trace | None:
    return trace_of(flatten([args, kwargs])[0])
