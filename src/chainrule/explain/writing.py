"""Writes a file atomically: to a temporary file that is then renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chainrule.errors import InputError

PARTIAL = ".partial"  # the ending of a file that is being written
LONGEST = 100  # bytes of a file's name in that of its partial file


def write_beside(path: Path, content: bytes) -> None:
    """Write `content` under another name in the same folder, then rename it to `path`.

    A symbolic link stays one: its file is written.  A pipe or a device (/dev/stdout) is written to.
    InputError, which names the path, where that fails; nothing is left then.
    """
    with _partial(path) as partial:
        if is_special(path):
            path.write_bytes(content)
            return
        partial.write_bytes(content)
        os.replace(partial, linked(path))


def refuse_unwritable(path: Path) -> None:
    """InputError as by `write_beside`, before what is to be written is there; leaves no file."""
    with _partial(path) as partial:
        if is_special(path):
            return
        partial.write_bytes(b"")
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def write_svg(path: Path, svg: str, what: str) -> None:
    """Write a picture as `write_beside` does; `what` it is, messages say."""
    refuse_no_svg(path, what)
    write_beside(path, svg.encode())


def refuse_no_svg(path: Path, what: str) -> None:
    """InputError where the file's name does not end in .svg."""
    if path.suffix.lower() != ".svg":
        raise InputError(
            f"the {what} is an SVG picture, and cannot be written to {path}",
            hint=f"a file whose name ends in .svg: {path.with_suffix('.svg')}",
        )


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """The name of the partial file, which is gone at the end; InputError for what the system
    refuses."""
    if not path.name or "\0" in str(path):
        raise InputError(f"{str(path)!r} is no name of a file", hint="a path such as graph.svg")
    partial = beside(linked(path))
    try:
        yield partial
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


def linked(path: Path) -> Path:
    """The file that a symbolic link leads to, as a rename would replace the link; or the path."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def is_special(path: Path) -> bool:
    """Whether there is a pipe or a device, which a rename would replace by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # the folder is no folder, or not ours: there is nothing to remove
        return
