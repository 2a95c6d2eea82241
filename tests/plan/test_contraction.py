"""Plans of products, replayed with NumPy, are the products, and ask BLAS only what it does."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from itertools import product as every

import numpy as np
import pytest
from contractions import (
    SAMPLE_NAMES,
    SAMPLES,
    Labelled,
    Product,
    after_copies,
    laid_out,
    products,
    sample_node,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from chainrule.plan.products.contraction import (
    LARGEST,
    Copy,
    Gemm,
    Loop,
    Operand,
    contiguous,
    labels_of,
    plan_contraction,
)
from chainrule.plan.products.tiles import tiles_for


def matrix(array: np.ndarray, offset: int, rows: int, columns: int, leading: int) -> np.ndarray:
    """The column-major matrix that begins so many elements behind the array's first."""
    nbytes = array.itemsize
    begin = as_strided(array, (abs(offset) + 1,), (nbytes if offset >= 0 else -nbytes,))
    return as_strided(begin[abs(offset) :], (rows, columns), (nbytes, leading * nbytes))


def replay(gemm: Gemm, x: np.ndarray, y: np.ndarray, out: np.ndarray, alpha=1.0, beta=0.0) -> None:
    """Do what BLAS would be asked to, in the order in which it would be."""
    if gemm.is_empty:
        return
    assert 0 < max(gemm.m, gemm.n, gemm.k) <= LARGEST
    stored_a = (gemm.k, gemm.m) if gemm.transa else (gemm.m, gemm.k)
    stored_b = (gemm.n, gemm.k) if gemm.transb else (gemm.k, gemm.n)
    stored = stored_a, stored_b, (gemm.m, gemm.n)
    for (rows, _), leading in zip(stored, (gemm.lda, gemm.ldb, gemm.ldc), strict=True):
        assert max(1, rows) <= leading <= LARGEST, "BLAS refuses this leading dimension"
    a, b = (x, y) if gemm.a_is_x else (y, x)
    for index in every(*(range(loop.size) for loop in gemm.loops)):
        moves = [(loop.a_stride, loop.b_stride, loop.c_stride) for loop in gemm.loops]
        offsets = [sum(i * move[k] for i, move in zip(index, moves, strict=True)) for k in range(3)]
        first = not any(i for i, loop in zip(index, gemm.loops, strict=True) if loop.accumulates)
        left = matrix(a, offsets[0], *stored_a, gemm.lda) if gemm.k else np.zeros(stored_a)
        right = matrix(b, offsets[1], *stored_b, gemm.ldb) if gemm.k else np.zeros(stored_b)
        c = matrix(out, offsets[2], gemm.m, gemm.n, gemm.ldc)
        total = alpha * ((left.T if gemm.transa else left) @ (right.T if gemm.transb else right))
        scale = beta if first else 1.0
        c[...] = total + scale * c if scale else total


def check(product: Product, alpha: float = 1.0, beta: float = 0.0) -> None:
    """The plan with its copies is the product."""
    expected = product.expected(alpha, beta)
    gemm, planned, _ = after_copies(product)
    replay(gemm, planned.x.array, planned.y.array, planned.out.array, alpha, beta)
    np.testing.assert_array_equal(product.out.array, expected)


def plan(x: str, y: str, out: str, **sizes: int) -> Gemm:
    """The plan for arrays in C order, their axes called by letters."""
    by_label = {ord(letter): size for letter, size in sizes.items()}
    x_axes, y_axes, out_axes = (
        contiguous([ord(letter) for letter in one], by_label) for one in (x, y, out)
    )
    found = plan_contraction(x_axes, y_axes, out_axes, by_label)
    assert isinstance(found, Gemm), found
    return found


@pytest.mark.parametrize(("primitive", "sample"), SAMPLES, ids=SAMPLE_NAMES)
def test_every_sample_is_the_product_that_numpy_computes(primitive, sample):
    node = sample_node(primitive, sample, "float64")
    x_labels, y_labels, out_labels, sizes = labels_of(node)
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-3, 4, shape).astype(np.float64) for shape in sample.shapes)
    out = np.full(node.shape, np.nan)
    expected = primitive.evaluate(np, x, y, **dict(sample.params))
    check(Product(Labelled(x, x_labels), Labelled(y, y_labels), Labelled(out, out_labels), sizes))
    np.testing.assert_array_equal(out, expected)


@given(products("float64"), st.sampled_from([1.0, -0.5]), st.sampled_from([0.0, 1.0, 2.0]))
def test_any_layout_gives_the_product_and_leaves_what_lies_between(made, alpha, beta):
    product, memory = made
    if beta:
        product.out.array[...] = np.arange(product.out.array.size).reshape(product.out.array.shape)
    before = memory.copy()
    check(product, alpha, beta)
    product.out.array[...] = 0
    written = product.out.array.size
    assert np.count_nonzero(memory == 0) >= written
    changed = (memory != before) & ~(np.isnan(memory) & np.isnan(before))
    assert np.count_nonzero(changed) <= written


