"""Writes a file atomically: to a temporary file that is then renamed."""

from __future__ import annotations

import os
from pathlib import Path

from chainrule.errors import InputError

PARTIAL = ".partial"  # the ending of a file that is being written
LONGEST = 100  # bytes of a file's name in that of its partial file


def write_beside(path: Path, content: bytes) -> None:
    """Write `content` under another name in the same folder, then rename it to `path`.

    InputError, which names the path, where that fails; nothing is left then.
    """
    if not path.name or "\0" in str(path):
        raise InputError(f"{str(path)!r} is no name of a file", hint="a path such as graph.svg")
    partial = beside(path)
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise InputError(
            f"cannot write to {path}: {error.strerror or error}",
            hint="a path in a folder that exists and that you may write to",
        ) from error
    finally:
        _remove(partial)


def beside(path: Path) -> Path:
    """The name under which a file is written before it is renamed: hidden, of this process."""
    name = os.fsencode(path.name)[:LONGEST].decode(errors="ignore")
    return path.with_name(f".{name}.{os.getpid()}{PARTIAL}")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # the folder is no folder, or not ours: there is nothing to remove
        return
