"""Implements the methods of `Graph`, `Run` and `Plan`; loads the layer of each when it is called.

They take what the methods take, after the graph: `chainrule.graph.uses` declares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.errors import MemoryLimitError
from chainrule.execute import CompiledGraph, Run, run_graph
from chainrule.execute.run import leaves_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.uses import uses

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.nonfinite import Diagnosis
    from chainrule.explain.zeros import Zeros
    from chainrule.plan.planner import Plan
    from chainrule.plan.speeds import Speeds


def _memory(graph: Graph, sizes: Mapping[str, int], **options: Any) -> MemoryReport:
    from chainrule.explain.memory.report import REFERENCE_SIZE, memory_of_graph

    def report(sizes: Mapping[str, int]) -> MemoryReport:
        return memory_of_graph(graph, sizes, **options)

    try:
        return report(sizes)
    except MemoryLimitError as error:
        from chainrule.explain.memory.refusal import smaller_size, with_ways_out

        used = {name: sizes.get(name, REFERENCE_SIZE) for name in graph.sizes}
        size = smaller_size(error, report, used)
        ways = [f"{graph.sizes[0]} = {size:,} fits"] if size else []
        raise with_ways_out(error, ways) from None


def _fits(report: MemoryReport, nbytes: int | str | None) -> Fit:
    from chainrule.explain.memory.fits import fit_of

    return fit_of(report, nbytes)


def _measured(plan: Plan, inputs: Mapping[str, Any]) -> tuple[float, ...]:
    from chainrule.execute.made_up import made_up
    from chainrule.execute.native.stamped import nanoseconds_of

    return nanoseconds_of(plan, made_up(plan.graph, leaves_of(plan.graph, inputs)))


def _speeds_here(plan: Plan) -> Speeds:
    from chainrule.explain.cost.calibration import speeds_here

    return speeds_here(plan.vector_nbytes, plan.threads)


def _explain_refusal(report: MemoryReport, needed: int, free: int, source: str) -> tuple[str, str]:
    from chainrule.explain.memory.refusal import explained

    return explained(report, needed, free, source)


def _cost(graph: Graph, sizes: Mapping[str, int]) -> Cost:
    from chainrule.explain.cost.cost import cost_of_graph

    return cost_of_graph(graph, sizes)


def _blocked(graph: Graph, results: Sequence[Node]) -> Graph:
    from chainrule.plan.products.far_larger import is_far_larger

    if not any(map(is_far_larger, graph.nodes)):
        return graph  # without what loops need, an eighth of what a first call imports
    from chainrule.control.blocks import blocked

    return blocked(graph, results)


def _draw(graph: Graph, **options: Any) -> Drawing:
    from chainrule.explain.drawing.drawing import draw

    return draw(graph, **options)


def _equations(graph: Graph, names: str | Iterable[str] | None, **options: Any) -> Equations:
    from chainrule.explain.equations import equations

    return equations(graph, names, **options)


def _python(graph: Graph, **options: Any) -> str:
    from chainrule.explain.python_source import python

    return python(graph, **options)


def _nonfinite(
    graph: Graph, arguments: Mapping[str, Any], of: str | Iterable[str] | None
) -> Diagnosis | None:
    from chainrule.explain.nonfinite import nonfinite

    return nonfinite(graph, arguments, of=of)


def _zeros(graph: Graph, arguments: Mapping[str, Any], of: str | Iterable[str] | None) -> Zeros:
    from chainrule.explain.zeros import zeros

    return zeros(graph, arguments, of=of)


def _to_onnx(graph: Graph, path: Any, **options: Any) -> bytes:
    from chainrule.exchange.to_onnx.export import to_onnx

    return to_onnx(graph, path, **options)


def _to_stablehlo(graph: Graph, path: Any, **options: Any) -> bytes:
    from chainrule.exchange.to_stablehlo import to_stablehlo

    return to_stablehlo(graph, path, **options)


def _rich_graph(graph: Graph) -> Any:
    from chainrule.explain.terminal import rich_text

    return rich_text(graph)


def _text_of_run(run: Run) -> str:
    from chainrule.explain.values.table import plain

    return plain(run)


def _html_of_run(run: Run) -> str:
    from chainrule.explain.values.table import html

    return html(run)


def _rich_run(run: Run) -> Any:
    from chainrule.explain.values.table import rich_table

    return rich_table(run)


def provide_uses() -> None:
    """Give `Graph` and `Run` what their methods call."""
    uses.provide(
        run=run_graph,
        compile=CompiledGraph,
        blocked=_blocked,
        memory=_memory,
        fits=_fits,
        measured=_measured,
        speeds_here=_speeds_here,
        explain_refusal=_explain_refusal,
        cost=_cost,
        draw=_draw,
        equations=_equations,
        python=_python,
        nonfinite=_nonfinite,
        zeros=_zeros,
        to_onnx=_to_onnx,
        to_stablehlo=_to_stablehlo,
        rich_graph=_rich_graph,
        text_of_run=_text_of_run,
        html_of_run=_html_of_run,
        rich_run=_rich_run,
    )
