"""Follows the initial order, evicts values where the budget is reached, and computes them again
where they are read: the quick start of the search, and a baseline.

The rule which value goes first is that of dynamic tensor rematerialization (Kirisame and others,
ICLR 2021), with the distance to the next read, which is known here, for the staleness.

The functions on a `Walk` are of the small part of Python that `machine_code/translate.py` compiles.
"""

from __future__ import annotations

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.machine_code.kernel import Kernel
from chainrule.machine_code.translate import Floats, Ints
from chainrule.plan.recomputation.arrays import Numbers, Rows, put
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import without_useless

MOST_REPEATS = 4  # executions, in all, for each node: a thrashing walk is given up,
MOST_LOOKS = 200_000_000  # and one that looks at too many values for what to evict: some seconds
VISIT = 40  # what it costs to follow a read, in looks at a value
NONE = -1


@dataclass(frozen=True)
class Weights:
    """How much the bytes and the cost count, as exponents, and whether the distance to the next
    read does."""

    nbytes: float
    distance: bool
    cost: float


RULES = (
    Weights(nbytes=1, distance=True, cost=1),
    Weights(nbytes=0, distance=True, cost=0),
    Weights(nbytes=1, distance=True, cost=0),
    Weights(nbytes=1, distance=False, cost=1),
)


class Walk(Numbers):
    """The numbers of a program, and the state on the way through its order: what is there, and
    where it is read next."""

    order: Ints
    places_from: Ints  # of each node, the places in the order that read it,
    places: Ints
    place_at: Ints  # and which of them comes next
    merit: Floats  # of evicting it, but for the distance
    resident: Ints
    evictable: Ints
    may_run: Ints  # again
    blocked: Ints  # computed from what may not run again
    next_read: Ints  # place; the number of nodes for what is kept, NONE for what is not needed
    pinned: Ints  # by how many nodes that are about to execute
    stack: Ints  # these nodes, and how far each has looked at what it reads
    looked: Ints
    pending: Ints
    seen: Ints  # in which round
    tried: Ints
    sequence: Ints
    by_distance: int
    now: int
    alive: int  # bytes
    length: int
    longest: int
    looks: int
    rounds: int


def greedy(problem: Problem, weights: Weights) -> tuple[int, ...] | None:
    """A valid sequence within the budget, or None where this rule finds none."""
    s = walk_of(problem, weights)
    if KERNEL(s) == 0:
        return None
    return without_useless(problem, s.sequence[: s.length])


def walk_of(problem: Problem, weights: Weights) -> Walk:
    """The beginning of a walk."""
    s, n, arrays = Walk(), problem.size, problem.arrays
    put(s, arrays, ("inputs", "readers", "earlier", "nbytes", "workspace", "kept", "once"))
    s.order = np.array(problem.order, np.int64)
    s.places_from, s.places = _places(problem, s.order)
    s.place_at = s.places_from[:-1].copy()
    nbytes = np.maximum(arrays.nbytes.astype(float), 1e-9)
    cost = arrays.cost + 1e-6 * (1 + problem.plain_cost) / (n or 1)
    s.merit = nbytes**weights.nbytes / cost**weights.cost
    s.evictable = (arrays.nbytes >= 1).astype(np.int64)
    s.may_run, s.next_read = np.ones(n, np.int64), np.full(n, NONE, np.int64)
    for name in ("resident", "blocked", "pinned", "stack", "looked", "seen", "tried"):
        setattr(s, name, np.zeros(n, np.int64))
    s.pending = np.zeros(n + len(s.inputs) + len(s.earlier), np.int64)
    s.longest = MOST_REPEATS * n
    s.sequence = np.zeros(s.longest + 1, np.int64)
    s.nodes, s.budget, s.by_distance = n, problem.budget_nbytes, int(weights.distance)
    s.now = s.alive = s.length = s.looks = s.rounds = 0
    return s


def _places(problem: Problem, order: np.ndarray) -> Rows:
    """Of each node, the places in the order that read it, one after another."""
    begins, readers = problem.arrays.readers
    place = np.empty(problem.size, np.int64)
    place[order] = np.arange(problem.size)
    read = np.repeat(np.arange(problem.size), np.diff(begins))
    return Rows(begins, place[readers][np.lexsort((place[readers], read))])


def runs_no_more(s: Walk, node: int) -> None:
    """It may not run again."""
    s.may_run[node] = 0
    s.pending[0] = node
    count = 1
    while count > 0:
        count -= 1
        one = s.pending[count]
        if s.blocked[one] == 0:
            s.blocked[one] = 1
            for at in range(s.readers_from[one], s.readers_from[one + 1]):
                s.pending[count] = s.readers[at]
                count += 1


def drop(s: Walk, node: int) -> None:
    """It is not there any more."""
    s.resident[node] = 0
    s.alive -= s.nbytes[node]


