"""Every elementwise function at zeros, infinities, NaN, subnormals and the limits of its dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule.errors import UnsupportedError

FLOATS = [0, -0.0, 1, -1, 0.5, -0.5, 2, -3, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310]
FLOATS += [2.3e-308, 1e308, -1e308, 1.7e308, 1e-16, 1e16, 1e4, -1e4, 710, -745.2, 1e-8]
FLOATS += [1 - 2**-53, 1 + 2**-52]
UFUNCS = sorted(
    {
        one
        for one in vars(np).values()
        if isinstance(one, np.ufunc) and one.nin < 3 and not one.signature
    },
    key=lambda one: one.__name__,
)
# Refused while they are traced; docs/numpy-functions.md says why.
NOT_TRACED = "bitwise_count frexp gcd isnat lcm ldexp nextafter spacing".split()
DTYPES = [np.dtype(code) for code in "?bBhilQefd"]


def arguments(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of extreme numbers of a dtype."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            numbers = np.array(FLOATS).astype(dtype)
    elif dtype.kind == "b":
        numbers = np.array([True, False])
    else:
        limits = np.iinfo(dtype)
        some = [limits.min, limits.max, limits.max - 1, limits.min + 1, limits.max // 2]
        some += [0, 1, 2, 3, 7, 8, 9, 31, *([-1, -2, -8] if limits.min else [])]
        numbers = np.array(some, dtype)
    x, y = np.meshgrid(numbers, numbers)
    return x.ravel(), y.ravel()


def compare(ufunc: Any, dtype: np.dtype, executor: str) -> bool:
    """Whether there was something to compare: NumPy has the dtype, and the function is traced."""
    given = arguments(dtype)[: ufunc.nin]
    if ufunc in (np.power,) and dtype.kind == "i":
        given = given[0], np.maximum(given[1], 0)  # negative powers of integers are refused
    with np.errstate(all="ignore"):
        try:
            wanted = ufunc(*given)
        except TypeError:
            return False
    try:
        graph = cr.trace(lambda *xs: ufunc(*xs), *given)
    except UnsupportedError:
        return False
    inputs = {item.name: x for item, x in zip(graph.inputs, given, strict=True)}
    found = graph.run(inputs, executor=executor).outputs
    for got, want in zip(
        *((x if isinstance(x, tuple) else (x,)) for x in (found, wanted)), strict=True
    ):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        limits = np.finfo(want.dtype)
        np.testing.assert_allclose(  # functions differ by a few units in the last place
            got.astype(float),
            want.astype(float),
            rtol=48 * float(limits.eps),
            atol=2 * float(limits.smallest_subnormal),
        )
    return True


@pytest.mark.sweep(5)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda one: one.__name__)
def test_an_elementwise_function_is_numpys_at_extreme_numbers(ufunc: Any) -> None:
    compared = [compare(ufunc, dtype, "reference") for dtype in DTYPES]
    assert any(compared) == (ufunc.__name__ not in NOT_TRACED)


@needs_native
@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("code", ["l", "b", "d", "f"])
def test_compiled_functions_are_numpys_at_extreme_numbers(code: str) -> None:
    # logaddexp2 cancels to within 1e-16 of 0
    chosen = [ufunc for ufunc in UFUNCS if ufunc is not np.logaddexp2]
    compared = [compare(ufunc, np.dtype(code), "native") for ufunc in chosen]
    assert sum(compared) > 50
