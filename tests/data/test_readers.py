"""Each reader gives what an independent writer wrote, and names the place of what is wrong."""

from __future__ import annotations

import gzip
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.data import read, read_csv, read_idx, read_npy, read_npz, read_parquet
from chainrule.errors import DataFileError, InputError

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def equal(found: Any, expected: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def idx(array: np.ndarray, code: int) -> bytes:
    """By struct alone, as the format is described."""
    flat = array.ravel().tolist()
    letter = {8: "B", 9: "b", 11: "h", 12: "i", 13: "f", 14: "d"}[code]
    return struct.pack(
        f">BBBB{array.ndim}I{len(flat)}{letter}", 0, 0, code, array.ndim, *array.shape, *flat
    )


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(8, "u1"), (9, "i1"), (11, "i2"), (12, "i4"), (13, "f4"), (14, "f8")],
)
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 5)])
def test_idx_files_plain_and_packed(tmp_path: Path, code: int, dtype: str, shape: Any) -> None:
    array = (np.arange(int(np.prod(shape))) * 5 % 120).astype(dtype).reshape(shape)
    content = idx(array, code)
    for name, written in (("a.idx", content), ("t10k-x-idx3-ubyte.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(written)
        equal(read(tmp_path / name), array)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "i1", "u8", "?", "f2"])
def test_npy_files_read_and_mapped(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a.npy"
    for array in (ARRAY.astype(dtype), np.asfortranarray(ARRAY.astype(dtype))):
        np.save(path, array)
        equal(read(path), array.astype(array.dtype.newbyteorder("=")))
        assert read_npy(path).flags.c_contiguous and read_npy(path).flags.writeable
        mapped = read_npy(path, memory_map=True)
        assert isinstance(mapped, np.memmap) and not mapped.flags.writeable
        np.testing.assert_array_equal(mapped, array)
    for small in (np.array(3.0), np.zeros((0, 4)), np.zeros((3, 0))):
        np.save(path, small)
        equal(read(path), small)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "a.npz", x=ARRAY, y=np.arange(3), **{"layer.W": np.zeros((2, 0))})
    found = read(tmp_path / "a.npz")
    assert isinstance(found, dict) and list(found) == ["x", "y", "layer.W"]
    equal(found["x"], ARRAY)
    equal(found["y"], np.arange(3))
    equal(found["layer.W"], np.zeros((2, 0)))


TABLE = 'id,x,name\n1,0.5,ann\n2,-1e3,"b, ""c"""\n\n3,nan,Zoë\n'


def test_csv_files_have_a_type_for_each_column(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_text(TABLE, encoding="utf-8")
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode()))
    for path in (plain, packed):
        found = read(path)
        assert isinstance(found, dict) and list(found) == ["id", "x", "name"]
        equal(found["id"], np.array([1, 2, 3]))
        equal(found["x"], np.array([0.5, -1000, np.nan]))
        equal(found["name"], np.array(["ann", 'b, "c"', "Zoë"]))


def test_csv_columns_of_types_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TABLE.replace(",", ";"), encoding="utf-8")
    found = read_csv(path, types={"id": "float32", "x": str}, delimiter=";")
    equal(found["id"], np.array([1, 2, 3], np.float32))
    equal(found["x"], np.array(["0.5", "-1e3", "nan"]))


def test_a_csv_column_of_integers_becomes_one_of_floats_where_it_must(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,1\n" * 3000 + "2.5,99999999999999999999\n", encoding="utf-8")
    found = read_csv(path)
    equal(found["a"], np.array([1.0] * 3000 + [2.5]))
    equal(found["b"], np.array([1.0] * 3000 + [1e20]))
    path.write_text("a,b\n", encoding="utf-8")
    equal(read_csv(path)["a"], np.zeros(0))


def test_csv_agrees_with_numpys_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    table = np.random.default_rng(0).standard_normal((2500, 4))
    np.savetxt(path, table, delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    np.testing.assert_array_equal(np.stack([*read_csv(path).values()], axis=1), table)


@pytest.fixture(scope="module")
def pyarrow() -> Any:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    assert parquet
    return pyarrow


def test_parquet_files(tmp_path: Path, pyarrow: Any) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "id": np.arange(5),
        "x": np.linspace(0, 1, 5, dtype=np.float32),
        "flag": np.array([True, False, True, True, False]),
    }
    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.arange(10.0)), 2)
    names = pyarrow.array(["a", "b", "ü", "", "e"])
    pyarrow.parquet.write_table(pyarrow.table({**columns, "name": names, "row": rows}), path)
    found = read(path)
    assert isinstance(found, dict) and list(found) == [*columns, "name", "row"]
    for name, expected in columns.items():
        equal(found[name], expected)
    equal(found["name"], np.array(["a", "b", "ü", "", "e"]))
    equal(found["row"], np.arange(10.0).reshape(5, 2))
    assert list(read_parquet(path, columns=["x"])) == ["x"]


