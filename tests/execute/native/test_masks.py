"""Writes of some lanes of a vector end where the last of these lanes ends."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from emitted import HERE, TARGETS
from executing import compare, inputs_of
from executors import needs_native

import chainrule as cr
from chainrule import bfloat16
from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, with_lanes
from chainrule.execute.native.plan_to_ir.masks import first_lanes, masked_store
from chainrule.machine_code.target import compile_object, load_objects

pytestmark = needs_native
SOURCES = {np.dtype(name): 64 // np.dtype(name).itemsize for name in ("int64", "int32", "int16")}
NARROWED = [
    (source, np.dtype(f"i{nbytes}"), lanes)
    for source, lanes in SOURCES.items()
    for nbytes in (1, 2, 4)
    if nbytes < source.itemsize
]
UNTOUCHED = 77


def _first_lanes_of(module: Module, name: str, source: np.dtype, target: np.dtype, width: int):
    """For every number of lanes a function that narrows a vector and writes so many lanes."""
    for left in range(1, width):
        code = Code(module)
        given, taken = Operand("%given", "ptr"), Operand("%taken", "ptr")
        wide = code.load(given, with_lanes(f"i{8 * source.itemsize}", width))
        narrow = code.convert("trunc", wide, with_lanes(f"i{8 * target.itemsize}", width))
        masked_store(code, narrow, taken, first_lanes(left, width))
        code.do("ret void")
        code.function(f"{name}_{left}", [given, taken])


@pytest.mark.parametrize("named", HERE)
def test_the_first_lanes_of_narrowed_vectors_are_written_and_nothing_else(named):
    target, random = TARGETS[named], np.random.default_rng(0)
    module = Module(named_nbytes=target.named_nbytes)
    for source, kept, width in NARROWED:
        _first_lanes_of(module, f"{source}_{kept}", source, kept, width)
    library = load_objects([compile_object(module.text(), target)], {})
    for source, kept, width in NARROWED:
        numbers = random.integers(-(2**15), 2**15, size=width).astype(source)
        for left in range(1, width):
            found = np.full(width + 8, UNTOUCHED, kept)
            write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
                library.address(f"{source}_{kept}_{left}")
            )
            write(numbers.ctypes.data, found.ctypes.data)
            expected = np.full(width + 8, UNTOUCHED, kept)
            expected[:left] = numbers[:left].astype(kept)
            np.testing.assert_array_equal(found, expected, f"{source} to {kept}, {left} lanes")


@pytest.mark.parametrize("columns", [17, 33, 65])
def test_attention_in_bfloat16_over_rows_with_one_column_more_than_vectors(columns):
    """Written too wide, the last column of a head was the first of the next, or another value."""
    random = np.random.default_rng(0)
    q, k, v, weights = (
        random.standard_normal((3, columns, 8)).astype(bfloat16.dtype) for _ in range(4)
    )

    def objective(q, k, v):
        return np.sum(weights * cr.scaled_dot_product_attention(q, k, v))

    gradients = cr.grad(objective, wrt=("q", "k", "v"), executor="native")(q, k, v)
    q, k, v, weights = (x.astype(np.float64) for x in (q, k, v, weights))
    wanted = cr.grad(objective, wrt=("q", "k", "v"), executor="reference")(q, k, v)
    for found, expected in zip(gradients, wanted, strict=True):
        error = np.max(np.abs(found.astype(np.float64) - expected))
        assert error < 0.03 * np.max(np.abs(expected))  # 8 bits, several roundings


@pytest.mark.parametrize("dtype", [np.float32, bfloat16.dtype])
def test_products_with_ones_are_compiled(dtype):
    """The cotangent of a sum is ones, which lie nowhere in memory."""
    random = np.random.default_rng(0)
    x, W = random.integers(-3, 4, (2, 17)), random.integers(-3, 4, (17, 5))
    x, W = x.astype(dtype), W.astype(dtype)
    gradient = cr.grad(lambda x, W: np.sum(x @ W), wrt=("x", "W"), executor="native")
    dx, dW = gradient(x, W)
    np.testing.assert_array_equal(dx, np.ones((2, 5)) @ W.astype(int).T)
    np.testing.assert_array_equal(dW, x.astype(int).T @ np.ones((2, 5)))
    dx, dW = gradient(x[0], W)
    np.testing.assert_array_equal(dx, W.astype(int).sum(1))
    np.testing.assert_array_equal(dW, np.outer(x[0].astype(int), np.ones(5)))


def written(mask: Operand, named_nbytes: int) -> list[int]:
    """How many lanes each store has, 0 of a masked one."""
    code = Code(Module(named_nbytes=named_nbytes))
    masked_store(code, Operand("%x", "<8 x float>"), Operand("%p", "ptr"), mask)
    stores = [line for line in code.lines if "store" in line]
    return [
        0 if "masked" in one else int((re.findall(r"<(\d+) x", one) or [1])[0]) for one in stores
    ]


@pytest.mark.parametrize("there", range(1, 9))
def test_first_lanes_are_written_in_pieces_where_masked_stores_take_long(there):
    assert written(first_lanes(there, 8), 64) == ([0] if there > 1 else [1])
    pieces = [size for size in (8, 4, 2, 1) if there & size]
    assert written(first_lanes(there, 8), 32) == pieces


def test_lanes_that_are_known_later_are_written_by_a_mask():
    assert written(Operand("%m", "<8 x i1>"), 32) == [0]
    others = ", ".join(["i1 false, i1 true"] * 4)
    assert written(Operand(f"<{others}>", "<8 x i1>"), 32) == [0]


@pytest.mark.usefixtures("fences")
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("dtype", ["bool_", "float16", "int32", "float64"])
@pytest.mark.parametrize("columns", [1, 3, 6, 7, 11, 13, 15, 29])
def test_what_lies_behind_the_last_lane_is_left_as_it_is(columns: int, dtype: str, target: str):
    """Behind a result, where fences are, and behind each row of a copy, zeros that were there."""
    type_ = getattr(cr, dtype)[columns]

    def function(x):
        more = x == 0 if dtype == "bool_" else x + 1
        return more, np.pad(np.stack([x, x]), ((1, 2), (1, 3)))

    graph = cr.trace(function, x=type_)
    given = {"x": np.arange(1, columns + 1).astype(dtype.rstrip("_"))}
    results = [node for _, node in graph.outputs]
    compare(graph, inputs_of(graph, given), results, 0.0, target=TARGETS[target])
