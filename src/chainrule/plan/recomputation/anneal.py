"""Simulated annealing over sequences with recomputation: executions are moved, added and removed.

The moves are those of FastSA (NeurIPS 2023), chosen with an eye on lives: an execution is added
where a value that was idle for long is read next, and with it, perhaps, what it reads; with an
execution goes what was computed again for it alone.  Bytes above the budget count as a cost, whose
weight rises while they are more than is allowed, and falls while they are fewer.  What is allowed
shrinks to nothing as the temperature falls, so the order is still fluid at the beginning.

The functions are of the small part of Python that `machine_code/translate.py` compiles.
"""

from __future__ import annotations

from chainrule.machine_code.kernel import Kernel
from chainrule.plan.recomputation.slots import (
    BASICS,
    LONGEST_LOG,
    NONE,
    THRESHOLDS,
    Slots,
    delete,
    fill,
    first_read,
    insert,
    last_read,
    made_before,
    read_off,
    undo,
)

WORD = (1 << 32) - 1
LOOK = 24  # how many slots away from the chosen one an empty one is looked for
SWING_MOVES = 64  # after so many moves the weight of bytes above the budget changes
MOST_CHANGES = LONGEST_LOG // 2  # of one move; what it takes along has room behind it


def draw(s: Slots) -> int:
    """32 random bits (xorshift128: Marsaglia, 2003)."""
    random = s.random
    mixed = random[0] ^ ((random[0] << 11) & WORD)
    random[0] = random[1]
    random[1] = random[2]
    random[2] = random[3]
    random[3] = random[3] ^ (random[3] >> 19) ^ mixed ^ (mixed >> 8)
    return random[3]


def below(s: Slots, count: int) -> int:
    """A random number from 0 up to, not including, a count."""
    return draw(s) * count >> 32


def some_slot(s: Slots) -> int:
    """A random slot that executes something."""
    slot = below(s, s.slots)
    while s.node_at[slot] < 0:
        slot = below(s, s.slots)
    return slot


def empty_slot(s: Slots, slot: int, low: int, high: int) -> int:
    """The nearest empty slot from `low` to `high`, both included, or NONE where it is far."""
    for away in range(LOOK):
        if slot - away >= low and s.node_at[slot - away] < 0:
            return slot - away
        if slot + away <= high and s.node_at[slot + away] < 0:
            return slot + away
    return NONE


def lowest(s: Slots, v: int) -> int:
    """The first slot in which v may be executed, for what it reads."""
    found = 0
    for at in range(s.inputs_from[v], s.inputs_from[v + 1]):
        found = max(found, s.first[s.inputs[at]] + 1)
    return found


def highest(s: Slots, v: int) -> int:
    """The last slot in which v may be executed, for what must not come before it."""
    found = s.slots - 2
    for at in range(s.later_from[v], s.later_from[v + 1]):
        found = min(found, s.first[s.later[at]] - 1)
    return found


def behind_earlier(s: Slots, v: int) -> int:
    """The first slot in which v may be executed for the first time, for what may not follow."""
    found = 0
    for at in range(s.earlier_from[v], s.earlier_from[v + 1]):
        found = max(found, s.last[s.earlier[at]] + 1)
    return found


def move(s: Slots) -> None:
    """Execute something in another slot."""
    slot = some_slot(s)
    v = s.node_at[slot]
    if s.fixed[v] == 1 and s.preceding[slot] < 0:
        return
    low = max(lowest(s, v), behind_earlier(s, v))
    high = highest(s, v)
    if s.preceding[slot] < 0:
        read = first_read(s, v)
        if s.following[slot] < 0 or s.following[slot] > read:
            high = min(high, read - 1)
    if low > high:
        return
    target = low + below(s, high - low + 1)
    kind = below(s, 8)
    if kind < 4:  # near
        width = 4 << below(s, 6)
        target = min(max(slot - width + below(s, 2 * width + 1), low), high)
    elif kind == 4:  # right behind what it reads
        target = low
    elif kind == 5:  # right before its next read
        read = s.slots
        for at in range(s.readers_from[v], s.readers_from[v + 1]):
            other = s.first[s.readers[at]]
            while other >= 0 and other < slot:
                other = s.following[other]
            if other >= 0:
                read = min(read, other)
        target = min(max(read - 1, low), high)
    target = empty_slot(s, target, low, high)
    if target < 0:
        return
    delete(s, slot)
    insert(s, v, target)


