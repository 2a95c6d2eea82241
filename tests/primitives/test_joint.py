"""A derivative written for all inputs at once is checked, and used, as the others are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chainrule.primitives.arithmetic import multiply
from chainrule.primitives.primitive import Joint
from chainrule.testing import check_primitive, planted_fault


def _tangent(dxs, out, x, y):
    left, right = dxs
    if left is None:
        return x * right
    return left * y if right is None else left * y + x * right


JOINT = replace(multiply, derivative=Joint(_tangent, lambda g, out, active, x, y: (g * y, g * x)))


def test_a_joint_derivative_passes_every_check():
    check_primitive(JOINT)


@pytest.mark.parametrize("argument", [0, 1])
@pytest.mark.parametrize("kind", ["scaled", "one mode", "negated", "missing", "detached"])
def test_a_fault_planted_in_a_joint_derivative_is_found(kind, argument):
    with pytest.raises(AssertionError):
        check_primitive(planted_fault(JOINT, kind, argument))
