"""Reads IDX files, the format of MNIST: a header, then the numbers."""

from __future__ import annotations

import os

import numpy as np

from chainrule.data.files import (
    DEFLATE_RATIO,
    as_native,
    opened,
    read_array,
    refuse,
    unpacked,
)
from chainrule.tracebacks import entry

# The third byte of the header: LeCun, Cortes, Burges, "The MNIST database", "the IDX file format".
DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@entry
def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Reads an IDX file, plain or compressed, such as `train-images-idx3-ubyte.gz`.

    Raises DataFileError for a file that is missing, damaged, or no IDX file.
    """
    with opened(path) as (path, file, nbytes), unpacked(path, file) as content:
        packed = content is not file
        header = content.read(4)
        if len(header) < 4 or header[:2] != b"\0\0":
            shown = " ".join(f"{one:02x}" for one in header) or "nothing"
            refuse(path, f"an IDX file begins with two zero bytes, a type and a count, not {shown}")
        if header[2] not in DTYPES:
            known = ", ".join(f"{one:02x}" for one in DTYPES)
            refuse(path, f"byte 2, the type, is {header[2]:02x}, which is none of {known}")
        axes = header[3]
        if not 1 <= axes <= 32:
            refuse(path, f"byte 3, the number of axes, is {axes}")
        sizes = content.read(4 * axes)
        if len(sizes) < 4 * axes:
            refuse(path, f"the file ends in the header, which has {axes} sizes of 4 bytes")
        shape = tuple(int(one) for one in np.frombuffer(sizes, ">u4"))
        most = nbytes * DEFLATE_RATIO if packed else nbytes - 4 - 4 * axes
        dtype = np.dtype(DTYPES[header[2]])
        return as_native(read_array(path, content, dtype, shape, most, "the header"))
