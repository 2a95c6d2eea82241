"""Each pass as boxes and arrows, before any is folded: circles for units, squares for values."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from chainrule.dataclass import dataclass, field
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.units import Unit, Units
from chainrule.explain.reading.statements import Direction, Pass
from chainrule.graph.node import Node


class Role(StrEnum):
    """What a box is for: decides its colours."""

    VARIABLE = "variable"
    PARAMETER = "parameter"
    OPERATOR = "operator"
    GRADIENT = "gradient"
    PARAMETER_GRADIENT = "parameter-gradient"
    BACKWARD = "backward"
    RESULT = "result"
    UPDATE = "update"
    COPY = "copy"


OPERATORS = {
    Direction.FORWARD: Role.OPERATOR,
    Direction.BACKWARD: Role.BACKWARD,
    Direction.TANGENT: Role.UPDATE,
    Direction.UPDATE: Role.UPDATE,
}
VALUES = {
    Direction.FORWARD: Role.VARIABLE,
    Direction.BACKWARD: Role.GRADIENT,
    Direction.TANGENT: Role.RESULT,
    Direction.UPDATE: Role.RESULT,
}


@dataclass(frozen=True, eq=False)
class Entry:
    """One box: `node` is the value that it shows or computes, `unit` what computes it.

    `name` is the full name of the value, '' for circles and for values that have none.
    """

    key: str
    form: Form
    role: Role
    node: Node
    name: str = ""
    unit: Unit | None = None
    beside: bool = False
    number: int = 0


@dataclass
class Flat:
    """The boxes and arrows of one pass, in topological order; arrows by the keys of boxes.

    A band that is one body of a loop or a choice has its `title`, and a `note` about it.
    """

    during: Pass
    entries: list[Entry] = field(default_factory=list)
    links: dict[tuple[str, str], None] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    title: str = ""
    note: str = ""

    def link(self, source: str, target: str) -> None:
        """An arrow, once."""
        self.links[source, target] = None


def operator_key(unit: Unit) -> str:
    """The key of a unit's circle."""
    return f"operator {unit.key}"


def value_key(name: str) -> str:
    """The key of the square of a named value."""
    return f"value {name}"


class Builder:
    """Adds units to bands, each with the sources that it reads first."""

    def __init__(self, units: Units, parameters: Iterable[Node]) -> None:
        self.units = units
        self.parameters = set(parameters)
        sources = enumerate(units.sources)
        self.order = {node: (node in self.parameters, place) for place, node in sources}
        self.key_of: dict[Node, str] = {}  # of the box that shows a value
        self.band_of: dict[str, Flat] = {}
        self.count = 0

    def band(
        self,
        during: Pass,
        members: list[Unit],
        unused: Iterable[Node] = (),
        title: str = "",
        note: str = "",
    ) -> Flat:
        """The units of one pass.  What they read from other passes is shown again, as copies."""
        band = Flat(during, units=members, title=title, note=note)
        for unit in members:
            self.band_of[operator_key(unit)] = band
        for node in unused:
            self._source(band, node, beside=False)
        for unit in members:
            self._unit(band, unit)
        return band

    def _unit(self, band: Flat, unit: Unit) -> None:
        operator = operator_key(unit)
        incoming = self._incoming(band, unit)
        self.count += 1
        role = OPERATORS[band.during.direction]
        band.entries.append(
            Entry(operator, Form.CIRCLE, role, unit.value, unit=unit, number=self.count)
        )
        for source in incoming:
            band.link(source, operator)
        self.key_of[unit.value] = operator
        if unit.name:
            key = self.key_of[unit.value] = value_key(unit.name)
            self.band_of[key] = band
            role = VALUES[band.during.direction]
            band.entries.append(Entry(key, Form.SQUARE, role, unit.value, unit.name, unit))
            band.link(operator, key)

    def _incoming(self, band: Flat, unit: Unit) -> list[str]:
        """The boxes that a unit reads; sources and copies that are not there yet are added.

        One of these is in the flow, unless there is something else that is.
        """
        found: list[str] = []
        new: dict[object, Node] = {}  # by their box: values inside one circle are one copy
        for node in unit.reads:
            key = self.shown(node)
            if key is not None and self.band_of.get(key) is band:
                found.append(key)
            else:
                new.setdefault(self._of_another_pass(node, key), node)
        several = sorted(new.values(), key=self._rank)
        if band.title:  # what comes in at each iteration is in the flow
            several.sort(key=lambda node: node in self.key_of)
        for place, node in enumerate(several):
            beside = bool(found) if place == 0 else True
            if node in self.units.sources and node not in self.key_of:
                found.append(self._source(band, node, beside=beside))
            else:
                found.append(self._copy(band, node, unit, beside=beside))
        return found

    def _rank(self, node: Node) -> tuple[bool, int]:
        """Data before parameters before values of other passes; then the order of the inputs."""
        return self.order.get(node, (True, len(self.order)))

    def shown(self, node: Node) -> str | None:
        """The box of a value, or of the circle inside which it is; None if there is none yet."""
        key = self.key_of.get(node)
        if key is None and node in self.units.owners:
            return operator_key(self.units.owners[node][0])
        return key

    def _of_another_pass(self, node: Node, key: str | None) -> object:
        """What a copy is of: a named value, or the circle that has a value without a name inside.

        Of what derivatives compute, that is the circle of the backward pass: one gradient may be
        made of what several circles compute.
        """
        if node in self.key_of or key is None:
            return key or node
        if node in self.units.reading.names:
            return node
        owners = self.units.owners.get(node.origin.node) if node.origin.node is not None else None
        return f"backward {owners[0].key}" if owners else key

    def _source(self, band: Flat, node: Node, *, beside: bool) -> str:
        name = self.units.sources[node]
        key = value_key(name) if name else f"constant {len(self.key_of)}"
        role = Role.PARAMETER if node in self.parameters else Role.VARIABLE
        band.entries.append(Entry(key, Form.SQUARE, role, node, name, beside=beside))
        self.key_of[node] = key
        self.band_of[key] = band
        return key

    def _copy(self, band: Flat, node: Node, unit: Unit, *, beside: bool) -> str:
        name = self.units.sources.get(node) or self.units.reading.names.get(node, "")
        key = f"copy {len(band.entries)} for {unit.key}"
        band.entries.append(Entry(key, Form.COPY, Role.COPY, node, name, beside=beside))
        self.band_of[key] = band
        return key
