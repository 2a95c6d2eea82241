"""Marks of tests that need the native executor, or take each that this machine has.

`xla` compiles for a second what the others run at once: it is tried in the exhaustive tier.
"""

from __future__ import annotations

import pytest

from chainrule.execute.xla.jax_here import refusal as xla_refusal
from chainrule.machine_code.target import native_refusal

needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
needs_jax = pytest.mark.skipif(xla_refusal() is not None, reason=str(xla_refusal()))
BY_XLA = pytest.param("xla", marks=[needs_jax, pytest.mark.exhaustive])
_WITHIN = ["reference", pytest.param("native", marks=needs_native)]
# Those whose arrays are all NumPy's, so that they obey a budget, and can be measured.
WITHIN = pytest.mark.parametrize("executor", _WITHIN)
EITHER = pytest.mark.parametrize("executor", [*_WITHIN, BY_XLA])
