"""Every primitive, with all its samples and dtypes, has the reference executor's values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from exact_special import EXACT_SPECIAL
from executing import expected, graph_of_calls, native

from chainrule.graph.types import type_of
from chainrule.primitives.arithmetic import add, exp
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.movement import concatenate, pad, slice_, transpose
from chainrule.primitives.primitive import Contract, Fold, Gather, Given, Map, Primitive, Sample
from chainrule.primitives.reduce import argmax, max_, min_, sum_
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import sample_arrays

pytestmark = pytest.mark.usefixtures("every_width_in_time", "fences")

FLOATS = ("float32", "float64", "float16")
WHOLE = ("int64", "int32", "uint8", "int8", "uint64", "bool")
EXCEPTIONAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-320, 1e-40, -1e-40, 1e308]
EVERY = pytest.mark.parametrize(
    "primitive",
    [one for one in PRIMITIVES if not isinstance(one.kernel, Given)],
    ids=lambda one: one.name,
)
LARGEST = {"float16": 6e4, "float32": 3e38, "float64": 1e308}


def as_dtype(arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Floats in the dtype; indices and conditions as they are."""
    with np.errstate(all="ignore"):
        return [
            (x * 3 if np.dtype(dtype).kind in "iu" else x).astype(dtype)
            if x.dtype.kind == "f"
            else x
            for x in arrays
        ]


def applies(primitive: Primitive, arrays: list[np.ndarray], params: dict[str, Any]) -> bool:
    """Whether the operation exists for these dtypes, with the result that it declares."""
    try:
        declared = primitive.result_type(*map(type_of, arrays), **params)
        with np.errstate(all="ignore"):
            return np.asarray(primitive.evaluate(np, *arrays, **params)).dtype == declared.dtype
    except (TypeError, ValueError, OverflowError):
        return False


def exact(primitive: Primitive, arrays: list[np.ndarray], params: dict[str, Any]) -> Any:
    """The value in the widest floats that there are, and the size of what it is a sum of."""
    wide = [x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in arrays]
    with np.errstate(all="ignore"):
        if primitive.name in EXACT_SPECIAL:
            value = EXACT_SPECIAL[primitive.name](*wide)
            return value, np.abs(value)
        value = np.asarray(primitive.evaluate(np, *wide, **params))
        if not isinstance(primitive.kernel, Fold | Contract | Gather):
            return value, np.abs(value)
        absolute = [np.abs(x) if x.dtype.kind == "f" else x for x in wide]
        return value, np.abs(np.asarray(primitive.evaluate(np, *absolute, **params)))


def check_calls(calls: list[tuple[Primitive, list[np.ndarray], dict[str, Any]]]) -> None:
    """All in one graph: errors at most 4 times those of the reference, plus 4 ulp (slopes 6)."""
    graph, inputs = graph_of_calls(calls)
    keep = [node for _, node in graph.outputs]
    wanted, got = expected(graph, inputs, keep), native(graph, inputs, keep)
    assert got is not None
    for (primitive, arrays, params), node in zip(calls, keep, strict=True):
        ulps = 6 if primitive.name.endswith("_slope") else 4  # as in test_special_functions
        close(got[node], wanted[node], *exact(primitive, arrays, params), ulps, what=repr(node))


def close(
    x: np.ndarray, reference: np.ndarray, truth: Any, size: Any, ulps: int, what: str
) -> None:
    assert (x.dtype, x.shape) == (reference.dtype, reference.shape), what
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(x, reference, what)
        return
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(np.where(finite, 0, x), np.where(finite, 0, reference), what)
    with np.errstate(all="ignore"):
        limit = 4 * np.abs(reference - truth)
        limit = limit + ulps * np.spacing(np.minimum(size, LARGEST[x.dtype.name]).astype(x.dtype))
        wrong = finite & ~(np.abs(x - truth) <= limit)
    assert not wrong.any(), (what, x[wrong][:5], reference[wrong][:5], truth[wrong][:5])


@EVERY
def test_a_sample_in_floats_and_integers(primitive: Primitive) -> None:
    check_samples(primitive, primitive.samples[:1], ("float32", "float64", "int64"))


