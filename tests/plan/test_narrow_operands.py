"""Products read bfloat16 where it lies: no plan makes a float32 array of an operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.dtypes import is_bfloat16
from chainrule.graph.graph import Graph
from chainrule.plan.duration import plan_nanoseconds
from chainrule.plan.planner import Plan, plan
from chainrule.plan.products.tiles import PAIRED_COLUMNS
from chainrule.plan.roles import is_widening
from chainrule.plan.work import ProductWork
from chainrule.testing import simulate
from chainrule.transforms.widen import widen

BF16 = cr.bfloat16
WIDTHS = pytest.mark.parametrize(
    ("width", "pairs"), [(64, True), (64, False), (32, False)], ids=["pairs", "avx512", "avx2"]
)


def planned(graph: Graph, width: int, pairs: bool = False, threads: int = 1) -> Plan:
    graph = widen(graph)
    made = plan(
        graph,
        [node for _, node in graph.outputs],
        threads=threads,
        vector_nbytes=width,
        multiplies_pairs=pairs,
    )
    simulate(made.schedule)
    return made


def products(made: Plan) -> list[ProductWork]:
    return [work for work in made.works if isinstance(work, ProductWork)]


def layers(x: BF16["n 64"], W: BF16["64 80"], V: BF16["80 33"]) -> Any:
    h = np.tanh(x @ W)
    J = np.sum((h @ V).astype(np.float32) ** 2)
    return J


def heads(x: BF16["n 6 48"], W: BF16["48 48"]) -> Any:
    n, length, width = x.shape
    q = np.reshape(x @ W, (n, length, 4, 12)).swapaxes(1, 2)
    p = cr.softmax(q @ q.swapaxes(-1, -2))
    mixed = np.reshape((p @ q).swapaxes(1, 2), (n, length, width))
    J = np.sum((mixed @ W).astype(np.float32) ** 2)
    return J


def convolution(x: BF16["n 3 20 20"], K: BF16["16 3 3 3"]) -> Any:
    J = np.sum(cr.conv2d(x, K).astype(np.float32) ** 2)
    return J


def vectors(x: BF16["n 64"], W: BF16["64 80"], v: BF16["80"]) -> Any:
    J = np.sum(np.tanh(x @ W @ v).astype(np.float32))
    return J


@WIDTHS
@pytest.mark.parametrize("program", [layers, heads, convolution, vectors])
def test_no_operand_is_written_in_float32(
    program: Callable[..., Any], width: int, pairs: bool
) -> None:
    traced = cr.trace(program)
    wrt = [item.name for item in traced.inputs]
    made = planned(cr.backward(traced, wrt=wrt).bind(n=16), width, pairs)
    assert not [n for work in made.works for n in work.writes if is_widening(n)]
    for call in (call for work in products(made) for call in work.calls):
        for matrix in (call.x, call.y):
            assert is_bfloat16(matrix.dtype) is is_bfloat16(matrix.node.dtype)  # copied as it is
        assert call.tiles is not None
        pays = call.gemm.transa or call.gemm.n >= PAIRED_COLUMNS
        assert call.tiles.pairs is (pairs and call.narrow == "ab" and not call.gemm.inner and pays)


def test_short_vectors_have_a_float32_copy_in_the_workspace() -> None:
    made = planned(cr.trace(lambda x, W: x @ W, x=BF16[40, 64], W=BF16[64, 80]), 16)
    (work,) = products(made)
    (call,) = work.calls
    assert call.tiles is None
    assert {call.x.dtype, call.y.dtype} == {np.dtype(np.float32)}
    assert work.workspace_nbytes == 4 * (40 * 64 + 64 * 80)


def test_one_array_serves_all_who_read_what_lies_nowhere() -> None:
    def f(x: BF16["3 5 4 8"], W: BF16["32 16"], g: BF16["15 16"]) -> Any:
        rows = np.reshape(x.swapaxes(1, 2) * 2, (3, 4, 5, 8)).swapaxes(1, 2)
        rows = np.reshape(rows.swapaxes(1, 2).swapaxes(1, 2), (15, 32))
        return rows @ W, rows.T @ g

    made = planned(cr.trace(f), 64)
    arrays = [n for work in made.works for n in work.writes if n.type.size == 15 * 32]
    assert len(arrays) <= 2
    assert all(is_bfloat16(one.dtype) for one in arrays)


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 7])
def test_few_rows_are_one_product_with_weights_that_are_widened_where_they_lie(rows: int) -> None:
    made = planned(cr.trace(lambda x, W: x @ W, x=BF16[rows, 1024], W=BF16[1024, 512]), 64, True)
    (work,) = products(made)
    (call,) = work.calls
    assert call.tiles is not None
    assert call.gemm.calls == 1
    assert call.tiles.pairs is (rows >= PAIRED_COLUMNS)
    assert call.tiles.packs is call.tiles.pairs


def test_a_cast_that_others_read_too_is_made_for_them() -> None:
    def f(x: BF16["40 64"], W: BF16["64 80"]) -> Any:
        wide = x.astype(np.float32)
        return wide @ W.astype(np.float32), np.cumsum(wide, axis=1)

    made = planned(cr.trace(f), 64, pairs=True)
    (work,) = products(made)
    tiles = work.calls[0].tiles
    assert tiles is not None
    assert tiles.narrow in ("a", "b")
    assert not tiles.pairs


def test_pairs_are_predicted_to_take_half_of_the_time() -> None:
    graph = cr.trace(lambda x, W: x @ W, x=BF16[512, 784], W=BF16[784, 2048])
    seconds = [
        sum(plan_nanoseconds(made, made.speeds))
        for made in (planned(graph, 64, True), planned(graph, 64))
    ]
    assert 0.45 < seconds[0] / seconds[1] < 0.6
    (pairs,), (wide,) = (products(planned(graph, 64, one)) for one in (True, False))
    assert 2 * pairs.calls[0].sharing.nanoseconds == wide.calls[0].sharing.nanoseconds


@WIDTHS
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("shape", [(512, 784, 2048), (64, 1024, 1024), (256, 10, 4096), (7, 9, 5)])
def test_there_is_work_for_all_threads_and_what_is_packed_stays_small(
    shape: tuple[int, int, int], threads: int, width: int, pairs: bool
) -> None:
    m, k, n = shape
    for x, y in (((m, k), (k, n)), ((k, m), (k, n)), ((m, k), (n, k))):

        def product(x: Any, y: Any, x_shape: Any = x, y_shape: Any = y) -> Any:
            return (x if x_shape[0] == m else x.T) @ (y if y_shape[0] == k else y.T)

        made = planned(cr.trace(product, x=BF16[x], y=BF16[y]), width, pairs, threads)
        (work,) = products(made)
        (call,) = work.calls
        tiles = call.tiles
        assert tiles is not None
        assert tiles.packed_nbytes(4) <= 2**19 + 256 * 48 * 4
        assert work.workspace_nbytes >= call.sharing.parts * tiles.packed_nbytes(4)
        wanted = min(call.sharing.parts, tiles.panels(call.gemm) * max(1, call.gemm.n // 40))
        assert tiles.cells(call.gemm) >= wanted
