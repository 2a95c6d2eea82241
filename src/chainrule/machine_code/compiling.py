"""Compiles modules on several threads, while the one that writes them goes on writing."""

from __future__ import annotations

import sys
from threading import Lock, Thread
from typing import Any

from chainrule.machine_code.forks import making
from chainrule.machine_code.target import Target, object_of

SWITCH_SECONDS = 1e-4


class Compiling:
    """Modules of LLVM's text, which up to so many threads compile; use it in a `with` statement.

    The calling thread is one of the threads: it compiles what is left when it asks for the objects.
    The longest text that waits is next, so that threads end at about the same time.  Which thread
    compiles a module makes no difference to the object.  A fork waits for all of them.
    """

    def __init__(self, target: Target, threads: int) -> None:
        self.target, self.threads = target, threads
        self._objects: list[bytes] = []
        self._waiting: list[tuple[int, str, int]] = []  # place, text, level
        self._choosing = Lock()
        self._workers: dict[int, Thread] = {}
        self._failures: list[BaseException] = []

    def __enter__(self) -> Compiling:
        making.acquire()
        # A thread that compiles needs Python for a moment between LLVM's functions.  By default
        # it would wait 5 ms each time for the one that writes, which never rests.
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            with self._choosing:
                self._waiting.clear()
            self._wait()
        finally:
            sys.setswitchinterval(self._switch_seconds)
            making.release()

    def add(self, text: str, opt: int = 2) -> None:
        """Have a module compiled, by another thread where there may be one; `opt` as in
        `compile_object`."""
        self._put(text, opt)
        for number in range(1, self.threads):
            worker = self._workers.get(number)
            if worker is None or not worker.is_alive():
                self._workers[number] = Thread(target=self._work, args=(number,), daemon=True)
                self._workers[number].start()
                return

    def objects(self) -> tuple[bytes, ...]:
        """The objects of all modules in the order in which they were added."""
        self._work(0)
        self._wait()
        if self._failures:
            raise self._failures[0]
        return tuple(self._objects)

    def _put(self, text: str, opt: int) -> None:
        self._objects.append(b"")
        with self._choosing:
            self._waiting.append((len(self._objects) - 1, text, opt))
            self._waiting.sort(key=lambda one: len(one[1]))

    def _work(self, number: int) -> None:
        """Compile what waits, until nothing does, or a module could not be compiled."""
        while not self._failures:
            with self._choosing:
                if not self._waiting:
                    return
                place, text, opt = self._waiting.pop()
            try:
                self._objects[place] = object_of(text, self.target, opt, number)
            except BaseException as error:
                self._failures.append(error)

    def _wait(self) -> None:
        """Return when no other thread compiles any more."""
        for worker in self._workers.values():
            worker.join()
