"""Arguments in forms that NumPy takes, too: the same values, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError, ShapeError

X = np.array([[1.5, -2.25, 0.5, 7.0], [3.0, -0.0, -4.5, 2.0], [0.25, 1.0, -1.0, 6.5]])
CALLS = {
    "take along an axis at a tuple": lambda x: np.take(x, (0, 2), axis=1),
    "take at a tuple": lambda x: np.take(x, (1, 2)),
    "take at nested tuples": lambda x: np.take(x, ((0, 1), (1, 2)), axis=0),
    "take at booleans": lambda x: np.take(x, (True, False), axis=1),
    "take around a tuple": lambda x: np.take(x, (5, -7), axis=1, mode="wrap"),
    "ramp": lambda x: np.pad(x, 2, "linear_ramp", end_values=0),
    "ramps to other ends": lambda x: np.pad(x, ((1, 3), (0, 2)), "linear_ramp", end_values=(-3, 4)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_what_numpy_makes_of_them(name: str, dtype: Any) -> None:
    call, x = CALLS[name], (X * 2).astype(dtype)
    wanted = call(x)
    found = cr.trace(call, x).run(x=x).outputs
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


REFUSED = [
    (lambda x: np.repeat(x, -1), InputError, "np.repeat: -1 times"),
    (lambda x: np.tril(x[0, 0]), ShapeError, "np.tril of"),
    (lambda x: np.triu(x[0, 0]), ShapeError, "np.triu of"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_makes_no_sense_is_refused_by_name(call: Any, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        cr.trace(call, X)
    assert text in str(caught.value)
    assert "test_numpy_arguments.py" in caught.value.where and caught.value.hint
