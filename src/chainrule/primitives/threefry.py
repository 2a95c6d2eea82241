"""The cipher that random numbers come from: Threefry-2x32, 20 rounds, of keys and counters."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.primitive import ATOM, Flat, Latex, Library, Primitive, Sample
from chainrule.primitives.python import calls_own

# Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 3.3;
# the constants are those of Random123 and of Skein (Ferguson et al. 2010).
WORD = np.dtype(np.uint32)
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
GROUPS = 5  # of four rounds each, after each of which a part of the key is added
FLOPS = 5 * 4 * GROUPS + 2 * (GROUPS + 1)  # of integers: four for a rotation and its mixing

BLOCK = 16384  # pairs of words at a time: what they need stays in the cache
_SHIFTS = np.arange(33, dtype=WORD)  # as arrays: ufuncs make one of every Python number


def _type(key: ArrayType, counter: ArrayType) -> ArrayType:
    for name, one in (("key", key), ("counter", counter)):
        if one.dtype != WORD or one.shape[-1:] != (2,):
            raise TypeError(f"the {name} must be uint32[..., 2], got {one}")
    if counter.shape[: key.ndim - 1] != key.shape[:-1]:
        raise TypeError(f"{counter} does not begin with the axes of the keys {key}")
    return counter


def _evaluate(xp: Any, key: Any, counter: Any) -> Any:
    if xp is not np:
        between = (1,) * (counter.ndim - key.ndim)
        words = key.reshape(*key.shape[:-1], *between, 2)
        return _encrypted(xp, words[..., 0], words[..., 1], counter[..., 0], counter[..., 1])
    out = np.empty(counter.shape, WORD)
    out[...] = counter
    for place in np.ndindex(key.shape[:-1]):
        _encrypt(int(key[(*place, 0)]), int(key[(*place, 1)]), out[place].reshape(-1, 2))
    return out


def _encrypted(xp: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
    """The formula, on any arrays of words."""
    words = (first, second, first ^ second ^ xp.uint32(PARITY))
    x, y = x + words[0], y + words[1]
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = (y << xp.uint32(rotation) | y >> xp.uint32(32 - rotation)) ^ x
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + xp.uint32(group + 1)
    return xp.stack([x, y], axis=-1)


def _encrypt(first: int, second: int, pairs: np.ndarray) -> None:
    """The formula, in place on NumPy's pairs of counter words; additions wrap around."""
    words = (first, second, first ^ second ^ PARITY)
    added = [
        (words[group % 3], (words[(group + 1) % 3] + group) % 2**32) for group in range(GROUPS + 1)
    ]
    keys = np.array(added, WORD)
    blocks = np.empty((3, min(BLOCK, len(pairs))), WORD)
    for begin in range(0, len(pairs), BLOCK):
        block = pairs[begin : begin + BLOCK]
        x, y, t = blocks[:, : len(block)]
        x[:], y[:] = block[:, 0], block[:, 1]
        for group in range(GROUPS + 1):
            for rotation in ROTATIONS[(group - 1) % 2] if group else ():
                np.add(x, y, out=x)
                np.left_shift(y, _SHIFTS[rotation, ...], out=t)
                np.right_shift(y, _SHIFTS[32 - rotation, ...], out=y)
                np.bitwise_or(y, t, out=y)
                np.bitwise_xor(y, x, out=y)
            np.add(x, keys[group, 0, ...], out=x)
            np.add(y, keys[group, 1, ...], out=y)
        block[:, 0], block[:, 1] = x, y


def _scratch(out: Node, key: np.ndarray, counter: np.ndarray) -> int:
    pairs = prod(counter.shape[key.ndim - 1 : -1])  # of one key
    return WORD.itemsize * (2 * (GROUPS + 1) + 3 * min(BLOCK, pairs))


def _batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Node:
    # Unbatched keys without axes of their own serve every counter; all else gets the axis.
    key, counter = inputs
    if not batched[1]:
        counter = add_batch_axis(counter, size)
    if not batched[0] and key.ndim > 1:
        key = add_batch_axis(key, size)
    return threefry2x32(key, counter)


WORDS = "uint32"

SOURCE = '''
def threefry2x32(key, counter):
    """Threefry-2x32 of 20 rounds (Salmon et al., 2011): counters encrypted under keys."""
    shape = (*key.shape[:-1], *[1] * (counter.ndim - key.ndim), 1)
    first, second = key[..., 0].reshape(shape), key[..., 1].reshape(shape)
    words = (first, second, first ^ second ^ 0x1BD11BDA)
    x, y = counter[..., :1] + first, counter[..., 1:] + second
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << rotation | y >> (32 - rotation)) ^ x
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + (group + 1)
    return np.concatenate([x, y], axis=-1)
'''

threefry2x32 = Primitive(
    name="threefry2x32",
    doc="Each counter uint32[2] encrypted under the key uint32[2]: two words of random bits.",
    inputs=("key", "counter"),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Flat(),
    batch=_batch,
    kernel=Library("threefry2x32"),
    flops=lambda out: FLOPS * (out.type.size // 2),
    latex=Latex(r"\operatorname{{bits}}_{{{key}}}({counter})", ATOM, (0, 0)),
    samples=(
        Sample(((2,), (2,)), (WORDS, WORDS)),
        Sample(((2,), (3, 2)), (WORDS, WORDS)),
        Sample(((2,), (0, 2)), (WORDS, WORDS)),
        Sample(((3, 2), (3, 1, 2)), (WORDS, WORDS)),
        Sample(((3, 2), (3, 2)), (WORDS, WORDS)),
    ),
    scratch=_scratch,
    python=calls_own(SOURCE),
)

THREEFRY = (threefry2x32,)
