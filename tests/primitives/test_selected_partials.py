"""Partials that are 0 by choice say where: what they are multiplied with may be infinite there."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.node import topological
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import power
from chainrule.primitives.primitive import Partials, Primitive
from chainrule.primitives.registry import PRIMITIVES
from chainrule.primitives.sources import input_

POINTS = (-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan)
ELEMENTWISE = [
    (primitive, index)
    for primitive in PRIMITIVES
    if isinstance(primitive.derivative, Partials)
    for index, rule in enumerate(primitive.derivative.partials)
    if rule is not None
]


def value_of(node: Any, given: dict[Any, np.ndarray]) -> np.ndarray:
    values = dict(given)
    for one in topological([node]):
        if one not in values:
            operands = [values[parent] for parent in one.inputs]
            values[one] = one.primitive.evaluate(np, *operands, **dict(one.params))
    return values[node]


@pytest.mark.parametrize(("primitive", "index"), ELEMENTWISE, ids=lambda p: getattr(p, "name", p))
def test_a_partial_is_0_by_choice_where_it_is_not_selected_and_nowhere_else(
    primitive: Primitive, index: int
) -> None:
    count = len(primitive.samples[0].shapes)
    arrays = np.array(list(product(POINTS, repeat=count))).T
    inputs = [input_(index=i, type=array_type(a.dtype, a.shape)) for i, a in enumerate(arrays)]
    derivative = primitive.derivative
    assert isinstance(derivative, Partials)
    rule = derivative.partials[index]
    assert rule is not None
    for params in {sample.params for sample in primitive.samples}:
        out = primitive(*inputs, **dict(params))
        given = dict(zip(inputs, arrays, strict=True))
        with np.errstate(all="ignore"):
            slope = value_of(rule(out, *inputs), given)
            kink = primitive.kink and primitive.kink(*arrays, **dict(params))
            right = np.ones(slope.shape, bool)
            if derivative.selected and (asked := derivative.selected[index]) is not None:
                right = value_of(asked(out, *inputs), given)
            value = value_of(out, given)
        np.testing.assert_array_equal(slope[~right], 0)
        # (A power of 0 is flat by its base, but this slope is not by the exponent.)
        if kink is not None and (primitive, index) != (power, 0):
            chosen = kink & (slope == 0) & np.isfinite(value)
            assert not right[chosen].any(), arrays[:, chosen & right]


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: np.abs(x), 0.0),
        (lambda x: np.copysign(x, 1.0), 0.0),
        (lambda x: np.hypot(x, 0.0), 0.0),
        (lambda x: np.arctan2(x, 0.0), 0.0),
        (lambda x: np.arctan2(x, np.inf), 2.0),
        (lambda x: 0.0**x, 2.0),
        (lambda x: cr.xlogy(x, 0.0), 0.0),
        (lambda x: cr.i0e(x) - 1, 0.0),
        (lambda x: cr.grad(cr.i1e)(x) - 0.5, 0.0),
        (lambda x: np.minimum(x, 1.0) - 1, 2.0),
        (lambda x: np.remainder(0.0, x), 2.0),
        (lambda x: np.fmod(0.5, x) - 0.5, 2.0),
    ],
)
def test_a_choice_inside_of_an_infinite_slope_is_0(f: Any, x: float) -> None:
    with np.errstate(all="ignore"):
        steep = lambda x: np.sqrt(f(x))  # noqa: E731
        at = np.float64(x)
        assert cr.grad(f)(at) == 0
        assert steep(at) == 0
        assert cr.grad(steep)(at) == 0
        assert cr.jvp(steep, (at,), (np.float64(1),))[1] == 0
