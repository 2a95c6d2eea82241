"""What is true after every test of this folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SHARED, shared


def pytest_itemcollected(item: pytest.Item) -> None:
    """Small steps are split over more stages than they have work for."""
    if Path(__file__).parent in item.path.parents:
        item.add_marker(pytest.mark.filterwarnings("ignore::chainrule.errors.IdleStageWarning"))


@pytest.fixture(autouse=True)
def _no_shared_memory_is_left() -> Iterator[None]:
    before = shared()
    yield
    left = shared() - before
    for name in left:  # of a job of another test, which runs at the same time
        end = time.monotonic() + 20
        while (SHARED / name).exists() and time.monotonic() < end:
            time.sleep(0.1)
    assert not left & shared()
