"""A training process that is killed again and again ends where the uninterrupted one does."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killer import Killer, killer_of
from trainings import OPTIMIZERS, arrays, data, dropping, trainer, untimed

import chainrule as cr
from chainrule.train.checkpoints import Checkpoints
from chainrule.train.loop.feed import Feed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork, and signals of POSIX")

EPOCHS, STEPS = 6, 78
EVERY = 5  # steps, between checkpoints


def made(optimizer: str = "adam", folder: str | Path | None = None) -> cr.Trainer:
    """A trainer with everything that has to go on: dropout, order, optimizer, history, the best."""
    options: dict[str, Any] = {"folder": folder, "save_every": EVERY} if folder else {}
    return trainer(
        dropping,
        OPTIMIZERS[optimizer](),
        validation=data(20, seed=2),
        accuracy=("o", "y"),
        log_every=7,
        key=cr.random.key(3),
        **options,
    )


def train(folder: str, optimizer: str, notes: str) -> None:
    """To the end.  Before each step its number, from 1, is noted in mapped memory, which outlives
    the process."""
    with open(notes, "r+b") as file:
        steps = mmap.mmap(file.fileno(), 8)
    found = made(optimizer, folder)  # which looks at a batch, too
    complete = Feed.complete

    def noted(self: Feed, batch: Any, step: int) -> Any:
        steps[:] = (step + 1).to_bytes(8, "little")
        return complete(self, batch, step)

    Feed.complete = noted
    found.fit(EPOCHS)


class Notes:
    """Which step was begun last, from 1; 0 for none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forget()

    @property
    def begun(self) -> int:
        return int.from_bytes(self.path.read_bytes(), "little")

    def forget(self) -> None:
        self.path.write_bytes(bytes(8))

    def wait_for(self, step: int) -> None:
        """Until this step has begun."""
        for _ in range(100_000):
            if self.begun >= step:
                return
            time.sleep(0.0002)
        raise AssertionError(f"step {step} never begins")


@pytest.fixture
def killer() -> Iterator[Killer]:
    with killer_of(__file__, "train", "made") as found:
        yield found


@contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def check_after_a_kill(folder: Path, step: cr.TrainingStep, begun: int, copy: Path) -> None:
    """In a copy, so that what the kill left is there for the process that goes on.

    The newest checkpoint loads, and is no older than the last one that was due; what is in the
    history is whole lines, and then perhaps a part of one.
    """
    if not folder.exists():
        assert not begun
        return
    shutil.copytree(folder, copy)
    with no_warnings(), Checkpoints(copy, step) as checkpoints:
        newest = checkpoints.paths[-1:]
        found = checkpoints.load()
        assert [one.path for one in [found] if one] == newest
        due = (begun - 1) // EVERY * EVERY
        assert found.steps >= due if found else not begun
        assert not list(copy.glob("*.partial"))
    shutil.rmtree(copy)


def check_same(found: cr.Trainer, whole: cr.Trainer) -> None:
    assert (found.epoch, found.state.steps) == (whole.epoch, whole.state.steps)
    assert arrays(found.state) == arrays(whole.state)
    assert untimed(found.history) == untimed(whole.history)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_killed_at_any_moment_it_ends_as_the_uninterrupted_training(
    tmp_path: Path, killer: Killer, record_property: Any, kills: int
):
    """Trainings by each optimizer in turn, each killed until it is done."""
    wholes = {name: made(name) for name in OPTIMIZERS}
    for whole in wholes.values():
        whole.fit(EPOCHS)
    notes, random = Notes(tmp_path / "notes"), np.random.default_rng(kills)
    killer.start(tmp_path / "calm", "adam", notes.path)
    assert not killer.end().was_killed
    check_same(made("adam", tmp_path / "calm"), wholes["adam"])
    done = trainings = 0
    while done < kills:
        optimizer = list(OPTIMIZERS)[trainings % len(OPTIMIZERS)]
        folder, whole = tmp_path / f"run-{trainings}", wholes[optimizer]
        notes.forget()
        is_killed = True
        while is_killed:
            killer.start(folder, optimizer, notes.path)
            if done < kills and (notes.begun < STEPS or random.random() < 0.5):
                # Before anything is done, or in or after a step some steps further.
                notes.wait_for(min(notes.begun + int(random.integers(0, STEPS // 2)), STEPS))
                time.sleep(random.uniform(0, 0.01))  # of a step and its checkpoint: 3 ms
                killer.kill()
            is_killed = killer.end().was_killed
            if is_killed:
                done += 1
                check_after_a_kill(folder, whole.step, notes.begun, tmp_path / "copy")
        trainings += 1
        with no_warnings():
            found = made(optimizer, folder)
        check_same(found, whole)
        text = (folder / "history.jsonl").read_text("utf-8")
        assert text == "".join(json.dumps(line) + "\n" for line in found.history)
        shutil.rmtree(folder)
    record_property("ran", f"{done} kills of {trainings} trainings")
