"""Products with windows are einsum's on the windows, in every layout, and read nothing beside."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from compiled_products import GUARD, compiled_product
from contractions import Labelled
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import chainrule as cr
from chainrule.machine_code.target import host_target
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.windowed import windowed_gemm, windowed_tiles

HERE = host_target()
pytestmark = pytest.mark.skipif(HERE.vector_nbytes < 32, reason="this processor has no AVX2")
EVERY_WIDTH = pytest.mark.parametrize("vector_nbytes", [32, 64])  # LLVM parts too wide vectors
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


@dataclass(frozen=True)
class Case:
    """An einsum whose first operand is windows of an array of this shape, over its last axes."""

    subscripts: str
    shape: tuple[int, ...]
    window: tuple[int, ...]
    sizes: dict[str, int]
    stride: int = 1
    dilation: int = 1
    memory: str = ""  # of the other operand: its labels, the last one side by side
    turned: str = ""  # labels along which the other operand lies in the opposite order

    def made(
        self, dtype: str, beyond: tuple[float, ...] = ()
    ) -> tuple[Labelled, Labelled, Labelled, dict[int, int]]:
        """Small integers (their products are exact), but for what x has `beyond` them."""
        generator = np.random.default_rng(0)
        x = generator.integers(-3, 4, self.shape).astype(dtype)
        x.flat[: 40 * len(beyond) : 40] = beyond
        axes = tuple(range(-len(self.window), 0))
        spans = [self.dilation * (one - 1) + 1 for one in self.window]
        seen = sliding_window_view(x, spans, axis=axes)
        every = (slice(None),) * (x.ndim - len(axes))
        steps = (slice(None, None, self.stride),) * len(axes)
        seen = seen[(*every, *steps, *(slice(None, None, self.dilation),) * len(axes))]
        left, labels, wanted = self.subscripts.replace("->", ",").split(",")
        sizes = {**self.sizes, **dict(zip(left, seen.shape, strict=True))}
        order = self.memory or labels
        y = generator.integers(-3, 4, [sizes[one] for one in order]).astype(dtype)
        y = np.transpose(y, [order.index(one) for one in labels])
        y = y[tuple(slice(None, None, -1 if one in self.turned else 1) for one in labels)]
        out = np.full([sizes[one] for one in wanted], np.nan, dtype)
        number = {one: place for place, one in enumerate(sorted(sizes))}
        operands = [
            Labelled(array, tuple(number[one] for one in text))
            for array, text in ((seen, left), (y, labels), (out, wanted))
        ]
        return (*operands, {number[one]: size for one, size in sizes.items()})


CASES = {
    "forward": Case("ncpquv,uvco->npqo", (3, 4, 9, 11), (3, 2), {"o": 20}),
    "a stride": Case("ncpquv,uvco->npqo", (2, 3, 9, 14), (3, 3), {"o": 5}, stride=2),
    "dilated": Case("ncpquv,uvco->npqo", (2, 3, 9, 14), (3, 3), {"o": 33}, dilation=2),
    "weights as they are": Case(
        "ncpquv,uvco->npqo", (2, 9, 6, 7), (3, 3), {"o": 18}, memory="ocuv"
    ),
    "turned round": Case(
        "nopquv,ocuv->npqc", (2, 6, 6, 7), (3, 3), {"c": 9}, memory="ocuv", turned="uv"
    ),
    "gradient of weights": Case(
        "ncpquv,npqo->uvco", (3, 4, 8, 8), (3, 3), {"o": 17}, memory="nopq"
    ),
    "long sums": Case("nclw,nlo->wco", (2, 2, 700), (3,), {"o": 10}, memory="nol"),
    "groups": Case("ngcpquv,guvco->ngpqo", (2, 3, 2, 6, 7), (3, 3), {"o": 4}),
    "depthwise": Case("ngpquv,guv->ngpq", (2, 5, 7, 31), (3, 3), {}),
    "depthwise, wide": Case("ngpw,gw->ngp", (2, 2, 120), (5,), {}),
    "its weights": Case("ngpquv,ngpq->guv", (2, 5, 7, 9), (3, 3), {}),
    "a filter": Case("lw,w->l", (500,), (70,), {}),
    "few filters": Case("lw,wo->ol", (90,), (40,), {"o": 3}),
    "three axes": Case("ncpqruvw,uvwco->npqro", (1, 2, 4, 5, 6), (2, 2, 2), {"o": 8}),
}


def planned(
    case: Case, dtype: str, vector_nbytes: int, beyond: tuple[float, ...] = ()
) -> tuple[Gemm, tuple[Labelled, ...]]:
    *operands, sizes = case.made(dtype, beyond)
    shown = [one.operand for one in operands]
    gemm = windowed_gemm(*shown, sizes, np.dtype(dtype), vector_nbytes)
    assert gemm is not None
    return gemm, tuple(operands)


def einsum(x: Labelled, y: Labelled, out: Labelled) -> np.ndarray:
    return np.einsum(x.array, list(x.labels), y.array, list(y.labels), list(out.labels))


@pytest.mark.sweep(3)
@DTYPES
@EVERY_WIDTH
@pytest.mark.parametrize("name", CASES)
def test_every_kind_is_einsum_in_any_number_of_parts(name, vector_nbytes, dtype):
    gemm, (x, y, out) = planned(CASES[name], dtype, vector_nbytes)
    expected = einsum(x, y, out)
    assert gemm.flops == 2 * expected.size * gemm.k * np.prod(
        [1, *(loop.size for loop in gemm.loops if loop.accumulates)]
    )
    for threads in (1, 2):
        tiles = windowed_tiles(gemm, np.dtype(dtype), vector_nbytes, threads)
        parts = tiles.parts(gemm, 1e9, threads)
        assert 1 <= parts <= tiles.cells(gemm)
        run = compiled_product(gemm, tiles, dtype, parts, target=HERE)
        # `y` is given by its first element in index order, as a plan does.
        whole = np.full((out.array.size + 16,), GUARD, dtype)
        result = whole[8:-8].reshape(out.array.shape)
        result[...] = np.nan
        run(x.array, y.array, result)
        np.testing.assert_array_equal(result, expected)
        run(x.array, y.array, result, 2.0, -1.0)
        np.testing.assert_array_equal(result, expected)
        assert (whole[:8] == GUARD).all() and (whole[-8:] == GUARD).all()


@DTYPES
def test_parts_are_disjoint_and_blocks_of_any_depth_give_the_sum(dtype):
    gemm, (x, y, out) = planned(CASES["weights as they are"], dtype, HERE.vector_nbytes)
    tiles = replace(
        windowed_tiles(gemm, np.dtype(dtype), HERE.vector_nbytes, 2), depth=20, groups=5
    )
    parts = tiles.cells(gemm)
    assert parts >= 5
    run = compiled_product(gemm, tiles, dtype, parts, target=HERE)
    written = np.zeros(out.array.shape, int)
    expected = einsum(x, y, out)
    for part in range(parts):
        share = np.full_like(out.array, np.nan)
        run(x.array, y.array, share, shares=[part])
        mine = ~np.isnan(share)
        np.testing.assert_array_equal(share[mine], expected[mine])
        written += mine
    assert (written == 1).all()


def test_nan_and_infinity_reach_the_windows_that_hold_them_and_no_others():
    case, width = CASES["forward"], HERE.vector_nbytes
    gemm, (x, y, out) = planned(case, "float32", width, (np.nan, np.inf, -np.inf))
    tiles = windowed_tiles(gemm, np.dtype("f"), width, 1)
    compiled_product(gemm, tiles, "float32", target=HERE)(x.array, y.array, out.array)
    with np.errstate(invalid="ignore"):
        expected = einsum(x, y, out)
    np.testing.assert_array_equal(out.array, expected)
    assert np.isnan(expected).any() and np.isfinite(expected).any()


def test_what_is_left_to_others():
    x = Labelled(np.ones((40, 50), "f"), (0, 1))
    y = Labelled(np.ones((50, 30), "f"), (1, 2))
    out = Labelled(np.ones((40, 30), "f"), (0, 2))
    sizes = {0: 40, 1: 50, 2: 30}
    ordinary = [one.operand for one in (x, y, out)]
    assert windowed_gemm(*ordinary, sizes, np.dtype("f"), 32) is None
    repeated = Labelled(as_strided(np.ones(50, "f"), (40, 50), (0, 4)), (0, 1)).operand
    assert windowed_gemm(repeated, *ordinary[1:], sizes, np.dtype("f"), 32) is None
    *operands, sizes = CASES["forward"].made("float32")
    shown = [one.operand for one in operands]
    for dtype, vectors in (("float16", 32), ("float32", 16)):
        assert windowed_gemm(*shown, sizes, np.dtype(dtype), vectors) is None
    assert windowed_gemm(*shown, {**sizes, 0: 0}, np.dtype("f"), 32) is None


def test_a_convolution_stores_no_array_of_windows():
    def objective(x, K):
        return np.mean(cr.conv2d(x, K, padding=1) ** 2)

    x, K = np.ones((4, 8, 20, 20), "f"), np.ones((16, 8, 3, 3), "f")
    step = cr.training_step(objective, "K", cr.sgd(0.1), x=x, K=K, executor="native")
    windows_nbytes = 9 * x.nbytes
    assert step.memory().main.usage.allocated_nbytes < windows_nbytes
    gemms = [call.gemm for work in step.plan().works for call in getattr(work, "calls", ())]
    assert len(gemms) == 2 and all(one.inner for one in gemms)


SCATTERED = {
    "every second column": ("ij,jo->io", (40, 60), {"o": 24}),
    "a strided convolution": ("ncpq,oc->npqo", (2, 20, 6, 16), {"o": 33}),
    "its weights": ("ncpq,npqo->co", (2, 20, 6, 16), {"o": 17}),
    "its rows are columns": ("ncpq,co->nopq", (2, 20, 6, 16), {"o": 17}),
    "its weights, turned": ("ncpq,npqo->oc", (2, 20, 6, 16), {"o": 17}),
}


@DTYPES
@EVERY_WIDTH
@pytest.mark.parametrize("name", SCATTERED)
def test_what_has_nothing_side_by_side_is_read_where_it_lies(name, vector_nbytes, dtype):
    subscripts, shape, sizes = SCATTERED[name]
    left, right, wanted = subscripts.replace("->", ",").split(",")
    generator = np.random.default_rng(0)
    whole = np.full((*shape[:-1], 2 * shape[-1]), np.nan, dtype)  # between: nothing to be read
    whole[..., ::2] = generator.integers(-3, 4, shape)
    sizes = {**sizes, **dict(zip(left, shape, strict=True))}
    number = {one: place for place, one in enumerate(sorted(sizes))}
    other = generator.integers(-3, 4, [sizes[one] for one in right]).astype(dtype)
    out = np.full([sizes[one] for one in wanted], np.nan, dtype)
    x, y, out = (
        Labelled(array, tuple(number[one] for one in text))
        for array, text in ((whole[..., ::2], left), (other, right), (out, wanted))
    )
    known = {number[one]: size for one, size in sizes.items()}
    shown = [one.operand for one in (x, y, out)]
    gemm = windowed_gemm(*shown, known, np.dtype(dtype), vector_nbytes)
    assert gemm is not None and not gemm.has_windows
    tiles = windowed_tiles(gemm, np.dtype(dtype), vector_nbytes, 2)
    parts = tiles.parts(gemm, 1e9, 2)
    compiled_product(gemm, tiles, dtype, parts, target=HERE)(x.array, y.array, out.array)
    np.testing.assert_array_equal(out.array, einsum(x, y, out))


def test_few_rows_or_columns_are_copied():
    x = Labelled(np.ones((40, 60), "f")[:, ::2], (0, 1)).operand
    for columns, expected in ((8, False), (24, True)):
        y = Labelled(np.ones((30, columns), "f"), (1, 2)).operand
        out = Labelled(np.ones((40, columns), "f"), (0, 2)).operand
        sizes = {0: 40, 1: 30, 2: columns}
        assert (windowed_gemm(x, y, out, sizes, np.dtype("f"), 32) is not None) is expected
