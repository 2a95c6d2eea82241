"""Writes the history of a training: one JSON object per line, appended as training goes on."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from chainrule.errors import DataFileError, HistoryWarning
from chainrule.tracebacks import warn_user

NAME = "history.jsonl"


class History:
    """The lines of a training, in memory and, with `path`, in a file.

    Each line is a dict of numbers with "step" and "epoch".  What is not finite is None: JSON has no
    NaN.  `open` makes the file have exactly these lines; `write` appends to it, and then tells
    `listeners`.
    """

    def __init__(self, lines: Sequence[Mapping[str, Any]] = (), path: Path | None = None) -> None:
        self.path = path
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self.lines: list[dict[str, Any]] = []
        self._file: FileIO | None = None
        self._digest, self._nbytes = hashlib.sha256(), 0
        for line in lines:
            self._take(dict(line))

    def open(self) -> None:
        """Begin to append: cut off what the file has beyond these lines.

        DataFileError where that is not possible, or the file is another one.
        """
        if self.path is None or self._file is not None:
            return
        try:
            self.path.touch()
            self._file = self.path.open("r+b", buffering=0)
            there = _read(self._file, self._nbytes)
            if hashlib.sha256(there).digest() != self._digest.digest():
                self.close()
                raise _another(self.path, f"its first {len(self.lines)} lines are others")
            self._file.truncate(self._nbytes)
            self._file.seek(self._nbytes)
        except OSError as error:
            self.close()
            raise self._unwritable(error) from error

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; it is in the file when this returns, for every reader."""
        own = {key: _json(value) for key, value in line.items()}
        if self._file is not None:
            try:
                _write(self._file, _text(own), self._nbytes)
            except OSError as error:
                raise self._unwritable(error) from error
        self._take(own)
        for listener in self.listeners:
            listener(own)

    def sync(self) -> None:
        """Bring the lines to the disk.  A file that was removed is written anew, whole.

        DataFileError where that is not possible, or another file is in its place.
        """
        self._restore()
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._unwritable(error) from error

    def _restore(self) -> None:
        """Where the path is not the open file any more, write a file of all lines, and open it."""
        if self._file is None or self.path is None:
            return
        try:
            open_file = os.fstat(self._file.fileno())
            if self.path.exists() and os.path.samestat(open_file, self.path.stat()):
                return
            self.close()
            with suppress(FileExistsError), self.path.open("xb") as file:
                file.writelines(map(_text, self.lines))
        except OSError as error:
            raise self._unwritable(error) from error
        self.open()

    def close(self) -> None:
        """End appending; `open` begins again."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                raise self._unwritable(error) from error

    def note(self) -> dict[str, Any]:
        """What a checkpoint notes of the history, for `read`."""
        return {"lines": len(self.lines), "sha256": self._digest.hexdigest()}

    def _take(self, line: dict[str, Any]) -> None:
        text = _text(line)
        self._digest.update(text)
        self._nbytes += len(text)
        self.lines.append(line)

    def _unwritable(self, error: OSError) -> DataFileError:
        return DataFileError(
            f"the history {self.path} cannot be written: {error.strerror or error}",
            hint="free space on the disk, or another folder; checkpoints are as they were",
        )


def read(path: Path, note: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines that there were when a checkpoint took this note; later ones are left out.

    A missing file is a HistoryWarning and no lines; DataFileError for one that has others.
    """
    count = note["lines"]
    if not path.is_file():
        if count:
            text = f"the history {path} is gone: {count} lines; it begins anew with the next line"
            warn_user(text, HistoryWarning)
        return []
    try:
        lines = path.read_bytes().split(b"\n")[:-1][:count]  # the last part is cut off, or empty
    except OSError as error:
        raise DataFileError(
            f"the history {path} cannot be read: {error.strerror or error}", hint="its permissions"
        ) from error
    whole = b"".join(line + b"\n" for line in lines)
    if len(lines) < count:
        raise _another(path, f"it has {len(lines)} whole lines, and there were {count}")
    if hashlib.sha256(whole).hexdigest() != note["sha256"]:
        raise _another(path, f"its first {count} lines are others")
    return [json.loads(line) for line in lines]


def _text(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, allow_nan=False) + "\n").encode()


def _write(file: FileIO, text: bytes, place: int) -> None:
    """Write all of it at this place of the file; what was written of it is cut off by an error."""
    file.seek(place)
    written = 0
    try:
        while written < len(text):
            written += file.write(text[written:])
    except BaseException:
        with suppress(OSError):
            file.truncate(place)
        raise


def _read(file: FileIO, nbytes: int) -> bytes:
    """So many bytes, or what there is."""
    found = bytearray()
    while len(found) < nbytes and (part := file.read(nbytes - len(found))):
        found += part
    return bytes(found)


def _another(path: Path, why: str) -> DataFileError:
    return DataFileError(
        f"{path} is not the history of the checkpoint: {why}",
        hint="move it away, and the history begins anew; or the folder of that training",
    )


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
