"""What cannot be drawn is refused, with what to try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, uint32
from chainrule.errors import DTypeError, InputError, ShapeError, UnsupportedError

KEY = cr.random.key(0)
n = cr.size("n")


def traced(function: Any) -> Any:
    return lambda: cr.trace(function)


def seeded(seed: int = 3) -> Any:
    return cr.random.key(seed)


def ordered(key: uint32[2], x: float32[n]) -> Any:
    return cr.random.permutation(key, x.shape[0])


def chosen(key: uint32[2], x: float32[n]) -> Any:
    return cr.random.choice(key, x, (3,), replace=False)


def folded_wrongly(key: uint32[2], x: float32[2]) -> Any:
    return cr.random.fold_in(key, x)


def of_a_size(x: float32[n]) -> Any:
    return x + cr.random.uniform(KEY, x.shape)


def broadcast(key: uint32[2], low: float32[n, 3]) -> Any:
    return cr.random.uniform(key, (3,), minval=low)


def several(keys: uint32[n, 2]) -> Any:
    return cr.random.bits(keys)


CASES = [
    (lambda: cr.random.key(-1), InputError, ["key(-1): a seed is an integer from 0 to 2**64 - 1"]),
    (lambda: cr.random.key(1.0), InputError, ["key(1.0): a seed is an integer"]),
    (lambda: cr.random.key(2**64), InputError, ["a seed is an integer"]),
    (
        traced(seeded),
        InputError,
        [
            "a key is made of a number",
            "cr.random.fold_in(key, number)",
            "return cr.random.key(seed)",
        ],
    ),
    (
        lambda: cr.random.fold_in(KEY, -1),
        InputError,
        ["fold_in(key, -1): the number is an integer from 0 to 2**32 - 1", "two steps"],
    ),
    (lambda: cr.random.fold_in(KEY, 0.5), InputError, ["fold_in(key, 0.5)"]),
    (traced(folded_wrongly), DTypeError, ["x (float32[2])", "the number is one integer"]),
    (lambda: cr.random.bits(0), DTypeError, ["the number 0 is no key", "cr.random.key(seed)"]),
    (lambda: cr.random.bits([0, 1]), DTypeError, ["a key is uint32[2], got int64[2]"]),
    (
        lambda: cr.random.bits(cr.random.split(KEY)),
        ShapeError,
        ["a key is uint32[2], got uint32[2, 2]", "choose one of several: keys[0]"],
    ),
    (traced(several), ShapeError, ["got uint32[n, 2]", "cr.random.bits(keys)"]),
    (lambda: cr.random.bits(KEY, (2, -1)), ShapeError, ["bits of shape [2, -1]", "at least 0"]),
    (
        lambda: cr.random.bits(KEY, (2**16, 2**17)),
        ShapeError,
        ["one key gives at most 2**32 numbers", "cr.random.split(key)"],
    ),
    (
        traced(of_a_size),
        InputError,
        ["bits of shape [n] under a key that is a plain array", "as an argument: uint32[2]"],
    ),
    (
        traced(broadcast),
        ShapeError,
        ["uniform of shape [3] with minval and maxval that broadcast to [n, 3]", "shape=(n, 3)"],
    ),
    (
        lambda: cr.random.uniform(KEY, (), np.float16),
        DTypeError,
        ["uniform numbers are float32 or float64, not float16", ".astype"],
    ),
    (
        lambda: cr.random.normal(KEY, (), np.int64),
        DTypeError,
        ["normal numbers are float32 or float64, not int64"],
    ),
    (
        lambda: cr.random.bernoulli(KEY, 30),
        InputError,
        ["the probability p=30 is not from 0 to 1", "for per cents divide by 100"],
    ),
    (
        lambda: cr.random.bernoulli(KEY, np.zeros((2, 3)), (3,)),
        ShapeError,
        ["bernoulli of shape [3] with p that broadcast to [2, 3]"],
    ),
    (
        traced(ordered),
        UnsupportedError,
        ["permutation(key, n): how often is sorted depends on the number", "np.argsort"],
    ),
    (traced(chosen), InputError, ["choice without replacement of a named size", "are integers"]),
    (
        lambda: cr.random.choice(KEY, 3, (2, 2), replace=False),
        InputError,
        ["choice: 4 of 3 without replacement", "replace=True"],
    ),
    (lambda: cr.random.choice(KEY, 0), InputError, ["nothing to choose from in 0"]),
    (lambda: cr.random.choice(KEY, 2.5), InputError, ["nothing to choose from in 2.5"]),
    (
        lambda: cr.random.choice(KEY, 3, p=[0.5, 0.5]),
        ShapeError,
        ["choice: p has shape [2], and there are 3 to choose from"],
    ),
    (
        lambda: cr.random.randint(KEY, (2,), 3, 3),
        InputError,
        ["randint: from minval=3 up to maxval=3 there are no integers", "maxval is above minval"],
    ),
    (
        lambda: cr.random.randint(KEY, (), 0, 2**33),
        InputError,
        ["up to maxval=8589934592 there are more"],
    ),
    (lambda: cr.random.randint(KEY, (), 0, 1.5), DTypeError, ["the limit 1.5 is no integer"]),
    (
        lambda: cr.random.randint(KEY, (), 0, 2, np.float32),
        DTypeError,
        ["randint gives integers, not float32"],
    ),
    (
        lambda: cr.random.randint(KEY, (2,), np.zeros((3, 1), np.int64), 4),
        ShapeError,
        ["randint of shape [2] with minval and maxval that broadcast to [3, 2]"],
    ),
    (
        lambda: cr.random.categorical(KEY, np.zeros((2, 3)), shape=(3,)),
        ShapeError,
        ["categorical of shape [3] with logits for [2]", "the shape ends with [2]"],
    ),
    (
        lambda: cr.random.categorical(KEY, np.zeros(3), axis=1),
        ShapeError,
        ["categorical: logits of shape [3] have no axis 1"],
    ),
    (
        lambda: cr.random.truncated_normal(KEY, 2, 1.0),
        InputError,
        ["truncated_normal: lower=2 is not below upper=1.0"],
    ),
    (
        lambda: cr.random.truncated_normal(KEY, np.zeros((3, 1)), 1.0, (2,)),
        ShapeError,
        ["truncated_normal of shape [2] with limits that broadcast to [3, 2]"],
    ),
    (
        lambda: cr.random.laplace(KEY, (), np.float16),
        DTypeError,
        ["laplace numbers are float32 or float64, not float16"],
    ),
    (
        lambda: cr.random.multivariate_normal(KEY, np.zeros(2), np.eye(3)),
        ShapeError,
        ["mean [2] and covariance [3, 3] do not fit", "(..., d, d)"],
    ),
    (lambda: cr.random.permutation(KEY, -1), InputError, ["permutation(key, -1)"]),
    (lambda: cr.random.permutation(KEY, 1.5), InputError, ["permutation(key, 1.5)"]),
    (
        lambda: cr.dropout(np.ones(3), 50, key=KEY),
        InputError,
        ["dropout: rate=50 is not from 0 to 1", "0.1 for 10 %"],
    ),
    (lambda: cr.dropout(np.ones(3), -0.1), InputError, ["dropout: rate=-0.1"]),
]


@pytest.mark.parametrize(("call", "error", "texts"), CASES, ids=[case[2][0] for case in CASES])
def test_a_refusal_says_what_and_what_to_try(call: Any, error: Any, texts: list[str]) -> None:
    with pytest.raises(error) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)


def test_a_size_that_is_too_large_is_refused_when_it_is_known() -> None:
    def drawn(key: uint32[2], x: float32[n]) -> Any:
        return np.sum(cr.random.bits(key, (x.shape[0], 2**20)))

    graph = cr.trace(drawn)
    assert graph.bind(n=4096)
    with pytest.raises(cr.errors.SizeError, match=r"one key gives at most 2\*\*32 numbers"):
        graph.bind(n=4097)
