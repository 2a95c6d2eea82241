"""Every NumPy call that is traced with a named size gives NumPy's numbers where that is 1 or 2, or
says that it holds for larger ones: nothing takes a named size for long without a condition."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from calls_elementwise import ELEMENTWISE
from calls_linalg import LINALG
from calls_movement import MOVEMENT
from calls_reductions import REDUCTIONS

import chainrule as cr
from chainrule.errors import ChainruleError
from chainrule.graph.structure import flatten
from chainrule.graph.types import array_type

TABLES = {
    "elementwise": ELEMENTWISE,
    "linalg": LINALG,
    "movement": MOVEMENT,
    "reductions": REDUCTIONS,
}
N = cr.size("n")


def is_traced(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0


def outcome(function: Any, args: Any, kwargs: Any, old: int, counts: Counter[str]) -> Any:
    """The runs with `old`, wherever it is a length, replaced by 1 and 2 that are not NumPy's."""
    places = [place for place, value in enumerate(args) if is_traced(value)]

    def program(*arrays: Any) -> Any:
        full = list(args)
        for place, array in zip(places, arrays, strict=True):
            full[place] = array
        return function(*full, **kwargs)

    whole = [args[place] for place in places]
    types = [array_type(a.dtype, tuple(N if s == old else s for s in a.shape)) for a in whole]
    try:
        graph = cr.trace(program, *types)
    except ChainruleError:
        counts["refused while tracing"] += 1
        return
    for new in sorted({1, 2, old}):
        cut = [a[tuple([slice(new) if s == old else slice(None) for s in a.shape])] for a in whole]
        given = {item.name: array for item, array in zip(graph.inputs, cut, strict=True)}
        try:
            got = flatten(graph.run(**given, executor="reference").outputs)[0]
        except ChainruleError:
            counts["refused at once"] += 1
            continue
        try:
            expected = program(*cut)
        except Exception:
            counts["NumPy raises"] += 1  # of values (a row of NaN alone), see below
            continue
        named = tuple(expected) if isinstance(expected, tuple) else expected
        leaves = flatten(named)[0]
        shapes = [np.shape(leaf) for leaf in leaves]
        same = [np.shape(leaf) for leaf in got] == shapes and all(
            np.allclose(a, b, 1e-6, 1e-8, equal_nan=True) for a, b in zip(got, leaves, strict=True)
        )
        if same:
            counts["same"] += 1
        else:
            yield f"np.{function.__name__} of {[a.shape for a in cut]}, {args[1:]}, {kwargs}"


@pytest.mark.parametrize(
    "table",
    ["elementwise", *(pytest.param(one, marks=pytest.mark.slow) for one in list(TABLES)[1:])],
)
def test_a_named_size_may_be_small(table: str) -> None:
    """Every function in its first call, and in every eleventh of the others."""
    check_table(table, 11)


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", TABLES)
def test_in_every_call_a_named_size_may_be_small(table: str) -> None:
    check_table(table, 1)


def check_table(table: str, every: int) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for function, calls in TABLES[table].items():
            for args, kwargs in calls[::every]:
                lengths = {s for a in args if is_traced(a) for s in a.shape if s > 1}
                for old in sorted(lengths):
                    wrong += outcome(function, args, kwargs, old, counts)
    assert not wrong, "\n".join(wrong)
    assert counts["same"] > 400 / every, counts
    assert counts["NumPy raises"] <= 6, counts  # np.nanargmax of a row of NaN alone
    assert counts["refused while tracing"] < 0.2 * counts["same"], counts
