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
from chainrule.primitives.affine import Affine

# Of what is done at the same time, how much of all but the longest is on top.
OVERLAP = 0.3
LINE = 64  # bytes that come together
PAGE = 4096  # of the next one the first bytes are waited for again; then it is seen that more come
# Of each page after these, so much: its place is looked up in tables that lie far away, too.  For
# arrays from HUGE bytes on, NumPy asks for large pages; so it does for scratch memory.
TRANSLATED, HUGE = 0.2, 1 << 22
# The nearest cache: so many sets of lines, and so many lines in each.
SETS, WAYS = 64, 8
# Bytes of code: of an instruction; of a sweep and of its loop's ends; what begins and ends the sum
# of a row; what brings rows into tiles and back.
INSTRUCTION, SWEEP, FOLD, TILES = 8, 50, 150, 400
# How much of the first line of code is waited for, and of each, as the processor fetches ahead.
FIRST, WAITED = 0.25, 0.125
# How many times as long a line takes as in a row of them, as nobody fetches it ahead.
ALONE = 2.0
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
    share = min(shares, default=1.0)
    far = _far(layouts, speeds, lying)
    cached = _far(layouts, speeds.with_quick_memory, lying)
    # memory is as quick for all threads as for one
    brought = speeds.shared(cached, share) + far - cached if share < 1 else far
    return together(computing, brought) + OVERLAP * min(computing, far - cached)


def _far(layouts: Sequence[NestLayout], speeds: Speeds, lying: Lying) -> float:
    """About how long the bytes of nests take to come that do not lie in the nearest caches; what a
    nest touches lies behind it for the next one."""
    found = done = 0.0
    touched: dict[Node, float] = {}
    for one in layouts:
        nodes = _moved_nbytes(one.nest)
        whole = sum(nodes.values())
        again = {node: done + whole - touched[node] for node in nodes if node in touched}
        here = lying
        if again:
            others = {**lying.others, **dict.fromkeys(again, 0.0)}
            here = lying._replace(since={**lying.since, **again}, others=others)
        found += moving(nodes, speeds, here, speeds.memory[0].nbytes)
        touched |= dict.fromkeys(nodes, done)
        done += whole
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
    whole = sum(nodes.values())
    found = 0.0
    waits: list[float] = []
    for node, nbytes in nodes.items():
        among, others = lying.since.get(node, whole), lying.others.get(node, 0.0)
        if among > nearest and node not in lying.overwriting:
            found += speeds.moving(nbytes, among, others)
        if node not in lying.writes:
            pages = 1 + min(nbytes / PAGE, 1.0)
            if node in lying.outside and nbytes < HUGE:
                pages += TRANSLATED * max(nbytes / PAGE - 1, 0.0)
            waits.append(pages * speeds.starting(among, others))
    return found + together(*waits)


def together(*parts: float) -> float:
    """What several parts of one thing take that are done at the same time."""
    longest = max(parts, default=0.0)
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
    return speeds.starting(lying.code, lying.code_others) * (FIRST + WAITED * lines)


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
        return layout.turns * layout.nest.blocks * _of_group(layout, layout.lanes, speeds, lying)
    lanes = max(layout.width, 1)
    *outer, columns = layout.nest.columns or (1,)
    vectors = prod(outer) * -(-columns // lanes)
    row = 0.0
    for sweep, is_last in _swept(layout):
        each = _of_vector(sweep, lanes, speeds, columns * prod(outer), lying)
        each = max(each, speeds.latency * _following(sweep))
        row += vectors * each + speeds.row + _before(sweep, speeds)
        row += _waiting(sweep, speeds, is_last=is_last)
    return layout.row_count * row + _ending(layout, speeds)


def _ending(layout: NestLayout, speeds: Speeds) -> float:
    """About how long the last vector takes to be ready, with which nothing else is computed."""
    last = [one.computes for one in layout.sweeps if not one.is_empty][-1:]
    return speeds.latency * sum(_total(one, speeds).operations for one in last)


def _following(sweep: Sweep) -> int:
    """How many instructions of a column wait for the column before."""
    found = {one for one in sweep.computes if one.kind is Kind.BEFORE}
    before = len(found)
    for one in sweep.computes if found else ():
        if not found.isdisjoint(one.operands):
            found.add(one)
    return len(found) - before


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
    read = (Kind.LOAD, Kind.GATHER, Kind.BEFORE)
    computed = (one for one in instances if one.kind not in read)
    weights = [weight(one, speeds.vector_nbytes) for one in computed]
    return Weight(sum(one.operations for one in weights), sum(one.dividing for one in weights))


def _of_group(layout: NestLayout, rows: RowLanes, speeds: Speeds, lying: Lying) -> float:
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
            _apart(rows.width, one.source or one.node, speeds, lying)
            for one in sweep.computes
            if one.kind is Kind.GATHER
        )
        folded = len(sweep.folds) + sum(one.fold for one in sweep.stores)
        total = _total(sweep.computes, speeds)
        computing = speeds.operations(total.operations + folded)
        each = together(computing, speeds.operation * total.dividing, access)
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
                access += _apart(lanes, one.source or one.node, speeds, lying)
    folded = len(sweep.folds)
    for store in sweep.stores:
        folded += store.fold
        if any(one.inner for one in store.indices):
            access += _apart(lanes, store.node, speeds, lying)
        if not store.fold:
            times = speeds.scatter if store.place[-1] not in (0, 1) else 1.0
            access += times * at(store.node, store.place[-1], store.node.dtype.itemsize)
        elif store.indices or store.place[-1]:  # not in a register: read and written
            access += 2 * speeds.access
    total = _total([one for one in sweep.computes if one.kind is not Kind.LOOKUP], speeds)
    computing = speeds.operations(total.operations + folded) + masks
    return together(computing, speeds.operation * total.dividing, access)


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


def _apart(lanes: int, node: Node, speeds: Speeds, lying: Lying) -> float:
    """About how long elements take that lie anywhere in an array: of more than the nearest cache
    holds, a whole line comes for each."""
    nbytes, line = nbytes_of(node), 0.0
    if nbytes > CACHE_NBYTES:
        since, others = lying.since.get(node, 0.0), lying.others.get(node, 0.0)
        line = ALONE * speeds.moving(LINE, max(nbytes, since), others)
    return lanes * (speeds.lane + line)


def _moved_nbytes(nest: LoopNest) -> dict[Node, int]:
    """The bytes that a nest reads and writes of each array."""
    sizes = (*nest.rows, *nest.columns)
    places: dict[Node, dict[Affine, int]] = {}
    for one in nest.instances:
        if one.kind in (Kind.LOAD, Kind.GATHER) and one.source is not None:
            touched = prod(sizes) if one.operands else _elements(one.place, sizes, one.source)
            places.setdefault(one.source, {})[one.place] = touched
    for store in nest.stores:
        touched = prod(sizes) if store.indices else _elements(store.place, sizes, store.node)
        places.setdefault(store.node, {})[store.place] = touched
    return {
        node: min(sum(here.values()) * node.dtype.itemsize, nbytes_of(node))
        for node, here in places.items()
    }


def _elements(place: Affine, sizes: Sequence[int], array: Node) -> int:
    """How many elements of an array come for those at the places of an address: whole lines."""
    steps = [(abs(step), size) for step, size in zip(place[1:], sizes, strict=True) if step]
    nearest = min((step for step, size in steps if size > 1), default=1)
    together = max(LINE // array.dtype.itemsize, 1)
    return min(nearest, together) * prod(size for _, size in steps)
