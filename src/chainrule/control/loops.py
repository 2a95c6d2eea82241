"""`Loop` builds scan nodes from iterations on nodes, one for each dtype of the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.control.bodies import between, body_of, tidied
from chainrule.control.packing import stacked_type, unpacked
from chainrule.dataclass import dataclass, field, replace
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.primitive import Primitive


@dataclass(frozen=True, eq=False)
class Given:
    """What an iteration reads and does not change: `outer` is it where the loop stands, `inner`
    what stands for it in the iteration (of a slice: one element along its first axis)."""

    name: str
    outer: Node
    inner: Node


@dataclass(frozen=True, eq=False)
class Carry:
    """What an iteration changes: it is `initial` at first, then `before` becomes `after`."""

    name: str
    initial: Node
    before: Node
    after: Node


@dataclass(frozen=True, eq=False)
class Loop:
    """An iteration, how often it is done, and what it is done with.

    `stacked` are the values of which the loop keeps each iteration's; `names` those inside the
    iteration, and `note` what is said of it.
    """

    name: str
    constants: tuple[Given, ...]
    carries: tuple[Carry, ...]
    slices: tuple[Given, ...]
    stacked: tuple[Node, ...]
    length: int | Size
    reverse: bool
    names: Mapping[str, Node] = field(default_factory=dict)
    note: str = ""

    @property
    def inner(self) -> list[Node]:
        """What stands in the iteration for what is given to it."""
        return [
            *(one.inner for one in self.constants),
            *(one.before for one in self.carries),
            *(one.inner for one in self.slices),
        ]

    def on(self, new: Mapping[Node, Node]) -> Loop:
        """The loop on what its operands became."""
        return replace(
            self,
            constants=tuple([replace(one, outer=new[one.outer]) for one in self.constants]),
            carries=tuple([replace(one, initial=new[one.initial]) for one in self.carries]),
            slices=tuple([replace(one, outer=new[one.outer]) for one in self.slices]),
        )

    def tidied(self) -> Loop:
        """The same loop with a simpler body."""
        new = tidied(self.inner, [*(one.after for one in self.carries), *self.stacked])
        return Loop(
            self.name,
            self.constants,
            tuple([Carry(c.name, c.initial, c.before, new[c.after]) for c in self.carries]),
            self.slices,
            tuple([new[node] for node in self.stacked]),
            self.length,
            self.reverse,
            {name: new[node] for name, node in self.names.items() if node in new},
        )

    def reads(self, carries: Collection[int], stacked: Collection[int]) -> set[Node]:
        """What the iteration reads, in the end, for these final carries and stacked values."""
        wanted = set(carries)
        while True:
            outputs = [self.carries[i].after for i in sorted(wanted)]
            outputs += [self.stacked[i] for i in sorted(stacked)]
            found = set(between(self.inner, outputs))
            more = {i for i, one in enumerate(self.carries) if one.before in found} - wanted
            if not more:
                break
            wanted |= more
        befores = {self.carries[i].before for i in wanted}
        return (found & set(self.inner)) | befores

    def run(
        self, scan: Primitive, carries: Collection[int], stacked: Collection[int]
    ) -> tuple[dict[int, Any], dict[int, Any]]:
        """The nodes of these final carries and stacked values, by their numbers."""
        finals: dict[int, Any] = {}
        rows: dict[int, Any] = {}
        moving = []
        for i in carries:
            if self.carries[i].after is self.carries[i].before:
                finals[i] = self.carries[i].initial
            else:
                moving.append(i)
        dtypes = [self.carries[i].before.dtype for i in moving]
        dtypes += [self.stacked[i].dtype for i in stacked]
        for dtype in dict.fromkeys(dtypes):
            some = [i for i in moving if self.carries[i].before.dtype == dtype]
            others = [i for i in stacked if self.stacked[i].dtype == dtype]
            node, shown = self._node(scan, dtype, some, others)
            parts = unpacked(node, self._types(shown, others))
            found = dict(zip(shown, parts, strict=False))
            finals.update((i, found[i]) for i in some)
            rows.update(zip(others, parts[len(shown) :], strict=True))
        return finals, rows

    def _types(self, carries: Sequence[int], stacked: Sequence[int]) -> list[Any]:
        return [
            *(self.carries[i].before.type for i in carries),
            *(stacked_type(self.stacked[i].type, self.length) for i in stacked),
        ]

    def _node(
        self, scan: Primitive, dtype: np.dtype, carries: Sequence[int], stacked: Sequence[int]
    ) -> tuple[Node, list[int]]:
        """The scan node of one dtype, and the carries of that dtype that its result begins with."""
        read = self.reads(carries, stacked)
        fixed = [c for c in self.carries if c.after is c.before and c.before in read]
        constants = [one for one in self.constants if one.inner in read]
        constants += [Given(one.name, one.initial, one.before) for one in fixed]
        moving = [
            i
            for i, one in enumerate(self.carries)
            if one.before in read and one.after is not one.before
        ]
        slices = [one for one in self.slices if one.inner in read]
        only = replace(
            self,
            constants=tuple(constants),
            carries=tuple([self.carries[i] for i in moving]),
            slices=tuple(slices),
            stacked=tuple([self.stacked[i] for i in stacked]),
        )
        node = only.node(scan, dtype)
        return node, [i for i in moving if self.carries[i].before.dtype == dtype]

    def node(self, scan: Primitive, dtype: np.dtype) -> Any:
        """The scan node of this loop as it is, with the results of one dtype."""
        body = body_of(
            self.name,
            [
                *((one.name, one.inner) for one in self.constants),
                *((one.name, one.before) for one in self.carries),
                *((one.name, one.inner) for one in self.slices),
            ],
            [
                *((f"{one.name}_next", one.after) for one in self.carries),
                *((f"y_{place}" if place else "y", one) for place, one in enumerate(self.stacked)),
            ],
            self.names,
            self.note,
        )
        operands = [
            *(one.outer for one in self.constants),
            *(one.initial for one in self.carries),
            *(one.outer for one in self.slices),
        ]
        return scan(
            *operands,
            body=body,
            carries=len(self.carries),
            constants=len(self.constants),
            dtype=dtype,
            length=self.length,
            reverse=self.reverse,
        )
