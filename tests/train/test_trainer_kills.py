"""A training process that is killed again and again ends where the uninterrupted one does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import OPTIMIZERS, arrays, data, dropping, trainer, untimed

import chainrule as cr
from chainrule.train.checkpoints import Checkpoints

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork, and signals of POSIX")

EPOCHS = 6  # of 13 steps: 78
EVERY = 5  # steps, between checkpoints

# A process that has imported everything forks one that trains for each line it reads, kills it
# after so many seconds, and says how it ended.  Before each step that one notes its number: in
# mapped memory, which outlives it.
TRAINING = f"""
import mmap, os, signal, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_trainer_kills import made
from chainrule.train.feed import Feed

def train(folder, optimizer, notes):
    with open(notes, "r+b") as file:
        steps = mmap.mmap(file.fileno(), 8)
    trainer = made(optimizer, folder)  # which looks at a batch, too
    complete = Feed.complete
    def noted(self, batch, step):
        steps[:] = (step + 1).to_bytes(8, "little")
        return complete(self, batch, step)
    Feed.complete = noted
    trainer.fit({EPOCHS})

made("adam")  # everything is imported, and looked up once
for line in sys.stdin:
    seconds, *arguments = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        status = 1
        try:
            train(*arguments)
            status = 0
        finally:
            os._exit(status)
    if seconds != "inf":
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)  # which changes nothing where it is done
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def made(optimizer: str, folder: str | Path | None = None) -> cr.Trainer:
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


@dataclass
class Killer:
    """Starts trainings, and ends them."""

    process: subprocess.Popen[str]
    notes: Path

    def run(self, folder: Path, optimizer: str, seconds: float = float("inf")) -> bool:
        """Train, and kill it after some seconds; whether it was, and not done before."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\t{folder}\t{optimizer}\t{self.notes}\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        assert status in (0, -signal.SIGKILL)
        return status != 0

    @property
    def begun(self) -> int:
        """Which step was begun last, from 1; 0 for none."""
        return int.from_bytes(self.notes.read_bytes(), "little")

    def forget(self) -> None:
        """No step was begun."""
        self.notes.write_bytes(bytes(8))


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Killer]:
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        found = Killer(process, tmp_path / "notes")
        found.forget()
        yield found
        assert process.stdin is not None
        process.stdin.close()


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


@pytest.mark.parametrize("kills", [20, pytest.param(180, marks=pytest.mark.slow, id="many")])
def test_killed_at_any_moment_it_ends_as_the_uninterrupted_training(
    kills: int, tmp_path: Path, killer: Killer, record_property: Any
):
    """Trainings by each optimizer in turn, each killed until it is done."""
    wholes = {name: made(name) for name in OPTIMIZERS}
    for whole in wholes.values():
        whole.fit(EPOCHS)
    begin = time.monotonic()
    assert not killer.run(tmp_path / "calm", "adam")
    check_same(made("adam", tmp_path / "calm"), wholes["adam"])
    longest = 0.6 * (time.monotonic() - begin)
    random = np.random.default_rng(kills)
    done = trainings = rounds = 0
    while done < kills:
        optimizer = list(OPTIMIZERS)[trainings % len(OPTIMIZERS)]
        folder, whole = tmp_path / f"run-{trainings}", wholes[optimizer]
        killer.forget()
        while True:
            seconds = float(random.uniform(0, longest)) if done < kills else float("inf")
            was_killed = killer.run(folder, optimizer, seconds)
            rounds += 1
            assert rounds < 20 * kills, "no training gets to its end"
            if not was_killed:
                break
            done += 1
            check_after_a_kill(folder, whole.step, killer.begun, tmp_path / "copy")
        trainings += 1
        with no_warnings():
            found = made(optimizer, folder)
        check_same(found, whole)
        text = (folder / "history.jsonl").read_text("utf-8")
        assert text == "".join(json.dumps(line) + "\n" for line in found.history)
        shutil.rmtree(folder)
    record_property("ran", f"{done} kills of {trainings} trainings")
