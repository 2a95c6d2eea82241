"""Keeps threads from step to step: to wake one takes less time than to start one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]  # raises nothing
Given = tuple[Work, str, threading.Event]

_idle: list[SimpleQueue[Given]] = []  # of each thread that has nothing to do


def in_thread(work: Work, name: str) -> threading.Event:
    """Lets a thread work, under this name; gives what is set when it has ended."""
    ended = threading.Event()
    try:
        given = _idle.pop()
    except IndexError:
        given = SimpleQueue()
        threading.Thread(target=_works, args=(given,), daemon=True).start()
    given.put((work, name, ended))
    return ended


def _works(given: SimpleQueue[Given]) -> None:
    while True:
        work, threading.current_thread().name, ended = given.get()
        work()
        del work  # and what it holds
        threading.current_thread().name = "idle"
        _idle.append(given)
        ended.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _idle.clear())
