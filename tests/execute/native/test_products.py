"""Compiled products are NumPy's, whatever the layout, the scale factors and the number of parts."""

from __future__ import annotations

import ctypes
import math
import string
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from any_layout import any_layout, check_layout
from contractions import (
    SAMPLE_NAMES,
    SAMPLES,
    Labelled,
    Product,
    after_copies,
    laid_out,
    sample_node,
)
from hypothesis import settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.execute.native.plan_to_ir.emit import Module
from chainrule.execute.native.products.blas import load_blas
from chainrule.execute.native.products.product_code import (
    emit_product,
    routine_name,
    split_axis,
    supports,
)
from chainrule.machine_code.target import (
    Target,
    compile_object,
    cross_target,
    host_target,
    load_objects,
)
from chainrule.plan.planner import plan
from chainrule.plan.products.contraction import Gemm, contiguous, labels_of, plan_contraction

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
LETTERS = string.ascii_lowercase  # a label is the place of its letter
PARTS = pytest.mark.parametrize("parts", [1, 2, 3])


def compiled(gemm: Gemm, dtype: str, parts: int) -> Callable[..., None]:
    """The product as a function of the arrays, the factors, and the shares to do (default: all)."""
    module = Module()
    kind = np.dtype(dtype)
    emit_product(module, "f", gemm, kind, parts)
    library = load_objects([compile_object(module.text(), host_target())], {})
    number = ctypes.c_float if kind == np.float32 else ctypes.c_double
    types = [*[ctypes.c_void_p] * 3, number, number, ctypes.c_void_p, *[ctypes.c_int64] * 2]
    call = ctypes.CFUNCTYPE(None, *types)(library.address("f"))
    name = routine_name(gemm, kind)
    routine = getattr(load_blas(), name) if name else None

    def run(x, y, out, alpha=1.0, beta=0.0, shares=range(parts)) -> None:
        for part in shares:
            pointers = (one.ctypes.data for one in (x, y, out))
            call(*pointers, alpha, beta, routine, part, parts)
        assert library is not None  # keeps the code in memory

    return run


def run_product(product: Product, dtype: str, parts: int, alpha=1.0, beta=0.0) -> np.ndarray:
    """Plan, copy, compile, run, copy back."""
    gemm, planned, _ = after_copies(product)
    arrays = planned.x.array, planned.y.array, planned.out.array
    compiled(gemm, dtype, parts)(*arrays, alpha, beta)
    return product.out.array


def c_order(x: str, y: str, out: str, dtype: str, seed: int = 0, **sizes: int) -> Product:
    """Normal random numbers in C order, their axes called by letters; NaN in the result."""
    by_label = {LETTERS.index(letter): size for letter, size in sizes.items()}
    generator = np.random.default_rng(seed)
    arrays = [laid_out(tuple(map(LETTERS.index, one)), by_label, dtype)[0] for one in (x, y, out)]
    for one in arrays[:2]:
        one.array[...] = generator.standard_normal(one.array.shape)
    return Product(*arrays, sizes=by_label)


@pytest.mark.sweep(5)
@PARTS
@DTYPES
@pytest.mark.parametrize(("primitive", "sample"), SAMPLES, ids=SAMPLE_NAMES)
def test_every_sample_is_the_product_that_numpy_computes(primitive, sample, dtype, parts):
    node = sample_node(primitive, sample, dtype)
    x_labels, y_labels, out_labels, sizes = labels_of(node)
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-3, 4, shape).astype(dtype) for shape in sample.shapes)
    out = np.full(node.shape, np.nan, dtype)
    product = Product(
        Labelled(x, x_labels), Labelled(y, y_labels), Labelled(out, out_labels), sizes
    )
    run_product(product, dtype, parts)
    np.testing.assert_array_equal(out, primitive.evaluate(np, x, y, **dict(sample.params)))


@pytest.mark.slow
@settings(deadline=None)
@any_layout(st.sampled_from([1, 2, 3]))
def test_any_layout_gives_the_product_and_leaves_what_lies_between(made, alpha, beta, parts):
    def compute(product: Product, dtype: str) -> None:
        run_product(product, dtype, parts, alpha, beta)

    check_layout(made, alpha, beta, compute)


