"""What a refusal proposes to write instead is traced, and gives the numbers of what it replaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import chainrule as cr
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.frontend.hints.replacements import CONDITIONS, INSTEAD, instead_of, primitive_of
from chainrule.numpy.names import TABLE

POSITIVE = np.array([0.2, 0.9, 0.4, 0.5])
SPECIAL = np.array([np.nan, 1.0, -2.0, 0.5])
INFINITE = np.array([np.inf, -np.inf, np.nan, 1.0])
MASKS = np.array([True, True, False, False]), np.array([True, False, True, False])
GIVEN = {}


TAKING_MORE = {
    "column_stack": lambda x, y: np.column_stack([x, y]),
    "roll": lambda x: np.roll(x, SHIFT),
}
SHIFT = 1


def replaced(name: str) -> Any:
    """The function of NumPy or SciPy."""
    return getattr(np, name, None) or getattr(scipy.special, name)


def arguments(name: str) -> tuple[Any, ...]:
    """What the function is called with, here."""
    count = 2 if "y" in INSTEAD[name] else 1
    return GIVEN.get(name, (POSITIVE, POSITIVE[[2, 1, 0, 3]])[:count])


@pytest.mark.parametrize("name", INSTEAD)
def test_the_expression_gives_the_same_numbers(name: str) -> None:
    given = arguments(name)
    wanted = TAKING_MORE.get(name, replaced(name))(*given)
    program = eval(f"lambda x, y=None: {INSTEAD[name]}", {"np": np, "cr": cr, "shift": SHIFT})
    got = cr.trace(program, *given).run(**dict(zip("xy", given, strict=False))).outputs
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", INSTEAD)
def test_what_has_a_replacement_is_not_traced(name: str) -> None:
    assert replaced(name) not in UFUNCS and replaced(name) not in TABLE


def test_conditions_belong_to_expressions() -> None:
    assert CONDITIONS.keys() <= INSTEAD.keys()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: scipy.special.beta(x, x), "scipy.special.beta is not traced"),
        (lambda x: np.spacing(x), "np.spacing is not traced"),
        (lambda x: np.linalg.eig(x), "np.linalg.eig is not traced"),
        (lambda x: np.histogram(x), "np.histogram is not traced"),
        (lambda x: np.unique(x), "np.unique is not traced"),
    ],
)
def test_a_function_is_called_by_its_own_name(function: Any, text: str) -> None:
    with pytest.raises(cr.errors.UnsupportedError) as caught:
        cr.trace(function, np.eye(3))
    assert caught.value.what == text
    assert caught.value.hint == instead_of(text.split(" ")[0].removeprefix("np."))


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (scipy.special.gamma, primitive_of("scipy.special.gamma")),
        (np.frompyfunc(lambda x: x, 1, 1), primitive_of("<lambda> (vectorized)")),
    ],
)
def test_a_ufunc_of_another_library_is_told_what_makes_an_operation(
    function: Any, hint: str
) -> None:
    with pytest.raises(cr.errors.UnsupportedError) as caught:
        cr.trace(lambda x: function(x), POSITIVE)
    assert caught.value.hint == hint


def test_nothing_is_proposed_where_nothing_is_known() -> None:
    assert instead_of("bessel") == instead_of("zeta")
    assert "perhaps" not in instead_of("bessel")
