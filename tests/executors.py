"""Marks of tests that need the native executor, or take each that this machine has."""

from __future__ import annotations

import pytest

from chainrule.machine_code.target import native_refusal

needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
EITHER = pytest.mark.parametrize(
    "executor", ["reference", pytest.param("native", marks=needs_native)]
)
