"""Loops on traced arrays: traces the user's functions into bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from chainrule.control.bounded import checked_limit, no_number_of_iterations
from chainrule.control.carry_types import agreed, converted
from chainrule.control.cond_node import inlined
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.scan_node import scan
from chainrule.control.trace_body import Call, parameter, trace_body
from chainrule.control.while_node import repeat
from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.errors.types_shown import too_large
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import UNKNOWN, Origin
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import ArrayType, exceeds_memory
from chainrule.primitives.families import BOOL
from chainrule.tracing import definition, function_name

Frame = FrameType | None


class Site:
    """Where a loop or a choice stands in the user's program."""

    def __init__(self, building: Trace, frame: Frame) -> None:
        self.building, self.frame, self.outer = building, frame, building.site

    def __enter__(self) -> Site:
        if self.outer is None and self.frame is not None:
            self.building.enter(self.frame)
        return self

    def __exit__(self, *_: object) -> None:
        self.building.site = self.outer

    def leaves(self, value: Any, name: str) -> tuple[list[Node], Structure]:
        """The arrays of a container as nodes."""
        leaves, structure = flatten(value, name)
        return [as_node(self.building, leaf) for leaf in leaves], structure

    def wrapped(self, structure: Structure, nodes: Sequence[Node]) -> Any:
        """The container of these nodes, which belong here."""
        new = _without_origin(nodes)
        for node in new:
            if exceeds_memory(node.type):
                raise too_large(node.primitive.name, node.type, self.building.where())
        if self.building.made is not None:
            self.building.made |= new
        stamp(nodes, self.building.site or Origin())
        return structure.unflatten([Traced(node, self.building) for node in nodes])


def _without_origin(nodes: Sequence[Node]) -> set[Node]:
    """The nodes that were just built, and of what they are made those that were, too."""
    found: set[Node] = set()
    pending = [node for node in nodes if node.origin is UNKNOWN]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [parent for parent in node.inputs if parent.origin is UNKNOWN]
    return found


def traced_scan(
    building: Trace,
    frame: Frame,
    function: Callable[..., Any],
    init: Any,
    xs: Any,
    length: int | Size | None,
    reverse: bool,
    types: Sequence[ArrayType] | None = None,
) -> tuple[Any, Any]:
    """`scan` on traced arrays; `types` are those of a slice where they are not just one less."""
    with Site(building, frame) as site:
        carry_name, x_name = parameter(function, 0, "carry"), parameter(function, 1, "x")
        starts, carried = site.leaves(init, carry_name)
        wholes, sliced = site.leaves(xs, x_name)
        length = common_length(building, wholes, sliced.leaf_names, length)
        if sizes.is_nonnegative(length) is None:
            text = f"{function_name(function)} is done {length} times, which must not be negative"
            building.require(length, False, text)
        if types is None:
            types = [node.type.with_shape(node.shape[1:]) for node in wholes]
        rows = list(types)

        def call(carries: Sequence[ArrayType]) -> Call:
            return trace_body(
                building,
                function,
                [(carried, carries), (sliced, rows)],
                lambda returned: _pair(function, carry_name, returned),
            )

        found, agreed_types = agreed(call, carried, [node.type for node in starts])
        befores, slices = found.variables
        (_, afters), (stacked, ys) = found.results
        loop = Loop(
            found.name,
            tuple([Given(name, node, node) for name, node in found.read]),
            tuple(_carries(carried, starts, befores, afters, agreed_types)),
            tuple([Given(*one) for one in zip(sliced.leaf_names, wholes, slices, strict=True)]),
            tuple(ys),
            length,
            bool(reverse),
            found.names,
        )
        finals, rows_of = loop.run(scan, range(len(afters)), range(len(ys)))
        last = [finals[i] for i in range(len(afters))]
        all_ys = [rows_of[i] for i in range(len(ys))]
        carry = site.wrapped(carried, last)
        result = site.wrapped(stacked, all_ys)
    return carry, result


def _pair(function: Any, carry_name: str, returned: Any) -> list[tuple[str, Any]]:
    if not isinstance(returned, tuple) or len(returned) != 2:
        shown = type(returned).__name__
        if isinstance(returned, tuple):
            shown = f"a tuple of {len(returned)}"
        raise InputError(
            f"{function_name(function)} returns {shown}: an iteration of scan returns (carry, y)",
            where=definition(function),
            hint=f"return {carry_name}, y; with y = None where nothing is kept of an iteration",
        )
    return [(carry_name, returned[0]), ("y", returned[1])]