def add(s: Slots) -> None:
    """Compute a value again, before a read of it, and perhaps what it is computed from."""
    if s.executions * 4 > s.slots * 3:
        return
    slot = some_slot(s)
    reader = s.node_at[slot]
    count = s.inputs_from[reader + 1] - s.inputs_from[reader]
    if s.kept[reader] == 1 and below(s, 8) == 0:
        v = reader
        slot = s.slots - 1
    elif count > 0:
        v = s.inputs[s.inputs_from[reader] + below(s, count)]
    else:
        return
    depth = 0
    while depth < 8:
        if s.once[v] == 1:
            return
        made = made_before(s, v, slot)
        low = max(max(lowest(s, v), made + 1), last_read(s, v, made, slot) + 1)
        high = min(slot - 1, highest(s, v))
        if low > high:
            return
        target = high
        if below(s, 4) == 0:
            target = low + below(s, high - low + 1)
        target = empty_slot(s, target, low, high)
        if target < 0:
            return
        insert(s, v, target)
        if below(s, 2) == 0:
            return
        count = s.inputs_from[v + 1] - s.inputs_from[v]
        if count == 0:
            return
        v = s.inputs[s.inputs_from[v] + below(s, count)]
        slot = target
        depth += 1


def may_remove(s: Slots, slot: int) -> int:
    """1 if another execution of the same node serves all reads instead."""
    v = s.node_at[slot]
    if s.count[v] < 2:
        return 0
    if s.preceding[slot] < 0 and s.following[slot] > first_read(s, v):
        return 0
    if s.preceding[slot] < 0 and s.fixed[v] == 1:
        return 0
    return 1


def remove(s: Slots) -> None:
    """Execute something once less, and what was executed again for it alone."""
    if s.repeats == 0:
        return
    v = s.repeated[below(s, s.repeats)]
    slot = s.first[v]
    for _ in range(below(s, s.count[v])):
        slot = s.following[slot]
    if may_remove(s, slot) == 0:
        return
    delete(s, slot)
    drop_useless(s, v, slot)


def drop_useless(s: Slots, v: int, slot: int) -> None:
    """Remove executions of what v, now gone from a slot, has read, where nothing else reads them;
    then the same for one of them."""
    deeper = v
    while deeper >= 0:
        v = deeper
        deeper = NONE
        at = s.inputs_from[v]
        while at < s.inputs_from[v + 1]:
            u = s.inputs[at]
            made = made_before(s, u, slot)
            if s.end_at[made] == made and may_remove(s, made) == 1 and s.changes < MOST_CHANGES:
                delete(s, made)
                deeper = u
            at += 1


def anneal(s: Slots) -> int:
    """Make some moves, and keep the best sequence on the way; returned is how many were accepted.

    Before, if `is_new` is 1, the sequence `laid` is laid out; after, it is the present one.
    """
    if s.is_new == 1:
        fill(s)
    accepted = 0
    for number in range(s.moves):
        if number % SWING_MOVES == 0:
            if s.excess > s.allowed:
                s.weight = s.weight * s.swing
            else:
                s.weight = s.weight / s.swing
        cost = s.total_cost
        excess = s.excess
        kind = below(s, 16)
        if kind < 8:
            move(s)
        elif kind < 12:
            add(s)
        else:
            remove(s)
        if s.changes == 0:
            continue
        worse = float(s.total_cost - cost) + s.weight * float(s.excess - excess)
        if worse > s.temperature * s.thresholds[draw(s) % THRESHOLDS]:
            undo(s)
            continue
        s.changes = 0
        accepted += 1
        if s.excess == 0 and s.best_excess == 0 and s.total_cost < s.best_cost:
            s.best_cost = s.total_cost
            s.best_length = read_off(s, s.best)
        elif s.excess < s.best_excess:
            s.best_cost = s.total_cost
            s.best_excess = s.excess
            s.best_length = read_off(s, s.best)
    s.laid_length = read_off(s, s.laid)
    return accepted


KERNEL = Kernel(
    anneal,
    (
        *BASICS,
        draw,
        below,
        some_slot,
        empty_slot,
        lowest,
        highest,
        behind_earlier,
        move,
        may_remove,
        drop_useless,
        add,
        remove,
    ),
    Slots,
)
