"""Says that a call of a graph takes its arguments by name."""

from __future__ import annotations

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
