"""bfloat16 in compiled code: rounded as ml_dtypes does, and no operation left to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule import bfloat16, int64
from chainrule.errors import UnsupportedError
from chainrule.execute.native.artifact import key_of
from chainrule.machine_code.target import host_target

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


PICKED = {
    "maximum": lambda x, y: np.maximum(x, y),
    "minimum of a number": lambda x, y: np.minimum(x, 0.3),  # rounded, then picked
    "absolute": lambda x, y: np.abs(x),
    "where": lambda x, y: np.where(x > y, x, y),
    "a mixture": lambda x, y: np.where(x > y, x.astype(np.float32), 0.3).astype(BF16),
    "largest of rows": lambda x, y: np.max(np.reshape(x, (-1, 64)), axis=1) - y[0],
    "then rounded": lambda x, y: -np.maximum(x, y) * y + np.abs(x),
}


@pytest.mark.parametrize("picks", PICKED)
def test_what_is_picked_is_rounded_no_more_and_has_the_bits_of_numpy(picks):
    y = np.random.default_rng(3).permutation(ALL)
    graph = cr.trace(PICKED[picks], x=ALL, y=y)
    with np.errstate(all="ignore"):
        expected = graph.run(x=ALL, y=y).outputs
    same_bits(compiled(PICKED[picks], ALL, y), expected)


def moved(x: Any, k: Any) -> Any:
    rows = x[k]  # gathered
    both = np.concatenate([x, rows.astype(BF16)], axis=1)
    return np.pad(both, 1).T[::2] + np.where(np.arange(6) > 2, x[0, 0], 0.1)


@pytest.mark.parametrize("picks", [np.maximum, np.minimum, lambda a, b: np.where(a, b, a)])
def test_booleans_that_are_picked_become_numbers(picks):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    same_bits(compiled(lambda a, b: picks(a, b).astype(bfloat16), a, b), picks(a, b).astype(BF16))


def test_moves_gathers_and_choices_have_the_bits_of_numpy():
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(BF16)
    k = np.array([3, 0, 0, 2])
    expected = cr.trace(moved, x, k).run(x=x, k=k).outputs
    same_bits(compiled(moved, x, k), expected)
    positions = lambda x: np.arange(700).astype(BF16) * x  # noqa: E731
    same_bits(compiled(positions, x[0, 0]), cr.trace(positions, x[0, 0]).run(x=x[0, 0]).outputs)


# Products in pairs where the processor has the instruction, and widened: in tiles of AVX-512 and
# of AVX2, or by BLAS.
WITHOUT = pytest.mark.parametrize("without", ["", "avx512bf16", "avx512", "avx2"])


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


@WITHOUT
def test_a_step_of_bfloat16_is_all_compiled_and_near_the_reference(without, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", without)
    given = arrays()
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b1", "W2"))
    expected = graph.run(given)
    graph.compile(executor="native", strict=True)
    got = graph.run(given, executor="native")
    for name in ("z", "h", "J", "dJ/dh", "dJ/dW1", "dJ/db1", "dJ/dW2"):
        one, other = got[name].astype(np.float64), expected[name].astype(np.float64)
        assert got[name].dtype == BF16
        assert np.all(np.abs(one - other) <= 2**-6 * np.max(np.abs(other))), name


def heads(x: bfloat16["n 7 24"], W: bfloat16["24 24"], V: bfloat16["24 24"]):
    """Batched products, of moved operands, of which one lies nowhere as a matrix."""
    n, length, width = x.shape
    q, v = (np.reshape(x @ one, (n, length, 3, 8)).swapaxes(1, 2) for one in (W, V))
    p = cr.softmax(q @ q.swapaxes(-1, -2) / 8)
    mixed = np.reshape((p @ v).swapaxes(1, 2), (n, length, width))
    J = np.sum(np.tanh(mixed @ W.T).astype(np.float32) ** 2)
    return J


def convolution(x: bfloat16["n 3 9 11"], W: bfloat16["5 3 3 2"], V: bfloat16["7 5 2 2"]):
    h = np.tanh(cr.conv2d(x, W, stride=2))
    J = np.sum(np.tanh(cr.conv2d(h, V)).astype(np.float32) ** 2)
    return J


def vectors(x: bfloat16["n 70"], W: bfloat16["70 19"], V: bfloat16["19"]):
    J = np.sum(np.tanh(x @ (W @ V) + np.tanh(x[0] @ W) @ V).astype(np.float32))
    return J


SHAPES = {
    heads: ((5, 7, 24), (24, 24), (24, 24)),
    convolution: ((4, 3, 9, 11), (5, 3, 3, 2), (7, 5, 2, 2)),
    vectors: ((13, 70), (70, 19), (19,)),
}


@pytest.mark.sweep(3)
@WITHOUT
@pytest.mark.parametrize("program", SHAPES)
def test_products_of_every_kind_are_near_the_reference(program, without, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", without)
    random = np.random.default_rng(0)
    shapes = zip(("x", "W", "V"), SHAPES[program], strict=True)
    given = {name: (random.standard_normal(one) / 3).astype(BF16) for name, one in shapes}
    graph = cr.backward(cr.trace(program), wrt=("x", "W", "V"))
    expected = graph.run(given)
    graph.compile(executor="native", strict=True)
    got = graph.run(given, executor="native")
    for name in ("J", "dJ/dx", "dJ/dW", "dJ/dV"):
        one, other = got[name].astype(np.float64), expected[name].astype(np.float64)
        assert np.all(np.abs(one - other) <= 2**-5 * np.max(np.abs(other))), name


@WITHOUT
def test_a_cast_that_is_a_result_is_written_beside_the_product(without, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", without)
    random = np.random.default_rng(0)
    x, W = (
        random.integers(-3, 4, (9, 20)).astype(BF16),
        random.integers(-3, 4, (20, 8)).astype(BF16),
    )

    def both(x, W):
        wide = x.astype(np.float32)
        return wide, wide @ W.astype(np.float32)

    wide, product = compiled(both, x, W)
    same_bits(wide, x.astype(np.float32))
    same_bits(product, x.astype(np.float32) @ W.astype(np.float32))


EINSUMS = {
    "bij,kbj->ik": ((5, 30, 17), (40, 5, 17)),  # a sum over two axes that are not one
    "bhij,bhjk->bihk": ((2, 3, 20, 31), (2, 3, 31, 12)),
    "ij,kj->ki": ((33, 70), (9, 70)),
    "i,i->": ((77,), (77,)),
    "ij,j->i": ((40, 77), (77,)),
    "bi,bj->ij": ((1, 40), (1, 30)),
    "bij,jk->bik": ((4, 0, 9), (9, 8)),
    "ij,jk->ik": ((20, 0), (0, 30)),
    "bij,bik->jk": ((3, 50, 21), (3, 50, 34)),
}


@WITHOUT
@pytest.mark.parametrize("subscripts", EINSUMS)
def test_sums_of_products_of_small_integers_are_exact(subscripts, without, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", without)
    random = np.random.default_rng(0)
    x, y = (random.integers(-3, 4, shape).astype(BF16) for shape in EINSUMS[subscripts])

    def product(x, y):
        return np.einsum(subscripts, x.astype(np.float32), y.astype(np.float32))

    exact = np.einsum(subscripts, x.astype(np.float32), y.astype(np.float32))
    same_bits(compiled(product, x, y), exact)
    flipped = compiled(lambda x, y: product(np.flip(x), np.flip(y)), x, y)  # negative strides
    same_bits(flipped, product(np.flip(x), np.flip(y)))


def test_the_code_with_the_instruction_for_pairs_has_a_key_of_its_own():
    graph = cr.trace(mlp).bind(n=9)
    results = [node for _, node in graph.outputs]
    targets = [host_target(), host_target(without=("avx512bf16",))]
    keys = {key_of(graph, results, {}, 1, target) for target in targets}
    assert len(keys) == len(set(targets))
    assert not targets[1].multiplies_pairs


@pytest.mark.skipif(not host_target().multiplies_pairs, reason="no AVX-512-BF16 here")
def test_a_plan_for_pairs_is_measured_only_where_there_is_the_instruction(monkeypatch):
    graph = cr.trace(lambda x, W: x @ W, x=bfloat16[40, 30], W=bfloat16[30, 50])
    plan = graph.compile(executor="native").plan()
    assert "product 40 x 30 x 50" in str(plan.measured())
    monkeypatch.setenv("CHAINRULE_WITHOUT", "avx512bf16")
    with pytest.raises(UnsupportedError, match="for processors with AVX-512-BF16"):
        plan.measured()


def test_what_is_kept_for_the_backward_pass_takes_two_bytes_an_element():
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b1", "W2"))
    run = graph.memory(n=4096, executor="native").main
    loss = run.made_at(run.graph["J"])  # after it comes the backward pass
    kept = [one for one in run.usage.lives if one.first < loss < one.last and one.nbytes > 4096]
    hidden = [one for one in kept if one.node.shape == (4096, 33)]
    assert hidden
    assert all(one.node.dtype.itemsize <= 2 for one in hidden)
