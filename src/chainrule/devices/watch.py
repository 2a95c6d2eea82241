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
        self._waiting: tuple[float, float, What] | None = None  # until when, how long, for what
        threading.Thread(target=self._look, name="chainrule deadline", daemon=True).start()

    def begin(self, what: What, longer: float = 0.0) -> None:
        """An operation begins, which must end before the deadline, or so many seconds later."""
        seconds = self.seconds + longer
        self._waiting = time.monotonic() + seconds, seconds, what

    def end(self) -> None:
        """It has ended."""
        self._waiting = None

    def _look(self) -> None:
        while True:
            time.sleep(min(0.25, self.seconds / 4))
            waiting = self._waiting
            if waiting is not None and time.monotonic() > waiting[0]:
                _, seconds, what = waiting
                end_job(
                    f"{self.own} {what()}, and has got nothing within {seconds:g} s\n"
                    f"  try: look at what that rank does; {DEADLINE}={10 * self.seconds:g} "
                    "in the environment waits longer"
                )
