"""Remembers a replay: one bit per element for each value that is not finite, no numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.explain.nonfinite.births import born, handed_on, is_finite, is_mask
from chainrule.explain.nonfinite.flow import back
from chainrule.explain.nonfinite.turn_trails import TurnTrails, Within, trails_of_turns
from chainrule.graph.body import holds_bodies
from chainrule.graph.node import Node
from chainrule.primitives.primitive import MOVING, Gather
from chainrule.primitives.sources import input_


@dataclass(frozen=True)
class Bits:
    """A boolean for each element, eight in a byte."""

    shape: tuple[int, ...]
    packed: np.ndarray

    @staticmethod
    def of(mask: np.ndarray) -> Bits:
        """The mask, packed."""
        return Bits(mask.shape, np.packbits(mask))

    @property
    def mask(self) -> np.ndarray:
        """As an array of booleans."""
        count = int(np.prod(self.shape))
        return np.unpackbits(self.packed, count=count).view(bool).reshape(self.shape)


@dataclass(frozen=True)
class Bad:
    """A value that is not finite: how many of its elements, and which; `born` those that are so by
    themselves (None: none), `handed` for operands, by place, those that handed it on; `indices`
    of operations that go by indices; `turns` of a loop or a choice."""

    count: int
    size: int
    elements: Bits
    born: Bits | None
    handed: Mapping[int, Bits]
    indices: tuple[np.ndarray, ...] = ()
    turns: TurnTrails | None = None


@dataclass(frozen=True)
class Reached:
    """From where something bad came to the results: from which elements of inputs and constants
    (`given`); of `faults` those elements that are not finite by themselves, or where in a loop or a
    choice they are.  Both in the order of the program."""

    given: Mapping[Node, np.ndarray]
    faults: Mapping[Node, np.ndarray | Within]


class Trail:
    """Watches a replay (`reference.evaluate(..., watch=trail)`).

    `bad` are the values that are not finite, in the order in which they were computed.  An inf in a
    constant, in a Python number, or in a mask of 0 and -inf is no fault: it is meant, until
    something makes a NaN of it.  Nor is one that a body gets from outside (`of_body`).
    """

    def __init__(self, of_body: bool = False) -> None:
        self._of_body = of_body
        self.bad: dict[Node, Bad] = {}
        self.seen: set[Node] = set()

    def __call__(self, node: Node, values: Mapping[Node, np.ndarray]) -> None:
        self.seen.add(node)
        moves = isinstance(node.primitive.kernel, MOVING)
        if moves and not any(one in self.bad for one in node.inputs):
            return
        value = values[node]
        if is_finite(value):
            return
        finite = np.isfinite(value)
        operands = [values[one] for one in node.inputs]
        handed = {}
        for place, one in enumerate(node.inputs):
            if one in self.bad:
                mask = handed_on(node, value, operands, place)
                if mask.any():
                    handed[place] = Bits.of(mask)
        trails = trails_of_turns(node, operands, Trail) if holds_bodies(node) else None
        if trails is not None:
            new = np.zeros(value.shape, bool)
        elif node.inputs:
            new = np.zeros(value.shape, bool) if moves else born(node, value, operands)
        else:
            new = _given_wrong(node, value, self._of_body)
        by_index = isinstance(node.primitive.kernel, Gather)
        self.bad[node] = Bad(
            count=value.size - int(finite.sum()),
            size=value.size,
            elements=Bits.of(~finite),
            born=Bits.of(new) if new.any() else None,
            handed=handed,
            indices=tuple(np.array(one) for one in operands[1:]) if by_index else (),
            turns=trails,
        )

    def towards(self, targets: Iterable[Node]) -> Reached:
        """From where the bad elements of the targets came."""
        return self.towards_elements(
            {one: self.bad[one].elements.mask for one in targets if one in self.bad}
        )

    def towards_elements(self, targets: Mapping[Node, np.ndarray]) -> Reached:
        """As `towards`, for these elements, as far as they are bad."""
        wanted = {one: mask.copy() for one, mask in targets.items() if one in self.bad}
        given: dict[Node, np.ndarray] = {}
        faults: dict[Node, np.ndarray | Within] = {}
        nodes = set()
        for node in reversed(self.bad):
            mask = wanted.pop(node, None)
            bad = self.bad[node]
            if mask is None or not (mask := mask & bad.elements.mask).any():
                continue
            nodes.add(node)
            if not node.inputs:
                given[node] = mask
            if bad.born is not None and (new := bad.born.mask & mask).any():
                faults[node] = new
            handed: Mapping[int, np.ndarray] = {}
            if bad.turns is not None:
                handed, within = bad.turns.towards(node, mask)
                if within is not None:
                    faults[node] = within
            else:
                handed = {p: back(node, p, mask, bad.indices) for p in bad.handed}
            for place, asked in handed.items():
                if place in bad.handed and (some := asked & bad.handed[place].mask).any():
                    one = node.inputs[place]
                    wanted[one] = wanted[one] | some if one in wanted else some
        first = [one for one in self.bad if one in nodes]
        return Reached(
            {one: given[one] for one in first if one in given},
            {one: faults[one] for one in first if one in faults},
        )

    @cached_property
    def _sources(self) -> dict[Node, set[Node]]:
        return {
            node: {node.inputs[place] for place in bad.handed} for node, bad in self.bad.items()
        }

    def after(self, node: Node) -> list[Node]:
        """The values that something bad came to from this one, in the order of the program."""
        found = {node: None}
        for one, sources in self._sources.items():
            if not sources.isdisjoint(found):
                found[one] = None
        return list(found)[1:]


def _given_wrong(node: Node, value: np.ndarray, of_body: bool) -> np.ndarray:
    """The elements that are no program's intention: NaN, and what is infinite in an input array."""
    if of_body and node.primitive is input_:
        return np.zeros(value.shape, bool)
    meant = node.primitive is not input_ or node.type.weak or is_mask(value)
    return np.isnan(value) if meant else ~np.isfinite(value)
