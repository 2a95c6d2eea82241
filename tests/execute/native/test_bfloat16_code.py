"""bfloat16 in compiled code: rounded as ml_dtypes does, and no operation left to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule import bfloat16, int64

pytestmark = needs_native
BF16 = bfloat16.dtype
ALL = np.arange(2**16, dtype=np.uint16).view(BF16)


def compiled(function: Any, *arrays: np.ndarray) -> Any:
    return cr.compile(function, executor="native", strict=True)(*arrays)


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    with np.errstate(invalid="ignore"):  # ml_dtypes sets it where it meets NaN
        word, known = np.dtype(f"u{got.itemsize}"), expected == expected
        np.testing.assert_array_equal(got == got, known)
    np.testing.assert_array_equal(got[known].view(word), expected[known].view(word))


@pytest.mark.parametrize("without", ["", "avx512", "avx2"])
def test_every_bfloat16_is_read_and_written(without, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", without)
    same_bits(compiled(lambda x: x.astype(np.float32), ALL), ALL.astype(np.float32))
    same_bits(compiled(lambda x: -x, ALL), -ALL)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_numbers_are_rounded_as_ml_dtypes_does(dtype):
    random = np.random.default_rng(0)
    if dtype == "float32":
        x = random.integers(0, 2**32, 100_003, np.uint32).view(np.float32)
        ties = ALL.astype(np.float32).view(np.uint32) + np.uint32(0x8000)
        x = np.concatenate([x, ties.view(np.float32)])
    else:
        x = (random.standard_normal(1003) * 1e3).astype(dtype)
    with np.errstate(all="ignore"):
        same_bits(compiled(lambda x: x.astype(BF16), x), x.astype(BF16))


def moved(x: Any, k: Any) -> Any:
    rows = x[k]  # gathered
    both = np.concatenate([x, rows.astype(BF16)], axis=1)
    return np.pad(both, 1).T[::2] + np.where(np.arange(6) > 2, x[0, 0], 0.1)


def test_moves_gathers_and_choices_have_the_bits_of_numpy():
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(BF16)
    k = np.array([3, 0, 0, 2])
    expected = cr.trace(moved, x, k).run(x=x, k=k).outputs
    same_bits(compiled(moved, x, k), expected)
    positions = lambda x: np.arange(700).astype(BF16) * x  # noqa: E731
    same_bits(compiled(positions, x[0, 0]), cr.trace(positions, x[0, 0]).run(x=x[0, 0]).outputs)


def mlp(
    x: bfloat16["n 6"],
    y: int64["n"],
    W1: bfloat16["6 33"],
    b1: bfloat16["33"],
    W2: bfloat16["33 4"],
):
    z = x @ W1 + b1
    h = np.maximum(z, 0)
    o = h @ W2
    J = cr.cross_entropy(o, y)
    return J


def arrays(n: int = 9) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    shapes = {"x": (n, 6), "W1": (6, 33), "b1": (33,), "W2": (33, 4)}
    made = {name: random.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    return {**made, "y": random.integers(0, 4, n)}


def test_a_step_of_bfloat16_is_all_compiled_and_near_the_reference():
    given = arrays()
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b1", "W2"))
    expected = graph.run(given)
    graph.compile(executor="native", strict=True)
    got = graph.run(given, executor="native")
    for name in ("z", "h", "J", "dJ/dh", "dJ/dW1", "dJ/db1", "dJ/dW2"):
        one, other = got[name].astype(np.float64), expected[name].astype(np.float64)
        assert got[name].dtype == BF16
        assert np.all(np.abs(one - other) <= 2**-6 * np.max(np.abs(other))), name


def test_what_is_kept_for_the_backward_pass_takes_two_bytes_an_element():
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b1", "W2"))
    run = graph.memory(n=4096, executor="native").main
    loss = run.made_at(run.graph["J"])  # after it comes the backward pass
    kept = [one for one in run.usage.lives if one.first < loss < one.last and one.nbytes > 4096]
    hidden = [one for one in kept if one.node.shape == (4096, 33)]
    assert hidden
    assert all(one.node.dtype.itemsize <= 2 for one in hidden)
