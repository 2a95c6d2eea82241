"""Spreads the two graphs of a training step over shards, and its update over replicas."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass, replace
from chainrule.devices.grid import Grid
from chainrule.devices.parts import Parts
from chainrule.devices.tensor.collectives import REPLICAS, SHARDS
from chainrule.devices.tensor.layouts import PARTIAL, WHOLE, Layout, fits
from chainrule.devices.tensor.rules import exact_rules_of
from chainrule.devices.tensor.spreading import spread
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.types import Shape

Cut = tuple[str, int]  # a group of ranks, and the axis along which each has a part


@dataclass(frozen=True)
class Lying:
    """How the arrays of a state lie on ranks: `cuts` are those of each array, one after another."""

    grid: Grid
    cuts: Mapping[str, tuple[Cut, ...]]

    def whole_shape(self, name: str, own: Shape) -> tuple[int, ...]:
        """The shape of an array of which each rank has a part of this shape."""
        found = [int(length) for length in own]
        for among, axis in self.cuts.get(name, ()):
            found[axis] *= self.grid.size(among)
        return tuple(found)

    def writes(self, name: str, rank: int, number: int) -> bool:
        """Whether it is this one of the ranks that have the same of an array, the one of this
        number, that writes it."""
        places = self.grid.places(rank)
        alike, place = 1, 0
        for among in sorted(places.keys() - {one for one, _ in self.cuts.get(name, ())}):
            place += places[among] * alike
            alike *= self.grid.size(among)
        return number % alike == place

    def part(self, name: str, shape: tuple[int, ...], rank: int) -> tuple[slice, ...]:
        """What a rank has of an array of this shape."""
        places = self.grid.places(rank)
        found = [slice(0, length) for length in shape]
        for among, axis in self.cuts.get(name, ()):
            one = found[axis]
            length = (one.stop - one.start) // self.grid.size(among)
            start = one.start + places[among] * length
            found[axis] = slice(start, start + length)
        return tuple(found)


def over_shards(
    parts: Parts, grid: Grid, axes: Mapping[str, int | None]
) -> tuple[Parts, dict[str, tuple[Cut, ...]], Mapping[Node, Layout]]:
    """The graphs of one shard, where parameters are split along these axes; the cuts of the arrays
    of the state, and how the values of the passes lie."""
    inputs = {
        item.name: item.node for one in (parts.summing, parts.updating) for item in one.inputs
    }
    layouts = {name: Layout(axis) for name, axis in axes.items()}
    for name, parameter in parts.owned.items():
        if inputs[name].shape == inputs[parameter].shape:
            layouts[name] = layouts[parameter]
    for name in parts.sums:
        parameter = parts.summed[name]
        layouts[name] = WHOLE if parameter is None else layouts[parameter]
    summing, updating = parts.summing, parts.updating
    after = {summing.names[then]: layouts[name] for name, then in parts.sums.items()}
    after |= {summing.names[then]: WHOLE for then in parts.carried.values()}
    after[summing.names[parts.objective]] = WHOLE
    passes = spread(summing, grid.ways, SHARDS, _of_inputs(summing, layouts), fixed=after)
    update = spread(
        updating,
        grid.ways,
        SHARDS,
        _of_inputs(updating, layouts),
        ends=_at_end(parts, updating, layouts),
    )
    cuts: dict[str, tuple[tuple[str, int], ...]] = {
        name: ((SHARDS, layout.axis),)
        for name, layout in layouts.items()
        if layout.axis is not None and name not in parts.sums
    }
    return replace(parts, summing=passes.graph, updating=update.graph), cuts, passes.own


def over_replicas(
    parts: Parts, grid: Grid, cuts: Mapping[str, tuple[Cut, ...]]
) -> tuple[Parts, dict[str, tuple[Cut, ...]]]:
    """The step in which each replica updates its share of each parameter, with the bits of all.

    Sums of gradients are added where they are scattered; arrays of the optimizer stay split.  What
    has no axis of as many equal parts is updated by each replica alike.
    """
    graph = parts.updating
    inputs = {item.name: item.node for item in graph.inputs}
    share = {
        name: next(
            (at for at in map(Layout, range(node.ndim)) if fits(node.type, at, grid.replicas)),
            WHOLE,
        )
        for name, node in inputs.items()
    }
    found = dict(cuts)
    layouts, first, ends = {}, {}, {}
    for name in parts.sums:
        layouts[name] = PARTIAL
        parameter = parts.summed[name]
        first[inputs[name]] = WHOLE if parameter is None else share[parameter]
    for name, parameter in parts.owned.items():
        axis = share[parameter].axis
        if name != parameter and axis is not None and inputs[name].shape == inputs[parameter].shape:
            layouts[name] = share[parameter]
            found[name] = (*cuts.get(name, ()), (REPLICAS, axis))
    for name in parts.summed.values():
        if name is not None:
            first[inputs[name]] = share[name]
    ends = _at_end(parts, graph, layouts)
    made = spread(
        graph,
        grid.replicas,
        REPLICAS,
        _of_inputs(graph, layouts),
        first=first,
        ends=ends,
        rules=exact_rules_of,
    )
    return replace(parts, updating=made.graph), found


def _of_inputs(graph: Graph, layouts: Mapping[str, Layout]) -> dict[Node, Layout]:
    return {item.node: layouts[item.name] for item in graph.inputs if item.name in layouts}


def _at_end(parts: Parts, graph: Graph, layouts: Mapping[str, Layout]) -> dict[Node, Layout]:
    """An array lies after the update as before."""
    found = {graph.names[then]: layouts.get(name, WHOLE) for name, then in parts.following.items()}
    return {**found, graph.names[parts.objective]: WHOLE}
