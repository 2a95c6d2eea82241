"""`cr.compile`: traces and compiles a function once for each combination of types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import ForeignValueError, InputError, MemoryLimitError
from chainrule.execute.compiled import CompiledGraph
from chainrule.execute.executors import call_of, executor_with, in_memory, prepare
from chainrule.execute.run import distinct, run_graph
from chainrule.frontend.leaf_types import leaf_type
from chainrule.functional.arguments import (
    check_call,
    input_arrays,
    named_arguments,
    takes_keywords,
    trace_in,
)
from chainrule.functional.made import makes_a_function
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.structure import flatten
from chainrule.tracebacks import shorten
from chainrule.tracing import function_name, trace

if TYPE_CHECKING:
    from chainrule.execute.executor import Call

MOST = 64  # combinations of types that one function is compiled for at a time


@makes_a_function
def compile(
    function: Callable[..., Any] | Graph,
    *,
    executor: str | None = None,
    strict: bool = False,
    memory: int | str | None = None,
) -> Any:
    """Compiles a function: `f = cr.compile(f)`, then call `f(x, W)` as before.

    It is traced once for each combination of argument types (dtypes, shapes, containers; Python
    numbers are arguments, while bools, strings and None are part of the type).  What the function
    reads from outside, and Python control flow, is as it was then.  Derivatives inside it
    (`cr.grad(f)(x)`) are compiled with it.  A graph gives a `CompiledGraph`.

    `executor` is "native" (the default where native code can be made), "reference", or another
    that is registered; `strict=True` refuses operations for which it has no kernel, by name and
    line; `memory` as for `Graph.compile`.
    """
    if isinstance(function, Graph):
        return CompiledGraph(function, executor=executor, strict=strict, memory=memory)
    if not callable(function):
        raise InputError(
            f"compile needs a function or a graph, got {type(function).__name__}",
            hint="cr.compile(f), where f takes arrays and returns arrays",
        )
    calls = _Calls(function, executor_with(executor, memory=memory), strict)

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        latest = calls.latest
        if latest is not None and (latest.names == tuple(kwargs) if kwargs else not latest.names):
            found = latest.quick((*args, *kwargs.values()) if kwargs else args)
            if found is not None:
                return found[0] if latest.is_single else latest.traced.wrapped(found)
        try:
            return calls(args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    return compiled


class _Calls:
    """What was traced of one function, by the types of its arguments."""

    def __init__(self, function: Callable[..., Any], executor: str, strict: bool) -> None:
        self.function, self.executor, self.strict = function, executor, strict
        self.known: dict[Any, list[_Traced]] = {}
        self.sees_order = takes_keywords(function)  # of keyword arguments: by its **kwargs
        self.latest: _Latest | None = None  # one value, for threads that call at once

    def _orders(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        orders = _orders(args), tuple(map(_orders, kwargs.values()))
        return (*orders, tuple(kwargs)) if self.sees_order else orders

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kwargs and all(type(one) is np.ndarray for one in args):
            leaves: Any = args
            key: Any = tuple((one.dtype, one.shape) for one in args)
        else:
            leaves, structure = flatten([args, kwargs])
            key = (structure.spec, self._orders(args, kwargs), *map(_type_key, leaves))
        for one in self.known.get(key, ()):
            if one.holds_for(leaves):
                self.latest = one.quick(args, kwargs)
                return one(leaves)
        if trace_in(args, kwargs) is not None:
            return self.function(*args, **kwargs)
        check_call(self.function, args, kwargs)
        try:
            made = _Traced(self.function, args, kwargs, self.executor, self.strict)
        except ForeignValueError as error:
            if error.outermost is None:
                raise
            return self.function(*args, **kwargs)  # it reads a value of a trace that goes on
        found = self.known.setdefault(key, [])
        found.append(made)
        if len(found) > MOST:
            del found[0]
        if len(self.known) > MOST:
            del self.known[next(iter(self.known))]
        self.latest = made.quick(args, kwargs)
        return made(leaves)


def _orders(value: Any) -> tuple[Any, ...]:
    """The keys of dicts as they follow each other, which a program that loops over them sees."""
    if isinstance(value, dict):
        return tuple(value), *map(_orders, value.values())
    if isinstance(value, (tuple, list)):
        return tuple(map(_orders, value))
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(_orders(getattr(value, one.name)) for one in fields(value))
    return ()


def _type_key(leaf: Any) -> Any:
    """What two leaves have in common if one graph serves both."""
    if type(leaf) is np.ndarray:
        return leaf.dtype, leaf.shape
    if isinstance(leaf, (np.ndarray, np.generic)) and dtype_kind(leaf.dtype) in "biuf":
        return type(leaf), leaf.dtype, leaf.shape
    if type(leaf) in (int, float):
        return type(leaf)
    try:
        hash(leaf)
    except (TypeError, ValueError):  # ValueError: of a memoryview
        return _Itself(leaf)
    return type(leaf), leaf


@dataclass(frozen=True, slots=True)
class _Latest:
    """What calls that give these names in this order are done by, if their types are the same."""

    names: tuple[str, ...]
    traced: _Traced
    quick: Callable[[tuple[Any, ...]], list[np.ndarray] | None]
    is_single: bool  # one array is the result


class _Itself:
    """Stands for a value that cannot be hashed, and keeps it: equal only where it is the same."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class _Traced:
    """The graph for one combination of types, and its code."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        executor: str,
        strict: bool,
    ) -> None:
        self.name = function_name(function)
        traced = trace(function, *args, **kwargs)
        self.graph = in_memory(executor, traced, lambda form: (_outputs(form), {}))
        self.executor, self.strict = executor, strict
        self.leaf_of = _leaf_of_inputs(self.graph, function, args, kwargs)
        given = input_arrays(self.graph, function, args, kwargs)
        fixed = {name: given[name] for name in given if name not in self.leaf_of}
        self.fixed = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in fixed.items()}
        self.guards = [
            (self.leaf_of[guard.name], guard.value)
            for guard in self.graph.guards
            if guard.name in self.leaf_of
        ]
        nodes = {item.name: item.node for item in self.graph.inputs}
        self.arrays = {
            nodes[name]: np.array(value, nodes[name].dtype, order="C")
            for name, value in self.fixed.items()
        }
        self.places = [(nodes[name], leaf) for name, leaf in self.leaf_of.items()]
        self.program = prepare(
            executor, self.graph, _outputs(self.graph), traced=traced, strict=strict
        )
        self.call = call_of(self.program, [node for node, _ in self.places], self.arrays)
        self.quick_calls: dict[tuple[str, ...], _Latest | None] = {}

    def quick(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Latest | None:
        """The short way for calls like this one, if there is one."""
        names = tuple(kwargs)
        if names not in self.quick_calls:
            if len(self.quick_calls) >= MOST:
                self.quick_calls.clear()
            call = self._quick(args, kwargs)
            structure = self.graph.result
            is_single = structure is not None and structure.is_leaf
            latest = None if call is None else _Latest(names, self, call.__call__, is_single)
            self.quick_calls[names] = latest
        return self.quick_calls[names]

    def _quick(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The short way for calls with nothing but arrays, where no result is there twice."""
        given = (*args, *kwargs.values())
        plain = not self.guards and all(type(one) is np.ndarray for one in given)
        once = len(self.call.results) == len(self.graph.outputs)
        if not plain or not once or not self.call.is_short:
            return None
        by_leaf = {leaf: node for node, leaf in self.places}
        leaf_of = {name: len(args) + place for place, name in enumerate(sorted(kwargs))}
        leaves = (*range(len(args)), *(leaf_of[name] for name in kwargs))
        return call_of(self.program, [by_leaf.get(leaf) for leaf in leaves], self.arrays)

    def wrapped(self, results: list[np.ndarray]) -> Any:
        """The results in the containers of what the function returned."""
        structure = self.graph.result
        if structure is None:
            return results
        return results[0] if structure.is_leaf else structure.unflatten(results)

    def holds_for(self, leaves: Any) -> bool:
        """Whether Python numbers that the program looked at are still the same."""
        return all(leaves[leaf] == value for leaf, value in self.guards)

    def __call__(self, leaves: Any) -> Any:
        try:
            values = self.call.take({node: leaves[leaf] for node, leaf in self.places})
        except (MemoryLimitError, OverflowError):  # OverflowError: an int beyond int64
            return self._by_name(leaves)  # raises, with what is too large
        found, graph = dict(zip(self.call.results, values, strict=True)), self.graph
        results = distinct(found[node] for _, node in graph.outputs)
        return results if graph.result is None else graph.result.unflatten(results)

    def _by_name(self, leaves: Any) -> Any:
        given = dict(self.fixed)
        given.update((name, leaves[leaf]) for name, leaf in self.leaf_of.items())
        run = run_graph(
            self.graph,
            given,
            keep="outputs",
            flat=True,
            executor=self.executor,
            strict=self.strict,
        )
        return run.outputs


def _outputs(graph: Graph) -> list[Node]:
    return [node for _, node in graph.outputs]


def _leaf_of_inputs(graph: Graph, function: Any, args: Any, kwargs: Any) -> dict[str, int]:
    """Which leaf of the arguments, in order, each input of the graph is."""
    leaves, structure = flatten([args, kwargs])
    numbers = structure.unflatten(list(range(len(leaves))))
    found: dict[str, int] = {}
    for root, part in named_arguments(function, *numbers, defaults=False).items():
        places, inner = flatten(part, root)
        for name, place in zip(inner.leaf_names, places, strict=True):
            if leaf_type(leaves[place], name) is not None:
                found[name] = place
    known = {item.name for item in graph.inputs}
    return {name: place for name, place in found.items() if name in known}
