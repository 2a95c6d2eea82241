"""Writes a trainer's folder: its checkpoints and its history."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import DataFileError, InputError, StateError
from chainrule.train.checkpoints import Checkpoint, Checkpoints
from chainrule.train.loop.assembly import Assembled
from chainrule.train.loop.history import NAME, History, read
from chainrule.train.loop.position import Position
from chainrule.train.step.counting import counting
from chainrule.train.step.job import first
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.weights import PARAMETERS

NOTES = "trainer"  # where in the notes of a checkpoint a trainer's own are
SLOW_DISK = 20e6  # bytes a second


def writing_seconds(state: State) -> float:
    """How long a slow disk takes for a state."""
    return sum(array.nbytes for array in state.outlines.values()) / SLOW_DISK


@dataclass(frozen=True)
class Found:
    """Where a training in a folder was: what a trainer goes on from."""

    state: State
    position: Position
    history: list[dict[str, Any]]


@dataclass(eq=False)
class Saving:
    """The folder of one training; it is held, and written to, between `open` and `close`.

    `described` says of which data and key the training is, `parameters` are the names of the arrays
    that are weights.  In a job of several processes the first one alone reads and writes files, and
    the others wait: they have its results, and its errors.
    """

    folder: Path
    made: Assembled
    keep_last: int
    keep_best: int
    described: Mapping[str, Any]
    parameters: tuple[str, ...]
    saved: Path | None = None  # from which training goes on
    _newest: Path | None = None  # which may be damaged
    _checkpoints: Checkpoints | None = field(default=None, repr=False)

    def find(self, resume: bool | str) -> Found | None:
        """What there is to go on from; None for a training that begins.

        InputError where that is not what `resume` says, or another training; DataFileError where
        no checkpoint can be read, StateError where another process holds the folder.
        """
        found: Found | None = None

        def look() -> dict[str, Any] | None:
            nonlocal found
            found = self._find(resume)
            if found is None:
                return None
            own = {"path": str(self.saved), "steps": found.state.steps}
            return {**own, "position": found.position.json(), "history": found.history}

        job, like = self.made.job, self.made.state
        told = first(job, "looks for a checkpoint", look, writing_seconds(like))
        if told is None or job.count == 1:
            return found
        if found is None:  # on another rank
            self.saved = Path(told["path"])
            state = self.made.whole.restore(like.arrays, steps=told["steps"])
            found = Found(state, Position.read(told["position"]), told["history"])
        for array in found.state.memory.values():
            job.broadcast(array, 0)
        return found

    def _find(self, resume: bool | str) -> Found | None:
        with self._held() as checkpoints:
            paths = checkpoints.paths
            self._newest = paths[-1] if paths else None
            if paths and resume is False:
                raise InputError(
                    f"there is a training in {self.folder} already: {paths[-1].name}",
                    hint='another folder; or go on with that one: resume="auto"',
                )
            try:
                found = checkpoints.load(self.made.state)
            except InputError:
                found = self._otherwise_counted(checkpoints)
                if found is None:
                    raise
            if found is None:
                self._refuse_rest(paths, resume)
                return None
            self.saved = found.path
            return self._found(found)

    def _otherwise_counted(self, checkpoints: Checkpoints) -> Checkpoint | None:
        """The newest checkpoint of the same training that counts rows which are classified right,
        where this one does not, as it is split or in micro-batches; or the other way round."""
        made = self.made
        if made.accuracy is None:
            return None
        step, name = made.plain, made.correct
        if name is None:
            step, name = counting(made.whole, made.accuracy)
        checkpoints.step = step
        try:
            found = checkpoints.load(step.init(made.state.weights))
        except InputError:
            return None
        finally:
            checkpoints.step = made.whole
        if found is None or made.correct is None:
            return found and replace(found, arrays={n: found.arrays[n] for n in made.state})
        if self._found(found, step).position.batch:
            raise InputError(
                f"the training in {found.path} has counted no accuracy so far in its epoch: it was "
                "split, or in micro-batches",
                hint="accuracy=None, which goes on without",
            )
        return replace(found, arrays={**found.arrays, name: np.zeros(())})

    def open(self, state: State, position: Position, history: History) -> None:
        """Hold the folder; a training that begins is saved at once.

        StateError where another process holds it, or has trained in it meanwhile.
        """
        try:
            first(self.made.job, "opens the folder", self._hold)
            if self.saved is None:
                self.save(state, position, history, None)
            first(self.made.job, "opens the history", history.open)
        except BaseException:
            self.close(history)
            raise

    def _hold(self) -> None:
        self._checkpoints = self._held()
        paths = self._checkpoints.paths
        if (paths[-1] if paths else None) != self._newest:
            raise StateError(
                f"there is another training in {self.folder} meanwhile: "
                f"{paths[-1].name if paths else 'its checkpoints are gone'}",
                hint="make the trainer again, which goes on from there; or another folder",
            )

    def save(self, state: State, position: Position, history: History, score: float | None) -> Path:
        """Write a checkpoint from which training goes on as if nothing had happened."""
        job = self.made.job
        arrays = state.copy().arrays if job.count == 1 else self.made.arrays_of(state, to=0)

        def write() -> str:
            assert self._checkpoints is not None
            self._checkpoints.check_held()  # before the history is written anew in another folder
            history.sync()
            own = {
                "position": position.json(),
                "history": history.note(),
                "described": dict(self.described),
            }
            notes = {NOTES: own, PARAMETERS: list(self.parameters)}
            return str(self._checkpoints.write(arrays, state.steps, notes, score))

        self.saved = self._newest = Path(first(job, "saves", write, writing_seconds(state)))
        return self.saved

    def close(self, history: History) -> None:
        """Give the folder free."""
        try:
            history.close()
        finally:
            checkpoints, self._checkpoints = self._checkpoints, None
            if checkpoints is not None:
                checkpoints.close()

    def _held(self) -> Checkpoints:
        return Checkpoints(
            self.folder, self.made.whole, keep_last=self.keep_last, keep_best=self.keep_best
        )

    def _refuse_rest(self, paths: list[Path], resume: bool | str) -> None:
        if paths:
            raise DataFileError(
                f"none of the {len(paths)} checkpoints in {self.folder} can be read",
                hint="another folder for a new training, or copies of the checkpoints",
            )
        if resume is True:
            raise InputError(
                f"there is no checkpoint in {self.folder} to go on from",
                hint='the folder of the training; or resume="auto", which begins one where there '
                "is none",
            )
        if (self.folder / NAME).exists():
            raise InputError(
                f"there is the history of another training in {self.folder}: {NAME}, without "
                "checkpoints",
                hint="another folder, or move the file away",
            )

    def _found(self, found: Checkpoint, step: TrainingStep | None = None) -> Found:
        own = found.notes.get(NOTES)
        if not isinstance(own, dict):
            raise InputError(
                f"the checkpoint {found.path} was not saved by a trainer: it does not say where in "
                "the data training was",
                hint="begin with its arrays in another folder: "
                "cr.Trainer(..., cr.load_weights(path), ...)",
            )
        try:
            position = Position.read(own["position"])
            described, note = own["described"], own["history"]
        except (KeyError, ValueError) as error:
            raise DataFileError(
                f"the checkpoint {found.path} has notes that no trainer writes: {error}",
                hint="the version of chainrule that wrote it: " + found.version,
            ) from error
        self._check_same(described, found.path)
        lines = read(self.folder / NAME, note)
        return Found(found.restore(step or self.made.whole), position, lines)

    def _check_same(self, there: Mapping[str, Any], path: Path) -> None:
        here = self.described
        wrong = [
            f"{name} is {there.get(name, 'missing')} there and {here.get(name, 'missing')} here"
            for name in {**there, **here}
            if there.get(name) != here.get(name)
        ]
        if wrong:
            raise InputError(
                f"the training in {path} is another one: {'; '.join(wrong)}",
                hint="the same data, batch_size and key; or another folder",
            )
