"""Predicts what one run of a piece allocates, by the schedule that its executor follows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.devices.pieces import Piece
from chainrule.devices.reports.values import WORKSPACE, called
from chainrule.execute.executor import Program, Traits
from chainrule.explain.memory.kinds import Kind
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Given
from chainrule.schedule.in_numpy import outline_in_c_order
from chainrule.schedule.plain import Outlines
from chainrule.schedule.records import SCRATCH, Compute
from chainrule.schedule.turns import order_of
from chainrule.schedule.usage import usage_of

Row = tuple[str, str, int]  # a name, a kind, and bytes


@dataclass(frozen=True)
class PieceRun:
    """What a run of a piece allocates beside what it is given.

    `rows` are what is there of it at its peak, results included; `block_nbytes` is the block that
    stays allocated between runs, which is in no row.  `outlines` say how its results lie.
    `at` is the instruction of the peak, in words.
    """

    rows: tuple[Row, ...]
    block_nbytes: int
    outlines: Mapping[Node, np.ndarray]
    at: str
    in_place: frozenset[Node]  # results that take the arrays of inputs

    @property
    def nbytes(self) -> int:
        """The bytes at the peak, the block left out."""
        return sum(nbytes for *_, nbytes in self.rows)


class PieceRuns:
    """The runs of pieces, each found once for all arguments that lie alike."""

    def __init__(self, pieces: tuple[Piece, ...], programs: tuple[Program, ...], traits: Traits):
        self.pieces, self.programs, self.traits = pieces, programs, traits
        self._known: dict[tuple[object, ...], PieceRun] = {}

    def of(
        self, number: int, given: tuple[np.ndarray, ...], elsewhere: frozenset[Node] = frozenset()
    ) -> PieceRun:
        """The run of a piece whose arguments lie as the arrays `given`, in the order of reads, and
        which computes some of its results in memory that is counted elsewhere."""
        key = (number, elsewhere, *(one.strides for one in given))
        if key not in self._known:
            reads = self.pieces[number].reads.values()
            outlines = dict(zip(reads, given, strict=True))
            self._known[key] = self._found(number, outlines, elsewhere)
        return self._known[key]

    def _found(
        self, number: int, outlines: dict[Node, np.ndarray], elsewhere: frozenset[Node]
    ) -> PieceRun:
        piece, program = self.pieces[number], self.programs[number]
        results = list(dict.fromkeys(piece.gives.values()))
        lying = {node: one for node, one in outlines.items() if not one.flags.c_contiguous}
        copied = dict.fromkeys(lying, 1) if self.traits.c_order_only else {}
        schedule = program.schedule(lying)
        usage = usage_of(schedule, results, block=self.traits.one_block, copied=copied)
        name = partial(called, piece.graph)
        at = usage.peak_instruction
        given = {buffer.arena for buffer in schedule.given.values()}
        rows: list[Row] = []
        if self.traits.one_block:
            block = usage.scratch_nbytes or 0
            for life in usage.lives:
                is_here = life.arena not in (SCRATCH, *given) and life.node not in elsewhere
                if is_here and not life.in_place:
                    rows.append((name(life.node), str(Kind.RESULT), life.nbytes))
            passing = usage.allocated_nbytes
        else:
            block = 0
            for life in usage.alive_at(at):
                if life.arena not in given and not life.in_place:
                    kind = Kind.RESULT if life.node in results else Kind.TEMPORARY
                    rows.append((name(life.node), str(kind), life.nbytes))
            passing = usage.workspaces[at]
        computes = [one for one in schedule.instructions if isinstance(one, Compute)]
        label = computes[at - 1].label if at else ""
        if passing:
            rows.append((f"workspace of {label}", WORKSPACE, passing))
        words = f"instruction {at} of {usage.count}"
        if at:
            words += f", which computes {', '.join(map(name, computes[at - 1].nodes[:3]))}"
        rows = [row for row in rows if row[2]]
        in_place = frozenset(schedule.overwrites.values())
        made = self._results(piece, results, outlines)
        return PieceRun(tuple(rows), block, made, words, in_place)

    def _results(
        self, piece: Piece, results: list[Node], given: Mapping[Node, np.ndarray]
    ) -> dict[Node, np.ndarray]:
        """How results lie: NumPy's as it makes them, copies and those of compiled code in order."""
        if self.traits.one_block:
            return {node: outline_in_c_order(node) for node in results}
        outlines = Outlines()
        for node in order_of(piece.graph, results):
            if isinstance(node.primitive.kernel, Given):
                outlines.give(node, given.get(node, outline_in_c_order(node)))
            else:
                outlines.follow(node)
        own = outlines.owners
        return {
            node: outlines[node]
            if own.get(node) is node and not isinstance(node.primitive.kernel, Given)
            else outline_in_c_order(node)
            for node in results
        }
