"""Simulated annealing over splits whose stages need no order: a part goes to another place, or two
parts change places.

What is made small is the sum of high powers of all loads, whose largest term decides, while the
others still pull in the right direction.

The functions are of the small part of Python that `machine_code/translate.py` compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import numpy as np

from chainrule.machine_code.kernel import Kernel
from chainrule.machine_code.translate import Floats, Ints
from chainrule.plan.partition.kinds import NO_LIMIT
from chainrule.plan.partition.parts import Parts
from chainrule.plan.partition.problem import Problem

THRESHOLDS = 4096
WORD = (1 << 32) - 1
ROUNDS = 10  # of annealing, each from the best split
CALL_MOVES = 200_000
WARM, COLD = 0.5, 0.002  # temperatures, where a load like the largest counts as 1


class Places:
    """Where each part lies, with the load and the bytes of each place."""

    nbytes: Ints  # of the parts
    ties_from: Ints
    ties: Ints
    tie_size: Ints
    count: Ints  # how many parts of a tie are at a place
    place: Ints  # of each part
    best: Ints
    held: Ints  # bytes of each place
    memory: Ints
    seconds: Floats
    host_seconds: Floats
    tie_cost: Floats
    load: Floats
    thresholds: Floats  # -log of evenly spaced numbers between 0 and 1
    parts: int
    tie_count: int
    places: int
    devices: int
    random: int
    moves: int
    excess: int  # bytes above memory; once 0, it stays so
    temperature: float
    cooling: float  # factor for each move
    unit: float  # the load that counts as 1
    best_load: float


def draw(s: Places) -> int:
    """A number of 32 bits (xorshift)."""
    bits = s.random
    bits = bits ^ (bits << 13 & WORD)
    bits = bits ^ bits >> 17
    bits = bits ^ (bits << 5 & WORD)
    s.random = bits
    return bits


def weight(s: Places, place: int) -> float:
    """What the load of a place counts as: its 16th power."""
    x = s.load[place] / s.unit
    x = x * x
    x = x * x
    x = x * x
    return x * x


def put(s: Places, part: int, place: int, sign: int) -> None:
    """Add a part to a place (sign 1), or take it away (-1)."""
    over = max(0, s.held[place] - s.memory[place])
    s.held[place] += sign * s.nbytes[part]
    s.excess += max(0, s.held[place] - s.memory[place]) - over
    if place >= s.devices:
        s.load[place] += float(sign) * s.host_seconds[part]
    else:
        s.load[place] += float(sign) * s.seconds[part]
    for at in range(s.ties_from[part], s.ties_from[part + 1]):
        tie = s.ties[at]
        entry = tie * s.places + place
        before = s.count[entry]
        after = before + sign
        s.count[entry] = after
        if place < s.devices:
            size = s.tie_size[tie]
            if before == 0 or before == size:
                if after > 0 and after < size:
                    s.load[place] += s.tie_cost[tie]
            elif after == 0 or after == size:
                s.load[place] -= s.tie_cost[tie]


def shift(s: Places, part: int, place: int) -> None:
    """Move a part to a place."""
    put(s, part, s.place[part], -1)
    put(s, part, place, 1)
    s.place[part] = place


def largest(s: Places) -> float:
    """The largest load."""
    most = 0.0
    for place in range(s.places):
        most = max(most, s.load[place])
    return most


def lay_out(s: Places) -> None:
    """Count all loads anew."""
    s.excess = 0
    for place in range(s.places):
        s.load[place] = 0.0
        s.held[place] = 0
    for entry in range(s.tie_count * s.places):
        s.count[entry] = 0
    for part in range(s.parts):
        put(s, part, s.place[part], 1)


def keep(s: Places) -> None:
    """Note where the parts lie, if the largest load is less than ever."""
    most = largest(s)
    if most < s.best_load:
        s.best_load = most
        for part in range(s.parts):
            s.best[part] = s.place[part]


def anneal(s: Places) -> int:
    """Make some moves and keep the best split on the way; returned is how many were accepted."""
    lay_out(s)
    if s.excess == 0:
        keep(s)
    accepted = 0
    for _number in range(s.moves):
        s.temperature = s.temperature * s.cooling
        part = draw(s) % s.parts
        there = s.place[part]
        here = draw(s) % s.places
        other = part
        if draw(s) % 2 == 0:
            other = draw(s) % s.parts
            here = s.place[other]
        if here == there:
            continue
        excess = s.excess
        before = weight(s, here) + weight(s, there)
        shift(s, part, here)
        if other != part:
            shift(s, other, there)
        worse = weight(s, here) + weight(s, there) - before
        if s.excess > excess or (
            s.excess == excess and worse > s.temperature * s.thresholds[draw(s) % THRESHOLDS]
        ):
            shift(s, part, there)
            if other != part:
                shift(s, other, here)
            continue
        accepted += 1
        if s.excess == 0 and s.load[here] < s.best_load and s.load[there] < s.best_load:
            keep(s)
    return accepted


ANNEAL = Kernel(anneal, (draw, weight, put, shift, largest, lay_out, keep), Places)


def exchanged(
    problem: Problem,
    parts: Parts,
    start: Sequence[int],
    load: float,
    bound: float,
    moves: int,
    deadline: float,
    seed: int,
) -> tuple[int, ...] | None:
    """The place of each part, with a largest load below `load`; None where none was found."""
    if parts.size == 0 or problem.places < 2:
        return None
    s = _places(problem, parts, start, load, seed)
    whole = max(largest_load(parts), 1e-300)  # powers of loads stay numbers
    for number in range(ROUNDS):
        s.temperature = WARM if number % 2 == 0 else WARM / 4
        s.unit = min(s.best_load, whole)
        done, share = 0, max(1, moves // ROUNDS)
        s.cooling = (COLD / s.temperature) ** (1 / share)
        while done < share:
            s.moves = min(CALL_MOVES, share - done)
            ANNEAL(s)
            done += s.moves
            if monotonic() > deadline or s.best_load <= bound:
                break
        if monotonic() > deadline or s.best_load <= bound:
            break
        if s.best_load < load:
            s.place[:] = s.best
    return tuple(int(one) for one in s.best) if s.best_load < load else None


def largest_load(parts: Parts) -> float:
    """A load that none exceeds."""
    return sum(parts.seconds) + sum(parts.host_seconds) + sum(cost for _, cost in parts.ties)


def _places(problem: Problem, parts: Parts, start: Sequence[int], load: float, seed: int) -> Places:
    s, size = Places(), parts.size
    s.parts, s.places, s.tie_count = size, problem.places, len(parts.ties)
    s.devices = len(problem.memory_nbytes)
    s.seconds = np.array(parts.seconds, np.float64)
    s.host_seconds = np.array(parts.host_seconds, np.float64)
    s.nbytes = np.array(parts.nbytes, np.int64)
    rows = parts.ties_of_parts
    s.ties_from = np.array([0, *np.cumsum([len(row) for row in rows])], np.int64)
    s.ties = np.array([tie for row in rows for tie in row], np.int64)
    s.tie_size = np.array([len(members) for members, _ in parts.ties], np.int64)
    s.tie_cost = np.array([cost for _, cost in parts.ties], np.float64)
    s.count = np.zeros(s.tie_count * s.places, np.int64)
    s.place, s.best = np.array(start, np.int64), np.array(start, np.int64)
    s.held, s.load = np.zeros(s.places, np.int64), np.zeros(s.places)
    s.memory = np.array([*problem.memory_nbytes, *(NO_LIMIT,) * problem.hosts], np.int64)
    s.thresholds = -np.log((np.arange(THRESHOLDS) + 0.5) / THRESHOLDS)
    s.random = int(np.random.default_rng(seed).integers(1, WORD))
    s.moves = s.excess = 0
    s.temperature = s.cooling = s.unit = 1.0
    s.best_load = load
    return s
