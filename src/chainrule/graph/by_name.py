"""Says that a call of a graph, or of a step, takes its arguments by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.errors import InputError
from chainrule.graph.graph import Graph


def not_by_name(graph: Graph, asked: str, given: Any) -> InputError:
    """The error for arguments of `asked` (run, memory, cost) that are no mapping."""
    runs = asked == "run"
    names, example = (graph.arguments, "...") if runs else (graph.sizes, "256")
    shown = ", ".join(f"{name}={example}" for name in names)
    return InputError(
        f"graph.{asked} takes {'its arguments' if runs else 'sizes'} by name, got "
        f"{type(given).__name__}",
        hint=f"graph.{asked}({shown})",
    )


def sizes_by_name(
    graph: Graph, call: str, given: Mapping[str, int] | None, named: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that a call such as step.memory was given; InputError for what is no mapping."""
    if given is not None and not isinstance(given, Mapping):
        shown = ", ".join(f"{name}=256" for name in graph.sizes)
        raise InputError(
            f"{call} takes sizes by name, got {type(given).__name__}", hint=f"{call}({shown})"
        )
    return {**(given or {}), **named}
