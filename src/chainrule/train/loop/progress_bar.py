"""Draws the progress bar of a training, in a thread of rich."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from chainrule.train.loop.progress import Plan, Reading, memory_text

PER_SECOND = 4  # each takes about 2 ms of one core
SMOOTH = 0.3  # the weight of the newest rate


class Rate:
    """Rows a second, smoothed: the steps between two moments, which may lie in different epochs,
    times the rows of a step.  What happens before the first steps (code is made) does not count."""

    def __init__(self, plan: Plan, begin: int) -> None:
        self._per_epoch = plan.steps // plan.epochs if plan.steps and plan.epochs else None
        self._begin = begin
        self._before: tuple[float, Reading] | None = None
        self._rows_of_step: float | None = None
        self.value: float | None = None

    def take(self, reading: Reading, now: float) -> None:
        """Look at where training is at a moment, in seconds."""
        if reading.steps <= self._begin:
            return
        if self._before is None:
            self._before = now, reading
            return
        then, before = self._before
        self._look_at_rows(reading, before)
        if reading.steps > before.steps and now > then and self._rows_of_step is not None:
            found = (reading.steps - before.steps) * self._rows_of_step / (now - then)
            self.value = found if self.value is None else self.value + SMOOTH * (found - self.value)
            self._before = now, reading

    def _look_at_rows(self, reading: Reading, before: Reading) -> None:
        in_epoch = reading.steps % self._per_epoch if self._per_epoch else 0
        if in_epoch and reading.rows:
            self._rows_of_step = reading.rows / in_epoch
        elif reading.epoch == before.epoch and reading.steps > before.steps:
            self._rows_of_step = (reading.rows - before.rows) / (reading.steps - before.steps)


def measures_text(reading: Reading, rate: float | None, nbytes: int | None) -> str:
    """The line below the bar."""
    parts = [
        f"objective {reading.objective:.4f}" if reading.objective is not None else "",
        f"accuracy {reading.accuracy:.1%}" if reading.accuracy is not None else "",
        f"{rate:,.0f} samples/s" if rate is not None else "",
        memory_text(nbytes),
    ]
    return "  ".join(part for part in parts if part)


class Bar:
    """A bar with objective, accuracy, speed, memory and the time left; lines go above it."""

    def __init__(
        self, plan: Plan, look: Callable[[], Reading], console: Console | None = None
    ) -> None:
        begin = look().steps
        self._plan, self._look, self._rate = plan, look, Rate(plan, begin)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console)  # never started: drawn by `_live`
        self._task = self._progress.add_task("", total=plan.steps, completed=begin)
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            refresh_per_second=PER_SECOND,
            transient=True,
        )
        self._live.start()

    def say(self, text: str) -> None:
        """Show a line above the bar."""
        self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bar."""
        self._live.stop()

    def _drawn(self) -> RenderableType:
        reading = self._look()
        self._rate.take(reading, time.monotonic())
        shown = f"epoch {min(reading.epoch, self._plan.epochs)}/{self._plan.epochs}"
        self._progress.update(self._task, completed=reading.steps, description=shown)
        below = measures_text(reading, self._rate.value, self._plan.nbytes)
        return Group(
            self._progress.get_renderable(), Text(below, "dim", no_wrap=True, overflow="ellipsis")
        )
