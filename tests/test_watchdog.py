"""A test that hangs is ended: one watch is kept over many tests."""

import faulthandler
import os
import time

import pytest
from watchdog import LONGEST, RENEWED, Watchdog


@pytest.fixture
def begun(monkeypatch):
    """The seconds and the options of each watch that was begun, and a clock that stands still."""
    watches, clock = [], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda seconds, **how: watches.append((seconds, how))
    )
    return watches, clock


def test_every_test_is_watched_for_nearly_the_longest(begun):
    watches, clock = begun
    watchdog = Watchdog()
    for clock[0] in (0, RENEWED / 2, RENEWED + 1, RENEWED + 2):
        watchdog.pytest_runtest_logstart()
    assert [seconds for seconds, _ in watches] == [LONGEST, LONGEST]
    assert all(how["exit"] for _, how in watches)
    os.close(watchdog._stderr)


def test_after_a_failure_the_next_test_is_watched_again(begun):
    watches, _ = begun
    watchdog = Watchdog()
    watchdog.pytest_runtest_logstart()
    watchdog.pytest_exception_interact()
    watchdog.pytest_runtest_logstart()
    assert len(watches) == 2
    os.close(watchdog._stderr)


def test_this_run_is_watched(request):
    assert any(isinstance(one, Watchdog) for one in request.config.pluginmanager.get_plugins())
