"""Hints about shapes, lengths and named sizes give NumPy's numbers when they are followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs_followed import GIVEN, module_of, plain, refusal, traced

import chainrule as cr
from chainrule import float64, uint32
from chainrule.errors import ChainruleError

OF_A_SHAPE = [
    "np.zeros({})",
    "np.zeros(({}, 2))",
    "np.ones((x.shape[0], {}), dtype=int)",
    "np.empty(shape=({},)) * 0",
    "np.full(({}, 2), 1.0)",
    "np.full_like(x, 2.0, shape=({},))",
    "np.eye({}, 4)",
    "np.eye(4, M={})",
    "np.identity({})",
    "np.arange({})",
    "np.arange(1, {} + 1)",
    "np.linspace(0, 1, {})",
    "np.reshape(x, ({}, 1))",
    "np.broadcast_to(x, ({}, 3))",
    "np.tile(x, {})",
]


@pytest.mark.parametrize("source", OF_A_SHAPE)
def test_a_value_as_a_shape_is_followed_by_an_int_argument_or_a_size(
    source: str, tmp_path: Path
) -> None:
    said = "value, and a shape has to be known while tracing: pass an int argument\n"
    assert said in refusal(source.format("i"), tmp_path).hint
    wanted = plain(source.format("3"), tmp_path)
    by_size = traced(source.format("x.shape[0]") + " + 0 * x[0]", tmp_path)
    np.testing.assert_array_equal(by_size, wanted)
    count = "int(k)" if "arange" in source else "k"  # which that message asks for
    text = f"g = lambda x, k=3: {source.format(count)} + 0 * x[0]\ng"
    made = module_of(text, tmp_path).f(*GIVEN.values())
    np.testing.assert_array_equal(cr.trace(made, GIVEN["x"]).run(x=GIVEN["x"]).outputs, wanted)
    np.testing.assert_array_equal(cr.trace(made, GIVEN["x"], 3).run(x=GIVEN["x"]).outputs, wanted)


def test_recipes_for_named_sizes_are_right_when_they_are_followed() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))

    def counted(x: float64["n m"], start: Any = None) -> Any:
        start = 0.0 if start is None else start
        return cr.fori_loop(0, x.shape[0], lambda i, v: v + 1.0, start)

    def from_traced(x: float64["n m"]) -> Any:
        return counted(x, np.zeros_like(x, shape=()))

    with pytest.raises(
        ChainruleError, match=r"begin with a traced value: np.zeros_like\(x, shape=\(\)\)"
    ):
        cr.trace(counted)
    assert cr.trace(from_traced).run(x=rows).outputs == 5.0

    def least(x: float64["n m"], y: float64["n"]) -> Any:
        return np.linalg.lstsq(x, y)[0]

    def by_inverse(x: float64["n m"], y: float64["n"]) -> Any:
        return np.linalg.pinv(x) @ y

    y = rows[:, 0] * 2
    with pytest.raises(ChainruleError, match=r"np.linalg.pinv\(a\) @ b is the solution"):
        cr.trace(least)
    got = cr.trace(by_inverse).run(x=rows, y=y).outputs
    np.testing.assert_allclose(got, np.linalg.lstsq(rows, y)[0], rtol=1e-12, atol=1e-12)

    def shuffled(x: float64["n m"], key: uint32["2"]) -> Any:
        return x[cr.random.permutation(key, x.shape[0])]

    def in_random_order(x: float64["n m"], key: uint32["2"]) -> Any:
        return x[np.argsort(cr.random.bits(key, x.shape[:1]))]

    with pytest.raises(ChainruleError, match=r"x\[np.argsort\(cr.random.bits"):
        cr.trace(shuffled)
    orders = [
        cr.trace(in_random_order).run(x=rows, key=cr.random.key(seed)).outputs for seed in range(9)
    ]
    assert len({one.tobytes() for one in orders}) > 5
    for one in orders:
        np.testing.assert_array_equal(one[np.argsort(one[:, 0])], rows[np.argsort(rows[:, 0])])


COUNTED = "t = np.cumsum(np.ones_like(x, shape=(n,), dtype=np.int64)) - 1"
# What is refused of a matrix x whose sizes are n and m, words of the hint, and what follows it;
# the first gives NumPy's numbers on an array.
OF_NAMED_SIZES = {
    "arange": ("np.arange(n)", COUNTED, f"{COUNTED}\nt"),
    "arange of two": ("np.arange(1, n + 1)", "t = np.cumsum(", f"{COUNTED}\nt + 1"),
    "mask": (
        "np.where(np.arange(x.shape[0]) < 2, x.T, 0)",
        "np.arange(n) is\n" + COUNTED,
        f"{COUNTED}\nnp.where(t < 2, x.T, 0)",
    ),
    "linspace": (
        "np.linspace(2, 5, n)",
        "np.linspace(a, b, n) is a + (b - a) * t / cr.maximum(n - 1, 1)",
        f"{COUNTED}\na, b = 2, 5\na + (b - a) * t / cr.maximum(n - 1, 1)",
    ),
    "eye": (
        "np.eye(n)",
        "np.eye(n) is np.where(t[:, None] == t, 1.0, 0.0)",
        f"{COUNTED}\nnp.where(t[:, None] == t, 1.0, 0.0)",
    ),
    "tri": (
        "np.tri(n)",
        "np.tri(n) is np.where(t[:, None] >= t, 1.0, 0.0)",
        f"{COUNTED}\nnp.where(t[:, None] >= t, 1.0, 0.0)",
    ),
    "tril": ("np.tri(n, m) * x", "np.tril and np.triu take named sizes", "np.tril(x)"),
    "triu": ("np.triu(x)[np.arange(n)]", COUNTED, f"{COUNTED}\nnp.triu(x)[t]"),
    "range": (
        "sum(i * x[i] for i in range(n))",
        "cr.fori_loop(0, n, body, value) repeats body(i, value) so often",
        "cr.fori_loop(0, n, lambda i, value: value + i * x[i], np.zeros_like(x[0]))",
    ),
    "rows": (
        "s = 1.0\nfor row in x: s = s * 0.5 + row\ns",
        "cr.scan(step, start, x) calls step(carry, row) with each row of x",
        "cr.scan(lambda carry, row: (carry * 0.5 + row, carry), np.ones_like(x[0]), x)[0]",
    ),
    "enumerate": (
        "sum(row for _, row in enumerate(x))",
        "cr.scan(step, start, x)",
        "cr.scan(lambda carry, row: (carry + row, carry), np.zeros_like(x[0]), x)[0]",
    ),
    "sum": ("sum(x)", "write np.sum(x, axis=0)", "np.sum(x, axis=0)"),
    "largest": ("max(x[:, 0])", "write np.max(x[:, 0])", "np.max(x[:, 0])"),
    "larger": ("max(n, m) * x", "write cr.maximum(n, m)", "cr.maximum(n, m) * x"),
    "least": ("min(x.shape) * x", "write cr.minimum(*x.shape)", "cr.minimum(*x.shape) * x"),
    "zeros": (
        "np.zeros((n, 3))",
        "np.zeros_like(x, shape=(n, 3))",
        "np.zeros_like(x, shape=(n, 3))",
    ),
    "condition": (
        "x if n > 3 else -x",
        "cr.cond(cr.size_value(n, like=x) > 3, f, g, x)",
        "cr.cond(cr.size_value(n, like=x) > 3, lambda x: x, lambda x: -x, x)",
    ),
    "condition on two": (
        "x if n >= m else -x",
        "cr.cond(cr.size_value(n, like=x) >= cr.size_value(m, like=x), f, g, x)",
        "cr.cond(cr.size_value(n, like=x) >= cr.size_value(m, like=x), "
        "lambda x: x, lambda x: -x, x)",
    ),
    "full": (
        "np.full(x.shape, 3.0) * x",
        "np.full_like(x, value, shape=(n, 3))",
        "np.full_like(x, 3.0, shape=x.shape) * x",
    ),
    "ones": (
        "np.ones((n, 2)) + x[:, :1]",
        "np.ones_like(x, shape=(n, 3))",
        "np.ones_like(x, shape=(n, 2)) + x[:, :1]",
    ),
    "indices": (
        "np.indices((n, 3))[0]",
        "of np.indices((n, 3)) the first is t[:, None] + np.zeros((1, 3), int)",
        f"{COUNTED}\nt[:, None] + np.zeros((1, 3), int)",
    ),
    "indices of the last axis": (
        "np.indices((3, n))[1]",
        "of the last axis the same with t[None, :]",
        f"{COUNTED}\nt[None, :] + np.zeros((3, 1), int)",
    ),
    "times a float": (
        "x * (n * 2.5)",
        "as a number of the program it is cr.size_value(n, like=x)",
        "x * (cr.size_value(n, like=x) * 2.5)",
    ),
    "bits": (
        "x * (n & ~1)",
        "n // 2**k, n * 2**k, n % 2**k and n & (2**k - 1) compute with sizes",
        "x * (n - (n & 1))",
    ),
    "digits": (
        "x * len('%d' % n)",
        "write %s in place of %d: it gives the name of the size",
        "x * len('%s' % 7)",
    ),
    "diagonal": (
        "np.fill_diagonal(x, 7.0)\nx",
        "np.where(i[:, None] == i, value, x)",
        COUNTED.replace("t =", "i =") + "\nnp.where(i[:, None] == i, 7.0, x)",
    ),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("case", OF_NAMED_SIZES)
def test_a_hint_about_named_sizes_gives_numpys_numbers(case: str, tmp_path: Path) -> None:
    refused, words, followed = OF_NAMED_SIZES[case]

    def of(source: str) -> Any:
        lines = source.splitlines()
        return module_of("\n".join(["n, m = x.shape", *lines]), tmp_path).f

    types = "n n" if case in ("diagonal", "triu") else "n m"
    empty = dict.fromkeys("Aikm")

    def traced_as(source: str) -> cr.Graph:
        function = of(source)

        def f(x: Any) -> Any:
            return function(x, **empty)

        return cr.trace(f, x=float64[types])

    with pytest.raises(ChainruleError) as caught:
        traced_as(refused)
    assert words in caught.value.hint
    assert "graph.bind" not in caught.value.hint
    for shape in [(1, 1), (3, 3), (5, 5)] if types == "n n" else [(1, 2), (3, 2), (5, 4), (2, 3)]:
        x = np.random.default_rng(0).normal(size=shape)
        got = traced_as(followed).run(x=x).outputs
        np.testing.assert_allclose(got, of(refused)(x.copy(), **empty), rtol=1e-12)


def test_what_fixes_a_size_is_followed_by_numbers_and_by_example_arrays() -> None:
    def checked(x: float64["n d"]) -> Any:
        assert x.shape[1] >= 2
        return -x

    def of_three(x: float64["n 3"]) -> Any:
        return checked(x)

    hint = "to fix d while tracing, write a number for it in the type, or give example arrays"
    with pytest.raises(ChainruleError) as caught:
        cr.trace(checked)
    assert caught.value.hint.endswith(hint)
    x = np.arange(6.0).reshape(2, 3)
    for graph in (cr.trace(of_three), cr.trace(checked, x)):
        np.testing.assert_array_equal(graph.run(x=x).outputs, -x)
