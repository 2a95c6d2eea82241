"""Damaged files: every cut and many flipped bits give the right array or an error, in time."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainrule.data import read
from chainrule.errors import DataFileError

ARRAY = (np.arange(60) % 7).astype(np.uint8).reshape(5, 12)
IDX = struct.pack(">BBBBII", 0, 0, 8, 2, 5, 12) + ARRAY.tobytes()
TABLE = "id,x,name\n" + "".join(f"{i},{i / 3:.3f},n{i}\n" for i in range(20))


def saved(save: Callable[..., None], *args: Any, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *args, **arrays)
    return stream.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "a.idx": lambda: IDX,
    "a.idx.gz": lambda: gzip.compress(IDX, mtime=0),
    "a.npy": lambda: saved(np.save, ARRAY),
    "a.npz": lambda: saved(np.savez, x=ARRAY, y=ARRAY[0]),
    "compressed.npz": lambda: saved(np.savez_compressed, x=ARRAY),
    "a.csv": TABLE.encode,
    "a.csv.gz": lambda: gzip.compress(TABLE.encode(), mtime=0),
}
# Whose bytes are all guarded by a checksum or a count: what is read is what was written.
GUARDED = {"a.idx.gz", "a.csv.gz", "a.npz", "compressed.npz"}
EVERY_FILE = pytest.mark.parametrize("name", FILES)
MOST_NBYTES = 32 << 20
MOST_CALLS = 500_000  # for one file of 1 kB: the worst one here needs 12,000


def content_of(found: Any) -> list[tuple[str, bytes]]:
    arrays = found if isinstance(found, dict) else {"": found}
    return [(name, array.dtype.str.encode() + array.tobytes()) for name, array in arrays.items()]


def outcome(path: Path, content: bytes) -> Any:
    """What is read, or None for a DataFileError; any other exception is a failure."""
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), few_calls():
            warnings.simplefilter("ignore")
            return read(path)
    except DataFileError as error:
        assert str(path) in str(error)
        return None
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MOST_NBYTES


class TooMuchWork(BaseException):
    """More calls than the reading of a small file may take, as where it never ends."""


@contextmanager
def few_calls() -> Iterator[None]:
    """Functions are called MOST_CALLS times at most."""
    left = MOST_CALLS

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            raise TooMuchWork

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


def test_work_that_does_not_end_is_seen() -> None:
    with pytest.raises(TooMuchWork), few_calls():
        while True:
            len("")


def flips(content: bytes, count: int) -> Iterator[bytes]:
    """The content with one to three bits flipped, the same ones in every run."""
    random = np.random.default_rng(zlib.crc32(content))
    for bits in random.integers(0, 8 * len(content), (count, 3)):
        changed = bytearray(content)
        for bit in bits[: 1 + int(bits[0]) % 3]:
            changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.sweep(3)
@EVERY_FILE
def test_a_file_that_is_cut_short_is_never_half_read(name: str, tmp_path: Path) -> None:
    content = FILES[name]()
    whole = content_of(outcome(tmp_path / name, content))
    step = 1 if len(content) < 150 else 7
    for length in range(0, len(content), step):
        found = outcome(tmp_path / name, content[:length])
        if name == "a.csv" and found is not None:
            continue  # a text that ends earlier is a shorter table: nothing tells
        assert found is None or content_of(found) == whole, length


@pytest.mark.slow
@pytest.mark.sweep(3)
@EVERY_FILE
def test_flipped_bits_give_an_error_or_an_array(name: str, tmp_path: Path) -> None:
    content = FILES[name]()
    whole = content_of(outcome(tmp_path / name, content))
    for changed in flips(content, 80):
        found = outcome(tmp_path / name, changed)
        if name in GUARDED and found is not None:
            # dates, names of members and the like may change, numbers may not
            assert [x for _, x in content_of(found)] == [x for _, x in whole]


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("every", [4, 1])
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".npz")])
def test_a_damaged_byte_of_an_archive_loses_no_array(name: str, every: int, tmp_path: Path) -> None:
    """Not one in its directory either: zipfile reads what a directory still lists."""
    content, path = FILES[name](), tmp_path / name
    path.write_bytes(content)
    whole = content_of(read(path))
    for place, byte in [*enumerate(content)][::every]:
        for changed in {0, byte ^ 1 << place % 8} - {byte}:
            path.write_bytes(content[:place] + bytes([changed]) + content[place + 1 :])
            with suppress(DataFileError):
                assert content_of(read(path)) == whole, (place, changed)


@pytest.mark.sweep(3)
@EVERY_FILE
@given(st.data())
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_bytes_after_any_beginning_give_an_error_or_an_array(
    name: str, tmp_path: Path, data: Any
) -> None:
    content = FILES[name]()
    kept = data.draw(st.integers(0, len(content)))
    outcome(tmp_path / name, content[:kept] + data.draw(st.binary(max_size=300)))


@pytest.mark.parametrize("rows", [10**6, 10**9, 2**32 - 1])
def test_a_small_file_with_a_huge_promise_takes_no_memory(rows: int, tmp_path: Path) -> None:
    header = str({"descr": "<f8", "fortran_order": False, "shape": (rows,)}).encode() + b"\n"
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(900)
    idx = struct.pack(">BBBBI", 0, 0, 14, 1, rows) + bytes(900)
    for name, content in {"a.npy": npy, "a.idx": idx, "a.idx.gz": gzip.compress(idx)}.items():
        assert outcome(tmp_path / name, content) is None


@pytest.mark.slow
def test_gzip_that_unpacks_to_far_more_is_refused_without_unpacking_it(tmp_path: Path) -> None:
    begin = struct.pack(">BBBBI", 0, 0, 8, 1, 10)
    bomb = gzip.compress(begin + bytes(50 << 20), 1)
    assert outcome(tmp_path / "a.idx.gz", bomb) is None
    line = gzip.compress(b"a\n" + bytes(64) * (1 << 20), 1)
    assert outcome(tmp_path / "a.csv.gz", line) is None


# pyarrow is C++, where some damage ends the process: in one of its own, that is a failure here.
PARQUET = """
import sys
import numpy as np, pyarrow, pyarrow.parquet
from chainrule.data import read
from chainrule.errors import DataFileError

path, count = sys.argv[1], int(sys.argv[2])
table = pyarrow.table({"x": np.arange(12, dtype=np.uint8), "y": np.linspace(0, 1, 12)})
pyarrow.parquet.write_table(table, path)
with open(path, "rb") as file:
    content = file.read()
random = np.random.default_rng(0)
refused = 0
for number in range(count):
    changed = bytearray(content)
    if number % 2:
        for bit in random.integers(0, 8 * len(content), 1 + number % 3):
            changed[bit // 8] ^= 1 << bit % 8
    else:
        del changed[random.integers(0, len(content)):]
    with open(path, "wb") as file:
        file.write(changed)
    try:
        read(path)
    except DataFileError as error:
        assert path in str(error)
        refused += 1
print(refused)
"""


def test_damaged_parquet_files_give_an_error_or_arrays(tmp_path: Path, count: int = 200) -> None:
    pytest.importorskip("pyarrow.parquet")
    command = [sys.executable, "-c", PARQUET, str(tmp_path / "a.parquet"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert count / 2 < int(done.stdout) < count