def test_rows_of_all_batches_are_one_product():
    assert plan("btk", "kn", "btn", b=16, t=64, k=128, n=512) == Gemm(
        512, 1024, 128, False, False, 512, 128, 512, a_is_x=False
    )


def test_a_weight_gradient_sums_over_all_batches_in_one_product():
    assert plan("btk", "btn", "kn", b=16, t=64, k=128, n=512) == Gemm(
        512, 128, 1024, False, True, 512, 128, 512, a_is_x=False
    )


def test_a_transposed_result_is_the_product_the_other_way_round():
    gemm = plan("mk", "kn", "nm", m=20, k=30, n=40)
    assert (gemm.m, gemm.n, gemm.a_is_x, gemm.transa, gemm.transb) == (20, 40, True, True, True)


def test_attention_over_heads_is_one_loop_of_products_without_copies():
    gemm = plan("bthd", "bshd", "bhts", b=16, t=64, s=64, h=4, d=32)
    assert (gemm.m, gemm.n, gemm.k, gemm.lda, gemm.ldb, gemm.ldc) == (64, 64, 32, 128, 128, 64)
    assert gemm.loops == (
        Loop(16, 8192, 8192, 16384, False),
        Loop(4, 32, 32, 4096, False),
    )
    assert gemm.calls == 64


def test_sums_over_axes_with_a_gap_accumulate_where_that_is_cheaper_than_a_copy():
    sizes = {0: 64, 1: 64, 2: 2, 3: 64}
    x, _ = laid_out((0, 2, 3), sizes, "float64", padded=frozenset([3]))
    y, out = (laid_out(labels, sizes, "float64")[0] for labels in ((2, 3, 1), (0, 1)))
    x.array[...], y.array[...] = 1, 2
    gemm, _, copies = after_copies(Product(x, y, out, sizes))
    assert not copies
    assert gemm.loops == (Loop(2, 4096, 66, 0, True),)
    check(Product(x, y, out, sizes))


def with_gaps(which: str) -> Product:
    """A matrix product in which no two elements of one array lie beside each other."""
    sizes = {0: 64, 1: 64, 2: 64}
    arrays = {}
    for name, labels in (("x", (0, 2)), ("y", (2, 1)), ("out", (0, 1))):
        if name == which:
            _, whole = laid_out(labels, {label: 128 for label in sizes}, "float64")
            arrays[name] = Labelled(whole[::2, ::2], labels)
        else:
            arrays[name], _ = laid_out(labels, sizes, "float64")
        arrays[name].array[...] = 3
    return Product(**arrays, sizes=sizes)


@pytest.mark.parametrize("which", ["x", "y"])
def test_an_array_without_neighbours_in_memory_is_copied_first(which):
    product = with_gaps(which)
    gemm, _, copies = after_copies(product)
    assert [copy.which for copy in copies] == [which]
    assert not gemm.loops
    check(product)


def test_a_result_without_neighbours_in_memory_is_computed_there():
    product = with_gaps("out")
    gemm, _, copies = after_copies(product)
    assert not copies
    assert gemm.loops
    check(product)


def test_a_sum_of_matrices_that_is_asked_for_transposed_is_computed_there():
    """One call for each row, though one call and the result turned round would be faster."""
    gemm = plan("i", "ijk", "kj", i=3, j=8, k=8)
    assert gemm.calls == 8


def test_an_array_that_runs_backwards_is_copied_first():
    sizes = {0: 64, 1: 64, 2: 64}
    x, _ = laid_out((0, 2), sizes, "float64", backwards=frozenset([2]))
    y, out = (laid_out(labels, sizes, "float64")[0] for labels in ((2, 1), (0, 1)))
    found = plan_contraction(x.operand, y.operand, out.operand, sizes)
    assert isinstance(found, Copy) and found.which == "x"


def test_a_copy_leaves_out_what_is_only_repeated():
    sizes = {0: 8, 1: 64, 2: 64, 3: 64}
    x, _ = laid_out((0, 1, 2), sizes, "float64", backwards=frozenset([2]), repeated=frozenset([0]))
    y, out = (laid_out(labels, sizes, "float64")[0] for labels in ((0, 2, 3), (0, 1, 3)))
    found = plan_contraction(x.operand, y.operand, out.operand, sizes)
    assert isinstance(found, Copy) and found.which == "x" and set(found.order) == {1, 2}
    x, y = Labelled(np.ones_like(x.array), x.labels), Labelled(np.ones_like(y.array), y.labels)
    check(Product(x, y, out, sizes))


def test_columns_that_overlap_are_no_matrix_for_blas():
    sizes = {0: 64, 1: 64, 2: 64}
    numbers = np.arange(127.0)
    windows = Labelled(np.lib.stride_tricks.sliding_window_view(numbers, 64), (0, 2))
    y, out = (laid_out(labels, sizes, "float64")[0] for labels in ((2, 1), (0, 1)))
    y.array[...] = 1
    product = Product(windows, y, out, sizes)
    assert [copy.which for copy in after_copies(product)[2]] == ["x"]
    check(product)