MLP = [
    ("mk", "kn", "mn", dict(m=256, k=784, n=256)),
    ("km", "kn", "mn", dict(m=784, k=256, n=256)),
    ("mk", "nk", "mn", dict(m=256, k=10, n=256)),
    ("mk", "kn", "mn", dict(m=256, k=256, n=10)),
    ("mk", "k", "m", dict(m=500, k=300)),
    ("km", "k", "m", dict(m=500, k=300)),
    ("k", "k", "", dict(k=5000)),
    ("m", "n", "mn", dict(m=100, n=130)),
    ("bthd", "bshd", "bhts", dict(b=3, t=24, h=4, s=24, d=16)),
    ("bhts", "bshd", "bthd", dict(b=3, t=24, h=4, s=24, d=16)),
    ("bmk", "bk", "bm", dict(b=7, m=20, k=30)),
    ("b", "b", "b", dict(b=1000)),
]


@pytest.mark.sweep(5)
@PARTS
@DTYPES
@pytest.mark.parametrize(("x", "y", "out", "sizes"), MLP, ids=lambda one: str(one))
def test_products_of_every_routine_are_as_exact_as_the_dtype(x, y, out, sizes, dtype, parts):
    product = c_order(x, y, out, dtype, **sizes)
    expected = product.expected(2.0)
    magnitude = Product(
        *(replace(one, array=np.abs(one.array)) for one in (product.x, product.y)),
        out=product.out,
        sizes=product.sizes,
    ).expected(2.0)
    found = run_product(product, dtype, parts, 2.0)
    # Higham, Accuracy and Stability, (3.7): n eps |x| |y| bounds any order of n additions.
    terms = max(sizes.get("k", 1), 24) + 4
    assert (np.abs(found - expected) <= terms * np.finfo(dtype).eps * magnitude).all()


@PARTS
@pytest.mark.parametrize("spread", [0, 1], ids=["the vector", "the result"])
@pytest.mark.parametrize("labels", [((0, 1), (1,), (0,)), ((1,), (1, 0), (0,))])
def test_vectors_need_not_be_contiguous(labels, spread, parts):
    sizes = {0: 60, 1: 40}
    arrays = [laid_out(one, sizes, "float64")[0] for one in labels]
    place = 2 if spread else min((0, 1), key=lambda which: len(labels[which]))
    one = arrays[place]
    arrays[place] = Labelled(np.full(3 * one.array.size, np.nan)[::3], one.labels)
    for operand in arrays[:2]:
        operand.array[...] = np.arange(operand.array.size).reshape(operand.array.shape) % 7
    product = Product(*arrays, sizes=sizes)
    gemm, _, copies = after_copies(product)
    assert gemm.routine == "gemv" and not copies
    np.testing.assert_array_equal(run_product(product, "float64", parts), product.expected())


@DTYPES
@pytest.mark.parametrize(
    "sizes", [dict(m=3, k=4, n=5), dict(m=40, k=30, n=50), dict(m=400, k=30, n=1)]
)
def test_a_factor_of_zero_forgets_finite_products_and_keeps_nan(sizes, dtype):
    product = c_order("mk", "kn", "mn", dtype, **sizes)
    product.x.array[...] *= 1e15
    product.x.array[1, 2], product.x.array[2, 1] = np.nan, np.inf
    before = np.zeros(product.out.array.shape, dtype)
    before[:, 0] = np.linspace(-3, 3, sizes["m"])
    product.out.array[...] = before
    found = run_product(product, dtype, 1, 0.0, 1.0)
    assert np.isnan(found[1:3]).all()
    np.testing.assert_array_equal(np.delete(found, [1, 2], 0), np.delete(before, [1, 2], 0))


@pytest.mark.sweep(7)
@PARTS
@DTYPES
@pytest.mark.parametrize(("x", "y", "out", "sizes"), MLP, ids=lambda one: str(one))
def test_shares_are_disjoint_and_the_same_each_time(x, y, out, sizes, dtype, parts):
    product = c_order(x, y, out, dtype, **sizes)
    gemm, planned, copies = after_copies(product)
    assert not copies
    run = compiled(gemm, dtype, parts)
    arrays = planned.x.array, planned.y.array
    whole = planned.out.array
    run(*arrays, whole)
    written = np.zeros(whole.shape, int)
    for part in range(parts):
        share = np.full_like(whole, np.nan)
        run(*arrays, share, shares=[part])
        mine = ~np.isnan(share)
        np.testing.assert_array_equal(share[mine], whole[mine])
        written += mine
    assert (written == 1).all()


def gemm_of(x: str, y: str, out: str, **sizes: int) -> Gemm:
    by_label = {LETTERS.index(letter): size for letter, size in sizes.items()}
    x_axes, y_axes, out_axes = (
        contiguous([LETTERS.index(letter) for letter in one], by_label) for one in (x, y, out)
    )
    found = plan_contraction(x_axes, y_axes, out_axes, by_label)
    assert isinstance(found, Gemm)
    return found


