"""What tests of the frontend share without asking for it."""

from __future__ import annotations

import threading

import pytest

from chainrule.frontend.frozen import frozen_random


@pytest.fixture(autouse=True)
def threads_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that others have left wake when they like: here they hide no draw."""
    left = {one.ident for one in threading.enumerate()}
    all_threads = frozen_random._other_threads
    monkeypatch.setattr(
        frozen_random,
        "_other_threads",
        lambda: {one: at for one, at in all_threads().items() if one not in left},
    )
