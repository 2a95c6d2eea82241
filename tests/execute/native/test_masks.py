"""Writes of some lanes of a vector end where the last of these lanes ends."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emitted import HERE, TARGETS
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
