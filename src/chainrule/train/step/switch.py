"""The switch between training and evaluation: an argument `training` of the objective.

It is True or False while the program is traced, and selects its graph: dropout, batch
normalisation and whatever else asks for it follow.  No graph has it as an input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.tracing import trace

SWITCH = "training"


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


def evaluated(function: Callable[..., Any]) -> Graph:
    """The graph of a function with the switch off, if it has one."""
    return trace(function, **({SWITCH: False} if has_switch(function) else {}))


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
