"""A compiled function takes arrays wherever they lie, and shares its results with nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_layouts import AWKWARD
from compiling import EXECUTORS, arrays, compiling

import chainrule as cr


@pytest.fixture(params=EXECUTORS)
def compiled(request: Any) -> Any:
    return compiling(request.param)


WAYS = {**AWKWARD, "broadcast": lambda x: np.broadcast_to(x[:1], x.shape)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
def test_arguments_may_lie_in_memory_as_they_like(compiled: Any, way: str, first: bool):
    table = WAYS[way](arrays((5, 3))[0])

    def f(x: Any, y: Any) -> Any:
        return (x * table) @ y.T + np.sum(x, axis=1, keepdims=True)

    g, _ = compiled(f)
    x, y = arrays((5, 3), (4, 3))
    if not first:
        g(x, y)
    for _ in range(2):
        np.testing.assert_allclose(g(WAYS[way](x), WAYS[way](y)), f(WAYS[way](x), WAYS[way](y)))


def test_scalars_of_numpy_and_arrays_of_no_axes_and_empty_ones(compiled: Any):
    g, _ = compiled(lambda x: x * 2 + 1)
    for x in (
        np.float32(3),
        np.array(3.0),
        np.int16(3),
        3,
        3.5,
        np.zeros((0, 4)),
        np.zeros((4, 0)),
    ):
        for _ in range(2):
            got = g(x)
            assert type(got) is np.ndarray
            np.testing.assert_array_equal(got, np.asarray(x) * 2 + 1)


def test_results_are_the_callers_and_share_no_memory(compiled: Any):
    def f(x: Any, y: Any) -> Any:
        a = x + 1
        return a, a, x, x, y.T, a.T, np.sum(a, axis=0), 2.0, table

    table = np.arange(3.0)
    g, _ = compiled(f)
    x, y = arrays((3, 3), (3, 3))
    for _ in range(2):
        results = g(x, y)
        for place, one in enumerate(results):
            np.testing.assert_array_equal(one, f(x, y)[place])
            assert one.flags.writeable
            for other in [*results[:place], x, y, table]:
                assert not np.shares_memory(one, other)
        for one in results:
            one[...] = -1
    assert table.tolist() == [0, 1, 2]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_gradients_that_are_equal_share_no_memory(executor: str):
    x, y = arrays((3,), (3,))
    first, second = cr.grad(lambda x, y: np.sum((x + y) ** 2), wrt=(0, 1), executor=executor)(x, y)
    first[:] = 0
    np.testing.assert_allclose(second, 2 * (x + y))
    value, pull = cr.vjp(lambda x: (np.exp(x), x), x, executor=executor)
    value[0][:] = value[1][:] = 0  # the pass backward keeps its own
    expected = np.exp(x) + 1
    x[:] = 9
    np.testing.assert_allclose(pull((np.ones(3), np.ones(3)))[0], expected, rtol=1e-13)


def test_arguments_may_be_changed_after_the_call(compiled: Any):
    g, _ = compiled(lambda x: (x, x * 2))
    x = np.ones(20000)
    first = g(x)
    x[:] = 5
    second = g(x)
    assert np.all(first[0] == 1) and np.all(first[1] == 2)
    assert np.all(second[0] == 5) and np.all(second[1] == 10)
