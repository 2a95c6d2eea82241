"""`permutation`: a random order of n things, by sorting random words."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.random.keys import bits, checked, split


@composite(symbol="order", latex=r"\operatorname{order}")
def permutation(key: Any, n: int) -> Any:
    """The integers 0, ..., n - 1, int64, in a random order; all orders are equally likely.

    They are sorted by random words, again and again until it is hopeless that two numbers had the
    same word each time (probability at most 1/n): as JAX does, in the same orders.
    """
    trace = trace_of((key, n))
    where = trace.where() if trace is not None else ""
    if isinstance(n, (Size, Traced)):
        raise UnsupportedError(
            f"permutation(key, {n}): how often is sorted depends on the number",
            where=where,
            hint="n is an integer; or order the rows of x yourself: "
            "x[np.argsort(cr.random.bits(key, x.shape[:1]))]",
        )
    key = checked(key, trace)
    try:
        count = operator.index(n)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(f"permutation(key, {n!r}): n is an integer of at least 0", where=where)
    order: Any = np.arange(count, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(2**32 - 1))):
        key, drawn = split(key)
        places = np.argsort(bits(drawn, (count,)), kind="stable")
        order = places if trace is not None and not isinstance(order, Traced) else order[places]
    return order
