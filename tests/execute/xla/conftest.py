"""What tests of the executor `xla` share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def jax_on_cpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """JAX, of programs on a CPU, which are all compiled anew."""
    found = pytest.importorskip("jax")
    from chainrule.execute.xla import code

    if found.default_backend() != "cpu":
        pytest.skip("of programs on a CPU")
    monkeypatch.setattr(code, "_codes", type(code._codes)())
    return found
