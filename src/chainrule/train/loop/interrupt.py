"""`Interrupts`: delays Ctrl-C and SIGTERM until the training can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from chainrule.train.step.job import ALONE, Job, agreed

# What a signal does where the program has not said anything else.
_USUAL: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


class Interrupted(Exception):
    """Raised by `Interrupts.check` where the loop may be left."""


class Interrupts:
    """Within the `with`, a first Ctrl-C or SIGTERM is noted in `received`; a second one raises.

    A noted signal that no `error` has told of is raised at the end.  `lifted` gives signals back
    to the program for code of the user's.

    A signal for which the program has a handler of its own is left to that, and threads other than
    the main one, which Python gives no signals, change nothing.

    In a `job` of several processes `check` is called by all of them at the same places; a signal
    that one of them got is `noted` in that one, and from the next check on `received` in all.
    """

    def __init__(self, job: Job = ALONE) -> None:
        self.received = self.noted = 0
        self._job = job
        self._replaced: list[int] = []
        self._is_told = False

    def __enter__(self) -> Interrupts:
        if self.noted:
            self._job.asks_for_time(True)
        if threading.current_thread() is threading.main_thread():
            for number, usual in _USUAL.items():
                if signal.getsignal(number) == usual:
                    self._replaced.append(number)
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self._is_told or not self.noted:
            return
        if kind is None:
            raise self.error("stopped after the last step")
        if issubclass(kind, GeneratorExit):  # what is raised here may be lost
            signal.raise_signal(self.noted)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Within it, signals do what the program wants."""
        self._restore()
        try:
            yield
        finally:
            self.__enter__()

    def _restore(self) -> None:
        while self._replaced:
            number = self._replaced[-1]
            signal.signal(number, _USUAL[number])
            self._replaced.pop()
        if self.noted:
            self._job.asks_for_time(False)

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        self.received = agreed(self._job, "looks for signals", self.noted)
        if self.received:
            raise Interrupted

    def error(self, text: str) -> BaseException:
        """What ends the program as the signal would have done: KeyboardInterrupt with this text,
        or, for SIGTERM, SystemExit with the status that shells give it."""
        self._is_told = True
        if signal.SIGTERM in (self.received, self.noted):
            return SystemExit(128 + signal.SIGTERM)
        return KeyboardInterrupt(text)

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_second, self.noted = bool(self.noted), number
        if is_second or self._job.count == 1:
            self.received = number
        if is_second:
            raise self.error("stopped at once by a second signal")
        self._job.asks_for_time(True)