def _carries(
    structure: Structure,
    starts: Sequence[Node],
    befores: Sequence[Node],
    afters: Sequence[Node],
    types: Sequence[ArrayType],
) -> Iterable[Carry]:
    for name, start, before, after, type_ in zip(
        structure.leaf_names, starts, befores, afters, types, strict=True
    ):
        yield Carry(name, converted(start, type_), before, converted(after, type_))


def common_length(
    building: Trace, nodes: Sequence[Node], names: Sequence[str], length: int | Size | None
) -> int | Size:
    """The length of the first axis that all have, which is also `length` where that is given."""
    found: list[tuple[str, int | Size]] = []
    if length is not None:
        if not isinstance(length, Size):
            if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 0:
                raise no_number_of_iterations(
                    "length",
                    length,
                    building.where(),
                    "a Python integer of at least 0, or a size such as x.shape[0]",
                )
            length = int(length)
        found.append(("length", length))
    for name, node in zip(names, nodes, strict=True):
        if not node.ndim:
            raise ShapeError(
                f"{name} is {node.type}, which has no axis to loop over",
                where=building.where(),
                hint="a list of numbers counts as several arguments: pass np.array([...])"
                if name.endswith("]")
                else "xs are arrays with one slice for each iteration; what every iteration reads "
                "whole is closed over, or a part of the carry",
            )
        found.append((name, node.shape[0]))
    if not found:
        raise InputError(
            "scan does not know its number of iterations: xs has no array, and length= is missing",
            where=building.where(),
            hint="pass length=...",
        )
    for name, other in found[1:]:
        if other != found[0][1]:
            raise ShapeError(
                f"{found[0][0]} has {found[0][1]} iterations, {name} has {other}",
                where=building.where(),
                hint="all arrays in xs have the same length along their first axis",
            )
    return found[0][1]


def traced_while(
    building: Trace,
    frame: Frame,
    condition: Any,
    function: Any,
    init: Any,
    roots: Sequence[str] = (),
    max_steps: Any = None,
) -> Any:
    """`while_loop` on traced arrays; `roots` are names of the parts of `init`, if it has them."""
    with Site(building, frame) as site:
        name = parameter(function, 0, "carry")
        if max_steps is not None:
            max_steps = checked_limit(max_steps, building.where())
        starts, carried = site.leaves(init, name)
        if roots:
            parts = [flatten(one, root)[1] for one, root in zip(init, roots, strict=True)]
            carried = Structure(carried.spec, tuple(n for one in parts for n in one.leaf_names))

        def call(types: Sequence[ArrayType]) -> Call:
            given = [(carried, types)]
            return trace_body(building, function, given, lambda result: [(name, result)])

        step, types = agreed(call, carried, [node.type for node in starts])
        asked = trace_body(
            building, condition, [(carried, types)], lambda result: [("condition", result)]
        )
        befores = step.variables[0]
        outer = [node for _, node in asked.read]
        (holds,) = inlined([*asked.variables[0], *outer], [*befores, *outer], [_one_boolean(asked)])
        pairs = {node: name for name, node in (*step.read, *asked.read)}
        loop = Loop(
            step.name,
            tuple([Given(shown, node, node) for node, shown in pairs.items()]),
            tuple(_carries(carried, starts, befores, step.results[0][1], types)),
            (),
            (holds,),
            0,
            False,
            step.names,
        )
        finals = repeat(loop, range(len(starts)), max_steps)
        last = [finals[i] for i in range(len(starts))]
        result = site.wrapped(carried, last)
    return result


def _one_boolean(call: Call) -> Node:
    nodes = call.results[0][1]
    if len(nodes) != 1 or nodes[0].type.dtype != BOOL or nodes[0].shape:
        shown = ", ".join(str(node.type) for node in nodes) or "nothing"
        raise DTypeError(
            f"{call.shown} returns {shown}: the condition of a loop is one boolean",
            where=call.where,
            hint="compare, and reduce: np.sum(x**2) > tolerance",
        )
    return nodes[0]
