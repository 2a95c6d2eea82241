"""Finds the iteration of a loop that a value belongs to: h_{t−1} becomes h_t, x_t is a row of x."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from chainrule.control import scan_primitive, unwind
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.scan_rules import loop_of as scan_of
from chainrule.control.scan_rules import shown_carries
from chainrule.control.while_rules import loop_of as while_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

_NUMBERED = re.compile(r".*_\d+")  # a name that was stored again
_OF_A_STEP = re.compile(r"(?P<stem>.*[^_])_(t|prev|previous|next|new|old|last)")


def stem_of(name: str) -> str:
    """A name in an iteration without what says which iteration is meant: h of h_prev, x of x_t."""
    found = _OF_A_STEP.fullmatch(name)
    return found["stem"] if found else name


def inner_name(name: str, taken: Collection[str]) -> str:
    """The stem of a name in an iteration, unless another value of the iteration goes by it."""
    stem = stem_of(name)
    return name if stem in taken else stem


def is_path(name: str) -> bool:
    """Whether a name says where in a container a value is."""
    return "[" in name or "." in name


def state_name(loop: Loop, body: Graph, one: Carry, name: str, stored: str | None) -> str:
    """What a state is called whose `name` may only say where in the carry it is.

    Then what the iteration stores as its next value, or what the program stores as its last one.
    """
    if not is_path(name):
        return name
    is_moved = one.after in {other.before for other in loop.carries}
    inside = None if is_moved else body.name_of.get(one.after)
    if inside is None or (stored is not None and _NUMBERED.fullmatch(inside)):
        return stored or name
    return inside


def loop_of(holder: Node) -> Loop:
    """The loop that a node is; of a way back, what its iterations read of the loop are slices."""
    if holder.primitive is scan_primitive:
        return scan_of(holder, holder.inputs)
    loop = while_of(holder, holder.inputs)[0]
    if holder.primitive is not unwind:
        return loop
    count = holder.param("states")
    states = tuple([Given(one.name, one.initial, one.before) for one in loop.carries[:count]])
    return replace(loop, carries=loop.carries[count:], slices=states, reverse=True)


@dataclass
class Iteration:
    """One iteration of a loop: `at` has the stem of the name of each value, and its index from t
    on.

    `first` is the loop that this one is the derivative of, and goes back through.
    """

    holder: Node
    outer: Graph
    names: Mapping[int, str]
    first: Iteration | None = None
    at: dict[Node, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loop = loop_of(self.holder)
        self.graph: Graph = self.holder.param("body").graph
        self.before, self.after = (1, 0) if self.loop.reverse else (-1, 0)
        if self.first is not None and self.first.loop.reverse != self.loop.reverse:
            self.before, self.after = self.first.after, self.first.before
        else:
            self.first = None
        if self.holder.primitive is unwind:
            self.before, self.after = 0, -1
        self.at.update(self._found())

    def _found(self) -> Iterator[tuple[Node, tuple[str, int]]]:
        again = self._again()
        found: dict[Node, tuple[str, int]] = {}
        shown = shown_carries(self.holder, self.loop)
        for number, one in enumerate(self.loop.carries):
            stored = self.names.get(shown.index(number)) if number in shown else None
            name = state_name(self.loop, self.graph, one, self._derived(one.name), stored)
            found.setdefault(one.before, (stem_of(name), self.before))
            found.setdefault(one.after, (stem_of(name), self.after))
        for one in self.loop.slices:
            outside = self.outer.name_of.get(one.outer), 0
            if self.holder.primitive is unwind:  # what an iteration began with
                outside = stem_of(one.name), -1
            name = again.get(one.name) or outside
            found.setdefault(one.inner, (name[0] or stem_of(self._derived(one.name)), name[1]))
        if self.holder.primitive is scan_primitive:
            for place, node in enumerate(self.loop.stacked, len(shown)):
                output = self.graph.outputs[len(self.loop.carries) + place - len(shown)][0]
                found.setdefault(node, (self.names.get(place, output), 0))
        for name, node in self.graph.names.items():
            if node not in found:
                taken = {one for one, offset in found.values() if offset == 0}
                found[node] = again.get(name) or (inner_name(name, taken), 0)
        yield from found.items()

    def _again(self) -> dict[str, tuple[str, int]]:
        """What the first loop's iteration calls its values: they have their names here, too."""
        if self.first is None:
            return {}
        return {name: self.first.at[node] for name, node in self.first.graph.names.items()
                if node in self.first.at}  # fmt: skip

    def _derived(self, name: str) -> str:
        """The name of a cotangent, after what it belongs to."""
        if self.first is None or not name.startswith("d"):
            return name
        old = self._again().get(name[1:])
        if old is None and (number := name.removeprefix("dy")).isdigit():
            old = self.first.at.get(self.first.loop.stacked[int(number)])
        return name if old is None else f"d{old[0]}"
