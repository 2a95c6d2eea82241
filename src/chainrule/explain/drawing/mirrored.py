"""The backward pass as boxes below those of the forward pass, and what it reads there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from chainrule.explain.drawing.bands import Builder, Entry, Flat, Role, operator_key
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.saved import Saving
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.statements import FORWARD, Direction, Pass, Statement
from chainrule.explain.reading.symbols import parted
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient

BACKWARD = Pass(1, Direction.BACKWARD)


@dataclass
class Mirror:
    """The backward band; `under` gives the forward box above each box; `saved` lists, for each
    pair of a forward box and a backward circle, the values that the circle reads there."""

    band: Flat
    under: dict[str, str] = field(default_factory=dict)
    saved: dict[tuple[str, str], dict[Node, None]] = field(default_factory=dict)


def gradient_key(name: str) -> str:
    """The key of the square of a gradient."""
    return f"gradient {name}"


def backward_key(unit: Unit) -> str:
    """The key of the backward circle of a forward unit."""
    return f"backward {unit.key}"


class Mirroring:
    """The gradients of `objective` with respect to the values in the forward band."""

    def __init__(self, builder: Builder, forward: Flat, objective: str) -> None:
        self.builder, self.forward, self.objective = builder, forward, objective
        self.units, self.reading = builder.units, builder.units.reading
        self.drawn = {
            entry.node: entry.key for entry in forward.entries if entry.form is Form.SQUARE
        }

    @cached_property
    def names(self) -> Mapping[Node, str]:
        """The names of the gradients that get a square, by the forward value they belong to."""
        alike: dict[Node, list[str]] = {}
        for name, node in self.reading.graph.names.items():
            alike.setdefault(node, []).append(name)
        later = {
            one.value for one in self.reading.statements if one.during not in (FORWARD, BACKWARD)
        }
        found: dict[Node, str] = {}
        for gradient in self._gradients:
            if gradient.wrt in self.drawn and gradient.value not in later:
                wrt = self._name(gradient.wrt)
                for name in alike.get(gradient.value, ()):
                    seeds = wrt == self.objective and parted(name) is None
                    if seeds or parted(name) == (self.objective, wrt):
                        found.setdefault(gradient.wrt, name)
        return found

    @cached_property
    def _gradients(self) -> list[Gradient]:
        return [one for one in self.reading.graph.gradients if one.of == self.objective]

    @cached_property
    def statements(self) -> list[Statement]:
        """Those whose values are in the backward band."""
        values = {one.value for one in self._gradients if one.wrt in self.names}
        return [one for one in self.reading.statements
                if one.value in values and one.during == BACKWARD]  # fmt: skip

    def _name(self, node: Node) -> str:
        return self.units.sources.get(node) or self.reading.names.get(node, "")

    @cached_property
    def contributors(self) -> Mapping[Node, dict[Unit, None]]:
        """The forward units from which the gradient of each value gets its terms."""
        found: dict[Node, dict[Unit, None]] = {}
        for gradient in self._gradients:
            variable = self.units.resolved(gradient.wrt)
            if variable is None:
                continue
            for term in gradient.terms:
                for unit in self.units.owners.get(term.consumer, ()):
                    if variable in unit.reads:
                        found.setdefault(variable, {})[unit] = None
        return found

    @cached_property
    def circles(self) -> set[Unit]:
        """The forward units that pass a gradient on to something drawn."""
        found: set[Unit] = set()
        gives: dict[Unit, list[Node]] = {}
        for value, several in self.contributors.items():
            for unit in several:
                gives.setdefault(unit, []).append(value)
        for unit in self.forward.units:
            for value in gives.get(unit, ()):
                maker = self.units.owners.get(value, (None,))[0]
                if value in self.names or (value not in self.drawn and maker in found):
                    found.add(unit)
        return found

    def mirror(self, parameters: set[Node]) -> Mirror:
        """The band, in topological order: from the objective back to the inputs."""
        mirror = Mirror(Flat(BACKWARD))
        number = self.builder.count
        for unit in reversed(self.forward.units):
            self._gradient(mirror, unit.value, Role.GRADIENT)
            if unit not in self.circles:
                continue
            number += 1
            key = backward_key(unit)
            entry = Entry(key, Form.CIRCLE, Role.BACKWARD, unit.value, unit=unit, number=number)
            mirror.band.entries.append(entry)
            mirror.under[key] = operator_key(unit)
            if unit.value in self.names:
                mirror.band.link(gradient_key(self.names[unit.value]), key)
            elif not unit.name:
                self._links(mirror, unit.value, key)
        for entry in self.forward.entries:
            if entry.node in self.units.sources:
                role = Role.PARAMETER_GRADIENT if entry.node in parameters else Role.GRADIENT
                self._gradient(mirror, entry.node, role)
        self.builder.count = number
        self._complete(mirror)
        self._save(mirror)
        return mirror

    def _complete(self, mirror: Mirror) -> None:
        """Arrows from the gradients that a gradient is computed from, where no path shows it: what
        lay between them, the gradient of a value without a name, has been simplified away.

        None runs back to a box before its source, where values that are equal are computed once:
        folded, such boxes would read each other in a circle.
        """
        squares: dict[Node, list[str]] = {}  # equal gradients are one node
        for name in self.names.values():
            squares.setdefault(self.reading.graph.names[name], []).append(gradient_key(name))
        paths = _Paths(mirror.band)
        for statement in self.statements:
            for target in squares.get(statement.value, ()):
                for read in statement.reads:
                    sources = squares.get(read, ())
                    if sources and not paths.lead(sources, target):
                        for maker in paths.into(target):
                            if paths.are_ordered(sources[0], maker):
                                paths.add(sources[0], maker)

    def _gradient(self, mirror: Mirror, variable: Node, role: Role) -> None:
        """The square of the gradient of a variable, with arrows from all that add to it."""
        name = self.names.get(variable)
        if name is None:
            return
        key = gradient_key(name)
        node = self.reading.graph.names[name]
        mirror.band.entries.append(Entry(key, Form.SQUARE, role, node, name))
        mirror.under[key] = self.drawn[variable]
        self._links(mirror, variable, key)

    def _links(self, mirror: Mirror, variable: Node, target: str) -> None:
        for unit in self.contributors.get(variable, ()):
            if unit in self.circles:
                mirror.band.link(backward_key(unit), target)

    def _save(self, mirror: Mirror) -> None:
        """The dashed arrows to the circles."""
        saving = Saving(self.builder, self.objective, self._gradients, self.names)
        for gradient in self._gradients:
            saving.add_terms(gradient)
        for statement in self.statements:
            saving.add_statement(statement)
        for (source, unit), values in saving.found.items():
            if unit in self.circles:
                mirror.saved[source, backward_key(unit)] = values


class _Paths:
    """What leads to what by the arrows of a band, which run forward in the order of its boxes."""

    def __init__(self, band: Flat) -> None:
        self._band = band
        self._place = {entry.key: place for place, entry in enumerate(band.entries)}
        self._into: dict[str, list[str]] = {}
        for source, target in list(band.links):
            self.add(source, target)
        self._trunk = {box: place for place, box in enumerate(self._leading_to_all())}

    def _leading_to_all(self) -> Iterator[str]:
        """The boxes that lead to all later ones."""
        onward: dict[str, list[str]] = {}
        for source, target in self._band.links:
            onward.setdefault(source, []).append(target)
        boxes = [box for box in self._place if box not in self._into]
        while len(boxes) == 1:
            yield boxes[0]
            boxes = onward.get(boxes[0], [])

    def are_ordered(self, source: str, target: str) -> bool:
        """Whether the first stands before the second."""
        return self._place[source] < self._place[target]

    def add(self, source: str, target: str) -> None:
        """An arrow more, in the band too."""
        self._band.link(source, target)
        self._into.setdefault(target, []).append(source)

    def into(self, target: str) -> tuple[str, ...]:
        """Where the arrows to a box come from."""
        return tuple(self._into.get(target, ()))

    def lead(self, sources: Collection[str], target: str) -> bool:
        """Whether a path of arrows goes from one of the sources to the target."""
        until = self._trunk.get(target, len(self._trunk))
        if any(self._trunk.get(source, until) < until for source in sources):
            return True
        first = min(self._place[source] for source in sources)
        found, stack = {target}, [target]
        while stack:
            for box in self._into.get(stack.pop(), ()):
                if box in sources:
                    return True
                if box not in found and self._place[box] > first:
                    found.add(box)
                    stack.append(box)
        return False
