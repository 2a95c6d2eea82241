"""`read`: chooses the reader for a file by its extension."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.csv_table import read_csv
from chainrule.data.idx import read_idx
from chainrule.data.npy import read_npy
from chainrule.data.npz import read_npz
from chainrule.data.parquet import read_parquet
from chainrule.errors import DataFileError

READERS: dict[str, Callable[..., Any]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
    ".idx": read_idx,
    ".idx.gz": read_idx,
}
OF_MNIST = re.compile(r"[.-]idx\d-ubyte(\.gz)?\Z")  # train-images-idx3-ubyte.gz


def read(path: str | os.PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """Reads a file: one array (.npy, IDX), or arrays by name (.npz, CSV, Parquet).

    The end of its name says which; `read_npy` and its like read files of any name, and have
    options.  Raises DataFileError for a name that says nothing, and what these raise.
    """
    name = Path(path).name.lower()
    for ending, reader in READERS.items():
        if name.endswith(ending):
            return reader(path)
    if OF_MNIST.search(name):
        return read_idx(path)
    if Path(path).is_dir():
        raise DataFileError(f"{path}: this is a folder", hint="name a file in it")
    raise DataFileError(
        f"{path}: the file extension is unknown",
        hint=f"names end in {', '.join(READERS)} or -idx3-ubyte(.gz); "
        "read_npy, read_idx and so on read files of any name",
    )
