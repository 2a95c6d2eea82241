"""Every primitive has the reference executor's values on XLA, within the bounds of native code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from primitive_calls import (
    EXCEPTIONAL,
    FLOATS,
    WHOLE,
    Call,
    applies,
    calls_of_samples,
    check_calls_by,
    exceptional_calls,
    expected,
    graph_of_calls,
    groups,
)
from running import by_xla

import chainrule as cr
from chainrule.control import CONTROL
from chainrule.execute.xla import functions
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import Given, Library, Map, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES

pytestmark = pytest.mark.peers

COMPUTED = [one for one in (*PRIMITIVES, *CONTROL) if not isinstance(one.kernel, Given)]
MAPS = [one for one in COMPUTED if isinstance(one.kernel, Map)]
EVERY = pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)
# XLA's processors and NumPy's need not agree on numbers below the least normal one: XLA takes them
# for zero.
NORMAL = [x for x in EXCEPTIONAL if not 0 < abs(x) < 1e-37]


def is_wide(primitive: Primitive) -> bool:
    kernel = primitive.kernel
    return isinstance(kernel, Library) and (kernel.lapack or kernel.wide)


def check(primitive: Primitive, calls: list[Call]) -> None:
    if is_wide(primitive):
        check_wide(calls)
    else:
        check_calls_by(by_xla, calls, flushes=True)


def check_wide(calls: list[Call]) -> None:
    """Both compute in float64 (LAPACK, Fourier sums), in other orders: within 64 ulp of the largest
    element."""
    graph, inputs = graph_of_calls(calls)
    keep = [node for _, node in graph.outputs]
    wanted, got = expected(graph, inputs, keep), by_xla(graph, inputs, keep)
    for node in keep:
        x, y = got[node], wanted[node]
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        largest = np.abs(y).max(initial=1)
        np.testing.assert_allclose(x, y, rtol=0, atol=64 * np.finfo(y.dtype).eps * largest)


def check_samples(primitive: Primitive, samples: Iterable[Sample], dtypes: tuple[str, ...]) -> None:
    check(primitive, calls_of_samples(primitive, samples, dtypes))


GROUPS = {
    **groups([one for one in COMPUTED if not is_wide(one)], 10),
    **groups([one for one in COMPUTED if is_wide(one)], 5),
}


@pytest.mark.parametrize("primitives", GROUPS.values(), ids=GROUPS)
def test_a_sample(primitives: Sequence[Primitive]) -> None:
    """Every other one in float32, the others in float64; all in both below."""
    given = (
        (one, one.samples[:1], ("float32", "float64")[place % 2 :])
        for place, one in enumerate(primitives)
    )
    check(primitives[0], [call for one in given for call in calls_of_samples(*one)])


@pytest.mark.exhaustive
@EVERY
def test_samples_in_every_dtype(primitive: Primitive) -> None:
    floats = FLOATS if isinstance(primitive.kernel, Library) else (*FLOATS, *WHOLE)
    check_samples(primitive, primitive.samples, floats)


def calls_of_magnitudes(primitive: Primitive) -> list[Call]:
    """On numbers of every magnitude from 1e-14 to 100, of both signs."""
    random = np.random.default_rng(1)
    shape = len(primitive.inputs), 200
    numbers = 10 ** random.uniform(-14, 2, shape) * random.choice([-1, 1], shape)
    params = dict(primitive.samples[0].params)
    both = [list(numbers.astype(dtype)) for dtype in ("float64", "float32")]
    return [(primitive, one, params) for one in both if applies(primitive, one, params)]


OWN = [one for one in MAPS if one.name in vars(functions)]


def test_magnitudes_of_functions_that_are_not_xlas() -> None:
    assert len(OWN) == 9
    check(OWN[0], [call for one in OWN for call in calls_of_magnitudes(one)])


def test_quotients_and_signs_are_those_of_numpy() -> None:
    """To the last bit, zeros with their signs, and of integers divided by zero."""

    def divided(x: Any, y: Any) -> Any:
        return np.floor_divide(x, y), np.remainder(x, y), np.sign(x), np.sign(y)

    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.1, -5.5, 6e4])
    whole = np.array([-128, 127, 0, -1, 7, 3])
    drawn = np.random.default_rng(3).normal(size=(2, 300)) * 10
    for dtype in ("float64", "float32", "float16", "int8"):
        numbers = whole if dtype == "int8" else special
        pairs = np.stack([one.ravel() for one in np.meshgrid(numbers, numbers)])
        x, y = np.concatenate([pairs, drawn], axis=1).astype(dtype)
        with np.errstate(all="ignore"):
            wanted = divided(x, y)
        for found, right in zip(cr.compile(divided, executor="xla")(x, y), wanted, strict=True):
            np.testing.assert_array_equal(found, right, strict=True)
            if dtype != "int8":
                known = ~np.isnan(right)
                np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(right)[known])


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", MAPS, ids=lambda one: one.name)
def test_numbers_of_every_magnitude(primitive: Primitive) -> None:
    check(primitive, calls_of_magnitudes(primitive))


@pytest.mark.sweep(11)
@pytest.mark.parametrize("primitive", MAPS, ids=lambda one: one.name)
def test_exceptional_numbers(primitive: Primitive) -> None:
    # What NaN is as an integer, and what is too large for it, NumPy leaves to the processor.
    numbers = [x for x in NORMAL if abs(x) <= 1] if primitive is cast else NORMAL
    check(primitive, exceptional_calls(primitive, numbers))
