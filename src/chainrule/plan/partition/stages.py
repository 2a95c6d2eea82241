"""The best split into stages by dynamic programming over down-sets.

From each down-set that some stages can fill, walks go to larger ones, a part at a time; the parts
on the way are one more stage.  A walk turns back where the stage's times, and what it must receive
from earlier stages, reach the limit: both only grow.  The limit is the best load known, so what is
left when all walks have ended is proved.

The functions are of the small part of Python that `machine_code/translate.py` compiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import monotonic

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.machine_code.kernel import Kernel
from chainrule.machine_code.translate import Floats, Ints
from chainrule.plan.partition.downsets import BITS, NONE, DownSets
from chainrule.plan.partition.kinds import Kinds
from chainrule.plan.partition.parts import Parts

ENDLESS = 1e300
CALL_STEPS = 2_000_000  # between two looks at the clock: some 50 ms
CLOSE = 1e-12  # relative: loads as near as this are equal but for rounding


Stretches = tuple[tuple[int, tuple[int, ...]], ...]


class Walks:
    """Down-sets, what parts cost, and for each down-set and each number of used places of every
    kind (a state) the least load that fills it."""

    sets: Ints
    links_from: Ints
    link_part: Ints
    link_to: Ints
    nbytes: Ints
    ties_from: Ints  # of each part
    ties: Ints
    tie_size: Ints
    outside: Ints  # of each tie: how many of its parts are in the set that is extended
    inside: Ints  # how many are in the stage
    kind_nbytes: Ints
    kind_is_host: Ints
    kind_count: Ints
    stride: Ints  # of each kind, in the number of a state
    from_walk: Ints  # of each set and state: the set before, and the kind of the stage
    node: Ints  # of each step of the walk: the set, its next link, the part that was added
    link: Ints
    added: Ints
    held: Ints  # bytes
    seconds: Floats
    host_seconds: Floats
    tie_cost: Floats
    room: Floats  # of each state: the limit times this is what is left for the parts outside
    best: Floats
    least: Floats
    busy: Floats  # of each step: the stage's time, its time on a host,
    host_busy: Floats
    moved: Floats  # what enters and leaves,
    received: Floats  # and what comes from earlier stages
    parts: int
    tie_count: int
    words: int
    count: int
    kinds: int
    states: int
    first: int  # the states of the set that is extended, from the first up to, without, the end
    end: int
    at: int
    steps: int
    quota: int
    limit: float


def is_alive(s: Walks, one: int) -> int:
    """1 if a set is worth extending; counts what each tie has in it."""
    base = one * s.states
    alive = 0
    for state in range(s.states):
        if s.best[base + state] < s.limit:
            alive = 1
    if alive == 0:
        return 0
    for tie in range(s.tie_count):
        s.outside[tie] = 0
    left = 0.0
    for part in range(s.parts):
        if s.sets[one * s.words + part // BITS] >> (part % BITS) & 1 == 1:
            for at in range(s.ties_from[part], s.ties_from[part + 1]):
                s.outside[s.ties[at]] += 1
        else:
            left += s.seconds[part]
    s.first = s.states
    s.end = 0
    for state in range(s.states):
        least = ENDLESS  # of states that use no place more than this one
        for kind in range(s.kinds):
            if state // s.stride[kind] % (s.kind_count[kind] + 1) > 0:
                least = min(least, s.least[state - s.stride[kind]])
        load = s.best[base + state]
        s.least[state] = min(least, load)
        if load >= least or load >= s.limit or left > s.room[state] * s.limit:
            s.best[base + state] = ENDLESS
        else:
            s.first = min(s.first, state)
            s.end = state + 1
    if s.first < s.end:
        return 1
    return 0


def reach(s: Walks, one: int, new: int, kind: int, load: float) -> None:
    """Fill a larger set with one more stage on a place of a kind."""
    base = one * s.states
    stride = s.stride[kind]
    most = s.kind_count[kind]
    target = new * s.states + stride
    for state in range(s.first, s.end):
        if s.best[base + state] < s.limit and state // stride % (most + 1) < most:
            whole = max(s.best[base + state], load)
            if whole < s.best[target + state]:
                s.best[target + state] = whole
                s.from_walk[target + state] = one * s.kinds + kind
                if new == s.count - 1 and whole < s.limit:
                    s.limit = whole


def enter(s: Walks, one: int, depth: int) -> int:
    """Count the stage at a step of the walk, and fill its set; 1 if a larger stage may fit."""
    part = s.added[depth]
    s.steps += 1
    s.busy[depth] = s.busy[depth - 1] + s.seconds[part]
    s.host_busy[depth] = s.host_busy[depth - 1] + s.host_seconds[part]
    s.held[depth] = s.held[depth - 1] + s.nbytes[part]
    moved = s.moved[depth - 1]
    received = s.received[depth - 1]
    for at in range(s.ties_from[part], s.ties_from[part + 1]):
        tie = s.ties[at]
        count = s.inside[tie]
        s.inside[tie] = count + 1
        if count == 0:
            moved += s.tie_cost[tie]
            if s.outside[tie] > 0:
                received += s.tie_cost[tie]
        if count + 1 == s.tie_size[tie]:
            moved -= s.tie_cost[tie]
    s.moved[depth] = moved
    s.received[depth] = received
    deeper = 0
    for kind in range(s.kinds):
        if s.held[depth] <= s.kind_nbytes[kind]:
            least = s.host_busy[depth]
            load = least
            if s.kind_is_host[kind] == 0:
                least = s.busy[depth] + received
                load = s.busy[depth] + max(moved, received)
            if least < s.limit:
                deeper = 1
            if load < s.limit:
                reach(s, one, s.node[depth], kind, load)
    return deeper


def walk(s: Walks, one: int) -> None:
    """Try every stage that can follow a set."""
    s.node[0] = one
    s.link[0] = s.links_from[one]
    s.added[0] = NONE
    depth = 0
    while depth >= 0:
        at = s.link[depth]
        if at == s.links_from[s.node[depth] + 1]:
            if depth > 0:
                part = s.added[depth]
                for place in range(s.ties_from[part], s.ties_from[part + 1]):
                    s.inside[s.ties[place]] -= 1
            depth -= 1
            continue
        s.link[depth] = at + 1
        part = s.link_part[at]
        if part < s.added[depth]:
            continue
        new = s.link_to[at]
        depth += 1
        s.node[depth] = new
        s.added[depth] = part
        s.link[depth] = s.links_from[new]
        if enter(s, one, depth) == 0:
            s.link[depth] = s.links_from[new + 1]


def extend(s: Walks) -> int:
    """Go on for about `quota` steps; 1 if every set has been extended."""
    s.steps = 0
    while s.at < s.count:
        if s.steps > s.quota:
            return 0
        one = s.at
        s.at += 1
        if is_alive(s, one) == 1:
            walk(s, one)
    return 1


EXTEND = Kernel(extend, (is_alive, reach, enter, walk), Walks)


@dataclass(frozen=True)
class Filled:
    """The stages of a split in their order: the place and the parts of each; whether all splits
    have been considered that are better than the limit."""

    stages: Stretches | None
    is_complete: bool


def best_stages(
    parts: Parts, kinds: Kinds, sets: DownSets, limit: float, deadline: float
) -> Filled:
    """The best split into stages with a load below the limit."""
    s = _walks(parts, kinds, sets, limit)
    while not EXTEND(s):
        if monotonic() > deadline:
            return Filled(_traced(s, kinds), False)
    return Filled(_traced(s, kinds), True)


def _walks(parts: Parts, kinds: Kinds, sets: DownSets, limit: float) -> Walks:
    s, size = Walks(), parts.size
    for name in ("sets", "links_from", "link_part", "link_to", "words", "count"):
        setattr(s, name, getattr(sets, name))
    s.parts, s.kinds, s.states, s.limit = size, len(kinds.places), kinds.states, limit
    s.seconds = np.array(parts.seconds, np.float64)
    s.host_seconds = np.array(parts.host_seconds, np.float64)
    s.nbytes = np.array(parts.nbytes, np.int64)
    rows = parts.ties_of_parts
    s.ties_from = np.array([0, *np.cumsum([len(row) for row in rows])], np.int64)
    s.tie_count = len(parts.ties)
    s.ties = np.array([tie for row in rows for tie in row], np.int64)
    s.tie_size = np.array([len(members) for members, _ in parts.ties], np.int64)
    s.tie_cost = np.array([cost for _, cost in parts.ties], np.float64)
    s.outside, s.inside = np.zeros(len(parts.ties), np.int64), np.zeros(len(parts.ties), np.int64)
    s.kind_nbytes = np.array(kinds.nbytes, np.int64)
    s.kind_is_host = np.array(kinds.is_host, np.int64)
    counts = [len(one) for one in kinds.places]
    s.kind_count = np.array(counts, np.int64)
    strides = [math.prod(n + 1 for n in counts[:kind]) for kind in range(len(counts))]
    s.stride = np.array(strides, np.int64)
    s.room = _rooms(parts, kinds, s.stride, counts, limit)
    s.best = np.full(s.count * s.states, ENDLESS)
    s.best[0] = 0.0
    s.from_walk = np.full(s.count * s.states, NONE, np.int64)
    for name in ("node", "link", "added", "held"):
        setattr(s, name, np.zeros(size + 2, np.int64))
    for name in ("busy", "host_busy", "moved", "received"):
        setattr(s, name, np.zeros(size + 2))
    s.least = np.zeros(s.states)
    s.first = s.end = s.at = s.steps = 0
    s.quota = CALL_STEPS
    return s


def host_speed(parts: Parts, limit: float) -> float:
    """The largest ratio of a part's time on a device to that on a host, of those parts that a host
    can take within the limit."""
    pairs = zip(parts.seconds, parts.host_seconds, strict=True)
    ratios = [d / h if h > 0 else ENDLESS for d, h in pairs if d > 0 and h < limit]
    return max(ratios, default=0.0)


def _rooms(
    parts: Parts, kinds: Kinds, stride: np.ndarray, counts: Sequence[int], limit: float
) -> np.ndarray:
    """For each state, the most time on devices that unused places take in one unit of load."""
    speed = host_speed(parts, limit)
    found = np.zeros(kinds.states)
    for state in range(kinds.states):
        for kind, count in enumerate(counts):
            unused = count - state // int(stride[kind]) % (count + 1)
            if unused:
                found[state] += unused * (speed if kinds.is_host[kind] else 1.0)
    return found * (1 + 1e-9) + CLOSE  # rounding must not cut off what is just good enough


def _traced(s: Walks, kinds: Kinds) -> Stretches | None:
    """The stages that fill everything with the least load, if any do."""
    last = (s.count - 1) * s.states
    row = s.best[last : last + s.states]
    state = int(np.argmin(row))
    if row[state] >= ENDLESS:
        return None
    rows = s.sets.reshape(-1, s.words)
    free = [list(one) for one in kinds.places]
    found = []
    one = s.count - 1
    while s.from_walk[one * s.states + state] != NONE:
        before, kind = divmod(int(s.from_walk[one * s.states + state]), s.kinds)
        new = rows[one] & ~rows[before]
        stage = tuple(p for p in range(s.parts) if new[p // BITS] >> (p % BITS) & 1)
        found.append((kind, stage))
        one, state = before, state - int(s.stride[kind])
    return tuple((free[kind].pop(0), stage) for kind, stage in reversed(found))