def test_a_matrix_repeated_for_each_batch_is_one_matrix():
    sizes = {0: 8, 1: 16, 2: 32, 3: 16}
    repeated = Operand((0, 2, 3), (0, 16, 1))
    found = plan_contraction(
        contiguous((0, 1, 2), sizes), repeated, contiguous((0, 1, 3), sizes), sizes
    )
    assert isinstance(found, Gemm)
    assert (found.m, found.n, found.k, found.loops) == (16, 128, 32, ())


def test_a_matrix_times_a_vector_is_not_left_to_gemm():
    assert plan("bmk", "k", "bm", b=4, m=64, k=784).routine == "gemv"
    assert plan("k", "kn", "n", k=784, n=256).routine == "gemv"
    assert plan("k", "k", "", k=784).routine == "gemv"
    assert plan("mk", "kn", "mn", m=2, k=3, n=4).routine == "inline"


def test_sizes_beyond_the_integers_of_blas_become_loops():
    gemm = plan("btk", "kn", "btn", b=2**16, t=2**16, k=8, n=8)
    assert gemm.calls == 2**16 and gemm.n == 2**16
    assert gemm.flops == 2 * 2**32 * 64


@pytest.mark.parametrize("absent", ["b", "m", "n"])
def test_an_empty_result_needs_nothing(absent):
    gemm = plan("bmk", "bkn", "bmn", **{**dict(b=2, m=30, k=40, n=50), absent: 0})
    assert gemm.is_empty and gemm.routine == "inline"
    assert tiles_for(gemm, np.dtype("float32"), 64, threads=2) is None


def test_a_sum_over_nothing_keeps_beta_times_the_result():
    gemm = plan("mkl", "lkn", "mn", m=30, k=0, l=4, n=50)
    assert gemm.k == 0 and not gemm.is_empty and not gemm.loops
    out = np.full((30, 50), 4.0)
    replay(gemm, np.zeros(0), np.zeros(0), out, beta=0.5)
    assert (out == 2).all()


def test_arrays_without_elements_are_never_copied():
    sizes = {0: 8, 1: 8, 2: 8, 3: 0}
    x, out = (laid_out(labels, sizes, "float64")[0] for labels in ((0, 3), (0, 1, 2)))
    for order in permutations(sizes):
        y, _ = laid_out((0, 1, 2, 3), sizes, "float64", list(order))
        made = [replace(y.operand, strides=strides) for strides in permutations((0, 1, 8, 64))]
        for operand in (y.operand, *made):
            found = plan_contraction(x.operand, operand, out.operand, sizes)
            assert isinstance(found, Gemm) and found.calls == 1


def test_a_matrix_on_the_left_repeated_for_each_batch_is_one_matrix():
    sizes = {0: 8, 1: 16, 2: 32, 3: 16}
    repeated, y = Operand((0, 1, 2), (0, 32, 1)), contiguous((2, 0, 3), sizes)
    found = plan_contraction(repeated, y, contiguous((1, 0, 3), sizes), sizes)
    assert isinstance(found, Gemm)
    assert (found.m, found.n, found.k, found.loops) == (128, 16, 32, ())


@pytest.mark.parametrize(
    "fault",
    [
        lambda gemm: replace(gemm, transa=not gemm.transa),
        lambda gemm: replace(gemm, a_is_x=not gemm.a_is_x),
        lambda gemm: replace(gemm, lda=gemm.lda + 1),
        lambda gemm: replace(gemm, k=gemm.k - 1),
        lambda gemm: replace(gemm, loops=gemm.loops[1:]),
        lambda gemm: replace(gemm, loops=(replace(gemm.loops[0], a_stride=0), *gemm.loops[1:])),
        lambda gemm: replace(
            gemm, loops=(*gemm.loops[:-1], replace(gemm.loops[-1], accumulates=False))
        ),
    ],
)
def test_a_planted_fault_shows(fault):
    sizes = {0: 3, 1: 5, 2: 5, 3: 2, 4: 5}
    generator = np.random.default_rng(1)
    arrays = [
        laid_out(labels, sizes, "float64", padded=frozenset(padded))[0]
        for labels, padded in (((0, 1, 3, 4), [4]), ((0, 3, 4, 2), [2]), ((0, 1, 2), []))
    ]
    for one in arrays[:2]:
        one.array[...] = generator.normal(size=one.array.shape)
    product = Product(*arrays, sizes=sizes)
    gemm, planned, copies = after_copies(product)
    assert not copies and gemm.loops[-1].accumulates
    replay(gemm, planned.x.array, planned.y.array, planned.out.array)
    np.testing.assert_allclose(product.out.array, product.expected(), rtol=1e-12)
    product.out.array[...] = np.nan
    with pytest.raises(AssertionError):
        replay(fault(gemm), planned.x.array, planned.y.array, planned.out.array)
        np.testing.assert_allclose(product.out.array, product.expected(), rtol=1e-12)
