"""Random integers, signs, classes of given logits, and choices from an array."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import require_flag
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.random.continuous import gumbel
from chainrule.random.distributions import bernoulli, of_shape, unit_interval
from chainrule.random.permutation import permutation

WIDEST = 2**32  # of a range of integers: of 52 random bits, each is as likely as 1 part in 2**20
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def _where(*given: Any) -> str:
    trace = trace_of(given)
    return trace.where() if trace is not None else ""


@composite(symbol="integers", latex=r"\mathcal{U}")
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = np.int64) -> Any:
    """Uniform integers from minval up to, but not including, maxval.

    The limits may be arrays, and are at most 2**32 apart (not checked where they are traced).
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        raise DTypeError(
            f"randint gives integers, not {dtype}",
            where=_where(key, minval, maxval),
            hint="convert them with .astype(...), or draw with cr.random.uniform",
        )
    _check_range(key, minval, maxval)
    low, high = (_integer(one) for one in (minval, maxval))
    unit = unit_interval(key, shape, FLOAT64)
    # Below the span: it is rounded to at most one step of float64 below.
    offset = (unit * (high - low)).astype(np.int64)
    result = (low + offset).astype(dtype)
    return of_shape(result, unit, "randint", "minval and maxval")


def _integer(value: Any) -> Any:
    """A limit as int64 (uint64 is cast), a size as it is."""
    if isinstance(value, Size):
        return value
    return value.astype(np.int64) if isinstance(value, Traced) else np.asarray(value, np.int64)[()]


def _check_range(key: Any, minval: Any, maxval: Any) -> None:
    known = not any(isinstance(one, (Traced, Size)) for one in (minval, maxval))
    for one in (minval, maxval):
        if isinstance(one, Size):
            continue
        dtype = one.dtype if isinstance(one, Traced) else np.asarray(one).dtype
        if dtype.kind not in "iu":
            raise DTypeError(
                f"randint: the limit {one!r} is no integer",
                where=_where(key, minval, maxval),
                hint="minval and maxval are integers, or arrays of them",
            )
    if not known:
        return
    span = np.asarray(maxval, object) - np.asarray(minval, object)
    if np.any(span < 1) or np.any(span > WIDEST):
        is_wide = not np.any(span < 1)
        problem = "more than 2**32 integers" if is_wide else "no integers, as the end is left out"
        raise InputError(
            f"randint: from minval={minval} up to maxval={maxval} there are {problem}",
            where=_where(key),
            hint="for more bits use cr.random.bits" if is_wide else "maxval is above minval",
        )


@composite(symbol="signs", latex=r"\operatorname{sign}")
def rademacher(key: Any, shape: Any = (), dtype: Any = np.int64) -> Any:
    """-1 or 1, equally likely."""
    return np.where(bernoulli(key, 0.5, shape), 1, -1).astype(np.dtype(dtype))


@composite(symbol="categorical", latex=r"\operatorname{Categorical}")
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Class numbers, int64, with the probabilities softmax(logits).

    The classes lie along `axis`.  By default there is one number for each row of logits; `shape`
    may have more axes in front, for several.  It is the place of the largest of logits plus Gumbel
    numbers; a logit of -inf is never chosen.
    """
    given = np.shape(logits)
    if not given or not -len(given) <= axis < len(given):
        raise ShapeError(
            f"categorical: logits of shape [{', '.join(map(str, given))}] have no axis {axis}",
            where=_where(key, logits),
            hint="the classes lie along one axis of the logits, by default the last one",
        )
    axis = axis % len(given)
    batch = (*given[:axis], *given[axis + 1 :])
    wanted = batch if shape is None else tuple(shape)
    extra = len(wanted) - len(batch)
    if extra < 0 or wanted[extra:] != batch:
        shown = [", ".join(map(str, one)) for one in (wanted, batch)]
        raise ShapeError(
            f"categorical of shape [{shown[0]}] with logits for [{shown[1]}]",
            where=_where(key, logits),
            hint=f"the shape ends with [{shown[1]}]; axes in front of it draw several",
        )
    dtype = getattr(logits, "dtype", None) or np.asarray(logits).dtype
    dtype = FLOAT64 if dtype == FLOAT64 else FLOAT32
    noise = gumbel(key, (*wanted[:extra], *given), dtype)
    return np.argmax(noise + logits, axis=extra + axis)


@composite(symbol="choice", latex=r"\operatorname{choice}")
def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Any:
    """Random elements of `a` along its first axis, or of 0, ..., a - 1 if `a` is an integer.

    `p` are their probabilities (equal by default).  Without `replace` none comes up twice.
    """
    count = np.shape(a)[0] if np.ndim(a) else a
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    require_flag((key, a, p), replace, "choice: replace")
    wanted = _count(shape, count, replace, key, a, p)
    if p is not None and tuple(np.shape(p)) != (count,):
        raise ShapeError(
            f"choice: p has shape [{', '.join(map(str, np.shape(p)))}], and there are {count} "
            "to choose from",
            where=_where(key, a, p),
            hint="give one probability for each",
        )
    if not replace:
        places = _distinct(key, count, wanted, p)
        places = np.reshape(places, shape)
    elif p is None:
        places = randint(key, shape, 0, count)
    else:
        places = _by_probability(key, shape, p)
    return places if not np.ndim(a) else a[places]


def _count(shape: tuple, count: Any, replace: bool, key: Any, a: Any, p: Any) -> Any:
    is_number = isinstance(count, (int, Integral, Size, Traced)) and not isinstance(count, bool)
    if not is_number or (isinstance(count, int) and count < 1):
        raise InputError(
            f"choice: there is nothing to choose from in {count!r}",
            where=_where(key, a, p),
            hint="give an array, or an integer of at least 1",
        )
    wanted = math.prod(shape) if all(isinstance(one, int) for one in shape) else None
    if replace:
        return wanted
    if wanted is None or isinstance(count, Size):
        raise InputError(
            "choice without replacement of a named size",
            where=_where(key, a, p),
            hint="how many are chosen, and of how many, are integers",
        )
    if wanted > count:
        raise InputError(
            f"choice: {wanted} of {count} without replacement",
            where=_where(key, a, p),
            hint="draw fewer, or with replace=True",
        )
    return wanted


def _distinct(key: Any, count: int, wanted: int, p: Any) -> Any:
    """The first places of an order of all: by random words, or by Gumbel numbers (Vieira, 2014)."""
    if p is None:
        return permutation(key, count)[:wanted]
    p = p if isinstance(p, Traced) else np.asarray(p, np.float64)
    possible = p > 0
    scores = gumbel(key, (count,), np.float64) + np.log(np.where(possible, p, 1))
    return np.argsort(-np.where(possible, scores, -np.inf), kind="stable")[:wanted]


def _by_probability(key: Any, shape: tuple, p: Any) -> Any:
    """For each number the first place up to which the probabilities add up to it."""
    sums = np.cumsum(p if isinstance(p, Traced) else np.asarray(p, np.float64))
    u = sums[-1] * (1 - unit_interval(key, shape, FLOAT64))  # above 0, up to the sum of all
    if trace_of((sums, u)) is None:
        return np.searchsorted(sums, u)
    return np.sum(sums < u[..., None], axis=-1)
