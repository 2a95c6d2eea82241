"""Random choices among a named size are refused with advice; other index errors stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.ones(3)
CHOOSING: list[Callable[[Any, Any], Any]] = [
    lambda x, _: x[np.random.permutation(x.shape[0])],
    lambda x, rng: x[rng.permutation(x.shape[0])],
    lambda x, _: x[np.random.choice(x.shape[0])],
    lambda x, rng: x[rng.choice(x.shape[0], 3)],
]


@pytest.mark.parametrize("function", CHOOSING)
def test_choosing_among_a_named_size_is_refused_with_advice_that_works(function: Any) -> None:
    def objective(x: cr.float64["n"]) -> Any:  # type: ignore
        return function(x, np.random.default_rng(0))

    with pytest.raises(cr.errors.UnsupportedError) as refused:
        cr.trace(objective)
    assert "lambda x, " in refused.value.where
    assert "x[np.argsort(cr.random.bits(key, x.shape[:1]))]" in refused.value.hint

    def shuffled(x: cr.float64["n"], key: Any) -> Any:  # type: ignore
        return x[np.argsort(cr.random.bits(key, x.shape[:1]))]

    key = cr.random.key(0)
    found = cr.trace(shuffled, key=key).run(x=np.arange(50.0), key=key).outputs
    assert sorted(found) == list(range(50)) != list(found)


def test_other_index_errors_stay_what_they_are() -> None:
    with pytest.raises(np.exceptions.AxisError, match="axis 0 is out of bounds"):
        cr.trace(lambda x: x * np.sort(np.float64(2.0), axis=0), X)
    with pytest.raises(IndexError, match="list index out of range"):
        cr.trace(lambda x: [x][1], X)
