"""Compares what equations say, as text, with the values of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from equation_text import Unreadable, function, read, sides
from equation_values import Values, chains

from chainrule.explain.equations import Equations
from chainrule.explain.equations.formula import Chain
from chainrule.explain.reading.symbols import notation_of
from chainrule.graph.graph import Graph


def assert_reads_true(graph: Graph, equations: Equations, run: Mapping[str, Any]) -> int:
    """Every right side that can be read has the value of the run; how many were read.

    The chain rule's own sides are left out: what is in prod(∂J/∂o, ∂o/∂W) is no expression.
    `equations` are without shapes.
    """
    text, links = notation_of(graph).text, chains(equations)
    values = {text(name): np.asarray(run[name]) for name in graph.names}
    symbols = [sides(str(one))[0] for one in equations if not one.number]
    for one in equations:
        _, called, *rest = sides(str(one))
        if rest and not any(symbol in rest[-1] for symbol in symbols):
            _define(called, rest[-1], values)
    count = 0
    for one in sorted(equations, key=lambda one: one.number > 0):
        left, *right = sides(str(one))
        for side, formula in zip(right, one.formulas, strict=True):
            if any(isinstance(part, Chain) for part in (formula, *formula.operands)):
                continue
            try:
                got = read(side, values)
            except Unreadable:
                continue
            if not one.number:
                values[left] = _shaped(got, one.node.shape, str(one))
                continue
            if one.name in graph.names:
                expected = np.asarray(run[one.name])
            else:
                expected = Values(graph, equations, run).local(links[one.name])
            # As for formulas: differences, with rounding of about 1e-16 / 1e-6 of the largest.
            scale = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
            np.testing.assert_allclose(
                _shaped(got, expected.shape, str(one)),
                expected,
                rtol=2e-5,
                atol=2e-6 * scale,
                err_msg=str(one),
            )
            count += 1
    return count


def _define(called: str, text: str, values: dict[str, Any]) -> None:
    """φ, where an equation says z = φ(x) = ..."""
    found = re.fullmatch(r"([φψχ][₀-₉]*)\((.*)\)", called)
    if found and found[2] in values:
        values.setdefault(found[1], function(found[2], text, values))


def _shaped(value: np.ndarray, shape: tuple, said: str) -> np.ndarray:
    """The value in the shape that stands on the right of its equation.

    The reader broadcasts, and takes an array of one element for a number.
    """
    if value.size == 1:
        value = np.reshape(value, ())
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise AssertionError(f"{said}\nreads as an array of shape {value.shape}") from None
