"""Checkpoints survive: other processes, full disks, and a process killed at any moment."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpointing import batch, begin, same, step_of, trained
from killer import Killer, killer_of

import chainrule as cr
from chainrule.errors import DataFileError, InputError, StateError
from chainrule.train.checkpoints import Checkpoints, durable, folder, lock

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


@posix_only
def test_a_second_process_is_refused_and_one_that_is_killed_frees_the_folder(
    tmp_path: Path, step: cr.TrainingStep
):
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from chainrule.train.checkpoints.lock import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(StateError) as caught:
            Checkpoints(tmp_path, step)
        assert f"in use by another training: process {other.pid}" in caught.value.what
        other.send_signal(signal.SIGKILL)
        other.wait()
    Checkpoints(tmp_path, step).close()


def test_the_same_process_cannot_hold_a_folder_twice(tmp_path: Path, step: cr.TrainingStep):
    with Checkpoints(tmp_path, step), pytest.raises(StateError, match=f"process {os.getpid()}"):
        Checkpoints(tmp_path, step)
    Checkpoints(tmp_path, step).close()


def test_nothing_is_saved_after_the_folder_was_given_free(tmp_path: Path, step: cr.TrainingStep):
    with Checkpoints(tmp_path, step) as checkpoints:
        pass
    with pytest.raises(StateError, match="not held by this process"):
        checkpoints.save(begin(step))


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_checkpoints_that_were_there(
    checkpoints: Checkpoints,
    step: cr.TrainingStep,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
):
    state = trained(step, begin(step), 1)
    checkpoints.save(state)
    before = {path.name: path.read_bytes() for path in checkpoints.folder.iterdir()}

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable.os, fails, refuse)
    with pytest.raises(DataFileError) as caught:
        checkpoints.save(trained(step, state, 2))
    assert "cannot be written: No space left on device" in caught.value.what
    assert "earlier checkpoints are as they were" in caught.value.hint
    assert {path.name: path.read_bytes() for path in checkpoints.folder.iterdir()} == before


@pytest.mark.slow
@posix_only
def test_a_file_that_may_not_grow_is_told_and_leaves_nothing(tmp_path: Path):
    program = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from checkpointing import begin, step_of, trained
from chainrule.train.checkpoints import Checkpoints
from chainrule.errors import DataFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
step = step_of()
with Checkpoints({str(tmp_path)!r}, step) as checkpoints:
    state = begin(step)
    checkpoints.save(state)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        checkpoints.save(trained(step, state, 1))
    except DataFileError as error:
        print(error.what)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100
    )
    assert "cannot be written" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "step-000000000.safetensors",
    ]


def endless(folder: str) -> None:
    """Train, and tell each step whose checkpoint is written, until somebody ends it."""
    step = step_of()
    with Checkpoints(folder, step) as checkpoints:
        found = checkpoints.load()
        state = begin(step) if found is None else found.restore(step)
        print(state.steps, flush=True)
        while True:
            step(state, batch(state.steps))
            checkpoints.save(state, {"step": state.steps}, score=-state.steps)
            print(state.steps, flush=True)


def killed_at(killer: Killer, folder: Path, saves: int, seconds: float) -> int:
    """Train until so many checkpoints are said to be written, and for some time; then kill it.

    The last step of which that was said.
    """
    return killer.killed_after(1 + saves, seconds, folder)[-1]


@pytest.fixture
def killer() -> Iterator[Killer]:
    with killer_of(__file__, "endless", "step_of") as found:
        yield found


@posix_only
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.exhaustive, id="many")])
def test_killed_at_any_moment_the_newest_checkpoint_loads_and_no_step_is_lost(
    tmp_path: Path, step: cr.TrainingStep, rounds: int, killer: Killer
):
    delays = np.random.default_rng(0).uniform(0.0, 0.03, rounds)  # a save takes about 3 ms
    before = 0
    for number, delay in enumerate(delays):
        said = killed_at(killer, tmp_path, number % 4, float(delay))
        with warnings.catch_warnings(), Checkpoints(tmp_path, step) as checkpoints:
            warnings.simplefilter("error")
            found = checkpoints.load()
            if said:
                assert found is not None and found.steps >= said
            left = {path.name for path in tmp_path.iterdir()}
            assert not [name for name in left if name.endswith(".partial") or ".tmp" in name]
            # Killed in its first save, before the others were removed: one more than it found.
            assert len(left) <= max(5, before + 1)
            before = len(left)
    with Checkpoints(tmp_path, step) as checkpoints:
        found = checkpoints.load()
        assert found is not None and found.steps > 0
        assert same(found.restore(step), trained(step, begin(step), found.steps))
        checkpoints.save(found.restore(step), score=-found.steps)
        assert len(list(tmp_path.iterdir())) == 4  # the last three and the lock


@pytest.mark.slow
def test_an_error_or_a_signal_while_a_folder_is_taken_frees_it(
    tmp_path: Path, step: cr.TrainingStep, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    kept = []
    places = [(lock.os, "ftruncate"), (lock.os, "pwrite"), (folder, "remove_partial")]
    for module, name in places:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                Checkpoints(tmp_path, step)
            kept.append(caught)  # and with it everything that its frames hold
        Checkpoints(tmp_path, step).close()
    lost = lock.FolderLock(tmp_path)
    del lost
    gc.collect()
    Checkpoints(tmp_path, step).close()


@posix_only
def test_a_folder_that_was_given_free_is_not_held_by_a_child(tmp_path: Path, step: cr.TrainingStep):
    checkpoints = Checkpoints(tmp_path, step)
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        checkpoints.close()  # does not unlock it for the parent
        os.write(told, b".")
        os._exit(0)
    os.read(ready, 1)
    os.waitpid(child, 0)
    with pytest.raises(StateError):
        Checkpoints(tmp_path, step)
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    try:
        checkpoints.close()
        Checkpoints(tmp_path, step).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(told)


def test_a_folder_is_the_same_from_wherever_the_program_goes(
    tmp_path: Path, step: cr.TrainingStep, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Checkpoints("run", step) as checkpoints:
        monkeypatch.chdir(tmp_path / "other")
        assert checkpoints.save(begin(step)) == tmp_path / "run" / "step-000000000.safetensors"
    assert list((tmp_path / "other").iterdir()) == []
    with pytest.raises(InputError, match='folder="": a folder has a name'):
        Checkpoints("", step)
