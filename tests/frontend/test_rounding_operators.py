"""Division with a remainder, shifts and rounding by Python's own operators and functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError, DTypeError, MutationError, UnsupportedError

X = np.array([[1.5, -2.0, 0.5], [3.0, 2.25, -7.125]])
I = np.array([3, -7, 12])  # noqa: E741
OPERATORS = {
    "x // y": lambda x: x // 0.75,
    "x % y": lambda x: x % 0.75,
    "on the left": lambda x: 7 % x + 5 // x,
    "an array": lambda x: x // X[0] + X[1] % x,
    "divmod": lambda x: divmod(x, 1.25)[0] * divmod(9, x)[1],
    "unpacked": lambda x: (lambda q, r: q - r)(*divmod(x, x[0])),
    "a size": lambda x: x % x.shape[1] + x // x.shape[0],
    "methods": lambda x: x.round(1) + x.real + x.imag + x.conj() - x.conjugate(),
}
WHOLE = {
    "//": lambda i: i // 2 + 100 // i,
    "%": lambda i: i % 5 - 5 % i,
    "<<": lambda i: (i << 2) + (1 << abs(i)),
    ">>": lambda i: (i >> 1) - (1000 >> abs(i)),
}


def outputs(program: Any, **arguments: Any) -> Any:
    return cr.trace(program, **arguments).run(**arguments).outputs


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_an_operator_gives_numpys_numbers(name: str, dtype: str) -> None:
    x = (X * 4).astype(dtype)
    with np.errstate(all="ignore"):
        want = OPERATORS[name](x)
        got = outputs(OPERATORS[name], x=x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("name", WHOLE)
def test_an_operator_of_integers_gives_numpys_numbers(name: str) -> None:
    want = WHOLE[name](I)
    got = outputs(WHOLE[name], i=I)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("number", [2.5, 3.5, -0.5, -1.25, 7.0])
@pytest.mark.parametrize("function", [round, math.floor, math.ceil, math.trunc])
def test_one_number_is_rounded_to_an_integer_as_python_does(function: Any, number: float) -> None:
    for argument in (number, np.array(number), np.array(number, np.float32)):
        got = outputs(lambda x: function(x), x=argument)
        assert got.dtype == np.int64
        assert got == function(number)
    table = np.arange(9.0)
    picked = outputs(lambda x, t: t[abs(function(x))], x=np.array(number), t=table)
    assert picked == abs(function(number))


def test_an_integer_of_a_number_is_weak_where_the_number_is() -> None:
    def program(x: Any, k: float = 2.5) -> Any:
        return x * math.floor(k) + x % k

    got = outputs(program, x=X.astype(np.float32))
    assert got.dtype == np.float32


def test_digits_keep_the_dtype_and_the_derivative_is_zero() -> None:
    assert outputs(lambda x: round(x, 1), x=np.array(2.345, np.float32)) == np.float32(2.3)
    assert outputs(lambda i: round(i, -1), i=np.array(25)) == 20
    assert cr.grad(lambda x: round(x, 1) * x)(np.array(2.34)) == pytest.approx(2.3)


def test_parts_take_the_names_of_the_program() -> None:
    def program(x: Any) -> Any:
        q, r = divmod(x, 2)
        fraction, whole = np.modf(x)
        rest = x % 3
        return q + r + fraction + whole + rest

    names = set(cr.trace(program, x=X).run(x=X))
    assert {"q", "r", "fraction", "whole", "rest"} <= names


def test_integers_from_python_stay_integers() -> None:
    def program(x: Any, n: int = 7) -> Any:
        half = n // 2
        return x.reshape(half - 1 + n % 2, -1)[: half % 2]

    assert outputs(program, x=X).shape == (1, 2)


def test_named_sizes_pass_through() -> None:
    def program(x: cr.float64["n 3"]) -> Any:  # type: ignore[valid-type]
        return np.hypot(x, x % 2) + np.sinc(x) + np.round(x, 1) + np.fmax(x, 0)

    for n in (1, 4):
        x = np.linspace(-2, 2, 3 * n).reshape(n, 3)
        np.testing.assert_allclose(cr.trace(program).run(x=x).outputs, program(x), rtol=1e-14)


OF_ONE = "() of x: float64[2, 3]: Python's own function is of one number"
CONVERT = "convert with .astype(...) first"
REFUSED: list[tuple[Any, type[ChainruleError], str, str]] = [
    (lambda x: round(x), UnsupportedError, f"round{OF_ONE}", "write np.round(x)"),
    (lambda x: round(x, 1), UnsupportedError, f"round{OF_ONE}", "write np.round(x, decimals)"),
    (lambda x: math.floor(x), UnsupportedError, f"math.floor{OF_ONE}", "write np.floor(x)"),
    (lambda x: np.round(x > 0, 1), DTypeError, "np.round of booleans to 1 decimals", CONVERT),
    (
        lambda x: x << 2,
        DTypeError,
        "np.left_shift is not defined for x: float64[2, 3] and 2",
        CONVERT,
    ),
    (
        lambda x: np.fmax(x > 0, "a"),
        UnsupportedError,
        "a traced array meets 'a', a str",
        "use NumPy arrays and Python numbers",
    ),
    (
        lambda x: np.nan_to_num(x, copy=False),
        MutationError,
        "np.nan_to_num(copy=False) changes an array in place; traced arrays are values",
        "leave copy= out and bind the result to a name",
    ),
]


@pytest.mark.parametrize(("program", "error", "what", "hint"), REFUSED)
def test_what_is_refused_is_explained(program: Any, error: Any, what: str, hint: str) -> None:
    with pytest.raises(error) as caught:
        cr.trace(program, x=X)
    assert (caught.value.what, caught.value.hint) == (what, hint)
    assert "test_rounding_operators.py" in caught.value.where
