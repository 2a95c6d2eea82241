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
