"""A portfolio with restarts: several ways to guide the exact search, each for a while, in turns.

A search that takes a wrong turn early is lost for ever; another one, that prefers other blocks,
often is through at once.  So each gets a number of nodes, and the number grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass
from chainrule.schedule.placement.blocks import Block, Offsets, unit_of
from chainrule.schedule.placement.bounds import NEVER
from chainrule.schedule.placement.branch import Answer, Experience, Guide, search
from chainrule.schedule.placement.piece import Integers, Piece, pieces

MOST_NBYTES = 1 << 29  # of a search's pieces; where they would take more there is no exact search
NODES_PER_TURN = 500
TURNS_ALIKE = 10  # turns after which their nodes grow by GROWTH
GROWTH = 1.2
NOISES = (0.03, 0.1, 0.3)  # by how much a guide's weights are changed at random


@dataclass(frozen=True, eq=False)
class Problem:
    """Blocks as pieces; `life` of each block in instructions; `alignment` of each, or None where
    sizes keep it by themselves; `unit` as in `unit_of`."""

    size: Integers
    alignment: Integers | None
    unit: int
    life: Integers
    moments: int
    pieces: tuple[Piece, ...]

    @property
    def is_small_enough(self) -> bool:
        """Whether the exact search stays within MOST_NBYTES, and its numbers within 64 bits."""
        highest = sum(self.size.tolist())
        if self.alignment is not None:
            highest += len(self.size) * int(self.alignment.max())
        return all(
            piece.nbytes_of_search <= MOST_NBYTES and len(piece.load) * (highest + 1) < NEVER
            for piece in self.pieces
        )


def problem(blocks: Sequence[Block]) -> Problem:
    """The blocks that have bytes."""
    numbers = np.array([n for n, block in enumerate(blocks) if block.size], np.int64)
    first = np.array([blocks[n].first for n in numbers], np.int64)
    stop = np.array([blocks[n].last + 1 for n in numbers], np.int64)
    size = np.array([block.size for block in blocks], np.int64)
    order = np.argsort(first, kind="stable")
    numbers, first, stop = numbers[order], first[order], stop[order]
    moments = np.unique(np.concatenate([first, stop]))
    found = pieces(
        numbers,
        size[numbers],
        np.searchsorted(moments, first),
        np.searchsorted(moments, stop),
        np.arange(len(moments)),
        numbers,
    )
    life = np.array([block.life for block in blocks], np.int64)
    unit = unit_of(blocks)
    alignment = None
    if any(unit % block.alignment for block in blocks):
        alignment = np.array([block.alignment for block in blocks], np.int64)
    return Problem(size, alignment, unit, life, len(moments), tuple(piece for piece, _ in found))


class Attempt:
    """The search for offsets below one capacity, in turns; what one has learned helps the next."""

    def __init__(self, asked: Problem, capacity: int) -> None:
        self.capacity, self.answer = capacity, Answer.UNKNOWN
        self._asked = asked
        self._offsets = np.zeros(len(asked.size), np.int64)
        self._turns = self._all_turns()

    @property
    def offsets(self) -> Offsets:
        """Those found; of every block once the answer is FITS."""
        return self._offsets.tolist()

    def turn(self, deadline: float) -> Answer:
        """One more turn; the answer is UNKNOWN as long as it is not settled."""
        if self.answer is Answer.UNKNOWN:
            self._deadline = deadline
            self.answer = next(self._turns)
        return self.answer

    def _all_turns(self) -> Iterator[Answer]:
        for piece in self._asked.pieces:
            misfits = np.zeros(self._asked.moments, np.int64)
            experience = Experience(self.capacity, misfits, self._asked.alignment)
            answer = Answer.UNKNOWN
            for guide, nodes in _guides(self._asked, piece):
                left = nodes

                def goes_on() -> bool:
                    nonlocal left
                    left -= 1
                    return left >= 0 and monotonic() < self._deadline

                answer = search(piece, experience, guide, self._offsets, goes_on)
                if answer is not Answer.UNKNOWN:
                    break
                yield answer
            if answer is Answer.CANNOT_FIT:
                yield answer
        yield Answer.FITS


def _guides(asked: Problem, piece: Piece) -> Iterator[tuple[Guide, int]]:
    """For each turn a guide, and how many nodes it may look at; the first ones without chance."""
    numbers = piece.numbers
    size, life = piece.size / piece.size.max(), asked.life[numbers] / asked.life[numbers].max()
    width = (piece.stop - piece.first) / (piece.stop - piece.first).max()
    weights = [width + size / 1e4, life * size, size + life / 1e4, life + size / 1e4, width * size]
    random = np.random.default_rng(0)
    nodes, turn = float(NODES_PER_TURN), 0
    while True:
        weight: NDArray[np.float64] = weights[turn % len(weights)]
        if turn >= len(weights):
            noise = NOISES[turn % len(NOISES)]
            weight = weight * (1 + noise * random.random(len(numbers)))
        of_all = np.zeros(len(asked.size))
        of_all[numbers] = weight
        yield Guide(of_all, by_misfits=turn // len(weights) % 2 == 1), int(nodes)
        turn += 1
        if turn % TURNS_ALIKE == 0:
            nodes *= GROWTH
