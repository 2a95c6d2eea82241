"""The cipher gives its published values, and wraps around in silence."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.types import array_type, type_of
from chainrule.primitives.threefry import BLOCK, WORD, threefry2x32
from chainrule.testing.samples import as_function, graph_of

# Random123 1.14, tests/kat_vectors, "threefry2x32 20": counter, key, result.
PUBLISHED = """
00000000 00000000 00000000 00000000 6b200159 99ba4efe
ffffffff ffffffff ffffffff ffffffff 1cb996fc bb002be7
243f6a88 85a308d3 13198a2e 03707344 c4923a9c 483df7a0
"""
VECTORS = [
    np.array([int(word, 16) for word in line.split()], np.uint32).reshape(3, 2)
    for line in PUBLISHED.split("\n")
    if line
]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_the_published_vectors(counter: np.ndarray, key: np.ndarray, result: np.ndarray) -> None:
    np.testing.assert_array_equal(threefry2x32.evaluate(np, key, counter), result)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_the_published_vectors_together_under_keys_of_their_own(executor: str) -> None:
    counters, keys, results = (np.stack(column) for column in zip(*VECTORS, strict=True))
    graph = graph_of(threefry2x32, [type_of(keys), type_of(counters)], {})
    run = graph.run(key=keys, counter=counters, executor=executor)
    np.testing.assert_array_equal(run["out"], results)


def by_hand(key: list[int], counter: list[int]) -> list[int]:
    """The paper's description with Python's integers."""
    words = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = [(c + k) % 2**32 for c, k in zip(counter, key, strict=True)]
    for turn in range(20):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        x = (x + y) % 2**32
        y = ((y << rotation | y >> 32 - rotation) % 2**32) ^ x
        if turn % 4 == 3:
            s = turn // 4 + 1
            x, y = (x + words[s % 3]) % 2**32, (y + words[(s + 1) % 3] + s) % 2**32
    return [x, y]


def test_many_blocks_are_the_same_as_one_pair_after_another() -> None:
    count = 2 * BLOCK + 7
    counters = np.arange(2 * count, dtype=np.uint64) * 0x9E3779B97F4A7C15 >> np.uint64(32)
    counters = counters.astype(WORD).reshape(count, 2)
    key = np.array([0xDEADBEEF, 0x01234567], WORD)
    found = threefry2x32.evaluate(np, key, counters)
    for place in (0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK, count - 1):
        assert found[place].tolist() == by_hand(key.tolist(), counters[place].tolist())


def test_the_counters_are_not_changed_and_may_lie_anyhow() -> None:
    counters = np.arange(24, dtype=WORD).reshape(2, 3, 4)[..., ::2]
    before = counters.copy()
    key = np.array([3, 4], WORD)
    found = threefry2x32.evaluate(np, key, counters)
    np.testing.assert_array_equal(counters, before)
    np.testing.assert_array_equal(found, threefry2x32.evaluate(np, key, before))


@pytest.mark.parametrize(
    ("key", "counter", "text"),
    [
        (("uint32", (3,)), ("uint32", (2,)), r"the key must be uint32\[..., 2\], got uint32\[3\]"),
        (("int64", (2,)), ("uint32", (2,)), r"the key must be uint32\[..., 2\], got int64\[2\]"),
        (("uint32", (2,)), ("uint32", ()), r"the counter must be uint32\[..., 2\]"),
        (("uint32", (4, 2)), ("uint32", (3, 2)), "does not begin with the axes of the keys"),
    ],
)
def test_types_that_do_not_fit_are_refused(key: tuple, counter: tuple, text: str) -> None:
    types = [array_type(np.dtype(name), shape) for name, shape in (key, counter)]
    with pytest.raises(TypeError, match=text):
        threefry2x32.result_type(*types)


def test_the_cipher_is_flat() -> None:
    def J(x: np.ndarray, key: np.ndarray) -> np.ndarray:
        return np.sum(x * as_function(threefry2x32)(key, key).astype(np.float64))

    x, key = np.array([2.0, 3.0]), np.array([1, 2], WORD)
    np.testing.assert_array_equal(
        cr.grad(J)(x, key), threefry2x32.evaluate(np, key, key).astype(np.float64)
    )
