"""grad, value_and_grad, vjp, jvp, hvp: the numbers, for people who want only these."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np

from chainrule.composites.composite import trace_of
from chainrule.errors import ForeignValueError, InputError, NotDifferentiableError, ShapeError
from chainrule.frontend.elementwise import as_node
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import ArrayType, type_of
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import full_like
from chainrule.run.run import Run, run_graph
from chainrule.tracing import function_name, leaf_type, output_node, trace
from chainrule.transforms.deduplicate import deduplicated
from chainrule.transforms.jvp import push
from chainrule.transforms.seeded import split, vjp_graph
from chainrule.transforms.simplify import simplified
from chainrule.transforms.vjp import pull, seed_one, summed_seeds

Wrt = str | int | Iterable[str | int] | None


def value_and_grad(
    function: Callable[..., Any], wrt: Wrt = None, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns (value, gradient) of the scalar `function`.

    `wrt` names or counts the arguments to differentiate, by default the first; several give a
    tuple of gradients.  A gradient has the containers, shapes and dtypes of its argument.  With
    `has_aux`, `function` returns (value, aux), and the result is ((value, aux), gradient).
    Raises ShapeError where the value is not a scalar.
    """
    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        value, gradient = _gradient(building, function, wrt, has_aux, frame, args, kwargs)
        if frame is not None and isinstance(gradient, Traced):
            building.name_result(gradient.node, user_frame(frame), 1, 2)
        return value, gradient

    return _on_numbers_too(function, in_trace)


