"""Files that are there as a whole, also when the power fails while they are written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

PARTIAL = ".partial"


def write_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, bring its bytes to the disk, and rename it.

    After a crash at any moment `path` is what it was before, or what `write` wrote.  Raises what
    `write` raises, and OSError; what was written is removed then.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        write(beside)
        _to_disk(beside, os.O_RDWR)
        os.replace(beside, path)
        if os.name == "posix":  # elsewhere folders cannot be opened
            _to_disk(path.parent, os.O_RDONLY)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial(folder: Path) -> None:
    """Remove what a process that was killed left half written; the caller holds the folder."""
    for path in folder.glob(f".*{PARTIAL}"):
        path.unlink(missing_ok=True)
