"""Compiles modules on several threads, while the one that writes them goes on writing."""

from __future__ import annotations

from collections import deque
from threading import Thread
from typing import Any

from chainrule.machine_code.forks import making
from chainrule.machine_code.target import Target, object_of


class Compiling:
    """Modules of LLVM's text, which up to so many threads compile; use it in a `with` statement.

    The calling thread is one of the threads: it compiles what is left when it asks for the objects.
    Which thread compiles a module makes no difference to the object.  A fork waits for all of them.
    """

    def __init__(self, target: Target, threads: int) -> None:
        self.target, self.threads = target, threads
        self._objects: list[bytes] = []
        self._waiting: deque[tuple[int, str]] = deque()
        self._workers: dict[int, Thread] = {}
        self._failures: list[BaseException] = []

    def __enter__(self) -> Compiling:
        making.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self._waiting.clear()
            self._wait()
        finally:
            making.release()

    def add(self, text: str) -> None:
        """Have a module compiled: by another thread, where there may be one."""
        self._put(text)
        for number in range(1, self.threads):
            worker = self._workers.get(number)
            if worker is None or not worker.is_alive():
                self._workers[number] = Thread(target=self._work, args=(number,), daemon=True)
                self._workers[number].start()
                return

    def objects(self, text: str) -> tuple[bytes, ...]:
        """The objects of all modules in their order; the text is that of the last one."""
        self._put(text)
        self._work(0)
        self._wait()
        if self._failures:
            raise self._failures[0]
        return tuple(self._objects)

    def _put(self, text: str) -> None:
        self._objects.append(b"")
        self._waiting.append((len(self._objects) - 1, text))

    def _work(self, number: int) -> None:
        """Compile what waits, until nothing does, or a module could not be compiled."""
        while not self._failures:
            try:
                place, text = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._objects[place] = object_of(text, self.target, worker=number)
            except BaseException as error:
                self._failures.append(error)

    def _wait(self) -> None:
        """Return when no other thread compiles any more."""
        for worker in self._workers.values():
            worker.join()
