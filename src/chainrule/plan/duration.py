"""Estimates how long instructions take: some may run again, and the quick ones are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from chainrule.dataclass import replace
from chainrule.graph.body import Chosen, Scanned, Unwound, Whiled
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest
from chainrule.plan.loops.nest import CACHE_NBYTES, NestLayout
from chainrule.plan.loops.row_lanes import RowLanes, vector_moves
from chainrule.plan.loops.sweeps import Sweep
from chainrule.plan.numpy_duration import iterations, node_nanoseconds
from chainrule.plan.products.calls import Call
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.fold import Products
from chainrule.plan.products.tiles import Tiles, further_columns, rounds
from chainrule.plan.products.winograd import POINTS, Winograd
from chainrule.plan.reuse import Lying, lying_in
from chainrule.plan.roles import nbytes_of
from chainrule.plan.routine_work import CALL_NANOSECONDS, RoutineWork
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.sharing import busiest
from chainrule.plan.speeds import Speeds
from chainrule.plan.weights import weight
from chainrule.plan.work import NestWork, ProductWork, Work, parts_inside
from chainrule.primitives.primitive import Given
from chainrule.primitives.routines import WIDE

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan

# How much longer LAPACK takes than products with as many operations in float64.
LAPACK = 1.5
# Of a row that a batch touches: to find its sum, and to call the code of both nests.
TOUCH = 10.0
ROW_ARRAYS = 4  # the update and the row of the table; the sum, twice
# Of what is done at the same time, computing and moving, how much of the shorter is on top.
OVERLAP = 0.3
# How many times as long as in loops it takes to bring matrices of a product from farther than all
# of them would lie: tiles read a little of each row at a time, and fetch ahead.
FARTHER = 1.5
SQUARE = 60.0  # instructions that transform a vector of squares of one channel
LINE = 64  # bytes that come together
OVERLAPPED = 2  # vectors of a row so short that the processor has several under way
TOGETHER = Lying({})  # arrays that lie where they have room together


def plan_nanoseconds(plan: Plan, speeds: Speeds, since: float = 0.0) -> tuple[int, ...]:
    """About how long each instruction of a plan takes that runs again and again; from the beginning
    of one run to that of the next, `since` bytes are touched in all, or what it touches."""
    found = lying_in(plan.places, [one.nodes for one in plan.computes], since)
    pairs = zip(plan.works, found, strict=True)
    return tuple([work_nanoseconds(work, speeds, lying) for work, lying in pairs])


def work_nanoseconds(work: Work, speeds: Speeds, lying: Lying = TOGETHER) -> int:
    """About how long the work takes, on the threads that share it; in whole nanoseconds, so that
    sums do not depend on the order.  Without `lying`, its arrays lie where they have room together.
    """
    return round(_nanoseconds(work, speeds, lying))


def alone(work: NestWork | ProductWork | RoutineWork, speeds: Speeds) -> Iterator[float]:
    """About how long each part of it takes on one thread, in nanoseconds: loop nests, products and
    what they copy before, in their order."""
    match work:
        case NestWork():
            for layout in work.layouts:
                yield _nests([layout], speeds, TOGETHER, are_shared=False)
        case ProductWork():
            for call in work.calls:
                for pack in call.packs:
                    yield _nests([pack], speeds, TOGETHER, are_shared=False)
                yield _multiplying(call, work.products, speeds, TOGETHER)
        case RoutineWork():
            yield _calling(work, speeds)


def _nanoseconds(work: Work, speeds: Speeds, lying: Lying) -> float:
    match work:
        case NestWork():
            return speeds.instruction + _nests(work.layouts, speeds, lying)
        case ProductWork():
            products = work.products
            return speeds.instruction + sum(
                _call(one, products, speeds, lying) for one in work.calls
            )
        case RowsWork():
            moved = ROW_ARRAYS * work.count * work.row_nbytes
            return speeds.instruction + work.count * TOUCH + speeds.moving(moved)
        case RoutineWork():
            return speeds.instruction + _routine(work, speeds)
        case ForeignWork(works=()):
            return node_nanoseconds(work.node, speeds.numpy)
        case ForeignWork():
            each = sum(work_nanoseconds(one, speeds) for one in work.works)
            each += speeds.iteration
            # what iterations read and write row by row comes from where all of it lies
            arrays = {one: nbytes_of(one) for one in (*work.reads, work.node)}
            whole = _moving(arrays, speeds, lying)
            return speeds.loop + (iterations(work.node) or 1) * each + whole
        case FlowWork():
            each = _turn(work, speeds, partial(_nanoseconds, lying=TOGETHER))
            times = 1 if isinstance(work.flow, Chosen) else iterations(work.node) or 1
            arrays = {one: nbytes_of(one) for one in (*work.reads, work.node)}
            most = busiest(times, work.parts, work.threads)
            taken = _shared(times * each, most, speeds)
            return speeds.instruction + taken + _moving(arrays, speeds, lying)


def _turn(work: FlowWork, speeds: Speeds, of: Callable[[Work, Speeds], float]) -> float:
    """About how long the longer branch takes, or one iteration, of a way back with its iterations
    forth; `of` says it of the instructions of bodies."""
    own = replace(speeds, instruction=speeds.alone) if parts_inside(work) == 1 else speeds
    bodies = [sum(of(one, own) for one in body.plan.works) for body in work.bodies]
    if isinstance(work.flow, Unwound):
        condition, step, back = bodies
        bodies = [condition, 2 * step, back]
    each = (max if isinstance(work.flow, Chosen) else sum)(bodies)
    return each + speeds.moving(2 * work.copied_nbytes)


def most_nanoseconds(work: Work, speeds: Speeds) -> float:
    """About how long the work takes at most: a loop goes on to its limit, without one for ever."""
    if not isinstance(work, FlowWork):
        return _nanoseconds(work, speeds, TOGETHER)
    each = _turn(work, speeds, most_nanoseconds)
    match work.flow:
        case Chosen():
            return each
        case Scanned(length=times) | Unwound(limit=times) | Whiled(limit=int(times)):
            return times and times * each
        case Whiled():
            return inf


def turn_nanoseconds(work: FlowWork, speeds: Speeds, most: float) -> float:
    """About how long an iteration takes at most; no instruction counts for more than `most`."""

    def counted(one: Work, speeds: Speeds) -> float:
        return min(most_nanoseconds(one, speeds), most)

    return _turn(work, speeds, counted)


def _moving(nodes: Mapping[Node, float], speeds: Speeds, lying: Lying) -> float:
    """About how long it takes to move so many bytes of each, from where they lie."""
    together = sum(nodes.values())
    found = 0.0
    for node, nbytes in nodes.items():
        among = max(together, lying.since.get(node, 0.0))
        found += speeds.moving(nbytes * (1 + (node in lying.fresh)), among)
        found += speeds.starting(among)
    return found


def _is_given(node: Node) -> bool:
    return isinstance(node.primitive.kernel, Given)


def _shared(nanoseconds: float, busiest: float, speeds: Speeds) -> float:
    return speeds.shared(nanoseconds, busiest) + (speeds.sharing if busiest < 1 else 0.0)


def _busiest(call: Call) -> float:
    """What of it the thread does that does most; BLAS's parts are taken to be alike."""
    threads = call.sharing.parts
    if threads > 1 and call.winograd is not None:
        return call.winograd.busiest(threads)
    if threads == 1 or call.tiles is None:
        return 1 / threads
    return busiest(call.tiles.cells(call.gemm), call.parts, threads)


