"""Equations in which a composite stands by its symbol are true, and so are its derivatives."""

from __future__ import annotations

from typing import Any

import elementwise_cases  # noqa: F401  (it adds its cases to CASES)
import neural_cases  # noqa: F401  (it adds its cases to CASES)
import numpy as np
import pytest
import reduction_cases  # noqa: F401  (it adds its cases to CASES)
from composite_cases import CASES, Case
from equation_values import assert_true

import chainrule as cr
from chainrule.explain.equations import equations

SMOOTH = [case for case in CASES if "maximum" not in case.name and "clip" not in case.name]


@pytest.mark.sweep(79)
@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_equations_with_a_composite_are_true(case: Case) -> None:
    """As a statement, and as a part of one where the function has values everywhere."""
    check(case, is_part=False)
    if case.domain == (-2.0, 2.0):
        check(case, is_part=True)


def check(case: Case, is_part: bool) -> None:
    def whole(**inputs: Any) -> Any:
        result = case.call(*inputs.values())
        J = np.sum(np.sin(result))
        return J

    def part(**inputs: Any) -> Any:
        result = 2 * case.call(*(one * 1.5 for one in inputs.values()))
        J = np.sum(np.sin(result))
        return J

    given_ = dict(zip("xyz", case.arguments(), strict=False))
    graph = cr.backward(
        cr.trace(_of(part if is_part else whole, list(given_)), **given_), wrt="all"
    )
    assert_true(graph, equations(graph), graph.run(given_))


def _of(function: Any, names: list[str]) -> Any:
    """The function with parameters of these names."""
    given_ = ", ".join(f"{name}={name}" for name in names)
    body = f"    J = function({given_})\n    return J\n"
    scope = {"function": function}
    exec(f"def program({', '.join(names)}):\n{body}", scope)
    return scope["program"]