def grad(
    function: Callable[..., Any], wrt: Wrt = None, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar `function`; see `value_and_grad`.

    With `has_aux`, it returns (gradient, aux).  Works to any order: `grad(grad(f))`.
    """

    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        value, gradient = _gradient(building, function, wrt, has_aux, frame, args, kwargs)
        if frame is not None and isinstance(gradient, Traced) and not has_aux:
            building.name_result(gradient.node, user_frame(frame))
        return (gradient, value[1]) if has_aux else gradient

    return _on_numbers_too(function, in_trace)


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """(value, tangent): the function at `primals` and its derivative along `tangents`.

    `primals` is a tuple of arguments (or one argument), `tangents` has the same containers,
    shapes and float dtypes.  Forward mode: one pass, whatever the number of outputs.
    """
    args = primals if isinstance(primals, tuple) else (primals,)
    directions = tangents if isinstance(tangents, tuple) else (tangents,)

    def in_trace(building: Trace, frame: FrameType | None, pair: Any, _: Any) -> Any:
        values, moves = pair
        call = _Call(building, function, values, {}, range(len(values)))
        return call.pushed(moves, frame)

    def both(primals: Any, tangents: Any) -> Any:
        raise AssertionError("replaced by in_trace")

    return _on_numbers_too(both, in_trace)(args, directions)


def hvp(function: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The Hessian of the scalar `function` at `primals`, times `tangents`: forward over reverse.

    Costs a few gradients, never forms the Hessian.  The result has the containers of `primals`
    (a tuple of arguments, or one argument).
    """
    args = primals if isinstance(primals, tuple) else (primals,)
    gradient = grad(function, wrt=range(len(args)))
    product = jvp(gradient, args, tangents)[1]
    return product if isinstance(primals, tuple) else product[0]


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(value, pull): the function at `primals`, and pull(seed), the tuple of its cotangents.

    `seed` has the containers and shapes of the value.  The forward pass runs once; `pull` reads
    the values that it saved and may be called many times.
    """
    building = _trace_in(primals, {})
    if building is not None:
        call = _Call(building, function, primals, {}, range(len(primals)))
        leaves, structure = flatten(call.result, "value")
        nodes = [
            output_node(building, leaf, name)
            for leaf, name in zip(leaves, structure.leaf_names, strict=True)
        ]

        def pull_traced(seed: Any) -> tuple[Any, ...]:
            seeds = _like(building, flatten(seed, "seed")[0], nodes)
            return tuple(call.pulled(summed_seeds(nodes, seeds), None))

        return structure.unflatten([Traced(n, building) for n in nodes]), pull_traced
    return _vjp_of_numbers(function, primals)


# Inside a trace: derivatives of functions of traced arrays are more nodes of the same trace


class _Call:
    """One call of a function on arguments that all belong to one trace.

    The arguments that are differentiated become fresh variables, so that only what the function
    itself does with them counts: values that it closed over are constants.
    """

    def __init__(
        self, building: Trace, function: Callable[..., Any], args: Any, kwargs: Any, wrt: Wrt
    ) -> None:
        self.building = building
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        self.variables: list[tuple[list[Any], Structure]] = []
        for key in _positions(function, args, kwargs, wrt):
            leaves, structure = flatten(given[key], _argument_name(function, key))
            fresh = [self._fresh(*leaf) for leaf in zip(leaves, structure.leaf_names, strict=True)]
            self.variables.append((fresh, structure))
            given[key] = structure.unflatten(fresh)
        positional = [given[i] for i in range(len(args))]
        keywords = {key: given[key] for key in kwargs}
        self.result = call_traced(function, positional, keywords, nested=True)

    def _fresh(self, value: Any, name: str) -> Traced:
        node = as_node(self.building, value)
        if not node.type.is_float:
            raise NotDifferentiableError(
                f"the argument {name} is {node.type}: only floating-point values have gradients",
                where=self.building.where(),
                hint="convert it with .astype(np.float64), or choose other arguments with wrt=",
            )
        return Traced(self.building.build(identity, node), self.building)

    def _traced(self, node: Node, frame: FrameType | None) -> Traced:
        """A derivative as a value of the user's expression that asked for it."""
        if frame is not None:
            self.building.enter(frame)
            stamp((node,), self.building.site or node.origin)
            self.building.site = None
        return Traced(node, self.building)

    @property
    def wanted(self) -> list[Node]:
        """The variables, in order."""
        return [leaf.node for fresh, _ in self.variables for leaf in fresh]

    def pulled(self, seeds: dict[Node, Node], frame: FrameType | None) -> list[Any]:
        """The cotangents of the variables, in the containers of the arguments."""
        nodes = topological([*seeds, *self.wanted])
        cotangents, _ = pull(nodes, seeds, self.wanted, "grad")
        found = {n: cotangents[n] if n in cotangents else full_like(n, 0) for n in self.wanted}
        new = _tidied([*nodes, *seeds.values(), *found.values()], nodes)
        return [
            structure.unflatten([self._traced(new[found[leaf.node]], frame) for leaf in fresh])
            for fresh, structure in self.variables
        ]

    def pushed(self, directions: Any, frame: FrameType | None) -> tuple[Any, Any]:
        """The value, and its tangent along the directions, in the containers of the value."""
        leaves, structure = flatten(self.result, "value")
        outputs = [
            output_node(self.building, leaf, name)
            for leaf, name in zip(leaves, structure.leaf_names, strict=True)
        ]
        moves = [leaf for direction in directions for leaf in flatten(direction, "tangent")[0]]
        tangents = dict(zip(self.wanted, _like(self.building, moves, self.wanted), strict=True))
        nodes = topological([*outputs, *self.wanted])
        found = push(nodes, tangents)
        wanted = [found[n] if n in found else full_like(n, 0) for n in outputs]
        new = _tidied([*nodes, *tangents.values(), *wanted], nodes)
        value = structure.unflatten([Traced(node, self.building) for node in outputs])
        return value, structure.unflatten([self._traced(new[node], frame) for node in wanted])


def _tidied(roots: list[Node], frozen: list[Node]) -> dict[Node, Node]:
    """Each node that the roots need, simplified and without duplicates."""
    simple = simplified(topological(roots), frozen)
    once = deduplicated(topological(simple.values()), frozen)
    return {node: once[new] for node, new in simple.items()}


def _gradient(
    building: Trace,
    function: Any,
    wrt: Wrt,
    has_aux: bool,
    frame: FrameType | None,
    args: Any,
    kwargs: Any,
) -> tuple[Any, Any]:
    """(value, gradient) or ((value, aux), gradient) of a call on traced arguments."""
    call = _Call(building, function, args, kwargs, wrt)
    value, aux = call.result if has_aux else (call.result, None)
    output = output_node(building, value, "value")
    _need_scalar(function, output)
    gradients = call.pulled({output: seed_one(output, "grad")}, frame)
    shown = Traced(output, building)
    return ((shown, aux) if has_aux else shown), _one_or_all(wrt, gradients)


def _like(building: Trace, values: list[Any], nodes: list[Node]) -> list[Node]:
    """Seeds or tangents as nodes of the types of what they belong to."""
    _check_count(len(values), len(nodes))
    found = []
    for value, node in zip(values, nodes, strict=True):
        given = as_node(building, value)
        _check_like(given.type, node.type, building.where())
        if given.type != node.type:
            given = building.build(cast, given, dtype=node.type.dtype, weak=node.type.weak)
        found.append(given)
    return found


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _argument_name(function: Callable[..., Any], key: int | str) -> str:
    names = _parameters(function)
    return names[key] if isinstance(key, int) and key < len(names) else str(key)


def _check_count(given: int, wanted: int) -> None:
    if given != wanted:
        raise InputError(
            f"{given} arrays are given for {wanted}",
            hint="seeds and tangents have the containers of what they belong to",
        )


def _check_like(given: ArrayType, wanted: ArrayType, where: str = "") -> None:
    number = given.weak and not wanted.shape  # a Python number for a scalar
    if not number and (given.shape != wanted.shape or not given.is_float):
        raise ShapeError(
            f"a seed or tangent of type {given} is given for {wanted}",
            where=where,
            hint="seeds and tangents have the shape of what they belong to, and are floats",
        )


def _positions(function: Callable[..., Any], args: Any, kwargs: Any, wrt: Wrt) -> list[Any]:
    """The positions (int) or keywords (str) of the arguments that `wrt` means."""
    parameters = _parameters(function)
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


def _need_scalar(function: Any, output: Node) -> None:
    if output.type.shape != () or not output.type.is_float:
        raise ShapeError(
            f"the gradient of {function_name(function)} needs a floating-point scalar, "
            f"got {output.type}",
            where=output.origin.describe(),
            hint="reduce it with np.sum or np.mean, or use cr.vjp with a seed",
        )


def _one_or_all(wrt: Wrt, values: list[Any]) -> Any:
    return values[0] if wrt is None or isinstance(wrt, (str, int)) else tuple(values)


def _trace_in(args: Any, kwargs: Any) -> Trace | None:
    return trace_of(flatten([args, kwargs])[0])


# On numbers: the same, in a trace of its own, which is then run


def _on_numbers_too(function: Callable[..., Any], in_trace: Callable[..., Any]) -> Any:
    """`in_trace(trace, frame, args, kwargs)` as a function of traced arrays or of numbers."""

    def derivative(*args: Any, **kwargs: Any) -> Any:
        building = _trace_in(args, kwargs)
        if building is not None:
            frame = sys._getframe(1) if building.site is None else None
            return in_trace(building, frame, args, kwargs)
        try:
            graph = trace(nested, *args, **kwargs)
        except ForeignValueError as error:
            outer = error.outermost
            if outer is None:
                raise
            return in_trace(outer, None, args, kwargs)
        return run_on(graph, nested, args, kwargs).outputs

    def nested(*args: Any, **kwargs: Any) -> Any:
        building = _trace_in(args, kwargs)
        if building is None:
            raise InputError(
                f"{function_name(function)} was called without any array or number to trace",
                hint="pass NumPy arrays or Python numbers",
            )
        return in_trace(building, None, args, kwargs)

    functools.update_wrapper(nested, function)
    return functools.wraps(function)(derivative)


def run_on(graph: Graph, function: Any, args: Any, kwargs: Any) -> Run:
    """Run the graph of `function`, traced with these arguments, on them; keeps the outputs."""
    return run_graph(graph, _inputs(graph, function, args, kwargs), keep="outputs", flat=True)


def _inputs(graph: Graph, function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arrays among the arguments by the names of the graph's inputs."""
    found: dict[str, Any] = {}
    for root, part in _named_arguments(function, args, kwargs).items():
        leaves, structure = flatten(part, root)
        for leaf_name, leaf in zip(structure.leaf_names, leaves, strict=True):
            if leaf_type(leaf, leaf_name) is not None:
                found[leaf_name] = leaf
    return {item.name: found.get(item.name, item.default) for item in graph.inputs}


def _named_arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by the names under which they are traced (`a[0]` for those of `*a`)."""
    signature = inspect.signature(function)
    found: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"{name}[{i}]": part for i, part in enumerate(value)})
        else:
            found[name] = value
    return found


def _vjp_of_numbers(function: Any, primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    graph = trace(function, *primals)
    given = _inputs(graph, function, primals, {})
    structures = [
        flatten(value, root)[1] for root, value in _named_arguments(function, primals, {}).items()
    ]
    combined = vjp_graph(graph, [name for s in structures for name in s.leaf_names])
    values = tuple(name for name, _ in graph.outputs)
    seeds = tuple(item.name for item in combined.inputs[len(graph.inputs) :])
    first, second = split(combined, seeds, values)
    run = run_graph(first, given, keep="outputs", flat=True)
    saved = {item.name: run[item.name] for item in second.inputs if item.name not in seeds}
    leaves = [run[f"value{i}"] for i in range(len(values))]
    assert graph.result is not None

    def pull_numbers(seed: Any) -> tuple[Any, ...]:
        floats = [n for _, n in graph.outputs if n.type.is_float]
        leaves = flatten(seed, "seed")[0]
        _check_count(len(leaves), len(floats))
        for leaf, node in zip(leaves, floats, strict=True):
            _check_like(type_of(leaf), node.type)
        given_seeds = [np.asarray(s, n.type.dtype) for s, n in zip(leaves, floats, strict=True)]
        arguments = {**saved, **dict(zip(seeds, given_seeds, strict=True))}
        found = run_graph(second, arguments, keep="outputs", flat=True)
        parts = [found[f"out{i}"] for i in range(len(found.graph.outputs))]
        result = []
        for structure in structures:
            count = len(structure.leaf_names)
            result.append(structure.unflatten(parts[:count]))
            parts = parts[count:]
        return tuple(result)

    return graph.result.unflatten(leaves), pull_numbers