def _call(call: Call, products: Products, speeds: Speeds, lying: Lying) -> float:
    """About how long a product and the copies before it take."""
    most = _busiest(call)
    product = _multiplying(call, products, speeds, lying)
    together = most < 1 and rounds(call.gemm) == 1  # else each thread has matrices of its own
    arrays = (call.x.node, call.y.node, products.root)
    written = sum(nbytes_of(one) for one in dict.fromkeys(arrays) if not _is_given(one))
    exchanging = min(_matrices(call, products), written) * speeds.exchanging if together else 0.0
    return _nests(call.packs, speeds, lying) + _shared(product, most, speeds) + exchanging


def _matrices(call: Call, products: Products) -> float:
    """The bytes of those that the calls of a product read and write."""
    gemm = call.gemm
    sizes = gemm.m * gemm.k, gemm.k * gemm.n
    x, y = sizes if gemm.a_is_x else sizes[::-1]
    nbytes = x * call.x.dtype.itemsize + y * call.y.dtype.itemsize
    return (nbytes + gemm.m * gemm.n * products.root.dtype.itemsize) * gemm.calls


def _multiplying(call: Call, products: Products, speeds: Speeds, lying: Lying) -> float:
    """About how long a product takes on one thread."""
    root, base = products.root, products.base
    itemsize, gemm = root.dtype.itemsize, call.gemm
    matrices = _matrices(call, products)
    arrays = {one: nbytes_of(one) for one in (call.x.node, call.y.node, root)}
    part = min(matrices / max(sum(arrays.values()), 1), 1.0)
    moved = {one: part * nbytes for one, nbytes in arrays.items()}
    if base is not None:
        moved[base] = moved[root]
    near = speeds.moving(sum(moved.values()))
    moving = near + FARTHER * max(_moving(moved, speeds, lying) - near, 0.0)
    if call.winograd is not None:
        return _by_winograd(call.winograd, speeds) + moving
    further = prod(loop.size for loop in further_columns(gemm))
    return gemm.calls // further * _product(gemm, call.tiles, itemsize, speeds) + moving


