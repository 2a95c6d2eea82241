"""`Loop`: runs the steps of an epoch, and the work between some of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chainrule.errors import ChainruleError, InputError, NonFiniteError
from chainrule.train.evaluation.measures import Measures
from chainrule.train.loop.assembly import Assembled
from chainrule.train.loop.coming import Coming
from chainrule.train.loop.divergence import (
    Snapshot,
    diverged,
    refuse_nonfinite,
    refuse_spoiled,
)
from chainrule.train.loop.epoch import Epoch
from chainrule.train.loop.feed import Feed, after, may_look_ahead
from chainrule.train.loop.history import History
from chainrule.train.loop.interrupt import Interrupts
from chainrule.train.loop.position import Position, Sums
from chainrule.train.step.state import State

SNAPSHOT_EVERY = 100  # steps; a snapshot costs about as much as a tenth of a step
NONFINITE = ("auto", "every step", "off")


@dataclass(eq=False)
class Loop:
    """What takes steps: a step and its state, the data, where they are, and the history.

    `save` is called before a step after every `save_every` steps.
    """

    made: Assembled
    state: State
    feed: Feed
    position: Position
    history: History
    learning_rate: Callable[[State], float | None]
    validate: Callable[[Callable[[], None]], Measures] | None
    nonfinite: str
    log_every: int | None
    save_every: int | None
    save: Callable[[], None] = lambda: None
    snapshot: Snapshot = field(default_factory=Snapshot)

    def epoch(self, interrupts: Interrupts) -> Epoch:
        """Take the steps of an epoch that are left, validate, and write its line.

        Raises Interrupted, where a signal came, after the step that was being taken; and
        NonFiniteError, the loop then being where it was before the bad step.
        """
        number = self.position.epoch + 1
        self._steps(number, interrupts)
        if self.nonfinite == "auto":
            refuse_spoiled(self)
        if not self.position.batch:
            raise InputError(
                f"the data have no batches in epoch {number}",
                hint="give at least as many rows as a batch has, or drop_last=False",
            )
        validation = None if self.validate is None else self.validate(interrupts.check)
        if self.position.line.rows:
            self._write_line(validation)
        sums = self.position.before
        sums.add(self.position.line)
        accuracy = sums.accuracy(self.correct_rows)
        self.position = Position(number, 0, self._no_sums(), self._no_sums())
        return Epoch(
            number, self.state.steps, sums.mean, accuracy, validation, sums.seconds, sums.rate
        )

    def again(self, number: int) -> Iterator[float]:
        """Take the steps until there are `number`, which were taken before: their objectives."""
        epoch = self.position.epoch + 1
        for batch in after(self.feed.batches(epoch), self.position.batch):
            if self.state.steps >= number:
                return
            given = self.feed.complete(batch, self.state.steps)
            value = float(self.made.step(self.state, given))
            self._count(value, given)
            yield value

    @property
    def correct_rows(self) -> float | None:
        """The rows that were classified right so far; None without a count."""
        correct = self.made.correct
        return None if correct is None else float(self.state.arrays[correct])

    def _steps(self, number: int, interrupts: Interrupts) -> None:
        step, state, feed = self.made.step, self.state, self.feed
        position, line = self.position, self.position.line
        batches = feed.batches(number)
        iterator: Any = after(batches, position.batch)
        if may_look_ahead(batches) and self.made.job.count == 1:
            iterator = Coming(iterator, feed.named)
            state.home.look_ahead(iterator.ahead)
        skipped = position.batch - state.steps  # batches done before, less steps
        is_checked, looks_first = self.nonfinite != "off", self.nonfinite == "every step"
        finite, clock = math.isfinite, time.perf_counter
        due, began = state.steps, clock()
        is_shared = self.made.job.count > 1
        snapshot = self.snapshot if is_shared and self.nonfinite == "auto" else None
        try:
            for batch in iterator:
                taken = state.steps_taken
                if taken >= due or (snapshot and snapshot.shares is not state.shares):
                    line.seconds += clock() - began
                    position.batch = skipped + taken
                    due = self._pause()
                    line, began = position.line, clock()
                given = feed.complete(batch, taken)
                if looks_first:
                    position.batch = skipped + taken
                    refuse_nonfinite(self, given)
                value = float(step(state, given))
                if is_checked and not finite(value):
                    raise diverged(self, value, taken, given)
                rows = feed.count(given)
                line.objective += value * rows
                line.rows += rows
                if is_shared or interrupts.received:
                    interrupts.check()
        except NonFiniteError:
            raise
        except ChainruleError as error:
            error.add_note(f"in batch {skipped + state.steps + 1} of epoch {number}")
            raise
        finally:
            state.home.look_ahead(None)
            line.seconds += clock() - began
            position.batch = skipped + state.steps
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    def _pause(self) -> int:
        """What is done between two steps, now and then; returns before which step it is next."""
        taken, position = self.state.steps, self.position
        if self.nonfinite == "auto" and position.batch:
            refuse_spoiled(self)
        if _is_due(taken, self.log_every) and position.line.rows:
            self._write_line(None)
            position.before.add(position.line)
            position.line = self._no_sums()
        if _is_due(taken, self.save_every) and position.batch:
            self.save()
        if self.nonfinite == "auto":
            self.snapshot.take(self.state, position, self.made.job)
        periods = [one for one in (self.log_every, self.save_every, SNAPSHOT_EVERY) if one]
        return min(taken + one - taken % one for one in periods)

    def _write_line(self, validation: Measures | None) -> None:
        """Add a line for the steps since the last one to the history."""
        line = self.position.line
        found: dict[str, Any] = {
            "step": self.state.steps,
            "epoch": self.position.epoch + 1,
            "objective": line.mean,
            "accuracy": line.accuracy(self.correct_rows),
            "validation_objective": None if validation is None else validation.objective,
            "validation_accuracy": None if validation is None else validation.accuracy,
            "learning_rate": self.learning_rate(self.state),
        }
        known = {name: value for name, value in found.items() if value is not None}
        times = {"seconds": line.seconds, "samples_per_second": line.rate}
        self.history.write({**known, **times})

    def _count(self, value: float, batch: Mapping[str, Any]) -> None:
        rows = self.feed.count(batch)
        self.position.line.objective += value * rows
        self.position.line.rows += rows
        self.position.batch += 1

    def _no_sums(self) -> Sums:
        return Sums(correct=self.correct_rows or 0.0)


def _is_due(taken: int, every: int | None) -> bool:
    return every is not None and taken % every == 0
