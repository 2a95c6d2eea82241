"""Questions about dtypes are answered for traced arrays as NumPy answers for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ShapeError

DTYPES = ("float16", "float32", "float64", "int32", "int64", "uint8", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_the_answer_is_that_for_the_array(dtype: str, other: str) -> None:
    x, y = np.ones(2, dtype), np.ones((), other)
    found: list[Any] = []

    def ask(x: Any, y: Any, weak: Any) -> list[Any]:
        answers = [np.result_type(x, y), np.result_type(x, 1.0, other), np.result_type(x, weak)]
        answers += [np.can_cast(x, other), np.can_cast(x, other, "same_kind")]
        answers += [np.iscomplexobj(x), np.isrealobj(y)]
        if dtype != "bool" and other != "bool":
            answers.append(np.common_type(x, y))
        return answers

    def program(x: Any, y: Any, weak: Any = 2.5) -> Any:
        found.extend(ask(x, y, weak))
        return x

    cr.trace(program, x, y)
    assert found == ask(x, y, 2.5)


def test_what_the_dtype_does_not_say_is_refused() -> None:
    with pytest.raises(cr.errors.UnsupportedError, match=r"np\.min_scalar_type"):
        cr.trace(lambda x: x * np.min_scalar_type(x).itemsize, np.ones(()))


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_an_objective_of_one_element_is_told_to_be_taken_out(shape: tuple[int, ...]) -> None:
    def J(x: Any) -> Any:
        return x**2

    x = np.full(shape, 3.0)
    index = ", ".join("0" * len(shape))
    for refused in (lambda: cr.grad(J)(x), lambda: cr.backward(cr.trace(J, x))):
        with pytest.raises(ShapeError) as caught:
            refused()
        assert f"return its one element, J[{index}]" in caught.value.hint
    followed = cr.grad(lambda x: J(x)[(0,) * len(shape)])(x)
    np.testing.assert_array_equal(followed, np.full(shape, 6.0))


def test_integers_are_not_told_to_be_summed() -> None:
    with pytest.raises(ShapeError) as caught:
        cr.grad(lambda x: np.sum(x > 0))(np.ones(3))
    assert "integers have no gradient" in caught.value.hint