def test_parquet_columns_that_are_no_arrays_are_named(tmp_path: Path, pyarrow: Any) -> None:
    path = tmp_path / "a.parquet"
    cases = {
        r"row 1 \(from 0\) of column 'x' is missing, and 1 others": [1.0, None, None],
        r"column 'x' is of type list<": [[1], [2, 3]],
        r"column 'x' is of type struct<": [{"a": 1}],
    }
    for text, values in cases.items():
        pyarrow.parquet.write_table(pyarrow.table({"x": pyarrow.array(values)}), path)
        with pytest.raises(DataFileError, match=f"a.parquet: {text}"):
            read(path)
    with pytest.raises(InputError, match=r"has no column 'X'.*\n.*perhaps 'x'"):
        read_parquet(path, columns=["X"])


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow.*\n.*pip install 'chainrule\[parquet\]'"):
        read_parquet(tmp_path / "a.parquet")


# What is wrong, and where -------------------------------------------------------------------------

MANY = struct.pack(">BBBBI", 0, 0, 8, 1, 10**9) + bytes(1000)
HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }"


def npy(header: str, rest: bytes = b"") -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + rest


def npz_with(place: int, changed: bytes) -> bytes:
    """An archive of one array, with other bytes at this place of its last record."""
    stream = BytesIO()
    np.savez(stream, x=np.zeros(3))
    content = bytearray(stream.getvalue())
    place += len(content) - 22
    content[place : place + len(changed)] = changed
    return bytes(content)


WRONG: list[tuple[str, bytes, str]] = [
    ("a.idx", b"", "begins with two zero bytes, a type and a count, not nothing"),
    ("a.idx", b"\x89PNG", "begins with two zero bytes, a type and a count, not 89 50 4e 47"),
    ("a.idx", b"\0\0\x0a\1", "byte 2, the type, is 0a, which is none of 08, 09, 0b, 0c, 0d, 0e"),
    ("a.idx", b"\0\0\x08\0", "byte 3, the number of axes, is 0"),
    ("a.idx", b"\0\0\x08\3\0\0", "ends in the header, which has 3 sizes of 4 bytes"),
    ("a.idx", MANY, r"promises uint8\[1000000000\], 1,000,000,000 bytes, and .* at most 1,000"),
    ("a.idx", idx(np.arange(4), 8) + b"x", "promises .*4 bytes, and more bytes follow"),
    ("a.idx", idx(np.arange(4), 8)[:-1], "4 bytes, and the file has at most 3"),
    (
        "a.idx.gz",
        gzip.compress(MANY, mtime=0),
        "promises .*1,000,000,000 bytes, and the file has at most",
    ),
    ("a.idx.gz", gzip.compress(MANY[:600], mtime=0)[:-9], "the gzip data are damaged"),
    ("a.idx.gz", gzip.compress(idx(np.arange(4), 8), mtime=0)[:-1], "the gzip data are damaged"),
    (
        "a.idx.gz",
        gzip.compress(idx(np.arange(4), 8) + bytes(10**7), mtime=0),
        "and more bytes follow",
    ),
    ("a.npy", b"", r"the header is not that of an array of numbers in a .npy file: b''"),
    ("a.npy", npy(HEADER, bytes(1000)), r"float32\[1000000000\], 4,000,000,000 bytes, and .*1,000"),
    ("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "Python objects"),
    ("a.npy", npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }"), "dtype <U4"),
    ("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), r"shape \(-1,\)"),
    ("a.npy", npy("{'shape': (1,)}"), "the header cannot be read"),
    ("a.npy", b"\x93NUMPY\1\0\xff\xff{", "the header is 65,535 bytes long"),
    ("a.npy", b"\x93NUMPY\3\0\1\0\0\0{", "version 3.0"),
    ("a.npz", b"", "the archive is damaged: File is not a zip file"),
    ("a.npz", b"PK\5\6" + bytes(18), r"the archive has no array\n.*np.savez\(path, x=x\)"),
    ("a.npz", npz_with(12, b"\0"), "its directory lists 0 arrays, and its end promises 1"),
    ("a.npz", npz_with(8, b"\2\0\2"), "its directory lists 1 arrays, and its end promises 2"),
    ("a.csv", b"", "begins with a row of names, but this one is empty"),
    ("a.csv", b"a,,c\n", "line 1: column 2 has no name"),
    ("a.csv", b"a,b,a\n", "line 1: two columns are called 'a'"),
    ("a.csv", b"a,b\n1,2\n3\n", "line 3 has 1 cells, and the first row names 2 columns"),
    ("a.csv", b"a,b\n1,2\n3,x\n", r"line 3, column 'b' \(the 2. of the row\): 'x' is not an int"),
    ("a.csv", b"a\n1.5\n\n1_0\n", r"line 4, column 'a' .*: '1_0' is not a number, as '1.5' in"),
    ("a.csv", b"a,b\n1,2\n,4\n", "line 3, column 'a' .* is empty\n.*write nan"),
    ("a.csv", b"a,b\n1,\xff\n", "line 2: byte ff is not UTF-8"),
    ("a.csv", b'a\n"b\n', "line 2: unexpected end of data"),
    ("a.csv", b"a\n1\0\n", "line 2 has a zero byte"),
    ("a.csv", b"a" * (1 << 22), "line 1 has 4,194,304 bytes or more"),
    ("a.csv.gz", gzip.compress(b"a\n1\n", mtime=0)[:-3], "the gzip data are damaged"),
]


@pytest.mark.parametrize(("name", "content", "text"), WRONG, ids=lambda x: str(x)[:30])
def test_a_damaged_file_is_explained(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=text) as caught:
        read(path)
    assert str(path) in str(caught.value) and caught.value.hint


def archive(path: Path, change: Callable[[zipfile.ZipFile], None]) -> None:
    np.savez(path, x=ARRAY)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        change(file)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda file: file.writestr("readme.txt", "x"), "'readme.txt' in the archive is no array"),
        (lambda file: file.writestr("x.npy", "x"), "'x.npy' occurs twice in the archive"),
        (
            lambda file: file.writestr("y.npy", npy(HEADER, bytes(100))),
            "the header of 'y' promises .*4,000,000,000 bytes, and the file has at most 100",
        ),
        (
            lambda file: file.writestr("y.npy", b"\x93NUMPY\2\0\0\0\0\xff" + bytes(10**7)),
            "the header of 'y' is 4,278,190,080 bytes long",
        ),
    ],
)
def test_a_member_that_is_no_array_is_named(tmp_path: Path, change: Any, text: str) -> None:
    archive(tmp_path / "a.npz", change)
    with pytest.raises(DataFileError, match=f"a.npz: {text}"):
        read_npz(tmp_path / "a.npz")


