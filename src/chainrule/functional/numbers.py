"""Derivatives of functions on numbers: traces, transforms and runs a graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from chainrule.errors import ForeignValueError, InputError
from chainrule.execute.executors import executor_named
from chainrule.execute.run import Run, distinct, run_graph
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import call_traced
from chainrule.functional.arguments import (
    check_call,
    check_like,
    input_arrays,
    named_arguments,
    require_function,
    seeds_of_floats,
    trace_in,
)
from chainrule.functional.made import Pull
from chainrule.graph.graph import Graph
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.structure import flatten
from chainrule.graph.types import type_of
from chainrule.tracebacks import entry
from chainrule.tracing import function_name, traced_anew
from chainrule.transforms.seeded import split, vjp_graph


def on_numbers_too(
    function: Callable[..., Any],
    in_trace: Callable[..., Any],
    executor: str | None,
    on_numbers: Callable[..., Any] | None = None,
) -> Any:
    """`in_trace(trace, frame, args, kwargs)` as a function of traced arrays or of numbers.

    On numbers it is traced and run; or `on_numbers(traceable, args, kwargs, executor)` is what it
    gives, where that is another way.
    """
    require_function(function)
    named = None if executor is None else executor_named(executor)
    on_numbers = traced_and_run if on_numbers is None else on_numbers

    @entry
    def derivative(*args: Any, **kwargs: Any) -> Any:
        building = trace_in(args, kwargs)
        if building is not None:
            frame = _caller(sys._getframe(1)) if building.site is None else None
            return in_trace(building, frame, args, kwargs)
        check_call(function, args, kwargs)
        try:
            return on_numbers(nested, args, kwargs, named or executor_named(None))
        except ForeignValueError as error:
            outer = error.outermost
            if outer is None:
                raise
            return in_trace(outer, None, args, kwargs)

    def nested(*args: Any, **kwargs: Any) -> Any:
        building = trace_in(args, kwargs)
        if building is None:
            raise InputError(
                f"{function_name(function)} was called without any array or number to trace",
                hint="pass NumPy arrays or Python numbers",
            )
        return in_trace(building, None, args, kwargs)

    functools.update_wrapper(nested, function)
    return functools.wraps(function)(derivative)


def _caller(frame: FrameType | None) -> FrameType | None:
    """The user's expression that calls a derivative; None where another transform or `trace` does.

    It is that one's result which the expression will be the name of.
    """
    while frame is not None and frame.f_code is not call_traced.__code__:
        if user_frame(frame) is frame:
            return frame
        frame = frame.f_back
    return None


def traced_and_run(function: Any, args: Any, kwargs: Any, executor: str) -> Any:
    """What the function returns for these numbers."""
    return run_on(traced_anew(function, args, kwargs), function, args, kwargs, executor).outputs


def run_on(graph: Graph, function: Any, args: Any, kwargs: Any, executor: str) -> Run:
    """Run the graph of `function`, traced with these arguments, on them; keeps the outputs."""
    given = input_arrays(graph, function, args, kwargs)
    return run_graph(graph, given, keep="outputs", flat=True, executor=executor)


def vjp_of_numbers(function: Any, primals: Any, executor: str) -> tuple[Any, Callable[[Any], Any]]:
    check_call(function, primals, {})
    graph = traced_anew(function, primals, {})
    given = input_arrays(graph, function, primals, {})
    structures = [
        flatten(value, root)[1]
        for root, value in named_arguments(function, primals, {}, defaults=False).items()
    ]
    combined = vjp_graph(graph, [name for s in structures for name in s.leaf_names])
    values = tuple(name for name, _ in graph.outputs)
    seeds = tuple(item.name for item in combined.inputs[len(graph.inputs) :])
    first, second = split(combined, seeds, values)
    run = run_graph(first, given, keep="outputs", flat=True, executor=executor)
    saved = {item.name: run[item.name] for item in second.inputs if item.name not in seeds}
    leaves = [run[f"value{i}"].copy() for i in range(len(values))]  # others may be saved
    assert graph.result is not None

    def pull_numbers(seed: Any) -> tuple[Any, ...]:
        leaves, floats = seeds_of_floats(seed, [node for _, node in graph.outputs])
        for leaf, node in zip(leaves, floats, strict=True):
            name = graph.name_of.get(node, "the value")
            refuse_subclass(leaf, f"the seed of {name}")
            check_like(type_of(leaf), node.type, "seed", name)
        given_seeds = [np.asarray(s, n.type.dtype) for s, n in zip(leaves, floats, strict=True)]
        arguments = {**saved, **dict(zip(seeds, given_seeds, strict=True))}
        found = run_graph(second, arguments, keep="outputs", flat=True, executor=executor)
        parts = distinct(found[f"out{i}"] for i in range(len(found.graph.outputs)))
        result = []
        for structure in structures:
            count = len(structure.leaf_names)
            result.append(structure.unflatten(parts[:count]))
            parts = parts[count:]
        return tuple(result)

    return graph.result.unflatten(leaves), Pull(entry(pull_numbers))
