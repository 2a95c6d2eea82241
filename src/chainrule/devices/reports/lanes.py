"""Draws a split step: its two passes, with a frame for each stage and messages between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chainrule.devices.reports.summary import sizes_or_latest, split_shown
from chainrule.explain.drawing.drawing import Drawing, draw
from chainrule.explain.drawing.lanes import Lanes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope
from chainrule.primitives.sources import input_

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.splitting import Split

MOST_RANKS = 4  # that a title lists


def drawing_of(step: ParallelStep, sizes: Mapping[str, int], options: Mapping[str, Any]) -> Drawing:
    """See `ParallelStep.draw`."""
    split = split_shown(step, *sizes_or_latest(step, sizes), "draw")
    graph = _passes(split.graph, {part.name for part in step.parts.accumulating.persistent})
    return draw(graph, **options, lanes=_lanes(step, split, graph))


def _passes(graph: Graph, sums: set[str]) -> Graph:
    """The graph of one micro-batch without the sums, to which its gradients are added."""
    added = {item.node for item in graph.inputs if item.name in sums}
    for node in graph.nodes:
        if any(one in added for one in node.inputs):
            added.add(node)
    names = {name: node for name, node in graph.names.items() if node not in added}
    return graph.replace(
        inputs=tuple(item for item in graph.inputs if item.node not in added),
        outputs=tuple(one for one in graph.outputs if one[1] not in added),
        nodes=tuple(node for node in graph.nodes if node not in added),
        names=names,
        result=None,
    )


def _lanes(step: ParallelStep, split: Split, graph: Graph) -> Lanes:
    """Parameters are where they are updated, data where they are read first."""
    placed = split.placed
    found: dict[Node, int] = {**placed.forward, **placed.owner}
    data: set[Node] = set()
    for node, stage in placed.forward.items():
        for read in node.inputs:
            if read.primitive is input_ and read not in placed.owner:
                found[read] = min(stage, found.get(read, stage))
                data.add(read)
    scopes = []
    grid = step.grid
    for chunk in range(placed.count):
        ranks = list(map(str, grid.of_stage(grid.stage_with(chunk))))
        if len(ranks) > MOST_RANKS:
            ranks = [*ranks[: MOST_RANKS - 2], "...", ranks[-1]]
        said = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
        scopes.append(Scope(f"stage {grid.label(chunk)}: {said}"))
    return Lanes(found, tuple(scopes), data)
