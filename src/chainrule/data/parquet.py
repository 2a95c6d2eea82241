"""Reads Parquet files with pyarrow: each column is an array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.files import damaged, opened, refuse, refuse_beyond_free
from chainrule.errors import DataFileError, InputError
from chainrule.nearest import nearest
from chainrule.tracebacks import entry


@entry
def read_parquet(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads columns of a Parquet file by name, all or some: numbers, booleans, texts.

    A column of lists that are all of one length, a fixed-size list, is an array of two axes.

    Raises DataFileError for a file that is missing or damaged and for a column with missing values
    or of another type; InputError for a name in `columns` that there is not, and without pyarrow.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "reading Parquet files needs pyarrow, which is not installed",
            hint="pip install 'chainrule[parquet]'",
        ) from error
    with opened(path) as (path, file, _):
        try:
            source = pyarrow.parquet.ParquetFile(file)
            chosen = _chosen(path, source.schema_arrow.names, columns)
            _check_sizes(path, source.metadata)
            table = source.read(columns=chosen, use_threads=False)
            table.validate(full=True)
        except (DataFileError, InputError):
            raise
        except Exception as error:  # of pyarrow's many kinds, and of Python's
            what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise damaged(path, f"the Parquet data are damaged: {what}") from error
        return {name: _column(path, name, table.column(name)) for name in chosen}


def _chosen(path: Path, names: list[str], columns: Sequence[str] | None) -> list[str]:
    for place, name in enumerate(names):
        if name in names[:place]:
            refuse(path, f"two columns are called {name!r}", "give each a name of its own")
    for name in columns or ():
        if name not in names:
            near = nearest(name, names)
            raise InputError(
                f"{path} has no column {name!r}: {', '.join(names[:20])}",
                hint=f"perhaps {near[0]!r}" if near else "columns= takes names of columns",
            )
    return list(names if columns is None else columns)


def _check_sizes(path: Path, metadata: Any) -> None:
    """Refuse promises that the file cannot keep, before anything is allocated."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        refuse(path, f"it promises {metadata.num_rows:,} rows, and its parts have others")
    # (not the sizes of each column: pyarrow ends the process where those are damaged)
    if any(group.total_byte_size < 0 for group in groups):
        refuse(path, "a part of it has a negative size")
    refuse_beyond_free(path, sum(group.total_byte_size for group in groups), "its columns")


def _column(path: Path, name: str, column: Any) -> np.ndarray:
    """The column as an array; DataFileError where it is none of numbers or texts."""
    import pyarrow.types as kinds

    if column.null_count:
        row = next(i for i, one in enumerate(column) if not one.is_valid)
        refuse(
            path,
            f"row {row} (from 0) of column {name!r} is missing, and {column.null_count - 1} others",
            "fill them in, or leave the column out with columns=",
        )
    type_ = column.type
    inner = type_.value_type if kinds.is_fixed_size_list(type_) else type_
    texts = kinds.is_string(inner) or kinds.is_large_string(inner)
    plain = kinds.is_integer(inner) or kinds.is_floating(inner) or kinds.is_boolean(inner)
    if not plain and not (texts and inner is type_):
        refuse(
            path,
            f"column {name!r} is of type {type_}, which is no array of numbers or texts",
            "convert it, or leave it out with columns=",
        )
    if inner is not type_:
        flat = column.combine_chunks().flatten()
        if flat.null_count:
            refuse(path, f"a list in column {name!r} has missing values", "fill them in")
        return np.array(flat.to_numpy(zero_copy_only=False)).reshape(-1, type_.list_size)
    values = column.to_numpy()
    return np.array(values, np.str_) if texts else np.array(values)
