"""Finds the arrays that an objective takes and returns anew: state that is not trained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.graph.dtypes import in_python
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import rebuild
from chainrule.graph.structure import flatten
from chainrule.nearest import perhaps
from chainrule.primitives.sources import constant, input_

RETURNED = "return the objective, and what follows each array of the state in a dict:\n"


@dataclass(frozen=True, eq=False)
class Carried:
    """`graph` is a program whose outputs are the objective, perhaps others, and what follows each
    array that it carries; `following` has the name of that output by the name of the input."""

    graph: Graph
    objective: str | None
    following: Mapping[str, str]


def carried(graph: Graph, state: str | Iterable[str], of: str | None) -> Carried:
    """The program with its outputs called after what they follow: `running_mean_next`.

    `state` names arguments of the traced program, which returns `J, {name: new value, ...}`.
    What only these new values need becomes a part of the update.  Raises InputError where the
    names that are returned are not those of `state`, or where a type changes.
    """
    names = _checked_names(graph, state)
    if not names:
        if of is None:
            _refuse_undeclared(graph)
        return Carried(graph, of, {})
    values = _returned(graph, names)
    after: dict[str, str] = {}
    for name in names:
        after |= _leaves(graph, name, values[name])
    known = dict(graph.outputs)
    others = [name for name in known if name not in after.values()]
    for name, shown in after.items():
        _check(graph, graph.input(name), known[shown])
    if of is None and len(others) == 1:
        of = others[0]
    return Carried(*_renamed(graph, after, of))


def objective_of(graph: Graph) -> str | None:
    """The output that is the objective, where that is clear: the only one, or J of
    `return J, {name: ...}`, where the names are those of arguments."""
    if len(graph.outputs) == 1:
        return graph.outputs[0][0]
    return graph.outputs[0][0] if returned_state(graph) else None


def returned_state(graph: Graph) -> tuple[str, ...]:
    """The names of `return J, {name: ...}`, if all are those of arguments."""
    match _unflattened(graph):
        case (str(), Mapping() as values) if set(values) <= set(graph.arguments):
            return tuple(values)
    return ()


def _refuse_undeclared(graph: Graph) -> None:
    """InputError for a program that returns what follows some of its arguments."""
    names = returned_state(graph)
    if names:
        objective, node = graph.outputs[0]
        named = ", ".join(map(repr, names)) + "," * (len(names) == 1)
        raise InputError(
            f"{graph.name} returns what follows {', '.join(names)} beside {objective}, and state= "
            "does not name them",
            where=node.origin.describe(),
            hint=f"state=({named}) keeps them from step to step; of={objective!r} takes them as a "
            "part of each batch, and leaves what follows them out",
        )


def _checked_names(graph: Graph, state: str | Iterable[str]) -> tuple[str, ...]:
    names = (state,) if isinstance(state, str) else tuple(state)
    for name in names:
        if name not in graph.arguments:
            raise InputError(
                f"state= names {name!r}, and {graph.name} has no argument of that name",
                hint=f"{perhaps(str(name), graph.arguments)}its arguments are: "
                f"{', '.join(graph.arguments) or 'none'}",
            )
    for guard in graph.guards:
        if guard.name in names:
            raise InputError(
                f"{graph.name} uses {guard.name} as a Python number, and state changes from step "
                "to step",
                where=guard.origin.describe(),
                hint="compute with it as an array: np.where(..., a, b) in place of `if`",
            )
    return tuple(dict.fromkeys(names))


def _unflattened(graph: Graph) -> Any:
    """What the program returned, with the names of outputs in place of arrays."""
    if graph.result is None:
        return None
    return graph.result.unflatten([name for name, _ in graph.outputs])


def _returned(graph: Graph, names: Collection[str]) -> Mapping[str, Any]:
    """What the program returned for each of these names."""
    found = _unflattened(graph)
    form = f"return J, {{{', '.join(f'{name!r}: ...' for name in names)}}}"
    where = graph.outputs[0][1].origin.describe() if graph.outputs else ""
    if found is None:
        raise InputError(
            f"{graph.name} is a graph that was transformed, which no longer tells what follows its "
            f"state: {', '.join(names)}",
            hint=f"give the function, or the graph that cr.trace makes of it;\n{RETURNED}{form}",
        )
    values = found[-1] if isinstance(found, (tuple, list)) and len(found) > 1 else None
    if not isinstance(values, Mapping):
        raise InputError(
            f"{graph.name} returns {', '.join(n for n, _ in graph.outputs) or 'nothing'}, and "
            f"nothing that follows its state: {', '.join(names)}",
            where=where,
            hint=RETURNED + form,
        )
    missing = [name for name in names if name not in values]
    extra = [str(name) for name in values if name not in names]
    if missing or extra:
        both = [f"nothing for {', '.join(missing)}"] if missing else []
        both += [f"{', '.join(extra)}, which state= does not name"] if extra else []
        raise InputError(
            f"{graph.name} returns in its state {', and '.join(both)}",
            where=where,
            hint=f"{form}, with\nstate=({', '.join(map(repr, names))},)"
            if missing
            else f"state=({', '.join(map(repr, [*names, *extra]))}), or leave them out of the dict",
        )
    return values


def _leaves(graph: Graph, root: str, value: Any) -> dict[str, str]:
    """The output that follows each array of an argument, which may be a container."""
    outputs, structure = flatten(value, root)
    known = graph.structures.get(root)
    inputs = (root,) if known is None else known.leaf_names
    if structure.leaf_names != inputs:
        raise InputError(
            f"{graph.name} returns {', '.join(structure.leaf_names) or 'nothing'} for its state "
            f"{root}, which has {', '.join(inputs)}",
            where=graph[outputs[0]].origin.describe() if outputs else "",
            hint="the same container, with a new array in place of each",
        )
    return dict(zip(inputs, outputs, strict=True))


def _check(graph: Graph, item: Input, node: Node) -> None:
    old, new = item.type, node.type
    if (old.dtype, old.shape) == (new.dtype, new.shape):
        return
    hint = "state keeps its dtype and its shape from step to step"
    if old.dtype != new.dtype:
        hint += f": .astype({in_python(old.dtype)}) what follows it, or compute it in {old.dtype}"
    raise InputError(
        f"{graph.name} returns {new} for its state {item.name}, which is {old}",
        where=node.origin.describe(),
        hint=hint,
    )


def _renamed(
    graph: Graph, after: Mapping[str, str], of: str | None
) -> tuple[Graph, str | None, dict[str, str]]:
    known = dict(graph.outputs)
    following, first = {}, {}
    names = dict(graph.names)
    others = [node for name, node in known.items() if name not in after.values()]
    alone = _only_for([known[shown] for shown in after.values()], others)
    anonymous = set(graph.result.leaf_names if graph.result is not None else ())
    for name, shown in after.items():
        node = known[shown]
        if shown in anonymous or shown in graph.assigned.get(name, ()):
            names.pop(shown, None)  # `rm` again, or nothing: no name of its own
        following[name] = free_name(f"{name}_next", names, first)
        if node in alone:
            first[following[name]] = node
        else:
            names[following[name]] = node
    outputs = [(name, node) for name, node in known.items() if name not in after.values()]
    outputs += [(then, known[after[name]]) for name, then in following.items()]
    made = graph.replace(outputs=tuple(outputs), names={**first, **names}, result=None)
    source = {node: graph.input(name).node for name, node in _sources(after, known)}
    return rebuild(made, _in_update(alone, source)), of, following


def _sources(after: Mapping[str, str], known: Mapping[str, Node]) -> list[tuple[str, Node]]:
    return [(name, node) for name, shown in after.items() for node in topological([known[shown]])]


def _only_for(nodes: Iterable[Node], others: Iterable[Node]) -> set[Node]:
    """What is computed for these nodes, and not for the others."""
    needed = set(topological(others))
    given = (input_, constant)
    return {x for x in topological(nodes) if x not in needed and x.primitive not in given}


def _in_update(alone: Collection[Node], source: Mapping[Node, Node]) -> Any:
    """Makes each node as it is; those that are computed for the state alone as of the update."""

    def made(node: Node, inputs: tuple[Node, ...], origin: Origin) -> Node:
        if node in alone:
            origin = origin.derived("update", source[node])
        elif inputs == node.inputs and origin is node.origin:
            return node
        return type(node)(node.primitive, inputs, node.params, node.type, origin)

    return made
