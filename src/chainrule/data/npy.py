"""Reads NumPy's .npy files, or maps them into memory."""

from __future__ import annotations

import os
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chainrule.data.files import PLAIN, as_native, nbytes_of, opened, read_array, refuse
from chainrule.tracebacks import entry

PICKLED = "save it as numbers; objects need pickle, which runs code of the file, and are not read"


MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000  # bytes; those of arrays of numbers have 128
# By version: what reads the header, and how many bytes its length has.
READERS: dict[Any, Any] = {
    (1, 0): (np.lib.format.read_array_header_1_0, 2),
    (2, 0): (np.lib.format.read_array_header_2_0, 4),
}


class Header(NamedTuple):
    """What a .npy file says of its array."""

    dtype: np.dtype
    shape: tuple[int, ...]
    is_fortran: bool
    nbytes: int  # of the header itself


@entry
def read_npy(path: str | os.PathLike[str], *, memory_map: bool = False) -> np.ndarray:
    """Reads the array of numbers in a .npy file.

    With `memory_map`, a read-only `np.memmap`: the system reads what is used when it is used, so
    the file may be larger than memory.

    Raises DataFileError for a file that is missing, damaged, or has no array of numbers.
    """
    with opened(path) as (path, file, nbytes):
        header = read_header(path, file, "the header")
        rest = nbytes - header.nbytes
        if not memory_map:
            return array_of(path, file, header, rest, "the header")
    promised = nbytes_of(header.dtype, header.shape)
    shown = f"{header.dtype.name}[{', '.join(map(str, header.shape))}]"
    if promised != rest:
        refuse(path, f"the header promises {shown}, {promised:,} bytes, and {rest:,} follow")
    if not promised or not header.shape:
        refuse(path, f"an array {shown} cannot be mapped", "read it without memory_map=True")
    order = "F" if header.is_fortran else "C"
    return np.memmap(path, header.dtype, "r", header.nbytes, header.shape, order)


def read_header(path: Path, file: BufferedIOBase, what: str) -> Header:
    """The header at the beginning of the file, which is then at the array."""
    start = file.read(8)
    version = (start[6], start[7]) if len(start) == 8 and start[:6] == MAGIC else None
    if version not in READERS:
        shown = f"version {version[0]}.{version[1]}" if version else repr(start)
        refuse(path, f"{what} is not that of an array of numbers in a .npy file: {shown}")
    read, width = READERS[version]
    length = file.read(width)
    count = int.from_bytes(length, "little")
    text = file.read(count) if count <= LONGEST_HEADER else b""
    if len(text) < count:
        refuse(path, f"{what} is {count:,} bytes long, more than there are or can be")
    try:
        shape, is_fortran, dtype = read(BytesIO(length + text))
    except Exception as error:  # it is a Python literal: one changed byte raises any of ten kinds
        refuse(path, f"{what} cannot be read: {_first_line(error)}")
    if dtype.kind == "O":
        refuse(path, f"{what} promises Python objects", PICKLED)
    if dtype.kind not in PLAIN:
        refuse(path, f"{what} promises elements of dtype {dtype}, not numbers", "save numbers")
    if any(type(size) is not int or size < 0 for size in shape):
        refuse(path, f"{what} has the shape {shape}")
    return Header(dtype, tuple(shape), bool(is_fortran), 8 + width + count)


def array_of(path: Path, file: BufferedIOBase, header: Header, most: int, what: str) -> np.ndarray:
    """The array after its header, which has to be all that is left of the file."""
    if header.is_fortran:
        flat = read_array(path, file, header.dtype, header.shape[::-1], most, what)
        return as_native(flat.T)
    return as_native(read_array(path, file, header.dtype, header.shape, most, what))


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
