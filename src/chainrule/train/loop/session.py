"""`Session`: runs the epochs of a training, shows and saves them, and cleans up at any end."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from chainrule.errors import DataFileError, NonFiniteError, StateError
from chainrule.tracebacks import shorten
from chainrule.train.loop.divergence import refuse_spoiled
from chainrule.train.loop.epoch import Epoch
from chainrule.train.loop.interrupt import Interrupted, Interrupts
from chainrule.train.loop.loop import Loop
from chainrule.train.loop.progress import Progress, Silent, line_of, progress_of
from chainrule.train.loop.saving import Saving
from chainrule.train.loop.watching import plan_of, reading_of


@dataclass(eq=False)
class Session:
    """A loop with its folder and its progress; `saving` is None without a folder.

    Without `save_every` there is a checkpoint after every epoch, else after so many steps; and in
    any case when the loop is left, also by an error.  `again` says how a program goes on.
    """

    loop: Loop
    saving: Saving | None
    save_every: int | None
    is_shown: bool
    again: str
    _score: float | None = None
    _saved_at: tuple[int, int, int] | None = None  # as _now
    _left_at: int = 0  # steps, when the last loop was left
    _is_open: bool = False
    _greeting: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self._left_at, self.loop.save = self.loop.state.steps, self.save
        if self.saving is not None and self.saving.saved is not None:
            self._saved_at = self._now
            self._greeting = f"going on from {self.saving.saved}: {self._place}"

    def epochs(self, number: int) -> Generator[Epoch, None, None]:
        """Train up to epoch `number`; see `Trainer.epochs`."""
        interrupts = Interrupts(self.loop.made.job)
        try:
            with closing(self._trained(number, interrupts)) as epochs:
                for epoch in epochs:
                    with interrupts.lifted():
                        yield epoch
        except Exception as error:
            shorten(error)
            raise

    def fit(self, number: int) -> None:
        """Train up to epoch `number`; signals wait between epochs, too.

        A rank that a signal ends at once leaves the others in the middle of a step.
        """
        for _ in self._trained(number, Interrupts(self.loop.made.job)):
            pass

    def _trained(self, number: int, interrupts: Interrupts) -> Generator[Epoch, None, None]:
        with interrupts, self._opened(number) as progress:
            done = self.loop.position.epoch
            if done >= number:
                progress.say(f"nothing to do: {done} epochs are done")
            while self.loop.position.epoch < number:
                yield self._one_epoch(progress, number, interrupts)

    def save(self) -> None:
        """Write a checkpoint where there is none of this moment."""
        loop = self.loop
        if self.saving is not None and self._now != self._saved_at:
            score = None if loop.position.batch else self._score
            self.saving.save(loop.state, loop.position, loop.history, score)
            self._saved_at = self._now

    def _save_finite(self) -> None:
        """Save; the state before it was spoiled, and NonFiniteError, where the steps spoiled it."""
        try:
            if self.loop.nonfinite == "auto":
                refuse_spoiled(self.loop)
        finally:
            self.save()

    def _one_epoch(self, progress: Progress, number: int, interrupts: Interrupts) -> Epoch:
        try:
            epoch = self.loop.epoch(interrupts)
            measures = epoch.validation
            self._score = epoch.objective if measures is None else measures.objective
            if self.save_every is None or self._unsaved_steps >= self.save_every:
                self.save()
            progress.say(line_of(epoch, number))
            interrupts.check()
        except Interrupted:
            self._save_finite()
            if interrupts.received == signal.SIGTERM:
                progress.say(self._stopped)
            raise interrupts.error(self._stopped) from None
        return epoch

    @contextmanager
    def _opened(self, number: int) -> Iterator[Progress]:
        """Hold the folder and show progress; what is not saved when it is left is saved."""
        self._check_usable()
        loop, saving = self.loop, self.saving
        if saving is not None:
            saving.open(loop.state, loop.position, loop.history)
        self._is_open = True
        progress: Progress = Silent()
        try:
            progress = progress_of(
                self.is_shown, lambda: plan_of(loop, number), lambda: reading_of(loop)
            )
            if self._greeting:
                progress.say(self._greeting)
                self._greeting = ""
            yield progress
            self.save()
        except DataFileError:  # of the disk: it would not take another one
            raise
        except (GeneratorExit, Exception) as error:
            # An error that other ranks of a job may not have: they would not save.
            if loop.made.job.count == 1 or isinstance(error, (GeneratorExit, NonFiniteError)):
                self._save_finite()
            raise
        finally:
            progress.close()
            self._left_at, self._is_open = loop.state.steps, False
            if saving is not None:
                saving.close(loop.history)

    def _check_usable(self) -> None:
        if self._is_open:
            raise StateError(
                "another loop over the epochs of this trainer has not ended",
                hint="leave it first, or close it: epochs = trainer.epochs(10); epochs.close()",
            )
        steps = self.loop.state.steps
        if steps != self._left_at:
            raise StateError(
                f"the state of the trainer is at step {steps} and was left at step "
                f"{self._left_at}: something else took steps on it",
                hint="take your own steps on a copy: trainer.state.copy()",
            )

    @property
    def _now(self) -> tuple[int, int, int]:
        return self.loop.position.epoch, self.loop.position.batch, self.loop.state.steps

    @property
    def _unsaved_steps(self) -> int:
        return self.loop.state.steps - (0 if self._saved_at is None else self._saved_at[2])

    @property
    def _place(self) -> str:
        """What comes next."""
        position = self.loop.position
        return (
            f"step {self.loop.state.steps + 1} (epoch {position.epoch + 1}, "
            f"batch {position.batch + 1})"
        )

    @property
    def _stopped(self) -> str:
        text = f"stopped before {self._place}; "
        if self.saving is None:
            return text + 'nothing is saved without a folder: cr.Trainer(..., folder="run")'
        return text + f"{self.again}, and training goes on from {self.saving.saved}"
