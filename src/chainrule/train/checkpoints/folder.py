"""A folder of checkpoints: keeps the last few and the best, and loads the newest valid one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from chainrule.errors import DamagedCheckpointWarning, DataFileError, InputError, StateError
from chainrule.tracebacks import entry, warn_user
from chainrule.train.checkpoints import file
from chainrule.train.checkpoints.durable import remove_partial
from chainrule.train.checkpoints.file import Checkpoint
from chainrule.train.checkpoints.lock import FolderLock
from chainrule.train.checkpoints.signature import Signature, differences
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.version import VERSION

_NAME = re.compile(r"step-(\d{9,})\.safetensors")


class Checkpoints:
    """The checkpoints of one training in a folder, which is created if it does not exist.

    `with Checkpoints("run", step) as checkpoints:`, then `checkpoints.save(state)` now and then,
    and after a restart `checkpoints.load()`.  The folder belongs to this process until `close`, or
    the end of the `with`: another one that wants it gets a StateError.

    A checkpoint is written beside, brought to the disk and renamed, so that a process that is
    killed, or a disk that is full, leaves those that were there.  The last `keep_last` are kept,
    and beside them the `keep_best` with the smallest scores; others are removed.
    """

    @entry
    def __init__(
        self, folder: str | Path, step: TrainingStep, *, keep_last: int = 3, keep_best: int = 1
    ) -> None:
        counts = isinstance(keep_last, int) and isinstance(keep_best, int)
        if not counts or keep_last < 1 or keep_best < 0:
            raise InputError(
                f"keep_last={keep_last!r}, keep_best={keep_best!r}: at least the last checkpoint "
                "is kept",
                hint="keep_last=3, keep_best=1",
            )
        self.folder, self.step = absolute(folder), step
        self.keep_last, self.keep_best = keep_last, keep_best
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.folder)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            remove_partial(self.folder)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise self._unusable(error) from error
            raise

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder free."""
        self._lock.release()

    @property
    def paths(self) -> list[Path]:
        """The files of the checkpoints, the oldest first."""
        try:
            listed = list(self.folder.iterdir())
        except OSError as error:
            raise self._unusable(error) from error
        found = [(int(match[1]), path) for path in listed if (match := _match(path))]
        return [path for _, path in sorted(found)]

    @entry
    def save(
        self, state: State, notes: Mapping[str, Any] | None = None, *, score: float | None = None
    ) -> Path:
        """Write a checkpoint of the state as it is after `state.steps` steps; returns its path.

        `notes` is kept with it, as JSON has it.  `score` is a number that is the better the smaller
        it is, such as a validation loss; NaN counts as none.

        DataFileError where the disk does not take it, or the folder is not the one that was made:
        it was moved, or removed, meanwhile.
        """
        frozen = state.copy()  # all arrays at one moment
        return self.write(frozen.arrays, frozen.steps, notes or {}, score)

    def write(
        self,
        arrays: Mapping[str, np.ndarray],
        steps: int,
        notes: Mapping[str, Any],
        score: float | None,
    ) -> Path:
        """As `save`, of arrays that nobody changes meanwhile."""
        self.check_held()
        number = float(score) if score is not None and math.isfinite(score) else None
        path = self.folder / f"step-{steps:09}.safetensors"
        signature = Signature.of(self.step, arrays)
        file.write(path, arrays, steps, notes, number, signature, VERSION)
        try:
            self._remove_others(path)
        except OSError as error:
            raise self._unusable(error) from error
        return path

    def load(self, like: State | None = None) -> Checkpoint | None:
        """Loads the newest valid checkpoint; None if there is none.

        One that is damaged is passed over with a DamagedCheckpointWarning that names it.
        InputError, which names the first differences, where it is of another model than that of
        the step; with `like`, also where the arrays are of other shapes than those of that state.
        """
        return self._first_whole(reversed(self.paths), like)

    def best(self, like: State | None = None) -> Checkpoint | None:
        """Loads the valid checkpoint with the smallest score; None if none has a score."""
        return self._first_whole(_by_score(self._scores()), like)

    def _first_whole(self, paths: Iterable[Path], like: State | None) -> Checkpoint | None:
        for path in paths:
            try:
                found = file.read(path)
            except DataFileError as error:
                warn_user(f"{error.what}; passed over", DamagedCheckpointWarning)
                continue
            self._check_model(found, like)
            return found
        return None

    def _check_model(self, found: Checkpoint, like: State | None) -> None:
        here = Signature.of(self.step, like.arrays if like is not None else found.arrays)
        differing = differences(found.signature, here)
        if differing:
            raise InputError(
                f"the checkpoint {found.path} is of another model: {'; '.join(differing)}",
                hint="the program that wrote it, or another folder for this one",
            )

    def _scores(self) -> dict[Path, float]:
        """The scores of the checkpoints that can be read and have one."""
        found = {}
        for path in self.paths:
            try:
                score = file.score_of(path)
            except DataFileError:
                continue
            if score is not None:
                found[path] = score
        return found

    def _remove_others(self, written: Path) -> None:
        """Remove what is neither among the last nor the best.

        Checkpoints of more steps than the one just written are of a training that was given up: it
        went on from an earlier one.  They are removed, or `load` would go back to them.
        """
        paths = self.paths
        if written not in paths:
            raise DataFileError(
                f"the checkpoint {written} was written, and is gone: something else removes files "
                "there",
                hint="another folder, or end what empties this one; then save again",
            )
        place = paths.index(written)
        for path in paths[place + 1 :]:
            path.unlink(missing_ok=True)
        paths = paths[: place + 1]
        kept = set(paths[-self.keep_last :])
        if self.keep_best and len(paths) > len(kept):
            kept.update(_by_score(self._scores())[: self.keep_best])
        for path in paths:
            if path not in kept:
                path.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> DataFileError:
        return DataFileError(
            f"the folder {self.folder} cannot be used: {error.strerror or error}",
            hint="a folder that you may write to",
        )

    def check_held(self) -> None:
        """StateError where this process does not hold it; DataFileError where it is another one."""
        if not self._lock.is_held:
            raise StateError(
                f"the folder {self.folder} is not held by this process (any more)",
                hint="save before the end of the `with`, and in the process that began it",
            )
        if not self._lock.renew():
            raise DataFileError(
                f"the folder {self.folder} is not the one that this training began in: it was "
                "moved, or removed, meanwhile",
                hint="move it back, and begin again: training goes on from its last checkpoint",
            )

    def __repr__(self) -> str:
        count = len(self.paths) if self.folder.is_dir() else "gone"
        return f"<Checkpoints in {self.folder}: {count}>"


def absolute(folder: str | Path) -> Path:
    """The folder as it is called from everywhere; InputError for the empty name."""
    if not str(folder):
        raise InputError('folder="": a folder has a name', hint='folder="run"')
    return Path(folder).absolute()


def _by_score(scores: Mapping[Path, float]) -> list[Path]:
    return sorted(scores, key=lambda path: (scores[path], path))


def _match(path: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(path.name)
