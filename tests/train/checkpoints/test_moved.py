"""A folder, or a file of it, that somebody moves or removes while a training uses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from checkpointing import begin, same, step_of, trained

from chainrule.errors import DataFileError, StateError
from chainrule.train.checkpoints import Checkpoints, file
from chainrule.train.checkpoints.lock import FolderLock


def test_a_checkpoint_that_disappears_at_once_is_named(tmp_path: Path, monkeypatch):
    step = step_of()
    write = file.write

    def write_and_lose(path, *rest):
        write(path, *rest)
        path.unlink()

    with Checkpoints(tmp_path, step) as checkpoints:
        state = trained(step, begin(step), 2)
        checkpoints.save(state)
        with monkeypatch.context() as patched:
            patched.setattr(file, "write", write_and_lose)
            with pytest.raises(DataFileError, match="was written, and is gone") as caught:
                checkpoints.save(trained(step, state, 4))
        assert "step-000000004.safetensors" in str(caught.value)
        checkpoints.save(state)  # as the hint says
        found = checkpoints.load()
        assert found is not None and same(found.restore(step), state)


def test_checkpoints_of_a_folder_that_is_gone_are_explained(tmp_path: Path):
    with Checkpoints(tmp_path / "run", step_of()) as checkpoints:
        shutil.rmtree(tmp_path / "run")
        for ask in (checkpoints.load, checkpoints.best, lambda: checkpoints.paths):
            with pytest.raises(DataFileError, match=r"run cannot be used: No such file"):
                ask()
        assert repr(checkpoints).endswith("run: gone>")


def test_a_lock_that_was_removed_is_taken_again(tmp_path: Path):
    step = step_of()
    with Checkpoints(tmp_path, step) as checkpoints:
        state = begin(step)
        checkpoints.save(state)
        (tmp_path / ".lock").unlink()
        checkpoints.save(trained(step, state, 1))
        with pytest.raises(StateError, match="in use by another training"):
            FolderLock(tmp_path)
        (tmp_path / ".lock").unlink()
        other = FolderLock(tmp_path)
        with pytest.raises(StateError, match="in use by another training: process"):
            checkpoints.save(trained(step, state, 2))
        other.release()
        checkpoints.save(state)
    FolderLock(tmp_path).release()
