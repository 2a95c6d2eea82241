"""Every function of NumPy is traced, answers of numbers, or is refused with its reason."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError
from chainrule.frontend.functions.ufuncs import UFUNCS
from chainrule.frontend.hints.replacements import instead_of
from chainrule.frontend.hints.untraced import OF_NUMBERS, REFUSED
from chainrule.numpy.names import TABLE

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_numpy_functions_page.py"


def functions() -> dict[str, object]:
    """Every function that NumPy and its linalg export, by name."""
    spaces = ((np, ""), (np.linalg, "linalg."))
    found = {prefix + n: getattr(m, n) for m, prefix in spaces for n in m.__all__}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


def test_every_function_is_in_one_class():
    for name, function in functions().items():
        is_traced = function in TABLE or function in UFUNCS
        assert is_traced + (name in OF_NUMBERS) + (name in REFUSED) == 1, name


def test_the_reasons_are_of_functions_that_exist():
    known = functions()
    assert not [name for name in (*REFUSED, *OF_NUMBERS) if name not in known]


# Functions that take arrays of the program, so that NumPy asks the traced ones.
ASKED = [
    name
    for name in sorted(REFUSED)
    if hasattr(functions()[name], "__wrapped__") or isinstance(functions()[name], np.ufunc)
]


@pytest.mark.parametrize("name", ASKED)
def test_a_refused_function_is_refused_by_name(name: str):
    function = functions()[name]
    count = 2 if isinstance(function, np.ufunc) and function.nin == 2 else 1
    if not isinstance(function, np.ufunc):
        parameters = inspect.signature(function).parameters.values()
        count = sum(one.default is inspect.Parameter.empty for one in parameters)

    def program(x):
        return function(*[x] * count)

    with pytest.raises(ChainruleError) as caught:
        cr.trace(program, np.ones((2, 2)))
    assert f"np.{name} " in str(caught.value) or "numbers do not exist" in str(caught.value)


def test_the_reason_stands_in_the_refusal():
    assert instead_of("linalg.eig").startswith("it has complex results;")
    assert "np.trim_zeros" not in instead_of("linalg.eig")


def test_the_page_of_every_function_is_current():
    sys.path.insert(0, str(SCRIPT.parents[1] / "tests" / "frontend"))
    spec = importlib.util.spec_from_file_location("make_numpy_functions_page", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), f"run python {SCRIPT}"
