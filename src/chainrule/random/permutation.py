"""`permutation`: an order of n things, by sorting random words."""

from __future__ import annotations

import math
import operator

import numpy as np
from numpy.typing import NDArray

from chainrule.composites.composite import trace_of
from chainrule.errors import InputError, UnsupportedError
from chainrule.random.keys import bits, checked, split


def permutation(key: np.ndarray, n: int) -> NDArray[np.int64]:
    """The integers 0, ..., n - 1 in a random order; all orders are equally likely.

    They are sorted by random words, again and again until it is hopeless that two numbers had the
    same word each time (probability at most 1/n): as JAX does, in the same orders.  The key is a
    plain array: there is no traced sorting.
    """
    trace = trace_of((key, n))
    if trace is not None:
        raise UnsupportedError(
            "cr.random.permutation of a traced key or number: sorting is not traced",
            where=trace.where(),
            hint="make the order before the call, and pass it as an argument: int64[n]",
        )
    key = checked(key, None)
    try:
        count = operator.index(n)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(f"permutation(key, {n!r}): n is an integer of at least 0")
    order = np.arange(count, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(2**32 - 1))):
        key, drawn = split(key)
        order = order[np.argsort(bits(drawn, (count,)), kind="stable")]
    return order
