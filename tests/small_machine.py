"""A machine with so many bytes free, where even few are worth a look."""

from __future__ import annotations

import pytest

from chainrule.execute import free_memory
from chainrule.execute.free_memory import FreeMemory


def having(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """So many bytes are free from now on."""
    monkeypatch.setattr(free_memory, "free_memory", lambda: FreeMemory(nbytes, "pretended"))
    for place in ("native.runtime.launch", "free_memory"):  # imported before it is changed there
        monkeypatch.setattr(f"chainrule.execute.{place}.WORTH_CHECKING", 1)