def test_more_than_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.data import csv_table, files
    from chainrule.execute.free_memory import FreeMemory

    np.save(tmp_path / "a.npy", ARRAY)
    (tmp_path / "a.csv").write_text("x\n" + "1\n" * 5000)
    for module in (files, csv_table):
        monkeypatch.setattr(module, "free_memory", lambda: FreeMemory(90, "of this test"))
    with pytest.raises(DataFileError, match=r"96 bytes, and 90 are free \(of this test\)"):
        read(tmp_path / "a.npy")
    with pytest.raises(DataFileError, match="up to line 1025 it has 8,192 bytes, all free memory"):
        read(tmp_path / "a.csv")
    assert read_npy(tmp_path / "a.npy", memory_map=True).shape == ARRAY.shape


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", ARRAY)
    (tmp_path / "folder.npy").mkdir()
    for name, text in {
        "trian.npy": "there is no such file\n.*perhaps train.npy",
        "folder.npy": "this is a folder",
        "data.bin": r"the file extension is unknown\n.*\.npy, \.npz, \.csv",
    }.items():
        with pytest.raises(DataFileError, match=text):
            read(tmp_path / name)
    np.save(tmp_path / "a.npy", np.zeros(0))
    with pytest.raises(DataFileError, match="cannot be mapped"):
        read_npy(tmp_path / "a.npy", memory_map=True)
    (tmp_path / "b.npy").write_bytes((tmp_path / "train.npy").read_bytes()[:-1])
    with pytest.raises(DataFileError, match=r"promises .*96 bytes, and 95 follow"):
        read_npy(tmp_path / "b.npy", memory_map=True)


def test_types_for_columns_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,x\n1,2\n")
    with pytest.raises(InputError, match=r"has no column 'lable'.*\n.*perhaps 'label'"):
        read_csv(tmp_path / "a.csv", types={"lable": int})
    with pytest.raises(InputError, match="types: 'x' cannot be read as complex128"):
        read_csv(tmp_path / "a.csv", types={"x": complex})
    with pytest.raises(DataFileError, match="'300' is too large for uint8"):
        (tmp_path / "a.csv").write_text("label,x\n1,300\n")
        read_csv(tmp_path / "a.csv", types={"x": np.uint8})


def test_a_file_of_the_wrong_kind_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ARRAY)
    for reader in (read_npy, read_idx):
        with pytest.raises(DataFileError, match=r"a\.npz"):
            reader(tmp_path / "a.npz")
