"""The history: a line for each moment that is told, on the disk when a checkpoint says so."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from trainings import trainer

from chainrule.errors import DataFileError
from chainrule.train.loop import history
from chainrule.train.loop.history import History, HistoryWarning, read


def test_lines_are_in_the_file_when_they_are_written(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    made = History(path=path)
    made.open()
    made.write({"step": 1, "objective": 0.1})
    assert path.read_text() == '{"step": 1, "objective": 0.1}\n'
    made.write({"step": 2, "objective": math.inf})
    made.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == made.lines
    assert made.lines[1] == {"step": 2, "objective": None}
    made.open()
    made.write({"step": 3})
    made.close()
    assert len(path.read_text().splitlines()) == 3


def test_what_the_file_has_beyond_the_lines_is_cut_off(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    made = History(path=path)
    made.open()
    made.write({"step": 1})
    note = made.note()
    made.write({"step": 2})
    made.close()
    with path.open("ab") as file:
        file.write(b'{"step": 3, "obj')
    lines = read(path, note)
    assert lines == [{"step": 1}]
    again = History(lines, path)
    again.open()
    again.write({"step": 2, "again": True})
    again.close()
    assert path.read_text() == '{"step": 1}\n{"step": 2, "again": true}\n'


def test_a_file_of_other_lines_is_neither_read_nor_written(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    made = History([{"step": 1}], path)
    path.write_text('{"step": 9}\n')
    with pytest.raises(DataFileError, match="its first 1 lines are others"):
        made.open()
    with pytest.raises(DataFileError, match="its first 1 lines are others"):
        read(path, made.note())
    assert path.read_text() == '{"step": 9}\n'


def test_a_missing_file_is_a_warning_where_it_had_lines(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    assert read(path, History().note()) == []
    with pytest.warns(HistoryWarning, match="1 lines"):
        assert read(path, History([{"step": 1}]).note()) == []


def test_numbers_are_read_as_they_were_to_the_last_bit(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    made = History(path=path)
    made.open()
    for value in values:
        made.write({"step": 1, "objective": value})
    made.close()
    assert [repr(line["objective"]) for line in read(path, made.note())] == list(map(repr, values))


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = trainer(folder=tmp_path)

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, text: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    open_ = History.open

    def open_full(self: History) -> None:
        open_(self)
        self._file = Full(self._file)  # type: ignore[assignment]

    monkeypatch.setattr(History, "open", open_full)
    with pytest.raises(DataFileError) as caught:
        made.fit(1)
    assert "history.jsonl cannot be written: No space left on device" in caught.value.what
    monkeypatch.undo()
    again, whole = trainer(folder=tmp_path), trainer()
    again.fit(2)
    whole.fit(2)
    assert [line["objective"] for line in again.history] == [
        line["objective"] for line in whole.history
    ]


def test_a_checkpoint_is_written_after_its_lines_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}") if Path("/proc/self/fd").exists() else ""
        order.append("history" if name.endswith("history.jsonl") else "")
        fsync(descriptor)

    def seen_replace(source: Any, target: Any) -> None:
        order.append("checkpoint")
        replace(source, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("which file a descriptor is of cannot be seen here")
    monkeypatch.setattr(history.os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    trainer(folder=tmp_path).fit(2)
    told = [what for what in order if what]
    assert told == ["checkpoint", *["history", "checkpoint"] * 2]


class Short:
    """A file that takes `free` bytes, three at a time, and then no more."""

    def __init__(self, file: Any, free: int) -> None:
        self.file, self.free = file, free

    def write(self, text: bytes) -> int:
        if not self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self.file.write(text[: min(3, self.free)])
        self.free -= count
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_line_that_is_not_written_whole_is_in_no_memory_and_no_file(tmp_path: Path):
    made = History(path=tmp_path / "history.jsonl")
    made.open()
    made.write({"step": 1})
    note, whole = made.note(), made._file
    made._file = Short(whole, 7)  # type: ignore[assignment]
    with pytest.raises(DataFileError, match="No space left on device"):
        made.write({"step": 2})
    assert made.note() == note and made.lines == [{"step": 1}]
    assert read(tmp_path / "history.jsonl", note) == made.lines
    assert (tmp_path / "history.jsonl").read_text() == '{"step": 1}\n'
    made._file = Short(whole, 100)  # type: ignore[assignment]
    made.write({"step": 3})
    made.close()
    assert (tmp_path / "history.jsonl").read_text() == '{"step": 1}\n{"step": 3}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_full_disk_frees_the_folder(tmp_path: Path):
    made = trainer(folder=tmp_path)
    epochs = made.epochs(3)
    next(epochs)
    (tmp_path / "history.jsonl").rename(tmp_path / "kept")
    full = open("/dev/full", "r+b", buffering=0)
    assert made._loop.history._file is not None
    made._loop.history._file.close()
    made._loop.history._file = full
    with pytest.raises(DataFileError):
        next(epochs)
    assert full.closed
    (tmp_path / "kept").rename(tmp_path / "history.jsonl")
    assert len(trainer(folder=tmp_path).fit(2)) == 2


def test_the_history_that_is_handed_out_is_a_copy():
    made = trainer()
    for lines in (made.fit(1), made.history):
        lines[0]["step"] = "mine"
        lines.clear()
    assert [line["step"] for line in made.history] == [13]
