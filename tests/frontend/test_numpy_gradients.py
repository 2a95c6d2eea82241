"""Derivatives of every traced NumPy function are those of finite differences, to order 2."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from test_numpy_functions import CALLS, mapped

import chainrule as cr
from chainrule.errors import KinkWarning
from chainrule.testing import check_gradients
from chainrule.transforms.vjp import depends_on

SOME = 1  # call of each function
FURTHER = 3  # of the others, as far apart as they are: in the slow tier

# Of these NumPy reads one triangle; the derivative is that by a symmetric matrix.
SYMMETRIC = (np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh)

# Clips at 1, the correlation of a row with itself; has the distance of an array from itself.
AT_KINKS = (np.corrcoef, np.logaddexp)


def is_rough(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether finite differences do not apply: the result is rounded to another dtype, something
    is not finite, or a pseudo-inverse drops singular values, which count as 0 in its derivative."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args, **kwargs)
    arrays: list[np.ndarray] = []
    mapped([args, list(kwargs.values())], lambda array: arrays.append(array) or array)
    results = result if isinstance(result, (list, tuple)) else [result]
    floats = [x for x in (*arrays, *map(np.asarray, results)) if x.dtype.kind == "f"]
    right = all(x.dtype == np.float64 and np.all(np.isfinite(x)) for x in floats)
    return not right or (function is np.linalg.pinv and len(args) > 1)


def moved(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The array a little elsewhere: neither ties nor kinks."""
    return array + generator.uniform(0.01, 0.05, array.shape)


def smooth_call(function: Any, args: Any, kwargs: Any) -> tuple[Any, list[np.ndarray]] | None:
    """The call as a function of its float arrays, and these; None without a derivative."""
    generator = np.random.default_rng(3)
    floats: list[np.ndarray] = []

    def note(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.float64:
            floats.append(moved(array, generator))
        return array

    mapped([args, list(kwargs.values())], note)

    def program(*arrays: Any) -> Any:
        given = iter(arrays)

        def filled(array: np.ndarray) -> Any:
            return next(given) if array.dtype == np.float64 else array

        new = mapped([args, list(kwargs.values())], filled)
        if function in SYMMETRIC:
            new[0] = ((new[0][0] + new[0][0].mT) / 2, *new[0][1:])
        return function(*new[0], **dict(zip(kwargs, new[1], strict=True)))

    if not floats:
        return None
    graph = cr.trace(program, *floats)
    active = depends_on(graph.nodes, [item.node for item in graph.inputs])
    return (program, floats) if any(n in active for _, n in graph.outputs) else None


@pytest.mark.sweep(23)
@pytest.mark.parametrize("function", CALLS, ids=lambda one: one.__name__)
def test_derivatives_are_those_of_finite_differences(function: Any):
    check_calls(islice(smooth_calls(function), SOME), function)


MANY = [function for function, calls in CALLS.items() if len(calls) > SOME]


@pytest.mark.sweep(17)
@pytest.mark.slow
@pytest.mark.parametrize("function", MANY, ids=lambda one: one.__name__)
def test_derivatives_of_further_calls_are_those_of_finite_differences(function: Any):
    others = list(smooth_calls(function))[SOME:]
    check_calls(others[:: -(-len(others) // FURTHER) or 1], function)


def check_calls(calls: Iterable[tuple[Any, list[np.ndarray]]], function: Any) -> None:
    """Check these calls of a function."""
    with warnings.catch_warnings():
        if function in AT_KINKS:
            warnings.simplefilter("ignore", KinkWarning)
        for program, floats in calls:
            check_gradients(program, *floats, order=2, seed=1)


def smooth_calls(function: Any) -> Iterator[tuple[Any, list[np.ndarray]]]:
    for args, kwargs in CALLS[function]:
        found = None if is_rough(function, args, kwargs) else smooth_call(function, args, kwargs)
        if found is not None:
            yield found