@pytest.mark.sweep(5)
@pytest.mark.slow
@EVERY
def test_samples_in_every_dtype(primitive: Primitive) -> None:
    check_samples(primitive, primitive.samples, (*FLOATS, *WHOLE))


def check_samples(primitive: Primitive, samples: Iterable[Sample], dtypes: tuple[str, ...]) -> None:
    calls = []
    for sample in samples:
        arrays, params = sample_arrays(sample, seed=3), dict(sample.params)
        floats = any(x.dtype.kind == "f" for x in arrays)
        given = [as_dtype(arrays, d) for d in (dtypes if floats else ("float64",))]
        found = [(primitive, one, params) for one in given if applies(primitive, one, params)]
        assert found, sample
        calls += found
    check_calls(calls)


MAPS = [one for one in PRIMITIVES if isinstance(one.kernel, Map)]


def as_domain(x: np.ndarray, domain: Any) -> np.ndarray:
    """The numbers as booleans or integers where the primitive takes these."""
    if domain == "bool":
        return x > 0
    if domain == "uint32":
        return np.nan_to_num(x).clip(-8, 7).astype(np.int64).astype(np.uint32)
    if isinstance(domain, str):
        return np.nan_to_num(x).clip(-8, 7).astype(np.int64)
    return x


@pytest.mark.parametrize("primitive", MAPS, ids=lambda p: p.name)
def test_exceptional_numbers(primitive: Primitive) -> None:
    count = len(primitive.inputs)
    rows = np.array(list(itertools.product(EXCEPTIONAL, repeat=count)))
    sample = primitive.samples[0]
    calls = []
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            arrays = [np.ascontiguousarray(x) for x in rows.T.astype(dtype)]
        arrays = [as_domain(x, domain) for x, domain in zip(arrays, sample.domains, strict=True)]
        for each in range(len(primitive.samples)):
            call = (primitive, arrays, dict(primitive.samples[each].params))
            if call[2] not in [one[2] for one in calls if one[1][-1].dtype == dtype]:
                calls.append(call)
    check_calls(calls)


@pytest.mark.parametrize("primitive", [sum_, max_, min_], ids=lambda p: p.name)
def test_exceptional_numbers_in_reductions(primitive: Primitive) -> None:
    x = np.ones((len(EXCEPTIONAL), 70), np.float32)
    with np.errstate(all="ignore"):
        x[np.arange(len(x)), 5 * np.arange(len(x))] = EXCEPTIONAL
    check_calls([(primitive, [one], {"axes": (axis,)}) for one in (x, -x) for axis in (0, 1)])


def test_argmax_gives_the_first_of_equals_and_of_nans() -> None:
    x = np.random.default_rng(0).integers(0, 4, (50, 33)).astype(np.float64)
    x[3, 30:] = x[4, 7] = x[4, 9] = np.nan
    x[5] = -np.inf
    arrays = [x, x.astype(np.float32), x[:3].astype(np.int32), x[:3].astype(np.uint8), x > 1]
    check_calls([(argmax, [one], {"axis": axis}) for one in arrays for axis in (0, 1)])
    least = np.full((2, 40), np.iinfo(np.int64).min)
    check_calls([(argmax, [least], {"axis": 1}), (argmax, [least], {"axis": 0})])


def ramp(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2, 2, shape).astype(dtype)


@pytest.mark.slow
def test_rows_of_every_width() -> None:
    calls: list[Any] = []
    for width in range(1, 71):
        calls.append((add, [ramp(3, width), ramp(3, width) * 2], {}))
        calls.append((sum_, [ramp(3, width)], {"axes": (1,)}))
        calls.append((sum_, [ramp(width, 5)], {"axes": (0,)}))
    check_calls(calls)


@pytest.mark.sweep(5)
@pytest.mark.slow
@pytest.mark.parametrize("primitive", MAPS, ids=lambda p: p.name)
def test_rows_of_many_widths_for_every_map(primitive: Primitive) -> None:
    """Less than a vector, one, several, and what is left; the loops are those of add, above."""
    sample = primitive.samples[0]
    calls = []
    for dtype in ("float32", "float64"):
        for width in (7, 33):
            shapes = ((2, width),) * len(primitive.inputs)
            one = Sample(shapes, sample.domains, sample.params, dtype=dtype)
            calls.append((primitive, sample_arrays(one, seed=width), dict(sample.params)))
    check_calls(calls)


