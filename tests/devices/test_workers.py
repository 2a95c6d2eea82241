"""Threads are kept from step to step."""

from __future__ import annotations

import os
import threading
import weakref

import pytest

from chainrule.devices import workers
from chainrule.devices.workers import in_thread


@pytest.fixture(autouse=True)
def _of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_idle", [])


def test_a_thread_works_again_and_keeps_nothing() -> None:
    class Held:
        names: list[str]

        def work(self) -> None:
            self.names = [threading.current_thread().name, str(threading.get_ident())]

    first, second = Held(), Held()
    in_thread(first.work, "first").wait()
    in_thread(second.work, "second").wait()
    assert [first.names[0], second.names[0]] == ["first", "second"]
    assert first.names[1] == second.names[1]
    left = weakref.ref(second)
    del second
    assert left() is None


def test_two_at_once_are_two_threads() -> None:
    meeting = threading.Barrier(2, timeout=20)
    for one in [in_thread(lambda: meeting.wait() and None, str(name)) for name in range(2)]:
        one.wait()
    assert len(workers._idle) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_process_has_threads_of_its_own() -> None:
    in_thread(lambda: None, "parent").wait()
    child = os.fork()
    if not child:
        os._exit(0 if in_thread(lambda: None, "child").wait(10) else 1)
    assert os.waitpid(child, 0)[1] == 0