def _by_winograd(one: Winograd, speeds: Speeds) -> float:
    """About how long such a product takes on one thread, its matrices in a cache."""
    tiles = one.tiles
    rows, columns = (one.rows, one.channels) if one.adds_up else (one.squares, one.rows)
    blocks = -(-(one.squares if one.adds_up else one.channels) // tiles.depth) * one.blocks
    count = POINTS**2 * blocks * -(-rows // tiles.width) * -(-columns // tiles.columns)
    transformed = one.square_rows * -(-one.across // one.lanes) * (one.channels + one.rows)
    multiplied = speeds.multiply_add * one.multiplications / tiles.lanes
    return multiplied + speeds.tile * count + speeds.operation * SQUARE * transformed


def _routine(work: RoutineWork, speeds: Speeds) -> float:
    """About how long a routine of LAPACK takes for all matrices."""
    return _shared(_calling(work, speeds), 1 / work.sharing.parts, speeds)


def _calling(work: RoutineWork, speeds: Speeds) -> float:
    """The same on one thread."""
    operations = speeds.vector_nbytes // WIDE.itemsize * 2  # of one instruction on vectors
    multiplying = int(work.node.primitive.flops(work.node)) / operations * speeds.multiply_add
    calls = CALL_NANOSECONDS * prod(work.stack)
    return calls + LAPACK * multiplying


# loop nests


def _nests(
    layouts: Sequence[NestLayout], speeds: Speeds, lying: Lying, *, are_shared: bool = True
) -> float:
    """About how long nests take one after another, by all their threads or by one; each array is
    moved once for all of them."""
    shares = [one.busiest if are_shared else 1.0 for one in layouts]
    computing = sum(
        _shared(_computing(one, speeds), share, speeds)
        for one, share in zip(layouts, shares, strict=True)
    )
    nodes: dict[Node, int] = {}
    for one in layouts:
        nodes |= _moved_nbytes(one.nest, one.row_count * prod(one.nest.columns))
    least = min(shares, default=1.0)
    moving = speeds.shared(_moving(nodes, speeds, lying), least)
    return max(computing, moving) + OVERLAP * min(computing, moving)


def _computing(layout: NestLayout, speeds: Speeds) -> float:
    """About how long a nest takes on one thread, its arrays in the nearest cache."""
    if layout.lanes is not None:
        return layout.turns * _of_group(layout, layout.lanes, speeds)
    lanes = max(layout.width, 1)
    *outer, columns = layout.nest.columns or (1,)
    vectors = prod(outer) * -(-columns // lanes)
    swept = [one for one in layout.sweeps if not one.is_empty]
    # a sum waits for itself from vector to vector, but short rows are begun before others end
    waiting = speeds.reduction if vectors > OVERLAPPED else speeds.operation
    row = vectors * sum(
        _of_vector(one, lanes, speeds, columns * prod(outer)) + waiting * len(one.folds)
        for one in swept
    )
    return layout.row_count * (row + speeds.row * len(swept))


def _of_group(layout: NestLayout, rows: RowLanes, speeds: Speeds) -> float:
    """About how long a nest takes for as many rows as a vector has lanes."""
    moves = sum(vector_moves(rows, tile) * tile.count for tile in rows.stores.values())
    for tile in rows.loads.values():
        moves += vector_moves(rows, tile) * tile.count / rows.refills(tile)
    found = speeds.operation * moves
    for sweep in layout.sweeps:
        computed = [one for one in sweep.before if one.kind is not Kind.FOLD]
        found += speeds.operations(sum(weight(one, speeds.vector_nbytes) for one in computed))
        if sweep.is_empty:
            continue
        each = speeds.operation * len(sweep.folds)
        each += speeds.access * (len(sweep.restores) + len(sweep.rereads) + len(sweep.saves))
        operations = 0.0
        for one in sweep.computes:
            if one.kind is Kind.LOAD:
                each += speeds.access
            elif one.kind is Kind.GATHER:
                each += _apart(rows.width, nbytes_of(one.source or one.node), speeds)
            else:
                operations += weight(one, speeds.vector_nbytes)
        for store in sweep.stores:
            each += speeds.access + store.fold * (speeds.operation + speeds.access)
        found += prod(layout.nest.columns) * (each + speeds.operations(operations))
    return found


def _of_vector(sweep: Sweep, lanes: int, speeds: Speeds, columns: int) -> float:
    """About how long a sweep takes for one vector of so many columns, its data in the nearest
    cache, beside sums over columns."""

    def access(step: int) -> float:
        return speeds.access if step in (0, 1) else _apart(lanes, columns * LINE, speeds)

    found = speeds.access * (len(sweep.restores) + len(sweep.rereads) + len(sweep.saves))
    operations = 0.0
    for one in sweep.computes:
        match one.kind:
            case Kind.LOAD if one.node.dtype.kind == "b":
                found += speeds.mask
            case Kind.LOAD:
                found += access(one.place[-1])
            case Kind.GATHER if not any(index.inner for index in one.operands):
                found += access(one.place[-1])  # a row that was found before
            case Kind.GATHER | Kind.LOOKUP:
                found += _apart(lanes, nbytes_of(one.source or one.node), speeds)
            case _:
                operations += weight(one, speeds.vector_nbytes)
    found += speeds.operations(operations)
    for store in sweep.stores:
        if any(one.inner for one in store.indices):
            found += _apart(lanes, nbytes_of(store.node), speeds)
        found += access(store.place[-1])
        if store.fold:
            found += speeds.operation + speeds.access
    return found


def _apart(lanes: int, nbytes: int, speeds: Speeds) -> float:
    """About how long elements take that do not lie side by side, among lines of so many bytes: of
    more than the nearest cache holds, a whole line comes for each."""
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


# products


def _product(gemm: Gemm, tiles: Tiles | None, itemsize: int, speeds: Speeds) -> float:
    """About how long one call takes on one thread, with all its further columns, its matrices in a
    cache."""
    lanes = speeds.vector_nbytes // itemsize
    m, k = gemm.m, gemm.k
    if tiles is not None and tiles.pairs:
        k = -(-k // 2)
    n = gemm.n * prod(loop.size for loop in further_columns(gemm))
    if gemm.routine == "inline":
        return speeds.operation * m * n * (k + 4)
    if gemm.routine == "gemv" and tiles is None:
        return speeds.product + speeds.access * m * n * k / lanes
    multiplied = speeds.product + speeds.multiply_add * -(-m // lanes) * n * k
    if tiles is None:  # BLAS packs both matrices
        return speeds.blas * (multiplied + speeds.packing * (m + n) * k)
    count = tiles.panels(gemm) * tiles.strips(gemm) * -(-gemm.k // tiles.depth)
    packed = tiles.groups * m * k if tiles.packs else 0
    packed += tiles.stacks(gemm) * n * k if tiles.packs_strips else 0
    return multiplied + speeds.tile * count + speeds.packing * packed
