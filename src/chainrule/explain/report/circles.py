"""The circles of the whole drawing: what each computes, and which circles it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chainrule.control.wording import in_words
from chainrule.dataclass import dataclass
from chainrule.explain.drawing.bands import Builder, Entry, Flat, operator_key
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.drawing.scene import Staging, Wishes
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.statements import FORWARD, Direction, is_repeated
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


@dataclass(frozen=True, eq=False)
class Circle:
    """One circle: `unit` is what it computes, or in the backward band the unit it is below.

    `key` is that of the drawing, `title` says what it does.  `gives` are the named values that its
    arrows lead to (to a gradient lead those of all that add to it), `nodes` what it computes,
    `needs` the keys of the circles before it.
    """

    key: str
    title: str
    unit: Unit
    direction: Direction
    gives: tuple[str, ...]
    nodes: tuple[Node, ...]
    needs: tuple[str, ...]

    @property
    def is_mirrored(self) -> bool:
        """Whether it is in the backward band, below a forward circle."""
        return self.direction is not self.unit.during.direction


def circles_of(graph: Graph) -> tuple[Circle, ...]:
    """Every circle of the drawing in which nothing is folded, in the order of the graph."""
    return tuple(_Finding(graph).circles())


class _Finding:
    """The circles of all bands, from their boxes and arrows."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        staging = Staging(graph, Wishes(fold="none"))
        self.objective = staging.objective
        self.units = staging.units
        self.bands, self.mirror = staging.bands(Builder(self.units, staging.parameters))
        self.flats: list[Flat] = list(self.bands)
        if self.mirror is not None:
            self.flats.insert(1, self.mirror.band)
        self.entries = {one.key: one for flat in self.flats for one in flat.entries}
        self.before: dict[str, list[str]] = {}
        self.after: dict[str, list[str]] = {}
        for flat in self.flats:
            for source, target in flat.links:
                self.before.setdefault(target, []).append(source)
                self.after.setdefault(source, []).append(target)
        self.givers = self._givers()

    def _givers(self) -> Mapping[Node, Sequence[str]]:
        """The circles after which a value is there: one, or of a gradient all that add to it."""
        squares = {
            entry.node: self.before[key]
            for key, entry in self.entries.items()
            if entry.form is Form.SQUARE
            and key in self.before
            and entry.node not in self.units.sources  # the gradient of x * w may be w itself
        }
        drawn = {unit for flat in self.bands for unit in flat.units}
        found: dict[Node, Sequence[str]] = {}
        for unit in self.units.all:
            keys = [operator_key(unit)] if unit in drawn else squares.get(unit.value, ())
            for node in unit.nodes:
                found.setdefault(node, keys)
        return squares | found

    def circles(self) -> Iterator[Circle]:
        """The circles of one band after another."""
        names: dict[Node, list[str]] = {}
        for name, node in self.graph.names.items():
            names.setdefault(node, []).append(name)
        mirrored = self.mirror.band if self.mirror is not None else None
        drawn = {entry.name for entry in mirrored.entries} if mirrored is not None else set()
        below, saved = self._below(), self._saved(self.mirror)
        for flat in self.flats:
            for entry in flat.entries:
                unit = entry.unit
                if entry.form is not Form.CIRCLE or unit is None:
                    continue
                if flat is mirrored:
                    gives = [self.entries[one].name for one in self.after.get(entry.key, ())]
                    nodes = list(below.get(unit, ()))
                else:
                    several = names.get(unit.value, ()) if unit.name else ()
                    gives = [one for one in several if one not in drawn]
                    nodes = [one for one in unit.nodes if one is unit.value or not is_repeated(one)]
                needs = dict.fromkeys(self._needed_by(entry, is_mirrored=flat is mirrored))
                needs |= dict.fromkeys(saved.get(entry.key, ()))
                needs.pop(entry.key, None)
                yield Circle(
                    entry.key,
                    _title(unit, is_mirrored=flat is mirrored),
                    unit,
                    flat.during.direction,
                    tuple(one for one in gives if one),
                    tuple(nodes),
                    tuple(needs),
                )

    def _needed_by(self, circle: Entry, *, is_mirrored: bool) -> Iterator[str]:
        """The circles that compute what a circle reads, or the gradient that comes to it."""
        if circle.unit is not None and not is_mirrored:
            for node in circle.unit.reads:
                yield from self.givers.get(node, ())
            return
        for key in self.before.get(circle.key, ()):
            yield from [key] if self.entries[key].form is Form.CIRCLE else self.before.get(key, ())

    def _saved(self, mirror: Mirror | None) -> dict[str, list[str]]:
        """For each backward circle, the circles that compute what it reads of the forward pass."""
        found: dict[str, list[str]] = {}
        for (_, target), nodes in mirror.saved.items() if mirror is not None else ():
            for node in nodes:
                found.setdefault(target, []).extend(self.givers.get(node, ()))
        return found

    def _below(self) -> Mapping[Unit, dict[Node, None]]:
        """What the backward pass computes for each forward unit: the terms of the chain rule that
        come through it, and unnamed nodes on the way to them."""
        found: dict[Unit, dict[Node, None]] = {}
        variables: dict[Node, Unit] = {}
        for gradient in self.graph.gradients:
            if gradient.of == self.objective:
                for unit in self._units_of(gradient.wrt):
                    variables[gradient.value] = unit
                for term in gradient.terms:
                    for unit in self._units_of(term.consumer):
                        found.setdefault(unit, {})[term.value] = None
        for node, (own, *_) in self.units.owners.items():
            if node.origin.node is None or is_repeated(node):
                continue
            for unit in self._units_of(node.origin.node):
                if unit is not variables.get(own.value):  # that is for sums of terms
                    found.setdefault(unit, {})[node] = None
        return {
            unit: {node: None for node in several if not self._is_forward(node)}
            for unit, several in found.items()
        }

    def _units_of(self, node: Node) -> Sequence[Unit]:
        """The forward unit in which a node is, if it is in one."""
        return [one for one in self.units.owners.get(node, ())[:1] if one.during == FORWARD]

    def _is_forward(self, node: Node) -> bool:
        return bool(self._units_of(node)) or node in self.units.sources


def _title(unit: Unit, *, is_mirrored: bool) -> str:
    name = unit.name or in_words(unit.value) or f"a part of {unit.statement.name}"
    if is_mirrored:
        return f"backward of {name}"
    match unit.during.direction:
        case Direction.FORWARD:
            return f"forward of {name}"
        case Direction.BACKWARD:
            return f"gradient {name}"
        case Direction.TANGENT:
            return f"tangent {name}"
        case Direction.UPDATE:
            return f"update: {name}"
