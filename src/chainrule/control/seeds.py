"""Unpacks the cotangent of a scan's result, and finds the carries that it reaches."""

from __future__ import annotations

from typing import Any

from chainrule.control.loops import Given, Loop
from chainrule.control.packing import is_zero, matched, stacked_type, taken_apart, zeros_like
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.primitives.families import BOOL
from chainrule.primitives.sources import full, input_, is_uniform
from chainrule.transforms.conditions import Condition
from chainrule.transforms.selected import Selections
from chainrule.transforms.vjp import depends_on, summed_seeds


def inner_condition(name: str, condition: Condition, inner: Node) -> tuple[Given, Condition]:
    """What gives an iteration the condition of `inner`, which stands for one row in it; and what
    that is there.  (Where nothing reads it, it is left out of the loop.)"""
    row = input_(index=-1, type=array_type(BOOL, inner.shape))
    return Given(name, condition.node(), row), Condition(lambda: row, (), condition.only_steep)


class Seeds:
    """The cotangents of final carries (`shown` are those in the result), and of stacked rows.

    What nothing reads has none, and not zeros: times an infinite derivative these would be NaN.
    """

    def __init__(
        self, g: Any, loop: Loop, shown: list[int], selections: Selections | None = None
    ) -> None:
        self.loop = loop
        selections = Selections() if selections is None else selections
        self.inside = Selections()  # what an iteration knows of the cotangents of its rows
        self.outside: dict[
            Condition, Condition
        ] = {}  # for a condition in an iteration that of all rows
        types = [loop.carries[i].before.type for i in shown]
        types += [stacked_type(node.type, loop.length) for node in loop.stacked]
        parts = taken_apart(g, types, selections)
        finals = zip(shown, parts, strict=False)
        self.finals = {i: part for i, part in finals if not is_zero(part)}
        self.rows: list[Given] = []
        self.inner: list[tuple[Node, Any]] = []
        for number, node in enumerate(loop.stacked):
            part = parts[len(shown) + number]
            if is_zero(part):
                continue
            if is_uniform(part):
                row: Any = full(value=part.param("value"), type=array_type(g.dtype, node.shape))
            else:
                row = input_(index=-1, type=array_type(node.dtype, node.shape))
                self.rows.append(Given(f"dy{number}", part, row))
            seed = matched(row, node.type)
            self.inner.append((node, seed))
            self.inside.inherit(selections, [part], seed)
            condition = selections.of(part)
            if condition is not None:
                given, within = inner_condition(f"selected{number}", condition, row)
                self.rows.append(given)
                self.inside.put(seed, within)
                self.outside[within] = condition

    def reached(self, nodes: list[Node], flowing: set[int], chosen: set[Node]) -> list[int]:
        """Which of the flowing carries get a cotangent: from the result, or a later iteration."""
        carries = self.loop.carries
        active = depends_on(nodes, {*chosen, *(carries[i].before for i in flowing)})
        found = flowing & set(self.finals)
        while True:
            needed = {node for node, _ in self.inner} | {carries[i].after for i in found}
            for node in reversed(nodes):
                if node in needed:
                    needed.update(parent for parent in node.inputs if parent in active)
            more = {i for i in flowing if carries[i].before in needed} - found
            if not more:
                return sorted(found)
            found |= more

    def final(self, i: int) -> Any:
        """The cotangent of a final carry; zero where nothing reads it."""
        return self.finals[i] if i in self.finals else zeros_like(self.loop.carries[i].before)

    def of(self, later: dict[int, Any]) -> dict[Node, Any]:
        """The cotangents of what an iteration gives, where those of its carries are `later`."""
        pairs = [(self.loop.carries[i].after, node) for i, node in later.items()]
        pairs += self.inner
        return summed_seeds([node for node, _ in pairs], [seed for _, seed in pairs])
