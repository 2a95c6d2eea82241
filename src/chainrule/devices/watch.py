"""Ends the job when a rank waits for others longer than the deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chainrule.devices.ending import end_job
from chainrule.devices.job import DEADLINE, Rank

What = Callable[[], str]  # "waits for ..."; asked only where it is told


class Watch:
    """A thread that looks at the clock, so that a call which itself hangs ends, too."""

    def __init__(self, seconds: float, own: Rank) -> None:
        self.seconds, self.own = seconds, own
        self._waiting: dict[int, tuple[float, float, What]] = {}  # of each thread: see begin
        threading.Thread(target=self._look, name="chainrule deadline", daemon=True).start()

    def begin(self, what: What, longer: float = 0.0) -> None:
        """An operation begins, which must end before the deadline, or so many seconds later."""
        seconds = self.seconds + longer
        self._waiting[threading.get_ident()] = time.monotonic() + seconds, seconds, what

    def end(self) -> None:
        """That of this thread has ended."""
        self._waiting.pop(threading.get_ident(), None)

    def _look(self) -> None:
        while True:
            time.sleep(min(0.25, self.seconds / 4))
            for until, seconds, what in list(self._waiting.values()):
                if time.monotonic() > until:
                    end_job(
                        f"{self.own} {what()}, and has got nothing within {seconds:.3g} s\n"
                        f"  try: look at what that rank does; {DEADLINE}={10 * self.seconds:g} "
                        "in the environment waits longer"
                    )
