"""The function that the source of a graph defines, and its values beside the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.explain.python_source import constants_of, python
from chainrule.graph.graph import Graph


def function_of(source: str) -> Any:
    """The last function that the source defines, alone in a fresh namespace."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<the source of a graph>", "exec"), namespace)
    return [one for one in namespace.values() if callable(one)][-1]


def values_of(graph: Graph, arguments: Mapping[str, Any], **options: Any) -> list[Any]:
    """The outputs as the written function gives them; arguments by the graph's own names."""
    function = function_of(python(graph, **options))
    identifiers = function.__code__.co_varnames  # the arguments come first, in the graph's order
    keyed = {
        identifier: arguments[item.name]
        for identifier, item in zip(identifiers, graph.inputs, strict=False)
        if item.name in arguments
    }
    with np.errstate(all="ignore"):
        found = function(**keyed, **constants_of(graph))
    return [found] if len(graph.outputs) == 1 else list(found)


def has_the_bits(got: Any, expected: np.ndarray) -> bool:
    """Whether both are one array: dtype, shape, and every bit, signs of zeros too (any NaN is
    as good as any other)."""
    if not isinstance(got, (np.ndarray, np.generic)):
        return False
    got = np.asarray(got)
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return False
    if got.dtype.kind == "f" and not np.array_equal(np.isnan(got), np.isnan(expected)):
        return False
    both = got.dtype.kind != "f" or ~np.isnan(got)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return bool(np.all((got.view(bits) == expected.view(bits)) | ~np.asarray(both)))


def check(graph: Graph, arguments: Mapping[str, Any], **options: Any) -> None:
    """The written function gives the bits that the reference executor gives."""
    run = graph.run(dict(arguments), keep="outputs")
    values = values_of(graph, arguments, **options)
    for (name, _), got in zip(graph.outputs, values, strict=True):
        if not has_the_bits(got, np.asarray(run[name])):
            source = python(graph, **options)
            raise AssertionError(f"{name} is {got!r}, not {run[name]!r}, from\n{source}")