def is_recoverable(s: Walk, node: int) -> int:
    """1 if a value, once evicted, can be computed from what is there."""
    if s.blocked[node] == 0:
        s.looks += VISIT
        return 1
    s.rounds += 1
    s.seen[node] = s.rounds
    s.pending[0] = node
    count = 1
    while count > 0:
        s.looks += VISIT
        count -= 1
        one = s.pending[count]
        if s.blocked[one] == 1:
            if s.may_run[one] == 0:
                return 0
            for at in range(s.inputs_from[one], s.inputs_from[one + 1]):
                u = s.inputs[at]
                if s.resident[u] == 0 and s.seen[u] != s.rounds:
                    s.seen[u] = s.rounds
                    s.pending[count] = u
                    count += 1
    return 1


def most_merit(s: Walk, number: int) -> int:
    """The value that is to go first, of those not yet tried in this round; NONE if there is none.

    Of equal ones, that with the smallest number.
    """
    found = NONE
    most = 0.0
    for v in range(s.nodes):
        if s.resident[v] == 1 and s.evictable[v] == 1 and s.may_run[v] == 1:
            if s.next_read[v] >= 0 and s.tried[v] != number:
                merit = s.merit[v]
                if s.by_distance == 1:
                    merit = merit * float(max(s.next_read[v] - s.now, 1))
                if found < 0 or merit > most:
                    found = v
                    most = merit
    return found


def make_room(s: Walk, allowed: int) -> int:
    """Evict until no more than the allowed bytes are in use; 0 where that cannot be."""
    if s.alive <= allowed:
        return 1
    s.looks += s.nodes
    s.rounds += 1
    number = s.rounds
    while s.alive > allowed:
        u = most_merit(s, number)
        if u < 0:
            return 0
        s.tried[u] = number
        if s.pinned[u] == 0 and is_recoverable(s, u) == 1:
            drop(s, u)
    return 1


def pin(s: Walk, node: int, more: int) -> None:
    """What a node reads, and its value until it is read, stays (1), or need not any more (-1)."""
    s.pinned[node] += more
    for at in range(s.inputs_from[node], s.inputs_from[node + 1]):
        s.pinned[s.inputs[at]] += more


def drop_unused(s: Walk, u: int) -> None:
    """Drop what was computed again, and is not needed any more."""
    if s.pinned[u] == 0 and s.next_read[u] < 0 and s.resident[u] == 1:
        drop(s, u)


def compute(s: Walk, target: int) -> int:
    """Execute the target, and first, depth first, what it reads and is not there; 0 where that
    cannot be."""
    s.stack[0] = target
    s.looked[0] = s.inputs_from[target]
    depth = 1
    pin(s, target, 1)
    while depth > 0:
        node = s.stack[depth - 1]
        at = s.looked[depth - 1]
        while at < s.inputs_from[node + 1] and s.resident[s.inputs[at]] == 1:
            at += 1
        if at < s.inputs_from[node + 1]:
            missing = s.inputs[at]
            s.looked[depth - 1] = at + 1
            if s.may_run[missing] == 0:
                return 0
            pin(s, missing, 1)
            s.stack[depth] = missing
            s.looked[depth] = s.inputs_from[missing]
            depth += 1
            continue
        if make_room(s, s.budget - s.nbytes[node] - s.workspace[node]) == 0:
            return 0
        if s.length > s.longest or s.looks > MOST_LOOKS:
            return 0
        s.sequence[s.length] = node
        s.length += 1
        s.resident[node] = 1
        s.alive += s.nbytes[node]
        depth -= 1
        pin(s, node, -1)
        if node != target:
            drop_unused(s, node)
        for at in range(s.inputs_from[node], s.inputs_from[node + 1]):
            drop_unused(s, s.inputs[at])
    return 1


def look_ahead(s: Walk, u: int) -> None:
    """Where the order reads u after this moment; it is dropped where nothing needs it."""
    at = s.place_at[u]
    while at < s.places_from[u + 1] and s.places[at] <= s.now:
        at += 1
    s.place_at[u] = at
    s.next_read[u] = NONE
    if at < s.places_from[u + 1]:
        s.next_read[u] = s.places[at]
    elif s.kept[u] == 1:
        s.next_read[u] = s.nodes
    else:
        drop(s, u)


def walk(s: Walk) -> int:
    """Execute every node, and before it what has to be computed again for it; then what is kept
    and was evicted.  0 where that cannot be."""
    for v in range(s.nodes):
        if s.once[v] == 1:
            runs_no_more(s, v)
    for now in range(s.nodes):
        s.now = now
        node = s.order[now]
        if compute(s, node) == 0:
            return 0
        for at in range(s.earlier_from[node], s.earlier_from[node + 1]):
            runs_no_more(s, s.earlier[at])
        for at in range(s.inputs_from[node], s.inputs_from[node + 1]):
            look_ahead(s, s.inputs[at])
        look_ahead(s, node)
    s.now = s.nodes
    for v in range(s.nodes):
        if s.kept[v] == 1:
            s.evictable[v] = 0
    for v in range(s.nodes):
        if s.kept[v] == 1 and s.resident[v] == 0:
            if s.may_run[v] == 0 or compute(s, v) == 0:
                return 0
    return 1


KERNEL = Kernel(
    walk,
    (
        runs_no_more,
        drop,
        is_recoverable,
        most_merit,
        make_room,
        pin,
        drop_unused,
        compute,
        look_ahead,
    ),
    Walk,
)