def test_blas_does_large_products_where_it_was_found_to_be_faster() -> None:
    of_cpu = partial(Target, triple="x86_64-unknown-linux-gnu", features="", vector_nbytes=32)
    cpus = ("znver3", "alderlake", "znver4", "znver5")
    assert [of_cpu(cpu=cpu).blas_from for cpu in cpus] == [1e8, 1e8, math.inf, math.inf]
    assert of_cpu(cpu="znver3", vector_nbytes=64).blas_from == math.inf

    def product(x: cr.float32[64, 64], y: cr.float32[64, 64]) -> Any:
        return x @ y

    graph = cr.trace(product)
    results = [node for _, node in graph.outputs]
    for blas_from, by_tiles in ((64.0**3, True), (64.0**3 - 1, False)):
        (work,) = plan(graph, results, vector_nbytes=32, blas_from=blas_from).works
        (call,) = work.calls
        assert (call.tiles is not None) == by_tiles


@pytest.mark.parametrize(
    ("sizes", "parts", "axis"),
    [
        (dict(b=64, m=64, k=32, n=64), 2, "loops"),
        (dict(b=3, m=64, k=32, n=64), 2, "columns"),
        (dict(b=1, m=256, k=784, n=256), 2, "columns"),
        (dict(b=1, m=256, k=784, n=784), 2, "rows"),
        (dict(b=1, m=784, k=256, n=256), 2, "columns"),
        (dict(b=1, m=256, k=784, n=10), 2, "columns"),
        (dict(b=5, m=8, k=8, n=8), 3, "loops"),
    ],
)
def test_loops_are_shared_where_that_is_even_else_the_longer_axis(sizes, parts, axis):
    assert split_axis(gemm_of("bmk", "bkn", "bmn", **sizes), parts) == axis


def test_only_the_floats_of_blas_are_supported():
    assert [supports(np.dtype(one)) for one in ("f4", "f8", "f2", "i8", "c16")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(TypeError, match="no BLAS routine multiplies matrices of int64"):
        emit_product(Module(), "f", gemm_of("k", "k", "", k=3), np.dtype(np.int64), 1)


@pytest.mark.parametrize("parts", [1, 2])
def test_one_part_has_no_code_to_split(parts):
    module = Module()
    emit_product(module, "f", gemm_of("mk", "kn", "mn", m=99, k=99, n=99), np.dtype("f4"), parts)
    assert ("udiv" in module.text()) == (parts > 1)


@DTYPES
@PARTS
def test_the_text_is_code_for_other_processors_too(dtype, parts):
    module = Module()
    for place, (x, y, out, sizes) in enumerate(MLP):
        emit_product(module, f"f{place}", gemm_of(x, y, out, **sizes), np.dtype(dtype), parts)
    assert compile_object(module.text(), cross_target("aarch64-linux-gnu"))


@pytest.mark.parametrize(
    "fault",
    [
        ("transa", lambda gemm: replace(gemm, transa=not gemm.transa)),
        ("ldc", lambda gemm: replace(gemm, ldc=gemm.ldc - 1)),
        ("a row too few", lambda gemm: replace(gemm, m=gemm.m - 1)),
        ("the operands", lambda gemm: replace(gemm, a_is_x=not gemm.a_is_x)),
        ("a loop", lambda gemm: replace(gemm, loops=())),
        (
            "a stride",
            lambda gemm: replace(gemm, loops=(replace(gemm.loops[0], b_stride=0),)),
        ),
        (
            "the sum",
            lambda gemm: replace(gemm, loops=(replace(gemm.loops[0], accumulates=True),)),
        ),
    ],
    ids=lambda fault: fault[0],
)
def test_a_planted_fault_shows(fault):
    product = c_order("bmk", "bkn", "mbn", "float64", b=3, m=20, k=20, n=20)
    gemm, planned, copies = after_copies(product)
    assert not copies and len(gemm.loops) == 1 and gemm.ldc == 60
    arrays = planned.x.array, planned.y.array, planned.out.array
    compiled(gemm, "float64", 2)(*arrays)
    np.testing.assert_allclose(arrays[2], product.expected(), rtol=1e-12, atol=1e-12)
    arrays[2][...] = np.nan
    compiled(fault[1](gemm), "float64", 2)(*arrays)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(arrays[2], product.expected(), rtol=1e-12, atol=1e-12)
