"""Chooses along which axes parameters are split: those that are asked for, and what follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.devices.tensor.collectives import SHARDS
from chainrule.devices.tensor.layouts import WHOLE, Layout, fits
from chainrule.devices.tensor.rules import Rule, labels_of, rules_of
from chainrule.devices.tensor.spreading import SpreadGraph, spread
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.types import ArrayType
from chainrule.nearest import perhaps
from chainrule.primitives.primitive import Contract

Axes = Mapping[str, int | None]


@dataclass(frozen=True)
class Chosen:
    """How parameters lie, and why: `reasons` has a half sentence for each."""

    axes: Axes
    reasons: Mapping[str, str]


MOST_WAYS = 8  # that are tried unasked


def choose(
    graph: Graph,
    objective: Node,
    parameters: Collection[str],
    ways: int,
    asked: Axes | None,
    *,
    advise: bool = True,
) -> Chosen:
    """The axis of each parameter that is split over `ways` ranks; None for one that is whole.

    Where nothing is asked for: a product of a whole value with a parameter is split by columns, if
    what comes of it is then only added up, as where the next product has the columns as rows.  In
    each case other parameters follow of which only a part would be needed on each rank.

    InputError for an axis that a parameter has not, or that has no equal parts, and where nothing
    can be split, with advice that was tried unless nobody reads it.
    """
    choosing = _Choosing(graph, objective, parameters, ways)
    if asked is not None:
        axes = _checked(graph, parameters, ways, asked)
        return choosing.following(axes, axes)[0]
    found = choosing.alone()
    if found is None:
        advice = _advice(graph, objective, parameters, ways) if advise else ""
        raise not_shared(ways, advice)
    return found


def not_shared(ways: int, advice: str) -> InputError:
    """The error where nothing can be split."""
    return InputError(
        f"ways={ways}, and no parameter has {ways} equal parts whose products are only added up",
        hint=advice,
    )


def can_choose(
    graph: Graph,
    objective: Node,
    parameters: Collection[str],
    ways: int,
    among: Collection[str] | None = None,
) -> bool:
    """Whether `choose` finds something to split where nothing is asked for; with `among`, a product
    with one of these parameters."""
    choosing = _Choosing(graph, objective, parameters, ways)
    return any(
        not choosing.following({name: axis}, ())[1].gathered_nbytes
        for name, axis in choosing.products()
        if among is None or name in among
    )


def _advice(graph: Graph, objective: Node, parameters: Collection[str], ways: int) -> str:
    """Other ways that fit, and a parameter that has equal parts."""
    others = [
        str(one)
        for one in range(2, MOST_WAYS + 1)
        if one != ways and can_choose(graph, objective, parameters, one)
    ]
    hints = [f"ways={' or '.join(others)}"] if others else []
    for name in parameters:
        type_ = graph[name].type
        axis = next((at for at in range(type_.ndim) if fits(type_, Layout(at), ways)), None)
        if axis is not None:
            hints.append(
                f"split={{{name!r}: {axis}}}, if others are to gather what they need whole"
            )
            break
    return "; or ".join(hints) or "stages= or replicas= share a step out without equal parts of it"


def _checked(graph: Graph, parameters: Collection[str], ways: int, asked: Axes) -> Axes:
    if not isinstance(asked, Mapping):
        raise InputError(
            f"split is {asked!r}", hint='split={"W1": 1}: the axis of each parameter that is split'
        )
    found: dict[str, int | None] = {}
    for name, axis in asked.items():
        if name not in parameters:
            raise InputError(
                f"split names {name}, which is no parameter of the step",
                hint=f"{perhaps(name, list(parameters))}one of: {', '.join(parameters)}",
            )
        if axis is None:
            found[name] = None
            continue
        found[name] = _axis(name, axis, graph[name].type, ways)
    return found


def _axis(name: str, asked: Any, type_: ArrayType, ways: int) -> int:
    """The axis of a parameter that is asked for, from 0 on."""
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise InputError(
            f"split: the axis of {name} is {asked!r}",
            hint=f"split={{{name!r}: 0}}, or None for a parameter that stays whole",
        )
    if not type_.ndim:
        raise InputError(f"split: {name} is a number, and has no axis", hint="leave it out")
    if not -type_.ndim <= asked < type_.ndim:
        raise InputError(
            f"split: {name} is {type_}, and has no axis {asked}",
            hint=f"{name}: " + (f"0 to {type_.ndim - 1}" if type_.ndim > 1 else "0"),
        )
    axis = asked % type_.ndim
    if not fits(type_, Layout(axis), ways):
        others = [str(at) for at in range(type_.ndim) if fits(type_, Layout(at), ways)]
        length = int(type_.shape[axis])
        divisors = [str(one) for one in range(2, length + 1) if length % one == 0]
        hints = [f"axis {', '.join(others)}"] if others else []
        hints += [f"ways={', '.join(divisors[:4])}"] if divisors else []
        raise InputError(
            f"split: axis {asked} of {name}, {type_}, has no {ways} equal parts",
            hint=" or ".join(hints) or f"leave {name} out",
        )
    return axis


class _Choosing:
    """Tries layouts of parameters on the forward pass."""

    def __init__(
        self, graph: Graph, objective: Node, parameters: Collection[str], ways: int
    ) -> None:
        nodes = topological([objective])
        within = set(nodes)
        inputs = [item for item in graph.inputs if item.node in within]
        names = {name: node for name, node in graph.names.items() if node in within}
        self.forward = Graph(graph.name, tuple(inputs), (("", objective),), tuple(nodes), names)
        self.nodes = {item.node: item.name for item in inputs if item.name in parameters}
        self.parameters, self.ways = tuple(parameters), ways
        self.known: dict[Node, tuple[Rule, ...]] = {}

    def spread(self, axes: Axes) -> SpreadGraph:
        """The forward pass with these parameters split."""
        given = {node: Layout(axes.get(name)) for node, name in self.nodes.items()}
        return spread(self.forward, self.ways, SHARDS, given, rules=self._rules)

    def following(self, axes: Axes, said: Collection[str]) -> tuple[Chosen, SpreadGraph]:
        """These axes, and what follows from them; the forward pass with all of them."""
        reasons = {name: "you said so" for name in said}
        made = self.spread(axes)
        axes = dict(axes)
        while True:
            wishes = {n: at for n, at in self._wishes(made, made.cut).items() if n not in axes}
            trial = self.spread({**axes, **wishes}) if wishes else made
            if wishes and trial.moved_nbytes > made.moved_nbytes:
                for name, axis in list(wishes.items()):
                    trial = self.spread({**axes, name: axis})
                    if trial.moved_nbytes <= made.moved_nbytes:
                        wishes = {name: axis}
                        break
                    del wishes[name]
            if not wishes:
                return Chosen({name: axes.get(name) for name in self.parameters}, reasons), made
            made, axes = trial, {**axes, **wishes}
            for name in wishes:
                reasons[name] = "each rank needs only a part of it, as others are split"

    def alone(self) -> Chosen | None:
        """Splits by columns what can be, product by product; None where nothing can be."""
        found = Chosen({}, {})
        for name, axis in self.products():
            axes = {one: at for one, at in found.axes.items() if at is not None}
            if name in axes:
                continue
            trial, made = self.following({**axes, name: axis}, ())
            if made.gathered_nbytes:
                continue
            reason = "what comes of its columns is only added up"
            found = Chosen(trial.axes, {**trial.reasons, **found.reasons, name: reason})
        return found if any(axis is not None for axis in found.axes.values()) else None

    def products(self) -> list[tuple[str, int]]:
        """Parameters that are an operand of a product, as they are, moved or cast, and an axis that
        the result has, too, and the other operand has not."""
        found: dict[tuple[str, int], None] = {}
        for node in self.forward.nodes:
            if not isinstance(node.primitive.kernel, Contract):
                continue
            *both, result = labels_of(node)
            for operand, labels in zip(node.inputs, both, strict=True):
                for axis, label in enumerate(labels):
                    if label in result and sum(label in one for one in both) == 1:
                        parameter = self._parameter(operand, axis)
                        if parameter is not None:
                            found[parameter] = None
        return list(found)

    def _parameter(self, node: Node, axis: int) -> tuple[str, int] | None:
        """The parameter, and its axis, of which a value is made alone; None if of none."""
        while node not in self.nodes:
            found = [one.operands for one in self._rules(node) if one.result == Layout(axis)]
            if len(node.inputs) != 1 or not found or found[0][0].axis is None:
                return None
            node, axis = node.inputs[0], found[0][0].axis
        return (self.nodes[node], axis) if fits(node.type, Layout(axis), self.ways) else None

    def _rules(self, node: Node) -> tuple[Rule, ...]:
        """All rules of a node, found once."""
        if node not in self.known:
            self.known[node] = tuple(rules_of(node))
        return self.known[node]

    def _wishes(self, made: SpreadGraph, cut: Iterable[tuple[Node, int]]) -> dict[str, int]:
        """The parameters, and their axes, that whole values are made of of which each rank needs
        only its part along an axis."""
        found: dict[str, int] = {}
        pending = [
            (node, Layout(axis)) for node, axis in cut if fits(node.type, Layout(axis), self.ways)
        ]
        seen = set(pending)
        for node, layout in pending:
            name = self.nodes.get(node)
            if name is not None and layout.axis is not None:
                found.setdefault(name, layout.axis)
            if made.layouts[node] != WHOLE or not node.inputs:
                continue
            for rule in self._rules(node):
                if rule.result != layout or not all(
                    fits(one.type, at, self.ways)
                    for one, at in zip(node.inputs, rule.operands, strict=True)
                ):
                    continue
                new = [
                    pair
                    for pair in zip(node.inputs, rule.operands, strict=True)
                    if pair[1] != WHOLE and pair not in seen
                ]
                pending += new
                seen.update(new)
                break
        return found
