"""The cipher that random numbers come from: Threefry-2x32, 20 rounds, of keys and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.primitives.families import elementwise, same_type
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Flat, Primitive
from chainrule.primitives.python import Python, Written

# Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 3.3;
# the constants are those of Random123 and of Skein (Ferguson et al. 2010).
WORD = np.dtype(np.uint32)
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
GROUPS = 5  # of four rounds each, after each of which a part of the key is added
FLOPS = 5 * 4 * GROUPS + 2 * (GROUPS + 1)  # of integers: four for a rotation and its mixing

# As arrays: ufuncs make one of every number.
_PARITY, _NUMBERS = np.array(PARITY, WORD), np.arange(33, dtype=WORD)

INPUTS = ("k0", "k1", "c0", "c1")  # the words of the key and of the counter
SOURCE = '''
def threefry2x32(k0, k1, c0, c1):
    """Threefry-2x32 of 20 rounds (Salmon et al., 2011): a counter encrypted under a key."""
    words = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x, y = c0 + k0, c1 + k1
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << rotation | y >> (32 - rotation)) ^ x
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + (group + 1)
    return x, y, x ^ y
'''


def _words(*types: ArrayType) -> ArrayType:
    if any(one.dtype != WORD for one in types):
        raise TypeError(f"keys and counters are uint32, got {', '.join(map(str, types))}")
    return same_type(*types)


def encrypt(k0: np.ndarray, k1: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Encrypt counters, the arrays of words x and y, in place; additions wrap around."""
    words = (k0, k1, k0 ^ k1 ^ _PARITY)
    t = np.empty_like(x)
    np.add(x, k0, out=x)
    np.add(y, k1, out=y)
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            np.add(x, y, out=x)
            np.left_shift(y, _NUMBERS[rotation, ...], out=t)
            np.right_shift(y, _NUMBERS[32 - rotation, ...], out=y)
            np.bitwise_or(y, t, out=y)
            np.bitwise_xor(y, x, out=y)
        np.add(x, words[(group + 1) % 3], out=x)
        np.add(y, words[(group + 2) % 3], out=y)
        np.add(y, _NUMBERS[group + 1, ...], out=y)


def encrypt_one(k0: int, k1: int, c0: int, c1: int) -> tuple[int, int]:
    """One counter encrypted: ten times as fast as an array of one."""
    return cipher(k0, k1, c0, c1, int, lambda word: word % 2**32)


def cipher(
    k0: Any,
    k1: Any,
    c0: Any,
    c1: Any,
    number: Callable[[int], Any],
    wrapped: Callable[[Any], Any] = lambda word: word,
) -> tuple[Any, Any]:
    """The cipher of words that `number` makes, and `wrapped` brings back to 32 bits."""
    words = (k0, k1, k0 ^ k1 ^ number(PARITY))
    x, y = wrapped(c0 + k0), wrapped(c1 + k1)
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = wrapped(x + y)
            y = wrapped(y << number(rotation) | y >> number(32 - rotation)) ^ x
        x = wrapped(x + words[(group + 1) % 3])
        y = wrapped(y + words[(group + 2) % 3] + number(group + 1))
    return x, y


def _encrypted(xp: Any, k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """Both words, of arrays."""
    if xp is not np:
        return cipher(k0, k1, c0, c1, xp.uint32)
    x, y = np.array(c0), np.array(c1)
    encrypt(k0, k1, x, y)
    return x, y


def _first(xp: Any, *words: Any) -> Any:
    return _encrypted(xp, *words)[0]


def _second(xp: Any, *words: Any) -> Any:
    return _encrypted(xp, *words)[1]


def _mixed(xp: Any, *words: Any) -> Any:
    x, y = _encrypted(xp, *words)
    return np.bitwise_xor(x, y, out=x) if xp is np else x ^ y


def _scratch(out: Node, *words: np.ndarray) -> int:
    return 3 * WORD.itemsize * words[0].size  # the other word, the third of the key, a shifted one


def _cipher(name: str, doc: str, evaluate: Any, place: int, latex: str) -> Primitive:
    """The cipher with one of the results of `SOURCE`."""

    def written(out: Node, writing: Any, *words: Written) -> Written:
        arguments = ", ".join(word.text for word in words)
        return Written(f"{writing.helper(SOURCE)}({arguments})[{place}]")

    return elementwise(
        name,
        doc,
        evaluate,
        Flat(),
        kernel=f"{name}({', '.join(INPUTS)})",
        latex=Latex(rf"{latex}_{{{{{{k0}} {{k1}}}}}}({{c0}}, {{c1}})", ATOM, (0, 0, 0, 0)),
        inputs=INPUTS,
        result_type=_words,
        domains=("uint32",) * 4,
        weight=FLOPS,
        scratch=_scratch,
        python=Python(written),
    )


threefry_first = _cipher(
    "threefry_first",
    "The first word of a counter encrypted by Threefry-2x32.",
    _first,
    0,
    r"\operatorname{{bits}}^{{(0)}}",
)
threefry_second = _cipher(
    "threefry_second",
    "The second word of a counter encrypted by Threefry-2x32.",
    _second,
    1,
    r"\operatorname{{bits}}^{{(1)}}",
)
threefry_mixed = _cipher(
    "threefry_mixed",
    "The exclusive or of both words of a counter encrypted by Threefry-2x32.",
    _mixed,
    2,
    r"\operatorname{{bits}}",
)

THREEFRY = (threefry_first, threefry_second, threefry_mixed)
