"""The values of a page: what each is, how it is computed, what reads it, and its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from chainrule.explain.equations import Equation, Equations
from chainrule.explain.equations.formula import symbols_in
from chainrule.explain.reading.statements import FORWARD, Direction, Reading
from chainrule.explain.reading.symbols import Notation
from chainrule.explain.report.chain import Chains
from chainrule.explain.report.iterations import IterationsOf
from chainrule.explain.report.loops import first_results, loops_of, of_bodies
from chainrule.explain.report.needs import Needs
from chainrule.explain.report.pictures import Pictures
from chainrule.explain.report.plain import lines, size, text
from chainrule.explain.report.reads import reads_of
from chainrule.explain.report.sources import Sources
from chainrule.explain.report.statistics import (
    elements_data,
    histogram_data,
    statistics_data,
    summary_of,
)
from chainrule.explain.report.steps import Steps
from chainrule.explain.report.subject import Subject
from chainrule.explain.report.zeros import WhyZero
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.primitives.sources import constant
from chainrule.transforms.backward import gradient_name

MOST_SYMBOLS = 12  # that are explained below an equation again
NO_NUMBERS: Mapping[str, Any] = dict.fromkeys(("stats", "numbers", "histogram", "picture"))


class Values:
    """The values of one subject; `ids` are their places by name, in the order of the graph."""

    def __init__(
        self,
        subject: Subject,
        reading: Reading,
        equations: Equations,
        notation: Notation,
        pictures: Pictures,
    ) -> None:
        self.subject, self.reading, self.notation = subject, reading, notation
        self.graph: Graph = reading.graph
        self.nodes = _named(reading)
        self.ids = {name: at for at, name in enumerate(self.nodes)}
        self.equations, self.pictures, self.sources = equations, pictures, Sources()
        self.chains = Chains(reading, notation, equations, subject, self.ids)
        self.needs = Needs(subject.memory)
        self.why_zero = WhyZero(subject, reading.graph)
        self.iterations = IterationsOf(self.why_zero.computed)
        self.gradients = self._gradients()
        self.id_of = self._main_ids()
        self.reads, self.shortened = reads_of(reading, self.id_of)
        self.read_by = self._read_by()

    def _gradients(self) -> dict[str, Gradient]:
        """The gradients of values, by the names that `backward` gives them."""
        names_of: dict[Node, list[str]] = {}
        for name, node in self.nodes.items():
            names_of.setdefault(node, []).append(name)
        found: dict[str, Gradient] = {}
        for gradient in self.graph.gradients:
            for variable in names_of.get(gradient.wrt, ()):
                name = gradient_name(gradient.of, variable)
                if self.nodes.get(name) is gradient.value:
                    found[name] = gradient
        return found

    def _main_ids(self) -> dict[Node, int]:
        """The value that stands for a node where several are equal: one that is no gradient, else
        the gradient that the equations have first."""
        ranks: dict[Node, tuple[bool, int]] = {}
        found: dict[Node, int] = {}
        for name, node in self.nodes.items():
            number = self.equations[name].number if name in self.equations else 0
            rank = name in self.gradients, number
            if node not in ranks or rank < ranks[node]:
                ranks[node], found[node] = rank, self.ids[name]
        return found

    def _read_by(self) -> list[list[int]]:
        """The places of the values that are made from each."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for name, node in self.nodes.items():
            for one in self.reads.get(node, ()):
                found[one].append(self.ids[name])
        return found

    @property
    def given(self) -> set[str]:
        """The names of what is there before anything is computed; gradients are none of it."""
        sources = self.reading.sources
        return {name for name, node in self.nodes.items() if node in sources} - set(self.gradients)

    def data(self, steps: Steps) -> list[dict[str, Any]]:
        """The `values` of a page."""
        arrays = dict(self._arrays())
        gradient_of: dict[int, int] = {}
        for name, gradient in self.gradients.items():
            gradient_of.setdefault(self.id_of[gradient.wrt], self.ids[name])
        written = _written(self.equations, self.subject.graph)
        written_as = self.subject.graph
        loops = loops_of(self.graph, written_as, self.equations, self.id_of, self.sources)
        holders = {at: holder for holder, at in first_results(self.graph, self.ids).items()}
        found = []
        for name, node in self.nodes.items():
            gradient = self.gradients.get(name)
            found.append(
                {
                    **self._type(name, node, gradient),
                    "equation": written.get(name),
                    "chain": [] if gradient is None else self.chains.terms(name, gradient, steps),
                    "gradient": gradient_of.get(self.ids[name]),
                    "of": None if gradient is None else self.id_of[gradient.wrt],
                    "reads": list(self.reads.get(node, ())),
                    "read_by": self.read_by[self.ids[name]],
                    "loop": loops.get(node),
                    "iterations": self.iterations.data(holders.get(self.ids[name])),
                    **self.needs.data(name, node, steps.timing),
                    **self.why_zero.data(name, node, gradient is not None),
                    "source": self._source(name, node),
                    "scope": text(_scope(node)),
                    **arrays.get(name, NO_NUMBERS),
                }
            )
        return found

    def _source(self, name: str, node: Node) -> dict[str, Any] | None:
        """The user's line; None for what the optimizer computes in none."""
        place = self.sources.place(node.origin)
        is_update = self._pass(name, node) == str(Direction.UPDATE)
        return None if place and is_update and place["column"] is None else place

    def _type(self, name: str, node: Node, gradient: Gradient | None) -> dict[str, Any]:
        during = self._pass(name, node)
        return {
            "name": text(name),
            "label": self.notation.text(name),
            "latex": self.notation.latex(name),
            "kind": self._kind(name, node, gradient, during),
            "pass": during,
            "shape": list(map(size, node.shape)),
            "dtype": node.dtype.name,
            "nbytes": size(node.type.nbytes),
        }

    def _kind(self, name: str, node: Node, gradient: Gradient | None, during: str) -> str:
        if name in self.subject.parameters:
            return "parameter"
        if name in self.subject.state:
            return "state"
        if gradient is not None:
            of_parameter = self.reading.sources.get(gradient.wrt) in self.subject.parameters
            return "parameter-gradient" if of_parameter else "gradient"
        if node.primitive is constant:
            return "constant"
        if node in self.reading.sources:
            return "input"
        return "update" if during == "update" else "variable"

    def _pass(self, name: str, node: Node) -> str:
        if name in self.equations:
            return str(self.equations[name].during.direction)
        statement = self.reading.statement_of.get(node)
        return str((statement.during if statement else FORWARD).direction)

    def _arrays(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The numbers of each value; of inputs and their gradients first, which are looked at most,
        so that these have pictures."""
        if self.subject.values is None:
            return
        sources = self.reading.sources
        first = [
            name
            for name, node in self.nodes.items()
            if node in sources or (name in self.gradients and self.gradients[name].wrt in sources)
        ]
        for name in dict.fromkeys((*first, *self.nodes)):
            node = self.nodes[name]
            array = self.subject.values.get(node)
            if array is None and node.primitive is constant:
                array = node.param("value").array
            if array is not None:
                is_data = node in sources and name not in self.subject.parameters
                yield name, self._numbers(array, is_data)

    def _numbers(self, array: np.ndarray, is_data: bool) -> dict[str, Any]:
        summary = summary_of(array)
        return {
            "stats": statistics_data(summary),
            "numbers": elements_data(array),
            "histogram": histogram_data(summary),
            "picture": self.pictures.picture(array, summary, images=is_data),
        }

    def notes(self) -> Iterator[str]:
        """What was left out, and why."""
        if self.shortened:
            yield f"Of {self.shortened:,} unnamed values, not all that makes them is listed."
        yield from self.chains.notes()
        yield from self.why_zero.notes()
        yield from self.iterations.notes()
        yield from self.pictures.notes()


def _named(reading: Reading) -> dict[str, Node]:
    """Inputs, constants that have a name, and named values, in the order of the graph."""
    place = {node: at for at, node in enumerate(reading.graph.nodes)}
    found = dict(reading.graph.names)
    for node, name in reading.sources.items():
        if name:
            found.setdefault(name, node)
    return dict(sorted(found.items(), key=lambda pair: place[pair[1]]))


def _written(equations: Equations, graph: Graph) -> dict[str, dict[str, Any]]:
    """The equation of each value, then those of the symbols that stand in it."""
    apart = of_bodies(equations, graph)
    groups: list[list[Equation]] = []
    for one in equations:
        if one in apart:
            continue
        if one.number:
            groups.append([])
        groups[-1].append(one)
    defined = {one.node: one for group in groups for one in group[1:]}
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        said = [*group, *_elsewhere(group, defined)]
        found[group[0].name] = {
            "number": group[0].number,
            "latex": [one.latex() for one in said],
            "text": "\nwhere ".join(lines(str(one)) for one in said),
        }
    return found


def _elsewhere(said: Iterable[Equation], defined: Mapping[Node, Equation]) -> Iterator[Equation]:
    """What the symbols in some equations mean that are defined below others: these, then what
    stands in these, MOST_SYMBOLS at most."""
    waiting = list(said)
    seen = {one.node for one in waiting[1:]}
    left = MOST_SYMBOLS
    for one in waiting:  # which grows
        for node in {part.node: None for side in one.formulas for part in symbols_in(side)}:
            if left and node in defined and node not in seen:
                seen.add(node)
                waiting.append(defined[node])
                left -= 1
                yield defined[node]


def _scope(node: Node) -> str:
    """The calls of the user's functions in which a value was made: `block.attention`."""
    return ".".join([one.name for one in reversed(node.origin.scopes) if not one.symbol])
