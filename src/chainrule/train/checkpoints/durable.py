"""Writes files that are complete even if the power fails meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from chainrule.explain.writing import PARTIAL, beside, is_special, linked

OF_SAFETENSORS = ".tmp??????"  # what it writes to before it renames, since 0.8


def write_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, bring its bytes to the disk, and rename it.

    After a crash at any moment `path` is what it was before, or what `write` wrote.  Raises what
    `write` raises, and OSError, also for a pipe or a device; what was written is removed then.
    """
    if is_special(path):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    path = linked(path)
    partial = beside(path)
    try:
        write(partial)
        _to_disk(partial, os.O_RDWR)
        os.replace(partial, path)
        if os.name == "posix":  # elsewhere folders cannot be opened
            _to_disk(path.parent, os.O_RDONLY)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial(folder: Path) -> None:
    """Remove what a process that was killed left half written; the caller holds the folder."""
    for pattern in (f".*{PARTIAL}", OF_SAFETENSORS):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
