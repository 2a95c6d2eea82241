"""Operations on bfloat16 are those on float32 with one rounding, at every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from every_sample import for_every_sample
from executors import EITHER

import chainrule as cr
from chainrule.graph.dtypes import is_bfloat16
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Given, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.checks import is_differentiable
from chainrule.testing.samples import as_function, sample_arrays, sample_graph

BF16 = cr.bfloat16.dtype
COMPUTED = [one for one in PRIMITIVES if not isinstance(one.kernel, Given)]
LAPACK = {"svd", "svdvals", "qr", "cofactor", "cofactor_change"}  # refused by what calls them


def takes_floats(primitive: Primitive, sample: Sample) -> bool:
    return any(isinstance(domain, tuple) for domain in sample.domains)


def wide(array: Any) -> np.ndarray:
    return np.asarray(array, np.float32) if is_bfloat16(np.asarray(array).dtype) else array


def check_value(primitive: Primitive, sample: Sample) -> None:
    arrays, params = sample_arrays(sample, 0, BF16), dict(sample.params)
    declared = primitive.result_type(*map(type_of, arrays), **params)
    with np.errstate(all="ignore"):
        got = np.asarray(primitive.evaluate(np, *arrays, **params))
        expected = np.asarray(primitive.evaluate(np, *map(wide, arrays), **params))
    assert (got.dtype, got.shape) == (declared.dtype, declared.shape)
    np.testing.assert_array_equal(got, expected.astype(declared.dtype))


def test_every_primitive_computes_in_float32_and_rounds_once():
    for primitive in COMPUTED:
        for_every_sample(primitive, check_value, takes_floats)


def check_run(primitive: Primitive, sample: Sample, executor: str) -> None:
    arrays = sample_arrays(sample, 0, BF16)
    graph = sample_graph(primitive, sample, arrays)
    names = [item.name for item in graph.inputs]
    with np.errstate(all="ignore"):
        expected = np.asarray(primitive.evaluate(np, *arrays, **dict(sample.params)))
    got = graph.run(dict(zip(names, arrays, strict=True)), executor=executor).outputs[0]
    assert got.dtype == expected.dtype
    near = {"rtol": 2**-7, "atol": 1e-6}  # sums have another order: two roundings may differ
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), **near)


@pytest.mark.exhaustive
@EITHER
def test_executors_have_these_values(executor):
    for primitive in COMPUTED:
        for_every_sample(
            primitive, lambda one, sample: check_run(one, sample, executor), takes_floats
        )


def check_derivatives(primitive: Primitive, sample: Sample) -> None:
    """Of orders 1 and 2, beside those of float32 at the same point."""
    arrays = sample_arrays(sample, 0, BF16)
    places = tuple(place for place, one in enumerate(arrays) if is_bfloat16(one.dtype))
    function = as_function(primitive, **dict(sample.params))

    def first(*arrays: Any) -> Any:
        return np.sum(function(*arrays).astype(np.float32) * 1.5)

    def second(*arrays: Any) -> Any:
        return sum(np.sum(one.astype(np.float32)) for one in cr.grad(first, places)(*arrays))

    for objective in (first, second):
        gradients = cr.grad(objective, places)
        for got, exact in zip(gradients(*arrays), gradients(*map(wide, arrays)), strict=True):
            assert got.dtype == BF16
            scale = max(float(np.max(np.abs(exact), initial=0)), 1e-6)
            assert np.all(np.abs(got.astype(np.float64) - exact) <= 0.06 * scale)


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)
def test_derivatives_are_those_of_float32_but_for_roundings(primitive):
    if primitive.name not in LAPACK:
        for_every_sample(
            primitive,
            check_derivatives,
            lambda one, sample: sample.smooth and is_differentiable(one, sample),
        )


def test_derivatives_of_a_few():
    for primitive in COMPUTED:
        if primitive.name in ("tanh", "matmul", "sum", "divide", "cumsum", "fold_windows"):
            check_derivatives(primitive, primitive.samples[1])


def test_sums_and_products_are_added_up_in_float32():
    ones = np.ones(1000, BF16)  # in bfloat16 the sum stays at 256
    for function in (lambda x: np.sum(x), lambda x: x @ x, lambda x: np.cumsum(x)[-1]):
        assert float(cr.trace(function, ones).run(x=ones).outputs) == 1000
    assert float(cr.trace(lambda x: np.mean(x), ones).run(x=ones).outputs) == 1
