"""Estimates how long instructions take: some may run again, and the quick ones are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from chainrule.dataclass import replace
from chainrule.graph.body import Chosen, Scanned, Unwound, Whiled
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.nest_duration import (
    ALONE,
    LINE,
    TOGETHER,
    code_of,
    conflicting,
    crossing,
    fetching,
    moving,
    nests_nanoseconds,
    shared,
    together,
)
from chainrule.plan.numpy_duration import iterations, node_nanoseconds
from chainrule.plan.products.calls import Call
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.fold import Products
from chainrule.plan.products.tiles import Tiles, further_columns, rounds
from chainrule.plan.products.winograd import POINTS, Winograd
from chainrule.plan.reuse import Lying, lying_in
from chainrule.plan.roles import nbytes_of
from chainrule.plan.routine_duration import routine_nanoseconds
from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.sharing import busiest
from chainrule.plan.speeds import Speeds
from chainrule.plan.work import NestWork, ProductWork, Work, parts_inside
from chainrule.primitives.primitive import Given

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan

# Of a row that a batch touches: to find its sum, and to call the code of both nests.
TOUCH = 10.0
ROW_ARRAYS = 4  # the update and the row of the table; the sum, twice
# How many times as long as in loops it takes to bring matrices of a product from farther than all
# of them would lie: tiles read a little of each row at a time, and fetch ahead.
FARTHER = 1.5
SQUARE = 60.0  # instructions that transform a vector of squares of one channel


def plan_nanoseconds(plan: Plan, speeds: Speeds, since: float = 0.0) -> tuple[int, ...]:
    """About how long each instruction of a plan takes that runs again and again; from the beginning
    of one run to that of the next, `since` bytes are touched in all, or what it touches."""
    written = [one.nodes for one in plan.computes]
    codes = [code_of(work) for work in plan.works]
    taken: tuple[int, ...] = ()
    for _ in range(2 if speeds.others else 1):  # others bring more, the longer it all takes
        others = [speeds.others * one for one in taken]
        found = lying_in(plan.places, written, codes, since, others)
        pairs = zip(plan.works, found, strict=True)
        taken = tuple([work_nanoseconds(work, speeds, lying) for work, lying in pairs])
    return taken


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
                yield nests_nanoseconds([layout], speeds, are_shared=False)
        case ProductWork():
            for call in work.calls:
                for pack in call.packs:
                    yield nests_nanoseconds([pack], speeds, are_shared=False)
                yield _multiplying(call, work.products, speeds, TOGETHER)
        case RoutineWork():
            yield routine_nanoseconds(work, speeds)


def _nanoseconds(work: Work, speeds: Speeds, lying: Lying) -> float:
    match work:
        case NestWork():
            code = fetching(work.layouts, speeds, lying)
            return speeds.instruction + code + nests_nanoseconds(work.layouts, speeds, lying)
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
            whole = moving(arrays, speeds, lying)
            return speeds.loop + (iterations(work.node) or 1) * each + whole
        case FlowWork():
            each = _turn(work, speeds, partial(_nanoseconds, lying=TOGETHER))
            times = 1 if isinstance(work.flow, Chosen) else iterations(work.node) or 1
            arrays = {one: nbytes_of(one) for one in (*work.reads, work.node)}
            most = busiest(times, work.parts, work.threads)
            taken = shared(times * each, most, speeds)
            return speeds.instruction + taken + moving(arrays, speeds, lying)


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


def _is_given(node: Node) -> bool:
    return isinstance(node.primitive.kernel, Given)


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
    return nests_nanoseconds(call.packs, speeds, lying) + shared(product, most, speeds) + exchanging


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
    if root in lying.since and _writes_lines_apart(call, itemsize):
        moved[root] *= ALONE
    looked_up = lying._replace(outside=())  # places of pages, while tiles are computed
    brought = near + FARTHER * max(moving(moved, speeds, looked_up) - near, 0.0)
    if call.winograd is not None:
        return _by_winograd(call.winograd, speeds) + brought
    further = prod(loop.size for loop in further_columns(gemm))
    called = speeds.product * (call.tiles is not None)
    each = _product(gemm, call.tiles, itemsize, speeds)
    return called + gemm.calls // further * each + brought


def _writes_lines_apart(call: Call, itemsize: int) -> bool:
    """Whether a tile has one line of each column of C, whose next line another one writes."""
    tiles, gemm = call.tiles, call.gemm
    if tiles is None:
        return False
    nbytes = min(tiles.vectors * tiles.lanes, gemm.m) * itemsize
    return nbytes <= LINE < gemm.ldc * itemsize


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
    return shared(routine_nanoseconds(work, speeds), 1 / work.sharing.parts, speeds)


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
    multiplied = speeds.multiply_add * -(-m // lanes) * n * k
    if tiles is None:  # BLAS packs both matrices
        return speeds.blas * (speeds.product + multiplied + speeds.packing * (m + n) * k)
    count = tiles.panels(gemm) * tiles.strips(gemm)
    steps = _stepping(gemm, tiles, lanes, itemsize, speeds) * count * k
    packed = tiles.groups * m * k if tiles.packs else 0
    packed += tiles.stacks(gemm) * n * k if tiles.packs_strips else 0
    count *= -(-gemm.k // tiles.depth)
    written = _writing(gemm, tiles, lanes, itemsize, speeds) * count
    multiplied = together(max(multiplied, steps), written)
    return multiplied + speeds.tile * count + speeds.packing * packed


def _stepping(gemm: Gemm, tiles: Tiles, lanes: int, itemsize: int, speeds: Speeds) -> float:
    """About how long a step of a tile takes at least: to load a part of A and of B, or to wait for
    the sums of the step before."""
    vectors = min(tiles.vectors, -(-gemm.m // lanes))
    loaded = vectors * (1.0 if tiles.packs else crossing(speeds)) + min(tiles.columns, gemm.n)
    read = speeds.access * loaded
    if gemm.transb and not (tiles.packs_strips or gemm.inner):  # a line of B in each step
        read += conflicting(min(gemm.k, tiles.depth), gemm.ldb * itemsize, speeds)
    return max(read, speeds.latency)


def _writing(gemm: Gemm, tiles: Tiles, lanes: int, itemsize: int, speeds: Speeds) -> float:
    """About how long it takes to write a tile of C."""
    vectors = min(tiles.vectors, -(-gemm.m // lanes)) * min(tiles.columns, gemm.n)
    lines = max(vectors * speeds.vector_nbytes / LINE, 1.0)
    apart = conflicting(gemm.n, gemm.ldc * itemsize, speeds)
    return vectors * speeds.access * crossing(speeds) + lines * apart
