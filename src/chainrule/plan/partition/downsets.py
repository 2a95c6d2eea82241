"""The down-sets of an order: sets of parts that contain, with a part, all that comes before it.

The first stages of a contiguous split together are a down-set, and each step from one down-set to
a larger one is a stage.  A down-set is a row of bits; each is made once, from the one without its
last part, so smaller sets come first.  The parts are numbered in a topological order.

The functions are of the small part of Python that `machine_code/translate.py` compiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.machine_code.kernel import Kernel
from chainrule.machine_code.translate import Ints

BITS = 62  # in a word: shifts stay positive
NONE = -1
FULL = 1  # the tables have no more room


class DownSets:
    """Down-sets as rows of words; where each leads by one part more, in ascending order of it."""

    before: Ints  # words of each part: what must be there
    sets: Ints
    last: Ints  # the largest number in each set, or NONE
    codes: Ints  # of each part: random bits, whose exclusive or is the code of a set
    code: Ints
    table: Ints  # by the code of a set, its number, or NONE
    links_from: Ints
    link_part: Ints
    link_to: Ints
    parts: int
    words: int
    room: int  # for how many sets
    count: int
    links: int
    at: int  # the next set to extend
    slots: int  # of the table, a power of two


def has(s: DownSets, one: int, part: int) -> int:
    """1 if a set has a part."""
    return s.sets[one * s.words + part // BITS] >> (part % BITS) & 1


def may_add(s: DownSets, one: int, part: int) -> int:
    """1 if a set lacks a part, and has all that comes before it."""
    if has(s, one, part) == 1:
        return 0
    word = s.words - 1  # what is missing is mostly what comes last
    while word >= 0:
        need = s.before[part * s.words + word]
        if need & s.sets[one * s.words + word] != need:
            return 0
        word -= 1
    return 1


def enumerate_sets(s: DownSets) -> int:
    """Make all down-sets, smaller ones first; FULL if there is no more room."""
    while s.at < s.count:
        if s.count + s.parts > s.room:
            return FULL
        one = s.at
        s.at += 1
        for part in range(s.parts):
            if may_add(s, one, part) == 0:
                continue
            s.links += 1
            if part < s.last[one]:
                continue
            new = s.count
            s.count += 1
            for word in range(s.words):
                s.sets[new * s.words + word] = s.sets[one * s.words + word]
            place = new * s.words + part // BITS
            s.sets[place] = s.sets[place] | 1 << (part % BITS)
            s.last[new] = part
            s.code[new] = s.code[one] ^ s.codes[part]
    return 0


def found(s: DownSets, one: int, part: int) -> int:
    """The number of the set that has one part more."""
    code = s.code[one] ^ s.codes[part]
    slot = code % s.slots
    while s.table[slot] >= 0:
        other = s.table[slot]
        if s.code[other] == code and has(s, other, part) == 1:
            same = 1
            for word in range(s.words):
                bits = s.sets[one * s.words + word]
                if word == part // BITS:
                    bits = bits | 1 << (part % BITS)
                if bits != s.sets[other * s.words + word]:
                    same = 0
            if same == 1:
                return other
        slot = (slot + 1) % s.slots
    return NONE


def link_sets(s: DownSets) -> int:
    """Write down where each set leads."""
    for one in range(s.count):
        slot = s.code[one] % s.slots
        while s.table[slot] >= 0:
            slot = (slot + 1) % s.slots
        s.table[slot] = one
    at = 0
    for one in range(s.count):
        s.links_from[one] = at
        for part in range(s.parts):
            if may_add(s, one, part) == 1:
                s.link_part[at] = part
                s.link_to[at] = found(s, one, part)
                at += 1
    s.links_from[s.count] = at
    return 0


ENUMERATE = Kernel(enumerate_sets, (has, may_add), DownSets)
LINK = Kernel(link_sets, (has, may_add, found), DownSets)


def words_of(rows: Sequence[int], words: int) -> np.ndarray:
    """Rows of bits, each as so many words."""
    mask = (1 << BITS) - 1
    found = [row >> BITS * word & mask for row in rows for word in range(words)]
    return np.array(found, np.int64)


def down_sets(before: Sequence[int], most: int) -> DownSets | None:
    """All down-sets of parts in a topological order, or None where there are more than `most`.

    `before[a]` has a bit for each part that must not come after a.
    """
    s = DownSets()
    s.parts = len(before)
    s.words = max(1, -(-s.parts // BITS))
    s.before = words_of(before, s.words)
    s.codes = np.random.default_rng(0).integers(1, 1 << BITS, max(1, s.parts), np.int64)
    s.room, s.count, s.links, s.at, s.slots = 0, 1, 0, 0, 1
    s.sets, s.last, s.code = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    empty = np.zeros(0, np.int64)
    s.table = s.links_from = s.link_part = s.link_to = empty
    while s.at < s.count:
        if s.count > most:
            return None
        s.room = min(max(256, 4 * s.room), most) + s.parts + 1
        s.sets = _longer(s.sets, s.room * s.words)
        s.last, s.code = _longer(s.last, s.room), _longer(s.code, s.room)
        s.last[0] = NONE
        ENUMERATE(s)
    if s.count > most:
        return None
    s.slots = 1 << (2 * s.count).bit_length()
    s.table = np.full(s.slots, NONE, np.int64)
    s.links_from = np.zeros(s.count + 1, np.int64)
    s.link_part, s.link_to = np.zeros(s.links, np.int64), np.zeros(s.links, np.int64)
    LINK(s)
    return s


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros(size, np.int64)
    found[: len(array)] = array
    return found
