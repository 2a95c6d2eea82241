"""What several tests of memory share."""

from __future__ import annotations

import pytest

from chainrule.schedule import in_numpy


@pytest.fixture
def only_what_numpy_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports leave out what routines in C take, which tracemalloc does not see:
    test_library_bytes.py measures that."""
    monkeypatch.setattr(in_numpy, "unseen_nbytes", lambda node, operands: 0)
