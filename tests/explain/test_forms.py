"""How an operation is written is on its record: no file of the equations knows it by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
import chainrule.explain.equations as equations_room
from chainrule.explain.equations.forms import FORMS
from chainrule.frontend.composite import binary
from chainrule.primitives.families import elementwise
from chainrule.primitives.notation import PRODUCT, Form, Latex
from chainrule.primitives.primitive import Partials
from chainrule.primitives.python import Python
from chainrule.primitives.registry import PRIMITIVES

WRITERS = ("elements", "products", "places", "forms", "joining", "spanning", "templates", "parts")
OF_ALL = {
    "chainrule.primitives.notation",
    "chainrule.primitives import notation",
    "chainrule.primitives.primitive",
}


def test_every_form_has_a_writer_and_an_operation() -> None:
    assert set(FORMS) == set(Form)
    assert {one.latex.form for one in PRIMITIVES} - {None} == set(Form)


@pytest.mark.parametrize("name", WRITERS)
def test_what_writes_forms_imports_no_operation(name: str) -> None:
    file = Path(str(equations_room.__file__)).with_name(f"{name}.py")
    text = file.read_text(encoding="utf-8")
    assert set(re.findall(r"chainrule\.primitives(?:\.\w+| import \w+)", text)) <= OF_ALL


quarters = elementwise(
    "quarters",
    "x over 4 y.",
    lambda xp, x, y: x / (4 * y),
    Partials((lambda out, x, y: 0.25 / y, lambda out, x, y: -out / y)),
    kernel="x / (4.0 * y)",
    latex=Latex(r"\frac{{{x}}}{{{y}}}", PRODUCT, (0, 0), Form.QUOTIENT),
    inputs=("x", "y"),
    domain=(0.5, 2.0),
    python=Python("{x} / (4.0 * {y})", PRODUCT, (PRODUCT, PRODUCT + 1)),
)


def test_a_new_operation_takes_a_form_that_there_is() -> None:
    function: Any = binary(quarters, np.true_divide, "quarters", "x over 4 y.")

    def ours(x: Any, y: Any) -> Any:
        z = function(-x, y + 1) * x
        return z

    def numpys(x: Any, y: Any) -> Any:
        z = -x / (y + 1) * x
        return z

    types: dict[str, Any] = {"x": cr.float64["n"], "y": cr.float64["n"]}
    texts = [cr.trace(one, **types).equations() for one in (ours, numpys)]
    assert str(texts[0]) == str(texts[1])
    assert texts[0].latex() == texts[1].latex()
