"""A sequence of executions in slots, with the bytes in use at each: inserting and deleting one
execution changes only what it touches.

Slots are places in time; some are empty, so that an execution can be put between two others.  The
functions are of the small part of Python that `machine_code/translate.py` compiles, and never
allocate.  A life is kept where it begins: `end_at[slot]` is the last slot that needs the value
made in `slot`.  Executions of one node are linked in order, over `following` and `preceding`.
"""

from __future__ import annotations

import numpy as np

from chainrule.machine_code.translate import Floats, Ints
from chainrule.plan.recomputation.arrays import Numbers, put
from chainrule.plan.recomputation.problem import Problem

NONE = -1
MOST = 1 << 60
LONGEST_LOG = 256
THRESHOLDS = 4096
LOGARITHMS = -np.log((np.arange(THRESHOLDS) + 0.5) / THRESHOLDS)


class Slots(Numbers):
    """The numbers of a program, and where its nodes are executed."""

    later_from: Ints
    later: Ints
    cost: Ints
    fixed: Ints
    node_at: Ints  # NONE where the slot is empty
    end_at: Ints
    following: Ints  # the slots of the next and of the last execution of the same node, or NONE
    preceding: Ints
    use: Ints  # bytes
    first: Ints  # the slots of the first and of the last execution of each node
    last: Ints
    count: Ints
    repeated: Ints  # the nodes that are executed more than once, and where each is in this list
    repeated_at: Ints
    log: Ints  # the changes since the last accepted move: node and slot of each insertion, and
    laid: Ints  # -1 - node and slot of each deletion; the sequence to lay into the slots
    best: Ints
    random: Ints  # four words of 32 bits
    thresholds: Floats  # -log of evenly spaced numbers between 0 and 1
    slots: int
    executions: int
    repeats: int  # how many nodes are repeated
    excess: int  # bytes above the budget, added up over all slots
    total_cost: int
    changes: int  # entries of the log
    laid_length: int
    best_length: int
    best_cost: int
    best_excess: int
    moves: int  # how many to make
    is_new: int  # 1 where `laid` is to be laid into the slots first
    temperature: float
    allowed: int  # bytes above the budget at which the weight neither rises nor falls
    weight: float  # the cost that one byte above the budget in one slot counts as
    swing: float  # the factor by which the weight changes, now and then


