"""Makes keys, `uint32[2]`, from a seed, a key and a number, or by splitting; and their random bits.

The conventions are those of JAX's default keys (`jax_threefry_partitionable`): the same seed gives
the same numbers there and here.  Which words are encrypted for what:

    key(seed)          the upper and the lower 32 bits of the seed; nothing is encrypted
    fold_in(key, data) the pair (0, data)
    split(key, num)    the pairs (0, 0), (0, 1), ..., (0, num - 1)
    bits(key, shape)   the pair (0, i) for the i-th element in C order; its words' exclusive or
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.plain import refuse_among
from chainrule.graph.sizes.sizes import Size, product
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import positions
from chainrule.primitives.threefry import (
    WORD,
    encrypt,
    encrypt_one,
    threefry_first,
    threefry_mixed,
    threefry_second,
)
from chainrule.tracebacks import entry

LARGEST = 2**32  # numbers that one key gives: a counter is one word
BLOCK = 16384  # numbers that are drawn together, so that what this needs stays in the cache
MAKE_ONE = "make a key with cr.random.key(seed)"

Wanted = tuple[Primitive, ...]
WORDS: Wanted = (threefry_first, threefry_second)
MIXED: Wanted = (threefry_mixed,)


@entry
def key(seed: int) -> np.ndarray:
    """Makes a key, uint32[2], from a seed, an integer from 0 to 2**64 - 1."""
    if isinstance(seed, Traced):
        raise InputError(
            f"a key is made of a number, and {seed!r} has none while the program is traced",
            where=seed.program.origin_at(sys._getframe(1)).describe(),
            hint="pass the key as an argument, or mix the number in: "
            "cr.random.fold_in(key, number)",
        )
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise InputError(
            f"key({seed!r}): a seed is an integer from 0 to 2**64 - 1",
            hint="for instance cr.random.key(0)",
        )
    return np.array([number >> 32, number % 2**32], WORD)


@composite(symbol="fold in", latex=r"\operatorname{fold}")
def fold_in(key: Any, data: Any) -> Any:
    """Returns a new key for each number `data`, an integer from 0 to 2**32 - 1.

    A traced integer may be beyond, and counts by its lowest 32 bits.
    """
    trace = trace_of((key, data))
    key = checked(key, trace)
    if isinstance(data, Traced):
        _require_integer(data, trace)
        word = data.astype(WORD)
    else:
        word = _word(data, trace)
    if trace is None:
        return np.array(encrypt_one(int(key[0]), int(key[1]), 0, int(word)), WORD)
    return np.stack(_encrypted(trace, key, word, WORDS))


@composite(symbol="split", latex=r"\operatorname{split}")
def split(key: Any, num: int | Size = 2) -> Any:
    """Returns `num` independent keys, uint32[num, 2].

    They take the place of the key, which is used up: `key, noise_key = cr.random.split(key)`.
    (The i-th is `fold_in(key, i)`, and bits of the key are made of the same words.)
    """
    return np.stack(words(key, (num,), "split"), axis=-1)


@composite(symbol="bits", latex=r"\operatorname{bits}")
def bits(key: Any, shape: Any = ()) -> Any:
    """Random bits, uint32 of this shape; at most 2**32 elements."""
    return _drawn(key, shape, "bits", MIXED)[0]


def words(key: Any, shape: Any, asked: str) -> tuple[Any, Any]:
    """Two random words for each element, each uint32 of this shape."""
    first, second = _drawn(key, shape, asked, WORDS)
    return first, second


def _drawn(key: Any, shape: Any, asked: str, wanted: Wanted) -> list[Any]:
    """For each element the pair of 0 and its position, in C order, under the key."""
    trace = trace_of((key,))
    key = checked(key, trace)
    sizes = _shape_of(trace, shape, asked)
    if trace is None:
        return _at_once(key, sizes, wanted)
    node = positions(product(sizes), WORD)
    line: Any = Traced(trace.build(node.primitive, **dict(node.params)), trace)
    return _encrypted(trace, key, np.reshape(line, sizes), wanted)


def _encrypted(trace: Trace, key: Any, place: Any, wanted: Wanted) -> list[Any]:
    """The pairs (0, place) under the key, as nodes of the trace."""
    traced: Any = (
        one if isinstance(one, Traced) else Traced(as_node(trace, one), trace)
        for one in (key, place)
    )
    key, place = traced
    given = (*(np.broadcast_to(key[at], place.shape) for at in (0, 1)), np.zeros_like(place), place)
    nodes = [as_node(trace, one) for one in given]
    return [Traced(trace.build(one, *nodes), trace) for one in wanted]


def _at_once(key: np.ndarray, shape: tuple[int, ...], wanted: Wanted) -> list[np.ndarray]:
    """The pairs (0, 0), (0, 1), ... under the key, in little more memory than comes back."""
    count = int(product(shape))
    found = [np.empty(count, WORD) for _ in wanted]
    for begin in range(0, count, BLOCK):
        after = min(begin + BLOCK, count)
        y = np.arange(begin, after, dtype=WORD)
        x = np.zeros_like(y)
        encrypt(key[0], key[1], x, y)
        results = {threefry_first: x, threefry_second: y, threefry_mixed: x ^ y}
        for out, one in zip(found, wanted, strict=True):
            out[begin:after] = results[one]
    return [out.reshape(shape) for out in found]


def checked(key: Any, trace: Trace | None) -> Any:
    """The key, if it is one: uint32[2]; DTypeError or ShapeError where not."""
    where = trace.where() if trace is not None else ""
    if not isinstance(key, Traced):
        refuse_among([key], "a random function", where)
        given, key = key, np.asarray(key)
        if key.dtype.kind == "i" and isinstance(given, int):
            raise DTypeError(f"the number {given} is no key", where=where, hint=MAKE_ONE)
    if key.dtype != WORD:
        shown = f"{key.dtype}[{', '.join(map(str, key.shape))}]"
        raise DTypeError(f"a key is uint32[2], got {shown}", where=where, hint=MAKE_ONE)
    if tuple(key.shape) != (2,):
        shown = f"[{', '.join(map(str, key.shape))}]"
        hint = "choose one of several: keys[0]" if key.ndim == 2 else MAKE_ONE
        raise ShapeError(f"a key is uint32[2], got uint32{shown}", where=where, hint=hint)
    return key


def _word(data: Any, trace: Trace | None) -> np.ndarray:
    try:
        number = operator.index(data)
    except TypeError:
        number = -1
    if not 0 <= number < LARGEST:
        raise InputError(
            f"fold_in(key, {data!r}): the number is an integer from 0 to 2**32 - 1",
            where=trace.where() if trace is not None else "",
            hint="fold in a larger one in two steps: its upper 32 bits, then its lower ones",
        )
    return np.asarray(number, WORD)


def _require_integer(data: Traced, trace: Trace | None) -> None:
    assert trace is not None
    if data.shape != () or data.dtype.kind not in "iu":
        raise DTypeError(
            f"fold_in(key, {data!r}): the number is one integer",
            where=trace.where(),
            hint="an index or a step, such as step.astype(np.uint32)",
        )


def _shape_of(trace: Trace | None, shape: Any, asked: str) -> tuple:
    """The shape as a tuple, all of whose elements can be counted."""
    where = trace.where() if trace is not None else ""
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(one if isinstance(one, Size) else operator.index(one) for one in given)
    shown = f"{asked} of shape [{', '.join(map(str, sizes))}]"
    if trace is None and any(isinstance(one, Size) for one in sizes):
        raise InputError(
            f"{shown} under a key that is a plain array, whose numbers are drawn at once",
            hint="pass the key to the traced function as an argument: uint32[2]",
        )
    if any(isinstance(one, int) and one < 0 for one in sizes):
        raise ShapeError(
            f"{shown}: a size is at least 0", where=where, hint="a shape such as (), (3,) or (3, 4)"
        )
    count = product(sizes)
    text = f"{shown}: one key gives at most 2**32 numbers"
    hint = "draw the parts with keys of their own: cr.random.split(key)"
    if isinstance(count, Size):
        assert trace is not None
        trace.require(LARGEST - count, False, text)
    elif count > LARGEST:
        raise ShapeError(text, where=where, hint=hint)
    return sizes
