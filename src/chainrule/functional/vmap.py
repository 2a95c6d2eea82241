"""`vmap`: maps a function of one example over a batch, in a graph of the same size."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.frozen.frozen_random import warning_of_draws
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.leaf_types import leaf_type
from chainrule.frontend.naming import user_frame
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import argument_name
from chainrule.functional.made import makes_a_function
from chainrule.functional.mapped import Axis, axes_of_arguments, batch_length, spread, within
from chainrule.functional.numbers import on_numbers_too, traced_and_run
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.origin import Origin, Scope
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import add_batch_axis, transpose
from chainrule.primitives.sources import input_
from chainrule.tracing import function_name, output_node
from chainrule.transforms.batch import batch_nodes

_serials = itertools.count(1)


@makes_a_function
def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    executor: str | None = None,
) -> Callable[..., Any]:
    """Maps a function over a batch: `vmap(f)(xs)` is `f(x)` for every x along the first axis of xs.

    `in_axes` says which axis of each positional argument is mapped: an integer, None for one that
    every example gets whole, or a tuple with an entry for each argument, which may be containers
    of axes as the argument is one of arrays.  Arguments given by keyword are mapped along axis 0;
    strings, booleans and None are passed as they are.  `out_axes` says the same of the results.

    The function is called once, with one example of each array, and its operations become those
    of a batch: the graph is as large as for one example, and what no mapped array reaches is
    computed once.  Nests, with itself and with all derivatives: the gradient of every example is
    `cr.vmap(cr.grad(loss), in_axes=(None, 0, 0))(W, x, y)`.  Raises InputError for axes that do
    not exist or do not fit the arguments, ShapeError where mapped axes have different lengths.
    """

    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        axes = axes_of_arguments(function, in_axes, args)
        same = "the same for every example of the batch"
        with warning_of_draws(function, args, kwargs, same) as made:
            result = _Batch(building, function, frame).result(args, kwargs, axes, out_axes)
            nodes = [node for node, _ in nodes_of(result)]
            made.append(lambda: (topological(nodes), building.name_of))
        return result

    def on_numbers(traceable: Any, args: Any, kwargs: Any, executor: str) -> Any:
        return traced_and_run(_as_called(traceable, args, kwargs), args, kwargs, executor)

    mapped = on_numbers_too(function, in_trace, executor, on_numbers)
    try:
        return _without_types(mapped, inspect.signature(function))
    except (TypeError, ValueError):  # a function without a signature
        return mapped


def _as_called(function: Callable[..., Any], args: Any, kwargs: Any) -> Callable[..., Any]:
    """The function with a signature of this call: no defaults, and keywords that stay keywords."""
    signature = inspect.signature(function)
    given = signature.bind_partial(*args, **kwargs).arguments
    parameters = [
        one.replace(kind=one.KEYWORD_ONLY) if one.name in kwargs else one
        for one in signature.parameters.values()
        if one.name in given
    ]

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    functools.update_wrapper(called, function)
    return _without_types(called, signature.replace(parameters=parameters))


def _without_types(function: Any, signature: inspect.Signature) -> Any:
    """The function with this signature, and no array types: those are of one example."""
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    function.__signature__ = signature.replace(parameters=parameters)
    function.__annotations__ = {}
    own = inspect.unwrap(function)
    if isinstance(own, FunctionType):  # where it is defined stays known
        function.__wrapped__ = FunctionType(
            own.__code__, own.__globals__, own.__name__, closure=own.__closure__
        )
    else:
        del function.__wrapped__
    return function


def example(building: Trace, type_: ArrayType, name: str = "") -> Node:
    """A variable that stands for one element of a batch, until the batch takes its place.

    No graph ever has it: its index is that of no input, and of no other example.
    """
    node = input_(index=-next(_serials), type=type_)
    stamp((node,), building.site or Origin())
    if name:
        building.argument_of[node] = name
    return node


class _Batch:
    """One call of a mapped function, in a trace."""

    def __init__(
        self, building: Trace, function: Callable[..., Any], frame: FrameType | None
    ) -> None:
        self.building, self.function, self.frame = building, function, frame
        self.given: dict[Node, Node] = {}  # for each example the batch that it is one of

    def result(self, args: Any, kwargs: Any, axes: list[list[Axis]], out_axes: Any) -> Any:
        """What the function gives for the whole batch."""
        building = self.building
        if self.frame is not None:
            building.enter(self.frame)
        site, known = building.site, set(building.names)
        roots = [argument_name(self.function, place) for place in range(len(args))]
        parts = [flatten(value, root) for value, root in zip(args, roots, strict=True)]
        for name, value in kwargs.items():
            parts.append(flatten(value, name))
            axes.append([0] * len(parts[-1][0]))
        try:
            length = self._prepared(parts, axes)
            if self.frame is not None and not _is_numpys(self.function):
                building.site = None  # the function's own expressions have places of their own
            given = [structure.unflatten(leaves) for leaves, structure in parts]
            keywords = dict(zip(kwargs, given[len(args) :], strict=True))
            value = call_traced(building, self.function, given[: len(args)], keywords, nested=True)
        finally:
            building.ended |= self.given.keys()
            if self.frame is not None:
                building.site = None
        building.name_returned()
        return self._out(value, out_axes, length, known, site)

    def _prepared(
        self, parts: list[tuple[list[Any], Structure]], axes: list[list[Axis]]
    ) -> int | Size:
        """Put an example in place of every leaf that is mapped; the length of the batch."""
        building, mapped = self.building, []
        for (leaves, structure), own in zip(parts, axes, strict=True):
            for place, (name, axis) in enumerate(zip(structure.leaf_names, own, strict=True)):
                leaf = leaves[place]
                if axis is None or not (isinstance(leaf, Traced) or leaf_type(leaf, name)):
                    continue
                node = as_node(building, leaf)
                what = f"the argument {name} of {function_name(self.function)}"
                axis = within(axis, node.ndim, what, building.where())
                mapped.append((name, node.type, axis))
                whole = _moved(building, node, axis, 0)
                one = example(building, whole.type.with_shape(whole.shape[1:]), name)
                self.given[one] = whole
                leaves[place] = Traced(one, building)
        return batch_length(mapped, self.function)

    def _out(
        self, value: Any, out_axes: Any, length: int | Size, known: set[str], site: Origin | None
    ) -> Any:
        """The results for the batch, in the containers of what the function returned."""
        building = self.building
        leaves, structure = flatten(value, "the result")
        nodes = [
            output_node(building, leaf, name)
            for leaf, name in zip(leaves, structure.leaf_names, strict=True)
        ]
        named = [node for name, node in building.names.items() if name not in known]
        found = batch_nodes(topological([*nodes, *named]), self.given, length, _same_origin)
        _rename(building, found)
        results = []
        chosen = spread(out_axes, value, "the result", "out_axes")
        for node, name, axis in zip(nodes, structure.leaf_names, chosen, strict=True):
            what = f"{name} of {function_name(self.function)}"
            new = self._placed(node, found.get(node), axis, length, what)
            if new is not node:
                stamp((new,), site or node.origin)
            results.append(Traced(new, building))
        result = structure.unflatten(results)
        self._named(result, known)
        return result

    def _placed(
        self, node: Node, new: Node | None, axis: Axis, length: int | Size, what: str
    ) -> Node:
        """The result with the axis of the batch where it is to be."""
        if axis is None:
            if new is None:
                return node
            raise InputError(
                f"{what} differs between the examples, and out_axes has None for it",
                hint="None is for results that no mapped argument reaches",
            )
        whole: Node = add_batch_axis(node, length) if new is None else new
        return _moved(self.building, whole, 0, within(axis, whole.ndim, what))

    def _named(self, result: Any, known: set[str]) -> None:
        """Results take the names under which the caller stores them, before those inside."""
        if self.frame is None:
            return
        frame = user_frame(self.frame)
        for node, place in nodes_of(result):
            self._name(node, known, frame, place)

    def _name(self, node: Node, known: set[str], *target: Any) -> None:
        building = self.building
        inner = [n for n, one in building.names.items() if one is node and n not in known]
        if node in building.name_of and not inner:
            return
        former = building.name_of.pop(node, None)
        building.name_result(node, *target)
        if node not in building.name_of:
            if former is not None:
                building.name_of[node] = former
            return
        for name in inner:  # after the name that counts
            building.names[name] = building.names.pop(name)


def _is_numpys(function: Any) -> bool:
    """Whether it is np.sin or the like, whose result is no value of the user's expression."""
    return (
        isinstance(function, np.ufunc)
        or str(getattr(function, "__module__", "")).partition(".")[0] == "numpy"
    )


def _moved(building: Trace, node: Node, axis: int, to: int) -> Node:
    """The node with one axis elsewhere, the others in their order."""
    if axis == to:
        return node
    order = [place for place in range(node.ndim) if place != axis]
    order.insert(to, axis)
    return building.build(transpose, node, permutation=tuple(order))


def _same_origin(node: Node) -> Origin:
    """A batch comes from where its example came from."""
    return node.origin


def _rename(building: Trace, found: dict[Node, Node]) -> None:
    """Names, scopes and origins of examples become those of their batches."""
    for name, node in building.names.items():
        if node in found:
            building.names[name] = found[node]
    for node, new in found.items():
        for table in (building.name_of, building.argument_of):
            if node in table:
                table.setdefault(new, table[node])
    scopes: dict[Scope, None] = {}
    for node in found:
        origin = node.origin
        if origin.node is not None:
            origin.node = found.get(origin.node, origin.node)
        scope = origin.scope
        while scope is not None and scope not in scopes:
            scopes[scope] = None
            scope = scope.parent
    for scope in scopes:
        scope.result = tuple(found.get(node, node) for node in scope.result)
        scope.arguments = tuple(
            (name, found.get(value, value) if isinstance(value, Node) else value)
            for name, value in scope.arguments
        )
