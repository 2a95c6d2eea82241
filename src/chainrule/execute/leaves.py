"""Takes the containers of arguments apart: each array by the name that its graph has for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.structure import Structure, flatten

MOST_NAMES = 5  # of parts, in a message


def leaves_of(
    graph: Graph, arguments: Mapping[str, Any], options: Collection[str] = ()
) -> dict[str, Any]:
    """The arrays of the arguments by the names of inputs.

    Arguments are arrays, or the containers that were traced, by name; the arrays of a container
    may also be given one by one (`params[0].W`).  InputError for other names, for a container with
    other parts than were traced, and for what is given twice; it may name one of the `options` of
    the call.
    """
    given = by_name(graph, arguments, graph.name)
    leaves, _ = taken_apart(graph, given)
    known = {item.name for item in graph.inputs}
    for name in leaves:
        if name not in known:
            from chainrule.signatures import perhaps_argument  # if refused

            refuse_bare(graph, given, graph.name)
            names = graph.arguments
            perhaps = perhaps_argument(name, [*names, *options])
            raise InputError(
                f"the graph {graph.name} has no input called {name!r}",
                hint=f"{perhaps}its inputs are: {', '.join(names) or 'none'}",
            )
    return leaves


def taken_apart(
    graph: Graph, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Structure]]:
    """The arrays by their own names, those that the graph lacks among them, and what the
    containers were, by theirs."""
    inputs = {item.name for item in graph.inputs}
    leaves: dict[str, Any] = {}
    structures: dict[str, Structure] = {}
    for root, value in arguments.items():
        known = graph.structures.get(root)
        if root in inputs and (known is None or known.is_leaf):
            parts = {root: value}
        else:
            arrays, structure = flatten(value, root)
            parts = dict(zip(structure.leaf_names, arrays, strict=True))
            fixed = _fixed_parts(graph, parts)
            parts = {name: part for name, part in parts.items() if name not in fixed}
            if not structure.is_leaf:
                structures[root] = structure.fixing(fixed)
            if known is not None:
                _refuse_other_parts(root, parts, known)
        for name, part in parts.items():
            if name in leaves:
                raise InputError(
                    f"{name} is given twice: by itself, and in a container",
                    hint="one of the two",
                )
            leaves[name] = part
    return leaves, structures


def by_name(graph: Graph, given: Any, call: str) -> Mapping[str, Any]:
    """What is given, which is arrays by name; InputError that says how it is called where not."""
    if not isinstance(given, Mapping):
        refuse_bare(graph, given, call)
        raise InputError(
            f"{call} takes its arrays by name, got {type(given).__name__}",
            hint='{"W1": W1, "W2": W2}',
        )
    return given


def refuse_bare(graph: Graph, given: Any, call: str) -> None:
    """InputError where a container is given itself, and not by the name of its argument."""
    for root, structure in graph.structures.items():
        parts = set() if structure.is_leaf else set(structure.leaf_names)
        if parts and parts <= set(flatten(given, root)[1].leaf_names):
            raise InputError(
                f"{call} takes containers by the argument that they are for, got that of {root} "
                "without its name",
                hint=f'{{"{root}": {root}}}',
            )


def _fixed_parts(graph: Graph, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that are no arrays; InputError where they are not those that were traced."""
    traced = {name: one for known in graph.structures.values() for _, name, one in known.fixed}
    for name, value in parts.items():
        if name in traced and not _is_same(value, traced[name]):
            raise InputError(
                f"{graph.name} was traced with {name} = {traced[name]!r}, which is a Python value "
                f"of the program; got {value!r}",
                hint="trace it again with the other value",
            )
    return {name: value for name, value in parts.items() if name in traced}


def _is_same(value: Any, traced: Any) -> bool:
    if value is traced:
        return True
    try:
        return type(value) is type(traced) and (value == traced) is True
    except Exception:  # what the user's class makes of ==
        return False


def _refuse_other_parts(root: str, parts: Iterable[str], known: Structure) -> None:
    names = set(parts)
    if names == set(known.leaf_names):
        return
    missing = [name for name in known.leaf_names if name not in names]
    unknown = [name for name in parts if name not in known.leaf_names]
    raise InputError(
        f"the container {root} does not have the parts it was traced with: "
        + "; ".join(
            f"{what} {', '.join(several[:MOST_NAMES])}"
            + (f" and {len(several) - MOST_NAMES} more" if len(several) > MOST_NAMES else "")
            for what, several in (("missing", missing), ("unknown", unknown))
            if several
        ),
        hint=f"its parts are: {', '.join(known.leaf_names[:12])}",
    )
