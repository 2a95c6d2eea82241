"""Every primitive, with all its samples and dtypes, has the reference executor's values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from executing import native
from primitive_calls import (
    EXCEPTIONAL,
    FLOATS,
    WHOLE,
    Call,
    calls_of_samples,
    check_calls_by,
    exceptional_calls,
    groups,
)

from chainrule.primitives.arithmetic import add, exp
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.movement import concatenate, pad, slice_, transpose
from chainrule.primitives.primitive import Given, Map, Primitive, Sample
from chainrule.primitives.reduce import argmax, max_, min_, sum_
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import sample_arrays

pytestmark = pytest.mark.usefixtures("every_width_in_time", "fences")

COMPUTED = [one for one in PRIMITIVES if not isinstance(one.kernel, Given)]
GROUPS = groups(COMPUTED, 10)
EVERY = pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)


def check_calls(calls: list[Call]) -> None:
    check_calls_by(native, calls)


def check_samples(primitive: Primitive, samples: Iterable[Sample], dtypes: tuple[str, ...]) -> None:
    check_calls(calls_of_samples(primitive, samples, dtypes))


@pytest.mark.parametrize("primitives", GROUPS.values(), ids=GROUPS)
def test_a_sample_in_floats_and_integers(primitives: Sequence[Primitive]) -> None:
    given = ((one, one.samples[:1], ("float32", "float64", "int64")) for one in primitives)
    check_calls([call for one in given for call in calls_of_samples(*one)])


@pytest.mark.sweep(17)
@pytest.mark.slow
@EVERY
def test_samples_in_every_dtype(primitive: Primitive) -> None:
    check_samples(primitive, primitive.samples, (*FLOATS, *WHOLE))


MAPS = [one for one in PRIMITIVES if isinstance(one.kernel, Map)]
GROUPS_OF_MAPS = groups(MAPS, 10)


@pytest.mark.parametrize("primitives", GROUPS_OF_MAPS.values(), ids=GROUPS_OF_MAPS)
def test_exceptional_numbers(primitives: Sequence[Primitive]) -> None:
    check_calls([call for one in primitives for call in exceptional_calls(one)])


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
