"""Derivatives of functions inside a trace: adds nodes to the same trace."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from chainrule.errors import NotDifferentiableError, ShapeError
from chainrule.frontend.errors.foreign_values import refuse_ended
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.leaf_types import leaf_type
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import Wrt, argument_name, check_count, check_like, positions_of
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.structure import Structure, flatten
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import full_like
from chainrule.tracing import definition, function_name, output_node, written_name
from chainrule.transforms.backward import to_a_scalar
from chainrule.transforms.deduplicate import deduplicated
from chainrule.transforms.jvp import push
from chainrule.transforms.mistakes.outer_pairs import warn_of_outer_pairs
from chainrule.transforms.simplify import simplified
from chainrule.transforms.vjp import pull, seed_one


class Call:
    """One call of a function on arguments that all belong to one trace.

    The arguments that are differentiated become fresh variables, so that only what the function
    itself does with them counts: values that it closed over are constants.
    """

    def __init__(
        self, building: Trace, function: Callable[..., Any], args: Any, kwargs: Any, wrt: Wrt
    ) -> None:
        self.building, self.function = building, function
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        self.variables: list[tuple[list[Any], Structure]] = []
        for key in positions_of(function, args, kwargs, wrt):
            leaves, structure = flatten(given[key], argument_name(function, key))
            fresh = [self._fresh(*leaf) for leaf in zip(leaves, structure.leaf_names, strict=True)]
            self.variables.append((fresh, structure))
            given[key] = structure.unflatten(fresh)
        refuse_ended(building, [args, kwargs])
        positional = [given[i] for i in range(len(args))]
        keywords = {key: given[key] for key in kwargs}
        self.result = call_traced(building, function, positional, keywords, nested=True)

    def _fresh(self, value: Any, name: str) -> Traced:
        if not isinstance(value, Traced) and leaf_type(value, name) is None:
            raise NotDifferentiableError(
                f"the argument {name} is {value!r:.60}, a {type(value).__name__}: only arrays and "
                "numbers have gradients",
                where=self.building.where() or definition(self.function),
                hint="keep it out of the container; or choose other arguments with wrt=",
            )
        node = as_node(self.building, value)
        if not node.type.is_float:
            number = self.building.known_int(value)
            got, remedy = f"{node.type}", "convert it with .astype(np.float64)"
            if number is not None:
                got, remedy = f"the Python int {number}", f"write {number}.0"
            raise NotDifferentiableError(
                f"the argument {name} is {got}: only floating-point values have gradients",
                where=self.building.where() or definition(self.function),
                hint=f"{remedy}, or choose other arguments with wrt=",
            )
        variable = self.building.build(identity, node)
        self.building.argument_of[variable] = name
        return Traced(variable, self.building)

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
        new = tidied([*nodes, *seeds.values(), *found.values()], nodes)
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
        given = like(self.building, moves, self.wanted, "tangent")
        tangents = dict(zip(self.wanted, given, strict=True))
        nodes = topological([*outputs, *self.wanted])
        found = push(nodes, tangents, "grad")
        wanted = [found[n] if n in found else full_like(n, 0) for n in outputs]
        new = tidied([*nodes, *tangents.values(), *wanted], nodes)
        value = structure.unflatten([Traced(node, self.building) for node in outputs])
        return value, structure.unflatten([self._traced(new[node], frame) for node in wanted])


def tidied(roots: list[Node], frozen: list[Node]) -> dict[Node, Node]:
    """Each node that the roots need, simplified and without duplicates."""
    simple = simplified(topological(roots), frozen)
    once = deduplicated(topological(simple.values()), frozen)
    return {node: once[new] for node, new in simple.items()}


def gradient_in_trace(
    building: Trace,
    function: Any,
    wrt: Wrt,
    has_aux: bool,
    frame: FrameType | None,
    args: Any,
    kwargs: Any,
) -> tuple[Any, Any]:
    """(value, gradient) or ((value, aux), gradient) of a call on traced arguments."""
    call = Call(building, function, args, kwargs, wrt)
    value, aux = call.result if has_aux else (call.result, None)
    if isinstance(value, (tuple, list, dict)):
        name, pair = function_name(function), isinstance(value, tuple) and len(value) == 2
        raise ShapeError(
            f"the gradient is of one number, and {name} returns a {type(value).__name__} of "
            f"{len(value)}",
            where=definition(function),
            hint=f"cr.grad({written_name(function)}, has_aux=True), which gives what is beside the "
            "number back as it is"
            if pair and not has_aux
            else "return the number alone, or (number, anything) with "
            "has_aux=True; cr.jacobian takes functions that return several arrays",
        )
    output = output_node(building, value, "value")
    _need_scalar(function, output)
    warn_of_outer_pairs(topological([output]), output, call.wanted, building.name_shown)
    gradients = call.pulled({output: seed_one(output, "grad")}, frame)
    shown = Traced(output, building)
    return ((shown, aux) if has_aux else shown), one_or_all(wrt, gradients)


def like(building: Trace, values: list[Any], nodes: list[Node], what: str) -> list[Node]:
    """Seeds or tangents (which, says `what`) as nodes of the types of what they belong to."""
    check_count(len(values), len(nodes))
    found = []
    for value, node in zip(values, nodes, strict=True):
        given = as_node(building, value)
        name = building.name_shown(node) or "the value"
        name = f"argument {name}" if name.isdecimal() else name
        check_like(given.type, node.type, what, name, building.where())
        if given.type != node.type:
            given = building.build(cast, given, dtype=node.type.dtype, weak=node.type.weak)
        found.append(given)
    return found


def _need_scalar(function: Any, output: Node) -> None:
    if output.type.shape != () or not output.type.is_float:
        raise ShapeError(
            f"the gradient of {function_name(function)} needs a floating-point scalar, "
            f"got {output.type}",
            where=output.origin.describe(),
            hint=f"{to_a_scalar(output.type)}, or use cr.vjp with a seed",
        )


def one_or_all(wrt: Wrt, values: list[Any]) -> Any:
    return values[0] if wrt is None or isinstance(wrt, (str, int)) else tuple(values)
