"""Wrong arguments are met by errors of this library: what, where, and what to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError

V = np.arange(4.0)
numpy: Any = np  # whose types would refuse these calls
IMAGES = np.ones((2, 3, 5, 5))
NUMPYS: dict[str, Callable[[Any], Any]] = {
    "np.tile(x: float64[4], (2.0, 2)): 'float' object": lambda x: numpy.tile(x, (2.0, 2)),
    "np.sum(x: float64[4], axis='a')": lambda x: numpy.sum(x, axis="a"),
    "np.repeat(x: float64[4], '3')": lambda x: numpy.repeat(x, "3"),
    "np.linspace(x: float64[4], 5, '3')": lambda x: numpy.linspace(x, 5, "3"),
    "np.full_like(x: float64[4], 1, shape=-1): the shape": lambda x: numpy.full_like(
        x, 1, shape=-1
    ),
    "np.split into -1 parts": lambda x: numpy.split(x, -1),
    "np.vander of x: float64[4] with -1 columns": lambda x: numpy.vander(x, -1),
    "np.partition(x: float64[4], 1.5): 'float'": lambda x: numpy.partition(x, 1.5),
    "axis=5 does not exist: x: float64[4]": lambda x: cr.softmax(x, axis=5),
    "axis=-7 does not exist: x: float64[4] has": lambda x: cr.logsumexp(x, axis=-7),
    "gelu: approximate='q' is not known": lambda x: cr.gelu(x, "q"),
    "x.at[...] has no method 'insert'": lambda x: x.at[0].insert(3),
    "x.at[0] = ... changes an array in place": lambda x: x.at.__setitem__(0, 1),
}


@pytest.mark.parametrize("what", NUMPYS)
def test_what_a_traced_function_cannot_take_is_said_with_the_line(what: str) -> None:
    try:
        cr.trace(NUMPYS[what], V)
    except ChainruleError as error:
        if "axis='a'" not in what:
            assert what in error.what
        assert "test_wrong_arguments.py" in error.where
        assert error.hint
    else:
        raise AssertionError("no error")


def test_errors_of_the_users_own_functions_stay_as_they_are() -> None:
    def of_a_row(row: Any) -> Any:
        return row[int("no number")]

    with pytest.raises(ValueError, match="no number") as caught:
        cr.trace(lambda x: numpy.apply_along_axis(of_a_row, 0, x), V)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    "of", [cr.vmap, cr.grad, cr.jacobian, cr.hessian, cr.jvp], ids=lambda of: of.__name__
)
def test_a_number_in_place_of_a_function_is_refused(of: Any) -> None:
    with pytest.raises(ChainruleError, match=r"a function is needed, got 3") as caught:
        of(3, V, (V,)) if of is cr.jvp else of(3)(V)
    assert caught.value.hint


def test_batch_norm_without_statistics_says_what_it_needs() -> None:
    with pytest.raises(ChainruleError, match="needs running_mean and running_var") as caught:
        cr.trace(lambda x: cr.batch_norm(x, None, None)[0], IMAGES)
    assert "training=True" in caught.value.hint


def test_numpys_want_of_memory_names_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = cr.trace(lambda x: np.sort(x), V)

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate 8 GiB")

    monkeypatch.setattr(np, "argsort", fails)
    with pytest.raises(cr.errors.MemoryLimitError, match="no memory for sort") as caught:
        graph.run(x=V, executor="reference")
    assert "np.sort(x)" in caught.value.where and "Unable to allocate" in caught.value.what
