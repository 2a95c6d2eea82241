"""A thread makes items beforehand, and leaves nothing behind: no thread, no hang, no lost error."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import Any

import pytest

from chainrule.data.ahead import Ahead

PATIENCE = 30.0  # seconds, after which something hangs


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "chainrule-data"]


def square(number: int) -> int:
    return number * number


@pytest.mark.parametrize("count", [1, 2, 100])
def test_the_items_come_in_their_order(count: int) -> None:
    assert list(Ahead(square, 3, 40, count)) == [k * k for k in range(3, 40)]
    assert list(Ahead(square, 3, 3, count)) == []
    assert threads() == []


def test_no_more_than_asked_for_are_made_beforehand() -> None:
    made: list[int] = []
    reached = threading.Event()

    def make(number: int) -> int:
        made.append(number)
        if number == 3:
            reached.set()
        return number

    ahead = Ahead(make, 0, 100, 3)
    assert next(ahead) == 0
    assert reached.wait(PATIENCE)
    time.sleep(0.05)  # in which a thread that does not stop would make all
    assert made in ([0, 1, 2, 3], [0, 1, 2, 3, 4])  # 3 that wait, and one in the hand
    ahead.close()
    assert list(ahead) == []


def test_an_exception_reaches_the_caller_with_its_traceback() -> None:
    def fails_at_5(number: int) -> int:
        if number == 5:
            raise ValueError("the fifth")
        return number

    ahead = Ahead(fails_at_5, 0, 10, 2)
    assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="the fifth") as caught:
        next(ahead)
    assert "fails_at_5" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert list(ahead) == []
    assert threads() == []


def test_an_iterator_that_is_dropped_ends_its_thread() -> None:
    for number in Ahead(square, 0, 10**6, 2):
        if number > 10:
            break
    gc.collect()
    assert threads() == []


def test_a_closed_iterator_has_no_more_items() -> None:
    ahead = Ahead(square, 0, 10**6, 2)
    next(ahead)
    ahead.close()
    ahead.close()
    assert threads() == [] and list(ahead) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_where_the_parent_is() -> None:
    ahead = Ahead(square, 0, 50, 2)
    begun = [next(ahead) for _ in range(10)]
    expected = [k * k for k in range(50)]
    child = os.fork()
    if child == 0:
        os._exit(0 if begun + list(ahead) == expected else 1)
    deadline = time.monotonic() + PATIENCE
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert ended == (child, 0)
    assert begun + list(ahead) == expected


ENDINGS = {
    "iterators are left open, one in a cycle, and wait for room": (
        "ahead = Ahead(square, 0, 10**6, 1); next(ahead); "
        "a = [Ahead(square, 0, 10**6, 2)]; a.append(a); next(a[0]); time.sleep(0.1)"
    ),
    "it makes something long": "ahead = Ahead(slow, 0, 9, 2); time.sleep(0.1)",
    "the program fails": "ahead = Ahead(square, 0, 10**6, 2); next(ahead); raise SystemExit(0)",
}
PROGRAM = """
import time
from chainrule.data.ahead import Ahead
def square(k): return k * k
def slow(k): time.sleep(0.5)
{}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(ending, marks=() if ending.startswith("it makes") else pytest.mark.slow)
        for ending in ENDINGS
    ],
)
def test_the_interpreter_ends(ending: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(ENDINGS[ending])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")
def test_an_interrupt_while_waiting_is_raised() -> None:
    main = threading.main_thread().ident
    assert main is not None
    asked, release = threading.Event(), threading.Event()

    def make(number: Any) -> Any:
        asked.wait(PATIENCE)
        if number == 0:
            signal.pthread_kill(main, signal.SIGINT)
        release.wait(PATIENCE)

    ahead = Ahead(make, 0, 3, 1)
    with pytest.raises(KeyboardInterrupt):
        asked.set()
        next(ahead)
    release.set()
    ahead.close()
    assert threads() == []
