"""A trainer's folder, or its history, that somebody moves or removes while training goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from trainings import arrays, trainer, untimed

from chainrule.errors import DataFileError


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    moved(folder)
    folder.mkdir()


def replaced_by_a_copy(folder: Path) -> None:
    moved(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def removed(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("elsewhere"))
    shutil.rmtree(folder)


@pytest.mark.parametrize("change", [moved, replaced, replaced_by_a_copy, removed])
def test_a_training_ends_where_its_folder_is_another_one(change, tmp_path: Path):
    folder = tmp_path / "run"
    whole = trainer()
    whole.fit(4)
    training = trainer(folder=folder)
    with pytest.raises(DataFileError, match="not the one that this training began in") as caught:
        for epoch in training.epochs(4):
            if epoch.number == 2:
                change(folder)
                there = {path.name for path in folder.iterdir()} if folder.exists() else None
    assert str(folder) in str(caught.value)
    # Nothing was written to what is there now.
    assert ({path.name for path in folder.iterdir()} if folder.exists() else None) == there
    # The hint is right: moved back, it goes on as if nothing had happened.
    shutil.rmtree(folder, ignore_errors=True)
    (tmp_path / "elsewhere").rename(folder)
    again = trainer(folder=folder)
    again.fit(4)
    assert arrays(again.state) == arrays(whole.state)
    assert untimed(again.history) == untimed(whole.history)


def test_a_history_that_was_removed_is_written_anew(tmp_path: Path):
    whole = trainer()
    whole.fit(3)
    training = trainer(folder=tmp_path)
    for epoch in training.epochs(3):
        if epoch.number == 1:
            (tmp_path / "history.jsonl").unlink()
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert lines == training.history
    assert untimed(lines) == untimed(whole.history)


def test_a_history_that_was_replaced_stays_as_it_is(tmp_path: Path):
    training = trainer(folder=tmp_path)
    path = tmp_path / "history.jsonl"
    with pytest.raises(DataFileError, match="not the history of the checkpoint"):
        for epoch in training.epochs(3):
            if epoch.number == 1:
                path.unlink()
                path.write_text("another\n")
    assert path.read_text() == "another\n"