@pytest.mark.slow
def test_long_rows_and_odd_shapes() -> None:
    shapes = [(5000,), (3, 5000), (5000, 3), (70, 1), (1, 1, 1), (2, 0, 3), (4097,), (9001,)]
    calls: list[Any] = [(exp, [ramp(*shape)], {}) for shape in shapes]
    for shape in (*shapes, (7, 11, 13), (20001,), (2, 3, 4, 5)):
        axes = range(len(shape))
        for count in range(1, len(shape) + 1):
            for chosen in itertools.combinations(axes, count):
                calls.append((sum_, [ramp(*shape)], {"axes": chosen}))
                if np.prod(shape):
                    calls.append((max_, [ramp(*shape, dtype=np.float64)], {"axes": chosen}))
    check_calls(calls)


@pytest.mark.slow
def test_integers_and_booleans_are_reduced_over_all_axes() -> None:
    calls: list[Any] = []
    for dtype in WHOLE:
        for axes in ((0,), (1,), (0, 1), (2,), (0, 2)):
            x = (ramp(5, 19, 34) * 60).astype(np.int64).astype(dtype)
            calls += [(one, [x], {"axes": axes}) for one in (sum_, max_, min_)]
    check_calls(calls)


@pytest.mark.slow
def test_steps_and_orders_of_axes() -> None:
    x, calls = ramp(9, 8, 33), []
    for dtype in ("float32", "float64", "bool", "int8", "float16"):
        y = (x * 3).astype(np.int64).astype(dtype)
        for start, step, shape in (
            ((8, 0, 32), (-1, 1, -1), (9, 8, 33)),
            ((1, 7, 2), (3, -2, 5), (3, 4, 7)),
            ((0, 0, 32), (2, 3, -2), (5, 3, 17)),
        ):
            calls.append((slice_, [y], {"start": start, "step": step, "shape": shape}))
            part = y[:3, :4, :7]
            whole = (20, 20, 40)
            calls.append((pad, [part], {"start": (5, 19, 39), "step": (2, -5, -3), "shape": whole}))
        for permutation in itertools.permutations(range(3)):
            calls.append((transpose, [y], {"permutation": permutation}))
        for axis in range(3):
            calls.append((concatenate, [y, y.copy(), y.copy()], {"axis": axis}))
    check_calls(calls)


@pytest.mark.slow
def test_indices_of_every_kind() -> None:
    random, calls = np.random.default_rng(1), []
    for dtype in ("float32", "float64", "bool", "int64", "float16"):
        x = (ramp(6, 5, 40) * 3).astype(np.int64).astype(dtype)
        for kind in ("int64", "int32", "uint8", "int8") if dtype == "float32" else ("int64",):
            for shape in ((), (1,), (17,), (3, 21), (0,)):
                low = -5 if kind[0] == "i" else 0
                rows, columns = (random.integers(low, 5, shape).astype(kind) for _ in range(2))
                deep = random.integers(0, 40, shape).astype(kind)
                for indices in ([rows], [rows, columns], [rows, columns, deep]):
                    calls.append((gather, [x, *indices], {"wrap": True}))
                    update = x[tuple(indices)]
                    params = {"shape": x.shape, "wrap": True}
                    calls.append((scatter_add, [update, *indices], params))
    for number in range(0, len(calls), 60):
        check_calls(calls[number : number + 60])


def test_long_arrays_are_scattered() -> None:
    index = np.random.default_rng(2).integers(-7, 7, 9001)
    calls = [
        (scatter_add, [ramp(9001, dtype=d), index], {"shape": (7,), "wrap": True})
        for d in (np.float64, np.int32)
    ]
    wide = (scatter_add, [ramp(50, 300), index[:50]], {"shape": (7, 300), "wrap": True})
    check_calls([*calls, wide])
