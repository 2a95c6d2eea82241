"""Finds the two graphs of a rank of a split step, and how the arrays of the state lie on ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass
from chainrule.devices.grid import Grid
from chainrule.devices.parts import Parts, parts_at
from chainrule.devices.single_parts import without_sums
from chainrule.devices.tensor.choosing import Chosen
from chainrule.devices.tensor.layouts import Layout
from chainrule.devices.tensor.step import Cut, over_replicas, over_shards
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep


@dataclass(frozen=True, eq=False)
class RankGraphs:
    """The graphs of a rank: `parts`.

    `cuts` are those of the arrays of the state, `layouts` say how shards have the values of the
    passes, `chosen` along which axes parameters are split, if they are.  Where the update is
    `sharded`, it adds the sums of replicas itself.
    """

    parts: Parts
    grid: Grid
    cuts: Mapping[str, tuple[Cut, ...]]
    layouts: Mapping[Node, Layout]
    chosen: Chosen | None
    sharded: bool


def graphs_of(step: ParallelStep, sizes: Mapping[str, int]) -> RankGraphs:
    """The graphs of each rank of a step, for a part of a batch of these sizes."""
    parts = parts_at(step.parts, sizes)
    cuts, layouts, chosen = {}, {}, None
    if step.grid.ways > 1:
        chosen = step.chosen(parts.summing)
        parts, cuts, layouts = over_shards(parts, step.grid, chosen.axes)
    if step.parts.count == step.replicas:
        parts = without_sums(parts)
    if step.shard_optimizer:
        parts, cuts = over_replicas(parts, step.grid, cuts)
    return RankGraphs(parts, step.grid, cuts, layouts, chosen, step.shard_optimizer)
