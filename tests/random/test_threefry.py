"""The cipher gives its published values, and wraps around in silence."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.types import array_type, type_of
from chainrule.primitives.threefry import INPUTS, THREEFRY, WORD, encrypt
from chainrule.random.keys import BLOCK
from chainrule.testing.kernels import SCALAR_FUNCTIONS
from chainrule.testing.samples import as_function, graph_of

# Random123 1.14, tests/kat_vectors, "threefry2x32 20": counter, key, result.
PUBLISHED = """
00000000 00000000 00000000 00000000 6b200159 99ba4efe
ffffffff ffffffff ffffffff ffffffff 1cb996fc bb002be7
243f6a88 85a308d3 13198a2e 03707344 c4923a9c 483df7a0
"""
VECTORS = np.array(
    [[int(word, 16) for word in line.split()] for line in PUBLISHED.split("\n") if line], WORD
)
COUNTERS, KEYS, RESULTS = VECTORS[:, :2], VECTORS[:, 2:4], VECTORS[:, 4:]


def results_of(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """What the three primitives give."""
    return [first, second, first ^ second]


def spread(count: int, seed: int) -> np.ndarray:
    """Words that differ in all their bits."""
    numbers = np.arange(seed, seed + count, dtype=np.uint64) * 0x9E3779B97F4A7C15
    return (numbers >> np.uint64(32)).astype(WORD)


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_published_vectors(place: int, executor: str) -> None:
    words = dict(zip(INPUTS, [*KEYS.T, *COUNTERS.T], strict=True))
    graph = graph_of(THREEFRY[place], [type_of(one) for one in words.values()], {})
    run = graph.run(**words, executor=executor)
    np.testing.assert_array_equal(run["out"], results_of(*RESULTS.T)[place])


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 37)])
def test_words_are_those_of_the_description(shape: tuple[int, ...], executor: str) -> None:
    count = int(np.prod(shape))
    words = [spread(count, 1000 * at).reshape(shape) for at in range(4)]
    for one in THREEFRY:
        graph = graph_of(one, [type_of(word) for word in words], {})
        run = graph.run(**dict(zip(INPUTS, words, strict=True)), executor=executor)
        np.testing.assert_array_equal(run["out"], SCALAR_FUNCTIONS[one.name](*words))


def test_many_blocks_are_the_same_as_one_number_after_another() -> None:
    count = 2 * BLOCK + 7
    key = np.array([0xDEADBEEF, 0x01234567], WORD)
    found = cr.random.bits(key, (count,))
    places = np.array([0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK, count - 1], WORD)
    words = np.broadcast_arrays(key[0], key[1], WORD.type(0), places)
    np.testing.assert_array_equal(found[places], SCALAR_FUNCTIONS["threefry_mixed"](*words))


def test_what_is_given_is_not_changed_and_may_lie_anyhow() -> None:
    words = [spread(24, at)[::2] for at in range(4)]
    before = [one.copy() for one in words]
    for one in THREEFRY:
        found = one.evaluate(np, *words)
        np.testing.assert_array_equal(words, before)
        np.testing.assert_array_equal(found, one.evaluate(np, *before))
    x, y = before[2].copy(), before[3].copy()
    encrypt(before[0], before[1], x, y)
    for one, result in zip(THREEFRY, results_of(x, y), strict=True):
        np.testing.assert_array_equal(one.evaluate(np, *words), result)


@pytest.mark.parametrize(
    ("dtype", "shape", "text"),
    [
        ("int64", (3,), r"keys and counters are uint32, got uint32\[3\], .*, int64\[3\]"),
        ("uint32", (2,), r"types differ: uint32\[3\], .*, uint32\[2\]"),
    ],
)
def test_types_that_do_not_fit_are_refused(dtype: str, shape: tuple, text: str) -> None:
    whole = array_type(WORD, (3,))
    for one in THREEFRY:
        with pytest.raises(TypeError, match=text):
            one.result_type(whole, whole, whole, array_type(np.dtype(dtype), shape))


def test_the_cipher_is_flat() -> None:
    words = [spread(2, at) for at in range(4)]

    def J(x: np.ndarray, *words: np.ndarray) -> np.ndarray:
        return np.sum(x * as_function(THREEFRY[2])(*words).astype(np.float64))

    x = np.array([2.0, 3.0])
    expected = THREEFRY[2].evaluate(np, *words).astype(np.float64)
    np.testing.assert_array_equal(cr.grad(J)(x, *words), expected)


def test_dropout_runs_in_native_loops_and_keeps_no_mask() -> None:
    def J(x: np.ndarray, W: np.ndarray, key: np.ndarray) -> np.ndarray:
        return np.sum(cr.dropout(x @ W, 0.5, key=key) ** 2)

    types = {"x": cr.float32[64, 32], "W": cr.float32[32, 48], "key": cr.uint32[2]}
    step = cr.training_step(J, wrt="W", optimizer=cr.sgd(0.1), executor="native", **types)
    plan = step.plan()
    assert "reference evaluation" not in str(plan)
    assert not [node for one in plan.computes for node in one.nodes if node.dtype.kind in "bu"]
