"""Opens and checks files for all readers; errors say where in the file they are."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import DataFileError
from chainrule.execute.free_memory import free_memory
from chainrule.nearest import nearest

GZIP = b"\x1f\x8b"
DEFLATE_RATIO = 1032  # of unpacked to packed bytes, at most (zlib's own account)
PIECE = 1 << 20  # bytes that are read at a time
PLAIN = "biuf"  # kinds of dtypes that arrays of numbers have
AGAIN = "download or write the file again"


def damaged(path: Path, what: str, hint: str = AGAIN) -> DataFileError:
    """The error for a file that is not what its name promises."""
    return DataFileError(f"{path}: {what}", hint=hint)


def refuse(path: Path, what: str, hint: str = AGAIN) -> NoReturn:
    """Raise the error for a file that is not what its name promises."""
    raise damaged(path, what, hint) from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[Path, BufferedIOBase, int]]:
    """The path, the file opened for reading, and its size in bytes.

    Raises DataFileError where there is no such file, or the system refuses to read it.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            yield path, file, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        near = nearest(path.name, _names_in(path.parent))
        hint = f"perhaps {near[0]}" if near else f"it is looked for in {path.parent.absolute()}"
        raise DataFileError(f"{path}: there is no such file", hint=hint) from None
    except IsADirectoryError:
        raise DataFileError(f"{path}: this is a folder", hint="name a file in it") from None
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise damaged(path, f"the gzip data are damaged: {error}") from error
        reason = error.strerror or str(error)
        raise DataFileError(
            f"{path}: it cannot be read: {reason}", hint="check the file and its permissions"
        ) from error


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


@contextmanager
def unpacked(path: Path, file: BufferedIOBase) -> Iterator[BufferedIOBase]:
    """The content of the file, unpacked if it is gzip's."""
    start = file.read(2)
    file.seek(0)
    if start != GZIP:
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            yield BufferedReader(stream)
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise damaged(path, f"the gzip data are damaged: {error}") from error


def read_array(
    path: Path, file: BufferedIOBase, dtype: np.dtype, shape: tuple[int, ...], most: int, what: str
) -> np.ndarray:
    """The array that the rest of the file is.

    `most` is how many bytes the rest can have at most: a header that promises more is refused
    before anything is allocated, as is an array for which memory is not free.
    """
    nbytes = nbytes_of(dtype, shape)
    shown = f"{dtype.name}[{', '.join(map(str, shape))}]"
    if nbytes > most:
        refuse(
            path,
            f"{what} promises {shown}, {nbytes:,} bytes, and the file has at most {most:,}",
        )
    refuse_beyond_free(path, nbytes, f"{what} is {shown}")
    array = np.empty(nbytes, np.uint8)
    view = array.data
    done = 0
    while done < nbytes:
        count = file.readinto(view[done : done + PIECE])
        if not count:
            refuse(path, f"{what} promises {shown}, {nbytes:,} bytes; the file ends after {done:,}")
        done += count
    if file.read(1):
        refuse(path, f"{what} promises {shown}, {nbytes:,} bytes, and more bytes follow")
    return array.view(dtype).reshape(shape) if nbytes else np.empty(shape, dtype)


def nbytes_of(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """The bytes of an array, as a Python integer of any size."""
    count = dtype.itemsize
    for size in shape:
        count *= size
    return count


def refuse_beyond_free(path: Path, nbytes: int, what: str) -> None:
    """Refuse what needs more memory than there is."""
    free = free_memory()
    if free is not None and nbytes > free.nbytes:
        raise DataFileError(
            f"{path}: {what}, {nbytes:,} bytes, and {free.nbytes:,} are free ({free.source})",
            hint="read a part of it, or map it into memory: read_npy(path, memory_map=True)",
        )


def as_native(array: np.ndarray) -> Any:
    """The array in the byte order of the machine, contiguous, which compiled code needs."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")
