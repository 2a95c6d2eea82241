"""Every primitive, with every one of its samples, passes every check."""

from __future__ import annotations

import re

import numpy as np
import pytest

from chainrule.primitives.primitive import Library
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import CHECKS, sample_arrays
from chainrule.testing.checks import latex_of
from chainrule.testing.samples import cases

CASES = list(cases(PRIMITIVES))
EVERY_CASE = pytest.mark.parametrize(
    ("primitive", "sample"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


def test_names_are_unique():
    names = [primitive.name for primitive in PRIMITIVES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("check", CHECKS)
@EVERY_CASE
def test_every_check_passes(primitive, sample, check):
    CHECKS[check](primitive, sample, 0)


@pytest.mark.slow
@EVERY_CASE
def test_every_check_passes_with_other_numbers(primitive, sample):
    for check in CHECKS.values():
        check(primitive, sample, 1)


@EVERY_CASE
def test_matplotlib_can_draw_the_equation(primitive, sample):
    mathtext = pytest.importorskip("matplotlib.mathtext")
    mathtext.MathTextParser("path").parse(f"${latex_of(primitive, sample)}$")


@pytest.mark.peers
@EVERY_CASE
def test_jax_evaluates_the_same(primitive, sample):
    jax = pytest.importorskip("jax")
    if primitive.kernel == Library("argument"):
        pytest.skip("an argument has no evaluation")
    params = dict(sample.params)
    arrays = sample_arrays(sample, seed=1)
    expected = np.asarray(primitive.evaluate(np, *arrays, **params))
    with jax.enable_x64(True):
        given = [jax.numpy.asarray(array) for array in arrays]
        got = np.asarray(primitive.evaluate(jax.numpy, *given, **params))
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    # XLA's elementary functions, and sums in another order, are within a few ulp of NumPy's.
    rtol = 16 * np.finfo(expected.dtype).eps if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol, equal_nan=False)


def test_a_kernels_expression_reads_every_input():
    for primitive in PRIMITIVES:
        expression = getattr(primitive.kernel, "expression", None)
        if expression is not None:
            words = set(re.findall(r"[A-Za-z_]\w*", expression))
            assert set(primitive.inputs) <= words, primitive.name
