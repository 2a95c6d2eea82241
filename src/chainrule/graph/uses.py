"""The methods of `Graph`, `Run` and `Plan` that higher layers provide, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.execute import CompiledGraph, Run
    from chainrule.explain.cost.cost import Cost
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.nonfinite import Diagnosis
    from chainrule.explain.zeros import Zeros
    from chainrule.graph.graph import Graph
    from chainrule.graph.node import Node
    from chainrule.plan.planner import Plan
    from chainrule.plan.speeds import Speeds


class Uses:
    """Functions of a graph, of a run or of a plan that higher layers provide when chainrule is
    imported.

    These are data and import no layer above their own; `chainrule.views` sets these.
    """

    run: Callable[..., Run]
    compile: Callable[..., CompiledGraph]
    blocked: Callable[[Graph, Sequence[Node]], Graph]
    memory: Callable[..., MemoryReport]
    fits: Callable[..., Fit]
    measured: Callable[..., tuple[float, ...]]
    speeds_here: Callable[[Plan], Speeds]
    explain_refusal: Callable[[MemoryReport, int, int, str], tuple[str, str]]
    cost: Callable[..., Cost]
    draw: Callable[..., Drawing]
    equations: Callable[..., Equations]
    python: Callable[..., str]
    nonfinite: Callable[..., Diagnosis | None]
    zeros: Callable[..., Zeros]
    to_onnx: Callable[..., bytes]
    to_stablehlo: Callable[..., bytes]
    rich_graph: Callable[..., Any]
    text_of_run: Callable[[Run], str]
    html_of_run: Callable[[Run], str]
    rich_run: Callable[[Run], Any]

    def provide(self, **functions: Callable[..., Any]) -> None:
        """Set every function; TypeError where one is missing or unknown."""
        if functions.keys() != Uses.__annotations__.keys():
            wrong = sorted(functions.keys() ^ Uses.__annotations__.keys())
            raise TypeError(f"missing or unknown: {', '.join(wrong)}")
        self.__dict__.update(functions)


uses = Uses()
