"""Estimates how long loop nests take, from the instructions of their code and where arrays lie.

A processor does several things at a time: for each vector, the slowest of computing, of dividing
and of loading and storing counts, and some of the others.  So do the bytes that come from farther
than the nearest caches, for all of a nest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import gcd, prod

from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest
from chainrule.plan.loops.nest import CACHE_NBYTES, NestLayout
from chainrule.plan.loops.row_lanes import RowLanes, vector_moves
from chainrule.plan.loops.sweeps import Sweep
from chainrule.plan.reuse import Lying
from chainrule.plan.roles import nbytes_of
from chainrule.plan.speeds import Speeds
from chainrule.plan.weights import Weight, weight
from chainrule.plan.work import Work

# Of what is done at the same time, how much of all but the longest is on top.
OVERLAP = 0.3
LINE = 64  # bytes that come together
# The nearest cache: so many sets of lines, and so many lines in each.
SETS, WAYS = 64, 8
# Bytes of code: of an instruction; of a sweep and of its loop's ends; what begins and ends the sum
# of a row; what brings rows into tiles and back.
INSTRUCTION, SWEEP, FOLD, TILES = 8, 50, 150, 400
# How much of a line of code is waited for, as the processor fetches the next ones ahead.
WAITED = 0.25
TOGETHER = Lying({})  # arrays that lie where they have room together


def nests_nanoseconds(
    layouts: Sequence[NestLayout],
    speeds: Speeds,
    lying: Lying = TOGETHER,
    *,
    are_shared: bool = True,
) -> float:
    """About how long nests take one after another, by all their threads or by one; each array is
    moved once for all of them."""
    shares = [one.busiest if are_shared else 1.0 for one in layouts]
    computing = sum(
        shared(_computing(one, speeds, lying), share, speeds)
        for one, share in zip(layouts, shares, strict=True)
    )
    far = speeds.shared(_far(layouts, speeds, lying), min(shares, default=1.0))
    return _together(computing, far)


def _far(layouts: Sequence[NestLayout], speeds: Speeds, lying: Lying) -> float:
    """About how long the bytes of nests take to come that do not lie in the nearest caches; what a
    nest touches lies behind it for the next one."""
    found = done = 0.0
    touched: dict[Node, float] = {}
    for one in layouts:
        nodes = _moved_nbytes(one.nest, one.row_count * prod(one.nest.columns))
        together = sum(nodes.values())
        again = {node: done + together - touched[node] for node in nodes if node in touched}
        here = lying._replace(since={**lying.since, **again}) if again else lying
        found += moving(nodes, speeds, here, speeds.memory[0].nbytes)
        touched |= dict.fromkeys(nodes, done)
        done += together
    return found


def shared(nanoseconds: float, busiest: float, speeds: Speeds) -> float:
    """What takes so long on one thread, with the meeting of those that share it."""
    return speeds.shared(nanoseconds, busiest) + (speeds.sharing if busiest < 1 else 0.0)


def moving(
    nodes: Mapping[Node, float], speeds: Speeds, lying: Lying, nearest: float = 0.0
) -> float:
    """About how long it takes to move so many bytes of each, from where they lie; those that lie
    within `nearest` bytes do not count.

    What is written over what is read does not come again.
    """
    together = sum(nodes.values())
    found = 0.0
    for node, nbytes in nodes.items():
        among = lying.since.get(node, together)
        if among > nearest and node not in lying.overwriting:
            found += speeds.moving(nbytes, among)
        found += speeds.starting(among)
    return found


def _together(*parts: float) -> float:
    """What several parts of one thing take that are done at the same time."""
    longest = max(parts)
    return longest + OVERLAP * (sum(parts) - longest)


# code


def code_of(work: Work) -> Hashable:
    """What tells its code from that of others; nests of one form have the same."""
    layouts = getattr(work, "layouts", None)
    if not layouts:
        return work
    return tuple(
        (
            one.nest.rows,
            one.nest.columns,
            *((x.node.primitive, x.place) for x in one.nest.instances),
        )
        for one in layouts
    )


def fetching(layouts: Sequence[NestLayout], speeds: Speeds, lying: Lying) -> float:
    """About how long the code of nests takes to come from where it lies."""
    lines = sum(_code_nbytes(one, speeds) for one in layouts) / LINE
    return speeds.starting(lying.code) * (1 + WAITED * lines)


def _code_nbytes(layout: NestLayout, speeds: Speeds) -> float:
    found = float(SWEEP + TILES * (layout.lanes is not None))
    for sweep in layout.sweeps:
        computed = [*sweep.computes, *sweep.before]
        if computed or not sweep.is_empty:
            count = sum(max(weight(one, speeds.vector_nbytes).operations, 1) for one in computed)
            found += SWEEP + INSTRUCTION * (count + len(sweep.stores)) + FOLD * len(sweep.folds)
    return found


# computing


def _computing(layout: NestLayout, speeds: Speeds, lying: Lying) -> float:
    """About how long a nest takes on one thread, its arrays in the nearest caches."""
    if layout.lanes is not None:
        return layout.turns * _of_group(layout, layout.lanes, speeds)
    lanes = max(layout.width, 1)
    *outer, columns = layout.nest.columns or (1,)
    vectors = prod(outer) * -(-columns // lanes)
    row = 0.0
    for sweep, is_last in _swept(layout):
        each = _of_vector(sweep, lanes, speeds, columns * prod(outer), lying)
        row += vectors * each + speeds.row + _before(sweep, speeds)
        row += _waiting(sweep, speeds, is_last=is_last)
    return layout.row_count * row


def _swept(layout: NestLayout) -> list[tuple[Sweep, bool]]:
    """The sweeps that go over columns, and whether each is the last."""
    found = [one for one in layout.sweeps if not one.is_empty]
    return [(one, one is found[-1]) for one in found]


def _before(sweep: Sweep, speeds: Speeds) -> float:
    """About how long it takes what is computed once for a row before a sweep."""
    computed = [one for one in sweep.before if one.kind is not Kind.FOLD]
    total = _total(computed, speeds)
    return speeds.operation * (total.operations + total.dividing)


def _waiting(sweep: Sweep, speeds: Speeds, *, is_last: bool) -> float:
    """About how long a row waits for the sums of a sweep: the next one cannot begin before they are
    complete, but the next row can."""
    if is_last:
        return 0.5 * speeds.row if sweep.folds else 0.0
    return speeds.reduction + speeds.latency * _total(sweep.computes, speeds).operations


def _total(instances: Sequence[Instance], speeds: Speeds) -> Weight:
    """What those take that are computed."""
    computed = (one for one in instances if one.kind not in (Kind.LOAD, Kind.GATHER))
    weights = [weight(one, speeds.vector_nbytes) for one in computed]
    return Weight(sum(one.operations for one in weights), sum(one.dividing for one in weights))


def _of_group(layout: NestLayout, rows: RowLanes, speeds: Speeds) -> float:
    """About how long a nest takes for as many rows as a vector has lanes."""
    moves = sum(vector_moves(rows, tile) * tile.count for tile in rows.stores.values())
    for tile in rows.loads.values():
        moves += vector_moves(rows, tile) * tile.count / rows.refills(tile)
    found = speeds.operation * moves
    found += sum(_before(one, speeds) for one in layout.sweeps)
    for sweep, is_last in _swept(layout):
        accesses = len(sweep.restores) + len(sweep.rereads) + len(sweep.saves)
        accesses += sum(one.kind is Kind.LOAD for one in sweep.computes)
        accesses += sum(1 + one.fold for one in sweep.stores)
        access = speeds.access * accesses
        access += sum(
            _apart(rows.width, nbytes_of(one.source or one.node), speeds)
            for one in sweep.computes
            if one.kind is Kind.GATHER
        )
        folded = len(sweep.folds) + sum(one.fold for one in sweep.stores)
        total = _total(sweep.computes, speeds)
        computing = speeds.operations(total.operations + folded)
        each = _together(computing, speeds.operation * total.dividing, access)
        found += prod(layout.nest.columns) * each
        if not is_last:
            found += _waiting(sweep, speeds, is_last=is_last)
    return found


def _of_vector(
    sweep: Sweep, lanes: int, speeds: Speeds, columns: int, lying: Lying = TOGETHER
) -> float:
    """About how long a sweep takes for one vector of so many columns, its data in the nearest
    caches."""

    def at(node: Node | None, step: int, itemsize: int) -> float:
        if step not in (0, 1):
            return _strided(lanes, columns, abs(step) * itemsize, speeds)
        return speeds.access * (crossing(speeds) if node in lying.outside else 1.0)

    access = speeds.access * (len(sweep.restores) + len(sweep.rereads) + len(sweep.saves))
    masks = 0.0
    for one in sweep.computes:
        itemsize = one.node.dtype.itemsize
        match one.kind:
            case Kind.LOAD if one.node.dtype.kind == "b":
                masks += speeds.mask
            case Kind.LOAD:
                access += at(one.source, one.place[-1], itemsize)
            case Kind.GATHER if not any(index.inner for index in one.operands):
                access += at(one.source, one.place[-1], itemsize)  # a row that was found before
            case Kind.GATHER | Kind.LOOKUP:
                access += _apart(lanes, nbytes_of(one.source or one.node), speeds)
    folded = len(sweep.folds)
    for store in sweep.stores:
        folded += store.fold
        if any(one.inner for one in store.indices):
            access += _apart(lanes, nbytes_of(store.node), speeds)
        if not store.fold:
            access += at(store.node, store.place[-1], store.node.dtype.itemsize)
        elif store.indices or store.place[-1]:  # not in a register: read and written
            access += 2 * speeds.access
    total = _total([one for one in sweep.computes if one.kind is not Kind.LOOKUP], speeds)
    computing = speeds.operations(total.operations + folded) + masks
    return _together(computing, speeds.operation * total.dividing, access)


def crossing(speeds: Speeds) -> float:
    """How many lines a vector of an array takes that begins anywhere, as those of NumPy do."""
    return 1 + speeds.vector_nbytes / LINE


def _strided(lanes: int, columns: int, step: int, speeds: Speeds) -> float:
    """About how long elements take that lie so many bytes apart, one for each of the columns.

    The next rows find their lines in the nearest cache, if it holds them all; lines whose distance
    has a high power of two as a factor have only few sets of it.
    """
    line = min(step, LINE)
    far = speeds.moving(line, columns * line) if columns * line > CACHE_NBYTES else 0.0
    return lanes * (speeds.lane + max(far, conflicting(columns, step, speeds)))


def conflicting(lines: int, step: int, speeds: Speeds) -> float:
    """How much longer it takes to reach one of so many lines, so many bytes apart, that are touched
    in turns: those in one set of the nearest cache push each other out."""
    if step % LINE:
        return 0.0
    sets = SETS // gcd(step // LINE, SETS)
    return max(1 - WAYS * sets / lines, 0.0) * speeds.conflict / sets


def _apart(lanes: int, nbytes: int, speeds: Speeds) -> float:
    """About how long elements take that lie anywhere in so many bytes: of more than the nearest
    cache holds, a whole line comes for each."""
    line = speeds.moving(LINE, nbytes) if nbytes > CACHE_NBYTES else 0.0
    return lanes * (speeds.lane + line)


def _moved_nbytes(nest: LoopNest, points: int) -> dict[Node, int]:
    """The bytes that a nest reads and writes of each array."""
    nodes: dict[Node, int] = {}
    for one in nest.instances:
        if one.kind in (Kind.LOAD, Kind.GATHER) and one.source is not None:
            nodes[one.source] = _most(one, points)
    return nodes | {one.node: nbytes_of(one.node) for one in nest.stores}


def _most(one: Instance, points: int) -> int:
    assert one.source is not None
    return min(nbytes_of(one.source), points * one.source.dtype.itemsize)
