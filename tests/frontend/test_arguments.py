"""What arguments become: arrays, named numbers, plain Python, constants, containers of these."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from typing import NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.errors import InputError, UnsupportedError

X, W = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)


class Pair(NamedTuple):
    left: object
    right: object


def types_of(graph):
    return {item.name: str(item.type) for item in graph.inputs}


def matmul(x: float32["n 3"], W: float32["3 4"]):
    return x @ W


# Numbers -----------------------------------------------------------------------------------------


def test_numbers_are_named_inputs_that_never_widen_an_array():
    def program(x, rate: float, count: int, decay=1e-3, power=2):
        return x * rate + x * count * decay + x**power

    graph = cr.trace(program, x=float32["n"])
    assert types_of(graph) == {
        "x": "float32[n]",
        "rate": "weak float64[]",
        "count": "weak int64[]",
        "decay": "weak float64[]",
        "power": "weak int64[]",
    }
    x = np.arange(3, dtype=np.float32)
    out = graph.run(x=x, rate=0.5, count=3).outputs
    assert out.dtype == np.float32
    assert np.array_equal(out, program(x, 0.5, 3))
    assert np.array_equal(
        graph.run(x=x, rate=1, count=3, decay=0.25).outputs, program(x, 1, 3, 0.25)
    )


def test_an_int_used_as_a_python_number_holds_for_that_number_only():
    def program(x, layers=2):
        for _ in range(layers):
            x = np.sin(x)
        return x

    graph = cr.trace(program, X)
    assert np.array_equal(graph.run(x=X).outputs, np.sin(np.sin(X)))
    assert np.array_equal(graph.run(x=X, layers=2).outputs, np.sin(np.sin(X)))
    with pytest.raises(InputError) as caught:
        graph.run(x=X, layers=3)
    line = program.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "program was traced with layers = 2, which the program used as a Python number; got 3\n"
        f"  where: {__file__}:{line}, in {program.__qualname__}\n"
        "    for _ in range(layers):\n"
        "             ^^^^^^^^^^^^^\n"
        "  try: trace it again with layers=3"
    )
    assert np.array_equal(
        cr.trace(program, X, layers=3).run(x=X).outputs, np.sin(np.sin(np.sin(X)))
    )


def test_booleans_strings_and_none_are_plain_python():
    seen = []

    def program(x, flip=True, mode="sin", bias=None):
        seen.append((flip, mode, bias))
        return -x if flip else x

    graph = cr.trace(program, X)
    assert types_of(graph) == {"x": "float32[2, 3]"}
    assert seen == [(True, "sin", None)]
    assert np.array_equal(cr.trace(program, X, flip=False).run(x=X).outputs, X)


# Closures ----------------------------------------------------------------------------------------


def test_a_closed_over_array_is_a_named_constant_of_its_own():
    table = np.array([1.0, 2.0, 3.0])
    before = table.copy()

    def program(x):
        return x * table + table

    graph = cr.trace(program, X)
    assert graph["table"].primitive.name == "constant"
    assert sum(node.primitive.name == "constant" for node in graph) == 1
    want = program(X)
    table[:] = 100
    assert np.array_equal(graph.run(x=X).outputs, want)
    table[:] = before
    assert table.flags.writeable
    graph.run(x=X)
    assert np.array_equal(table, before)


RATE = 0.125


class Config:
    decay = 0.5


def test_a_closed_over_float_is_a_named_constant():
    momentum, config = 0.75, Config()

    def program(x):
        return x * momentum + RATE * x - config.decay / x

    graph = cr.trace(program, X)
    assert [float(graph[name].param("value").array) for name in ("momentum", "RATE")] == [
        0.75,
        0.125,
    ]
    assert graph["config.decay"].type.weak
    got, want = graph.run(x=X + 1).outputs, program(X + 1)
    assert got.dtype == want.dtype == np.float32
    assert np.array_equal(got, want)


# Signatures --------------------------------------------------------------------------------------


def test_variable_arguments_are_containers():
    def program(x, *rest, scale=1.0, **more):
        return x * scale + sum(rest) + more["bias"]

    graph = cr.trace(program, X, X, 2 * X, bias=X[0])
    assert list(types_of(graph)) == ["x", "rest[0]", "rest[1]", "scale", "bias"]
    out = graph.run(x=X, rest=(X, 2 * X), bias=X[0]).outputs
    assert np.array_equal(out, program(X, X, 2 * X, bias=X[0]))


def test_positional_and_keyword_only_arguments_are_passed_as_such():
    def program(x, /, scale=2.0, *, shift=1.0):
        return x * scale + shift

    graph = cr.trace(program, X, shift=W[0, :3])
    assert list(types_of(graph)) == ["x", "scale", "shift"]
    assert np.array_equal(graph.run(x=X, shift=W[0, :3]).outputs, program(X, shift=W[0, :3]))


class Model:
    def __init__(self, W):
        self.W = W

    def forward(self, x: float32["n 3"]):
        return x @ self.W

    def __call__(self, x: float32["n 3"]):
        return x @ self.W


def test_partials_methods_and_callable_objects_are_functions():
    model = Model(W)
    programs = {
        "matmul": functools.partial(matmul, W=W),
        "forward": model.forward,
        "Model": model,
        "function": lambda x: x @ W,
    }
    for name, program in programs.items():
        graph = cr.trace(program, x=float32["n 3"])
        assert graph.name == name
        given = {"W": W} if "W" in types_of(graph) else {}
        assert np.array_equal(graph.run(x=X, **given).outputs, X @ W), name


def test_a_decorated_function_keeps_its_annotations():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    assert types_of(cr.trace(logged(matmul))) == types_of(cr.trace(matmul))


def test_arguments_that_do_not_exist_are_refused():
    with pytest.raises(InputError) as caught:
        cr.trace(matmul, X, W, V=W)
    assert str(caught.value) == (
        "matmul has no parameter for: V\n"
        f"  where: {__file__}:{matmul.__code__.co_firstlineno}, in matmul\n"
        "  try: its parameters are: x, W"
    )
    with pytest.raises(InputError, match="matmul has no parameter for: 1 more positional"):
        cr.trace(matmul, X, W, W)
    with pytest.raises(InputError, match="trace needs a function, got int"):
        cr.trace(3)


# Containers --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Params:
    layers: list
    scale: object
    missing: object = None


def test_containers_go_in_and_come_out():
    def program(params: object, pair: object):
        h = pair.left
        for layer in params.layers:
            h = np.tanh(h @ layer["W"])
        return {
            "h": h,
            "pair": Pair(h * 2, [h, (h, None)]),
            "params": Params([h], params.scale),
            "shape": h.shape,
            "number": 3,
        }

    params = Params([{"W": W}, {"W": W.T}], np.float32(2.0))
    graph = cr.trace(program, params, Pair(X, None))
    assert list(types_of(graph)) == [
        "params.layers[0].W",
        "params.layers[1].W",
        "params.scale",
        "pair.left",
    ]
    run = graph.run(params=params, pair=Pair(X, None))
    got, want = run.outputs, program(params, Pair(X, None))
    assert type(got["pair"]) is Pair
    assert type(got["params"]) is Params
    assert got["params"].missing is None
    assert got["pair"].right[1][1] is None
    assert got["shape"] == (2, 3)
    assert got["number"] == 3
    assert np.array_equal(got["h"], want["h"])
    assert np.array_equal(got["pair"].right[0], want["h"])
    assert np.array_equal(run.outputs["params"].scale, 2.0)


def test_what_is_no_array_is_not_returned():
    with pytest.raises(UnsupportedError) as caught:
        cr.trace(lambda x: {"x": x, "kind": "linear"}, X)
    assert caught.value.what == "a traced function returned out.kind, a str"


def test_a_container_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(InputError, match="contains itself or is nested too deeply"):
        cr.trace(lambda x: x, endless)


def test_tracing_twice_gives_the_same_text():
    def program(params, x):
        return {name: x @ value for name, value in params.items()}

    params = {"b": W, "a": 2 * W}
    first, second = cr.trace(program, params, X), cr.trace(program, params, X)
    assert str(first) == str(second)
    assert first.structural_hash == second.structural_hash


def test_int64_arrays_stay_int64():
    graph = cr.trace(lambda y: y + 1, y=int64["n"])
    assert graph.run(y=np.arange(3)).outputs.dtype == np.int64


def returning(x, W):
    z = x @ W
    h = np.tanh(z)
    return h


def passing_on(*args, **kwargs):
    out = returning(*args, **kwargs)
    return out


def names_of(program, **types):
    graph = cr.trace(program, **types)
    return {name: graph.name_of[node] for name, node in graph.names.items()}


def test_what_a_helper_returns_takes_the_name_of_the_callers_variable():
    def program(x, W):
        h = returning(x, W)
        h = h + 1
        last = passing_on(h, W)
        parts = [returning(last, W) for _ in range(2)]
        return np.sum(parts[0]) + np.sum(parts[1])

    found = names_of(program, x=np.ones((2, 2)), W=np.ones((2, 2)))
    assert found["returning.h"] == found["h"] == "h"
    assert found["h_1"] == "h_1"
    assert found["out"] == found["returning_1.h"] == "last"
    assert found["returning_2.h"] == "parts[0]"
    assert found["returning_3.h"] == "parts[1]"
    assert found["returning.z"] == "returning.z"


def test_what_a_helper_returns_without_making_it_keeps_its_name():
    def same(v):
        return v

    def failing(v):
        u = v * 2
        raise KeyError(u)

    def program(x):
        y = same(x)
        try:
            z = failing(y)
        except KeyError:
            z = y * 3
        return z

    found = names_of(program, x=np.ones(2))
    assert found == {"x": "x", "failing.u": "failing.u", "z": "z"}


def test_a_gradient_has_the_name_of_the_callers_variable():
    def program(x, W):
        h = returning(x, W)
        J = np.sum(h * h)
        return J

    step = cr.backward(cr.trace(program, np.ones((2, 2)), np.ones((2, 2))), wrt="W")
    assert "dJ/dh" in step and "dJ/d(returning.z)" in step


def test_masked_arrays_are_looked_for_while_another_thread_imports_their_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert cr.trace(lambda x: x * 2, np.ones(2)).outputs
    monkeypatch.delitem(sys.modules, "numpy.ma")
    assert cr.trace(lambda x: x * 2, np.ones(2)).outputs
