"""`cr.compile`: traced once for each combination of types, and then the values of the function."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from compiling import EXECUTORS, RANDOM, arrays, compiling

import chainrule as cr
from chainrule.functional.compiled import MOST, _Traced


@pytest.fixture(params=EXECUTORS)
def compiled(request: Any) -> Any:
    return compiling(request.param)


# Calls ------------------------------------------------------------------------------------------


def test_arguments_are_given_as_to_the_function(compiled: Any):
    def f(x: Any, y: Any = 2.0, *more: Any, scale: Any = 1.0, **named: Any) -> Any:
        total = x * y * scale
        for one in more:
            total = total + one
        for name in sorted(named):
            total = total * named[name]
        return total

    g, _ = compiled(f)
    x, y, z = arrays((3,), (3,), (3,))
    for args, kwargs in [
        ((x,), {}),
        ((x, y), {}),
        ((x,), {"y": y}),
        ((), {"x": x, "y": y}),
        ((), {"y": y, "x": x}),
        ((x, y, z, 3.0), {}),
        ((x, 1.5), {"scale": 0.5}),
        ((x,), {"scale": y, "a": z, "b": 2.0}),
        ((x,), {"b": 2.0, "a": z, "scale": y}),
    ]:
        for _ in range(2):
            np.testing.assert_allclose(g(*args, **kwargs), f(*args, **kwargs), rtol=1e-14)
    assert g.__name__ == "counted"


@dataclasses.dataclass
class Layer:
    W: Any
    b: Any


def test_containers_go_in_and_come_out(compiled: Any):
    def f(params: Any, x: Any) -> Any:
        h = np.tanh(x @ params["layer"].W + params["layer"].b)
        return {"h": h, "parts": [h[0], (np.sum(h), 3.0)], "layer": Layer(h, params["list"][0])}

    g, counted = compiled(f)
    W, b, x = arrays((4, 3), (3,), (2, 4))
    for k in range(3):
        params = {"layer": Layer(W + k, b), "list": [b * 2]}
        got, wanted = g(params, x), f(params, x)
        assert list(got) == list(wanted) and isinstance(got["layer"], Layer)
        assert isinstance(got["parts"], list) and isinstance(got["parts"][1], tuple)
        np.testing.assert_allclose(got["h"], wanted["h"], rtol=1e-13)
        np.testing.assert_allclose(got["parts"][1][0], wanted["parts"][1][0], rtol=1e-13)
        np.testing.assert_array_equal(got["layer"].b, b * 2)
        assert got["parts"][1][1] == 3
    assert counted.traces == 1
    g({"layer": Layer(W, b), "list": [b, b]}, x)  # another container
    assert counted.traces == 2


def test_a_function_without_arguments_and_one_without_computation(compiled: Any):
    g, counted = compiled(lambda: np.arange(3.0) * 2)
    assert g().tolist() == g().tolist() == [0, 2, 4] and counted.traces == 1
    g, _ = compiled(lambda x: np.ones(2))
    assert g(np.zeros(5)).tolist() == [1, 1]
    g, _ = compiled(lambda x: None)
    assert g(np.zeros(5)) is None


# Types ------------------------------------------------------------------------------------------


def test_it_is_traced_once_for_each_dtype_and_shape(compiled: Any):
    g, counted = compiled(lambda x: np.sum(x * 2, axis=-1))
    seen = 0
    for dtype in (np.float64, np.float32, np.uint8):
        for shape in ((3,), (4,), (2, 3), (0,)):
            x = (RANDOM.uniform(1, 5, size=shape)).astype(dtype)
            seen += 1
            for _ in range(3):
                got = g(x)
                assert got.dtype == np.sum(np.zeros(0, dtype) * 2).dtype
                np.testing.assert_allclose(got, np.sum(x * 2, axis=-1), rtol=1e-2)
            assert counted.traces == seen


def test_a_python_float_is_an_argument_and_not_a_type(compiled: Any):
    g, counted = compiled(lambda x, c: c * x)
    x = np.ones(3, np.float32)
    for c in (1.0, 2.5, -0.0, np.inf, np.nan):
        got = g(x, c)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.full(3, c, np.float32))
    assert counted.traces == 1
    assert g(x, 2).dtype == np.float32 and counted.traces == 2  # an int is another type
    assert g(x, 3)[0] == 3 and counted.traces == 2
    assert g(x, np.float64(3)).dtype == np.float64 and counted.traces == 3  # as NumPy has it


def test_no_float_makes_new_code(monkeypatch: pytest.MonkeyPatch):
    from chainrule.execute.native.runtime import machine

    made = []
    monkeypatch.setattr(
        machine, "compiled", lambda *a, _made=machine.compiled: made.append(1) or _made(*a)
    )
    g = cr.compile(lambda x, c: np.sum(np.sin(x * 1.25) ** c), executor="native")
    x = np.linspace(0, 1, 7)
    for c in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(g(x, c), np.sum(np.sin(x * 1.25) ** c), rtol=1e-13)
    assert len(made) <= 1
    other = cr.compile(lambda x, c: np.sum(np.sin(x * 1.25) ** c), executor="native")
    other(x, 4.0)  # another function, the same structure
    assert len(made) <= 1


@pytest.mark.slow
def test_an_int_that_the_program_looks_at_is_guarded(compiled: Any):
    def power(x: Any, k: int) -> Any:
        result = x
        for _ in range(k - 1):
            result = result * x
        return result

    g, counted = compiled(power)
    x = np.array([2.0, 3.0])
    for k in (1, 2, 3, 2, 1, 3):
        np.testing.assert_array_equal(g(x, k), x**k)
    assert counted.traces == 3
    for k in range(MOST + 5):  # more than are remembered
        assert g(np.ones(2), k + 1).tolist() == [1, 1]
    np.testing.assert_array_equal(g(x, 2), x**2)


def test_bools_strings_none_and_objects_are_part_of_the_type(compiled: Any):
    def f(x: Any, mode: Any) -> Any:
        if mode is None:
            return x
        if mode is True:
            return -x
        if isinstance(mode, (set, frozenset)):
            return x * len(mode)
        return np.sum(x) if mode == "sum" else x * 2

    g, counted = compiled(f)
    x = np.arange(3.0)
    modes = [None, True, False, "sum", "double", frozenset({1, 2}), np.str_("sum"), np.str_("two")]
    for _ in range(2):
        for mode in modes:
            np.testing.assert_array_equal(g(x, mode), f(x, mode))
    assert counted.traces == len(modes)
    for size in range(6):  # sets have no hash; a later one may lie where one was
        np.testing.assert_array_equal(g(x, set(range(size))), x * size)


def test_what_a_function_closes_over_is_that_of_tracing_time(compiled: Any):
    table, factor, default = np.arange(4.0), [2.0], np.ones(4)

    def f(x: Any, y: Any = default) -> Any:
        return x * table * factor[0] * y

    g, _ = compiled(f)
    x = np.ones(4)
    np.testing.assert_array_equal(g(x), [0, 2, 4, 6])
    table[:], factor[0], default[:] = 9, 9, 9
    np.testing.assert_array_equal(g(x), [0, 2, 4, 6])
    np.testing.assert_array_equal(g(x, 2 * x), 2 * 9 * 9 * x)  # another type is traced now


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_gradient_is_traced_again_at_every_call(executor: str):
    factor = [2.0]
    gradient = cr.grad(lambda x: np.sum(factor[0] * x * x), executor=executor)
    assert gradient(np.ones(2)).tolist() == [4, 4]
    factor[0] = 3.0
    assert gradient(np.ones(2)).tolist() == [6, 6]


def test_from_the_second_call_on_arrays_go_straight_to_the_code(monkeypatch: pytest.MonkeyPatch):
    g = cr.compile(lambda x, y: {"sum": x + y, "parts": (x * 2, np.sum(y))}, executor="native")
    x, y = arrays((3, 2), (2,), dtype=np.float32)
    g(x, y)
    monkeypatch.setattr("chainrule.functional.compiled._Traced.__call__", None)  # the long way
    for _ in range(2):
        got = g(x, y)
        np.testing.assert_allclose(got["sum"], x + y)
        np.testing.assert_allclose(got["parts"][0], x * 2)
        assert isinstance(got["parts"], tuple) and got["parts"][1].shape == ()


def test_so_do_arguments_by_name_whatever_their_order(monkeypatch: pytest.MonkeyPatch):
    calls = []
    traced = "chainrule.functional.compiled._Traced.__call__"
    longer = _Traced.__call__
    g = cr.compile(lambda b, c, a: b - 2 * c + 5 * a, executor="native")
    b, c, a = arrays((3, 2), (3, 2), (3, 2), dtype=np.float32)
    monkeypatch.setattr(traced, lambda self, leaves: calls.append(1) or longer(self, leaves))
    ways = (
        lambda: g(b, c, a),
        lambda: g(b, c, a=a),
        lambda: g(b, c=c, a=a),
        lambda: g(b, a=a, c=c),
        lambda: g(c=c, a=a, b=b),
        lambda: g(a=a, b=b, c=c),
    )
    for first in ways:
        for second in ways:
            for way in (first, second, second):
                np.testing.assert_allclose(way(), b - 2 * c + 5 * a, rtol=1e-5)
        del calls[:]
        for _ in range(3):
            first()
        assert len(calls) <= 1  # the first, if another way was the latest