def slots_of(problem: Problem, slots: int) -> Slots:
    """Empty slots for the executions of a program."""
    s, n, arrays = Slots(), problem.size, problem.arrays
    put(s, arrays, ("inputs", "readers", "earlier", "later", "cost", "kept", "once", "fixed"))
    # Bytes of all slots are added up in 64 bits: large ones are counted in larger units.
    unit = 1 + (sum(problem.nbytes) + sum(problem.workspace)) * slots // MOST
    s.nbytes, s.workspace = -(-arrays.nbytes // unit), -(-arrays.workspace // unit)
    for name in ("node_at", "end_at", "following", "preceding", "laid", "best", "use"):
        setattr(s, name, np.zeros(slots, np.int64))
    for name in ("first", "last", "count", "repeated", "repeated_at"):
        setattr(s, name, np.zeros(n, np.int64))
    s.log, s.random = np.zeros(LONGEST_LOG, np.int64), np.ones(4, np.int64)
    s.thresholds = LOGARITHMS
    s.nodes, s.slots, s.budget = n, slots, problem.budget_nbytes // unit
    s.executions = s.repeats = s.excess = s.total_cost = s.changes = 0
    s.moves = s.allowed = s.is_new = 0
    s.laid_length = s.best_length = s.best_cost = s.best_excess = 0
    s.temperature = s.weight = s.swing = 1.0
    return s


def fill(s: Slots) -> None:
    """Lay the sequence `laid` into the slots, evenly, in place of what is there."""
    for t in range(s.slots):
        s.node_at[t] = NONE
        s.use[t] = 0
    for v in range(s.nodes):
        s.first[v] = NONE
        s.last[v] = NONE
        s.count[v] = 0
        s.repeated_at[v] = NONE
    s.executions = 0
    s.repeats = 0
    s.excess = 0
    s.total_cost = 0
    for at in range(s.laid_length):
        insert(s, s.laid[at], (2 * at + 1) * (s.slots - 1) // (2 * s.laid_length))
        s.changes = 0


def read_off(s: Slots, sequence: Ints) -> int:
    """Write the nodes of the slots into a sequence, whose length is returned."""
    at = 0
    for t in range(s.slots):
        if s.node_at[t] >= 0:
            sequence[at] = s.node_at[t]
            at += 1
    return at


def add_bytes(s: Slots, start: int, stop: int, nbytes: int) -> None:
    """Bytes that are in use from slot `start` up to, not including, `stop`."""
    use = s.use
    budget = s.budget
    more = 0
    for t in range(start, stop):
        before = use[t]
        after = before + nbytes
        more += max(after - budget, 0) - max(before - budget, 0)
        use[t] = after
    s.excess += more


def made_before(s: Slots, v: int, slot: int) -> int:
    """The slot of the last execution of v before a slot, or NONE."""
    at = s.last[v]
    while at >= slot:
        at = s.preceding[at]
    return at


def last_read(s: Slots, v: int, start: int, stop: int) -> int:
    """The last slot after `start` and before `stop` that reads v; `start` where there is none."""
    found = start
    for at in range(s.readers_from[v], s.readers_from[v + 1]):
        slot = s.last[s.readers[at]]
        while slot >= stop:
            slot = s.preceding[slot]
        if slot > found:
            found = slot
    return found


def first_read(s: Slots, v: int) -> int:
    """The first slot that reads v; where there is none, the number of slots."""
    found = s.slots
    for at in range(s.readers_from[v], s.readers_from[v + 1]):
        slot = s.first[s.readers[at]]
        if slot >= 0:
            found = min(found, slot)
    return found


def insert(s: Slots, v: int, slot: int) -> None:
    """Execute v in an empty slot, behind all that it reads."""
    before = made_before(s, v, slot)
    after = s.first[v]
    if before >= 0:
        after = s.following[before]
        s.following[before] = slot
    else:
        s.first[v] = slot
    if after >= 0:
        s.preceding[after] = slot
    else:
        s.last[v] = slot
    s.preceding[slot] = before
    s.following[slot] = after
    s.node_at[slot] = v
    size = s.nbytes[v]
    end = slot
    if before >= 0:
        if s.end_at[before] > slot:  # the later reads are of this execution now
            end = s.end_at[before]
            s.end_at[before] = last_read(s, v, before, slot)
            add_bytes(s, s.end_at[before] + 1, slot, -size)
        else:
            add_bytes(s, slot, slot + 1, size)
    else:
        stop = after
        if after < 0:
            stop = s.slots
        end = last_read(s, v, slot, stop)
        if after < 0 and s.kept[v] == 1:
            end = s.slots - 1
        add_bytes(s, slot, end + 1, size)
    s.end_at[slot] = end
    for at in range(s.inputs_from[v], s.inputs_from[v + 1]):
        u = s.inputs[at]
        made = made_before(s, u, slot)
        if s.end_at[made] < slot:
            add_bytes(s, s.end_at[made] + 1, slot + 1, s.nbytes[u])
            s.end_at[made] = slot
    if s.workspace[v] > 0:
        add_bytes(s, slot, slot + 1, s.workspace[v])
    s.total_cost += s.cost[v]
    s.executions += 1
    s.count[v] += 1
    if s.count[v] == 2:
        s.repeated[s.repeats] = v
        s.repeated_at[v] = s.repeats
        s.repeats += 1
    s.log[s.changes] = v
    s.log[s.changes + 1] = slot
    s.changes += 2


def delete(s: Slots, slot: int) -> None:
    """Execute nothing in a slot; what read the value made there reads the one before it."""
    v = s.node_at[slot]
    before = s.preceding[slot]
    after = s.following[slot]
    if before >= 0:
        s.following[before] = after
    else:
        s.first[v] = after
    if after >= 0:
        s.preceding[after] = before
    else:
        s.last[v] = before
    s.node_at[slot] = NONE
    for at in range(s.inputs_from[v], s.inputs_from[v + 1]):
        u = s.inputs[at]
        made = made_before(s, u, slot)
        if s.end_at[made] == slot:
            s.end_at[made] = last_read(s, u, made, slot)
            add_bytes(s, s.end_at[made] + 1, slot + 1, -s.nbytes[u])
    size = s.nbytes[v]
    end = s.end_at[slot]
    if before >= 0 and end > slot:
        add_bytes(s, s.end_at[before] + 1, slot, size)
        s.end_at[before] = end
    else:
        add_bytes(s, slot, end + 1, -size)
    if s.workspace[v] > 0:
        add_bytes(s, slot, slot + 1, -s.workspace[v])
    s.total_cost -= s.cost[v]
    s.executions -= 1
    s.count[v] -= 1
    if s.count[v] == 1:
        s.repeats -= 1
        other = s.repeated[s.repeats]
        s.repeated[s.repeated_at[v]] = other
        s.repeated_at[other] = s.repeated_at[v]
        s.repeated_at[v] = NONE
    s.log[s.changes] = -1 - v
    s.log[s.changes + 1] = slot
    s.changes += 2


def undo(s: Slots) -> None:
    """Take back all changes of the log."""
    while s.changes > 0:
        v = s.log[s.changes - 2]
        slot = s.log[s.changes - 1]
        s.changes -= 2
        if v >= 0:
            delete(s, slot)
        else:
            insert(s, -1 - v, slot)
        s.changes -= 2


BASICS = (add_bytes, made_before, last_read, first_read, insert, delete, fill, read_off, undo)
