"""Traces a function separately: cuts out the nodes of its call, and passes in what it reads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import parameters_of
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.origin import Origin
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import ArrayType
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.sources import constant, full, input_, size_value
from chainrule.tracing import definition, function_name, graph_name, output_node

SOURCES = (full, size_value)  # without storage: a body has its own
TAKEN = (
    "an iteration of scan takes (carry, x), a branch of cond its operands, the functions of "
    "while_loop (value), that of fori_loop (i, value)"
)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a user's function on fresh variables, for each argument its leaves.

    `results` are, for each part of what it returned, the container and its leaves; `names` those
    of the nodes that the call made, `read` what it read from outside (each a name and a node).
    """

    function: Callable[..., Any]
    variables: list[list[Node]]
    results: list[tuple[Structure, list[Node]]]
    names: dict[str, Node]
    read: list[tuple[str, Node]]

    @property
    def name(self) -> str:
        """How the body is called."""
        return graph_name(self.function)

    @property
    def shown(self) -> str:
        """How messages call the body."""
        return function_name(self.function)

    @property
    def where(self) -> str:
        """The function's file and line."""
        return definition(self.function)


def parameter(function: Callable[..., Any], place: int, default: str) -> str:
    """What the function calls an argument."""
    names = parameters_of(function)
    return names[place] if place < len(names) else default


def parameters_as_called(function: Callable[..., Any], defaults: tuple[str, ...]) -> list[str]:
    """What the function calls its arguments; `defaults` where it has not as many names."""
    found = [parameter(function, place, name) for place, name in enumerate(defaults)]
    return found if len(set(found)) == len(found) else list(defaults)


def standing_for(
    function: Callable[..., Any], users: Callable[..., Any], parameters: Iterable[str]
) -> None:
    """Give a function the user's name and line, and its arguments these names."""
    while isinstance(users, functools.partial):  # of which `definition` finds no line
        users = users.func
    kind = inspect.Parameter.POSITIONAL_ONLY
    named = [inspect.Parameter(name, kind) for name in parameters]
    attributes = {"__wrapped__": users, "__signature__": inspect.Signature(named)}
    function.__name__ = function_name(users)
    function.__dict__.update(attributes)


def require_function_of(function: Any, count: int, where: str) -> None:
    """InputError unless this is a function that can be called with `count` arguments."""
    if not callable(function):
        raise InputError(
            f"a function is needed, got {function!r}",
            where=where,
            hint=f"give the function itself, not its result; {TAKEN}",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # one of C's: what it takes is not known
    try:
        signature.bind(*range(count))
    except TypeError as error:
        defined = definition(function)
        taken = ", ".join(str(one).partition(":")[0] for one in signature.parameters.values())
        raise InputError(
            f"{function_name(function)}({taken}) is called with "
            f"{count} argument{'s' * (count != 1)}: {error}",
            where="\n".join(place for place in (where, defined) if place),
            hint=TAKEN,
        ) from None


def trace_body(
    building: Trace,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Structure, Sequence[ArrayType]]],
    parts: Callable[[Any], Sequence[tuple[str, Any]]],
) -> Call:
    """Call the function on variables of these types, in these containers.

    `parts` takes apart what it returned: what messages call each part, and the part.
    """
    require_function_of(function, len(arguments), building.where())
    origin = building.site or Origin()
    with building.apart() as (names, made):
        variables = []
        given = []
        for structure, types in arguments:
            leaves = [input_(index=-1, type=one) for one in types]
            made.update(leaves)
            stamp(leaves, origin)  # or an inner loop would take them for nodes that it has made
            for leaf, leaf_name in zip(leaves, structure.leaf_names, strict=True):
                names.setdefault(leaf_name, leaf)
                building.name_of[leaf] = leaf_name
            variables.append(leaves)
            given.append(structure.unflatten([Traced(leaf, building) for leaf in leaves]))
        returned = call_traced(building, function, given, {})
        found = [flatten(part, name) for name, part in parts(returned)]
        results = [
            (
                structure,
                [
                    output_node(building, leaf, name)
                    for leaf, name in zip(leaves, structure.leaf_names, strict=True)
                ],
            )
            for leaves, structure in found
        ]
    outputs = [node for _, nodes in results for node in nodes]
    fresh = {leaf for leaves in variables for leaf in leaves}
    inside, read = _cut(outputs, fresh, made)
    results = [
        (structure, [inside.get(node, node) for node in nodes]) for structure, nodes in results
    ]
    own = {name: inside[node] for name, node in names.items() if node in inside}
    _name_constants(building, read, names)
    closed = [(building.name_of.get(node, f"c{place}"), node) for place, node in enumerate(read)]
    return Call(function, variables, results, own, closed)


def _name_constants(building: Trace, read: list[Node], names: dict[str, Node]) -> None:
    """Arrays that the function closed over keep the names that they got inside."""
    known = set(building.names.values())
    name_of = {node: name for name, node in reversed(names.items())}
    for node in read:
        if node.primitive is constant and node in name_of and node not in known:
            building.bind_name(name_of[node], node)


def _cut(
    outputs: Sequence[Node], fresh: set[Node], made: set[Node]
) -> tuple[dict[Node, Node], list[Node]]:
    """What the nodes of a call become inside of it, and what it reads from outside."""
    new: dict[Node, Node] = {node: node for node in fresh}
    inside = set(fresh)
    read: dict[Node, None] = {}

    def taken(node: Node) -> Node:
        found = new.get(node, node)
        if found not in inside:
            read.setdefault(found)
        return found

    for node in topological(outputs):
        if node.primitive is identity and node not in made:
            continue  # the variable of a derivative taken outside, also where it is a number
        own = node in made or node.primitive in SOURCES
        reads_own = any([one in inside and one.primitive not in SOURCES for one in node.inputs])
        if node in new or not (own or reads_own):  # a literal alone makes nothing the body's
            continue
        if node.primitive is identity and node in made:  # a derivative's that was taken inside
            new[node] = new.get(node.inputs[0], node.inputs[0])
            inside |= {node} if new[node] in inside else set()
            continue
        operands = tuple([taken(parent) for parent in node.inputs])
        new[node] = node
        if operands != node.inputs:
            new[node] = node.with_inputs(operands)
        inside |= {node, new[node]}
    for node in outputs:
        taken(node)
    return new, list(read)
