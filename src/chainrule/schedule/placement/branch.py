"""Exact search: whether blocks fit into a capacity, by branch and bound.

The blocks that are not yet placed have lowest offsets.  One that has the lowest of all is taken:
either it lies there, or higher.  If it lies higher, some other block must be in its way, or it
could be moved down; so it lies above one of those.  (Only placements in which no block can be
moved down are looked for, the canonical ones of Moffitt, MiniMalloc, ASPLOS 2023.)  Placing one
raises the lowest offsets of those in use together with it.  Where the blocks that are left fall
into pieces whose lives do not meet, each piece is solved by itself.

What is known to be impossible (blocks and their lowest offsets) is remembered, also from one
search to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass, field
from chainrule.schedule.placement.bounds import NEVER, Fit, Misfit, tightened
from chainrule.schedule.placement.piece import Integers, Piece

MOST_REMEMBERED = 200_000  # about 20 MiB


class Answer(Enum):
    """What a search has found."""

    FITS = auto()
    CANNOT_FIT = auto()
    UNKNOWN = auto()


@dataclass(eq=False)
class Experience:
    """What searches for one capacity have learned: states that are impossible, and how often the
    blocks of each section (by its moment) did not fit.  `alignment` as for `tightened`."""

    capacity: int
    misfits: Integers
    alignment: Integers | None = None
    impossible: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Guide:
    """In which order a search tries: blocks of large `weight` (by number) first; of the sections,
    that with the fewest blocks to choose from, and with `by_misfits` that which failed often."""

    weight: NDArray[np.float64]
    by_misfits: bool


@dataclass(eq=False, slots=True)
class _Node:
    """A piece to be placed; while a block of it is tried: which, and the pieces then left."""

    piece: Piece
    lowest: Integers
    parent: _Node | None
    states: list[bytes] = field(default_factory=list)
    chosen: int = -1
    todo: list[tuple[Piece, Integers]] = field(default_factory=list)


def search(
    piece: Piece,
    experience: Experience,
    guide: Guide,
    offsets: Integers,
    goes_on: Callable[[], bool],
) -> Answer:
    """Whether the piece fits; if so, `offsets` (by number of block) are written.

    `goes_on` is asked at every node; the answer is UNKNOWN once it says no.
    """
    node = _Node(piece, np.zeros(len(piece.numbers), np.int64), None)
    while goes_on():
        fit = _looked_at(node, experience)
        if fit is None:
            _remember(node, experience)
            if node.parent is None:
                return Answer.CANNOT_FIT
            node = node.parent
            _refuse(node, experience.alignment)
            continue
        _choose(node, fit, experience, guide)
        offsets[node.piece.numbers[node.chosen]] = node.lowest[node.chosen]
        _split(node)
        while not node.todo:
            if node.parent is None:
                return Answer.FITS
            node = node.parent
        left, lowest = node.todo.pop(0)
        node = _Node(left, lowest, node)
    return Answer.UNKNOWN


def _looked_at(node: _Node, experience: Experience) -> Fit | None:
    """The node's lowest offsets tightened; None where its blocks cannot fit."""
    found = tightened(node.piece, node.lowest, experience.capacity, experience.alignment)
    if isinstance(found, Misfit):
        experience.misfits[node.piece.moments[found.section]] += 1
        return None
    node.lowest = found.lowest
    state = blake2b(node.piece.numbers.tobytes(), digest_size=16)
    state.update(node.lowest.tobytes())
    node.states.append(state.digest())
    return None if node.states[-1] in experience.impossible else found


def _remember(node: _Node, experience: Experience) -> None:
    if len(experience.impossible) < MOST_REMEMBERED:
        experience.impossible.update(node.states)


def _choose(node: _Node, fit: Fit, experience: Experience, guide: Guide) -> None:
    """Of the section with the fewest blocks that may lie lowest of all, the heaviest of them."""
    piece = node.piece
    is_lowest = node.lowest == node.lowest.min()
    choices = np.add.reduceat(is_lowest[piece.member].astype(np.int64), piece.section_starts)
    if guide.by_misfits:
        cost = choices / (1.0 + experience.misfits[piece.moments])
    else:
        cost = choices + (experience.capacity - fit.height) / (experience.capacity + 1)
    section = int(np.argmin(np.where(choices > 0, cost, np.inf)))
    inside = is_lowest & (piece.first <= section) & (section < piece.stop)
    node.chosen = int(np.argmax(np.where(inside, guide.weight[piece.numbers], -np.inf)))


def _split(node: _Node) -> None:
    """What is left when the chosen block lies at its lowest offset."""
    piece, chosen = node.piece, node.chosen
    lowest = node.lowest.copy()
    end = lowest[chosen] + piece.size[chosen]
    meets = (piece.first < piece.stop[chosen]) & (piece.stop > piece.first[chosen])
    lowest[meets] = np.maximum(lowest[meets], end)
    node.todo = [(left, lowest[places]) for left, places in piece.without(chosen)]


def _refuse(node: _Node, alignment: Integers | None = None) -> None:
    """The chosen block lies higher, and so do its twins, which could change places with it."""
    piece, chosen, lowest = node.piece, node.chosen, node.lowest
    first, stop, size = piece.first[chosen], piece.stop[chosen], piece.size[chosen]
    twins = (piece.first == first) & (piece.stop == stop) & (piece.size == size)
    twins &= lowest == lowest[chosen]
    if alignment is not None:
        twins &= alignment[piece.numbers] == alignment[piece.numbers[chosen]]
    in_the_way = (piece.first < stop) & (piece.stop > first) & ~twins
    in_the_way &= lowest < lowest[chosen] + size
    ends = np.where(in_the_way, lowest + piece.size, NEVER)
    node.lowest = np.where(twins, ends.min(), lowest)
