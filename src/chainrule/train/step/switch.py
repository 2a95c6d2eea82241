"""The switch between training and evaluation: an argument `training` of the objective.

It is True or False while the program is traced, and selects its graph: dropout, batch
normalisation and whatever else asks for it follow.  No graph has it as an input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.annotations import MISSING
from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.functional.arguments import takes_keywords
from chainrule.graph.graph import Graph
from chainrule.nearest import perhaps
from chainrule.tracing import annotated_arguments, definition, function_name, trace

SWITCH = "training"
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, eq=False)
class Forms:
    """The graph of an objective to train, and the one to evaluate: None where that is the same."""

    training: Graph
    evaluation: Graph | None


def forms_of(objective: Callable[..., Any] | Graph, types: Mapping[str, Any]) -> Forms:
    """Both graphs of a function, traced with these types and the switch on and off.

    A graph stays as it is: InputError where types are given beside it.
    """
    if isinstance(objective, Graph):
        if types:
            raise InputError(
                f"{', '.join(types)} given for {objective.name}, which is a graph already",
                hint="give types to cr.trace",
            )
        return Forms(objective, None)
    if not has_switch(objective):
        return Forms(trace(objective, **types), None)
    return Forms(
        trace(objective, **{SWITCH: True, **types}), trace(objective, **{**types, SWITCH: False})
    )


def evaluated(function: Callable[..., Any], types: Mapping[str, Any]) -> Graph:
    """The graph of a function with the switch off, if it has one."""
    return trace(function, **types, **({SWITCH: False} if has_switch(function) else {}))


def types_given(function: Callable[..., Any], parameters: Any) -> dict[str, Any]:
    """What is given for those arguments of whose types the function says nothing.

    InputError where such an argument is a container, whose arrays are given one by one.
    """
    if not isinstance(parameters, Mapping):
        return {}
    annotated, names = annotated_arguments(function), list(map(str, parameters))
    untyped = [name for name, said in annotated.items() if said is MISSING]
    arguments = inspect.signature(function).parameters if untyped else {}
    lacking = [x for x in untyped if x not in parameters and arguments[x].default is _EMPTY]
    for root in lacking:
        parts = [name for name in names if name.startswith((f"{root}.", f"{root}["))]
        if parts:
            raise InputError(
                f"{root} of {function_name(function)} is a container, whose arrays are given one "
                f"by one: {', '.join(parts[:5])}" + ", ..." * (len(parts) > 5),
                where=definition(function),
                hint=f'give the container, {{"{root}": {root}}}, which says how they belong '
                f'together;\nof a file: cr.load_weights(path, like={{"{root}": {root}}});\n'
                "or give a graph or a training step in place of the function",
            )
    strange = [name for name in names if name not in arguments]
    if lacking and strange and not takes_keywords(function):
        raise InputError(
            f"the parameters have {strange[0]!r}, and {function_name(function)} has no argument "
            "of that name",
            where=definition(function),
            hint=f"{perhaps(strange[0], arguments)}a container goes by the argument that takes "
            f'it: {{"{lacking[0]}": {lacking[0]}}}',
        )
    return {name: parameters[name] for name in untyped if name in parameters}


def has_switch(function: Callable[..., Any]) -> bool:
    """Whether the function has an argument `training` that is True or False, by its default or its
    annotation."""
    try:
        argument = inspect.signature(function).parameters.get(SWITCH)
    except (TypeError, ValueError):
        return False
    if argument is None:
        return False
    return isinstance(argument.default, (bool, np.bool_)) or argument.annotation in (bool, "bool")
