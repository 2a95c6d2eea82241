"""Reads NumPy's .npz files: several named arrays in a zip archive."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from chainrule.data.files import (
    DEFLATE_RATIO,
    damaged,
    opened,
    refuse,
    refuse_beyond_free,
)
from chainrule.data.npy import array_of, read_header
from chainrule.errors import DataFileError
from chainrule.tracebacks import entry

SUFFIX = ".npy"
LAST_RECORD = struct.Struct("<4sHHHHIIH")  # of a zip file: the end of its directory
MORE_THAN_FIT = 0xFFFF  # members: then another record says how many
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # np.savez and np.savez_compressed


@entry
def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads all arrays of a .npz file, by name.

    Raises DataFileError for a file that is missing, damaged, or has more than arrays of numbers.
    """
    with opened(path) as (path, file, nbytes):
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_directory(path, file, len(members), nbytes - len(archive.comment))
                _check_members(path, members, nbytes)
                return {
                    one.filename.removesuffix(SUFFIX): _read_member(path, archive, one)
                    for one in members
                }
        except DataFileError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise damaged(path, f"the archive is damaged: {error}") from error
        except Exception as error:  # one changed byte makes zipfile raise any of ten kinds
            raise damaged(path, f"the archive is damaged: {type(error).__name__}") from error


def _check_directory(path: Path, file: BufferedIOBase, count: int, nbytes: int) -> None:
    """Refuse a directory that has lost members, or all of them: zipfile reads what is left.

    `count` is how many zipfile found; the file without its comment, of `nbytes`, ends in a record
    that says how many there were (APPNOTE.TXT of PKWARE, section 4.3.16).
    """
    place = file.tell()
    file.seek(nbytes - LAST_RECORD.size)
    magic, _, _, on_this_disk, in_all, *_ = LAST_RECORD.unpack(file.read(LAST_RECORD.size))
    file.seek(place)
    many = (count, MORE_THAN_FIT) if count >= MORE_THAN_FIT else (count,)
    if magic != b"PK\5\6" or on_this_disk not in many or in_all not in many:
        refuse(path, f"its directory lists {count} arrays, and its end promises {in_all}")
    if not count:
        refuse(path, "the archive has no array", "np.savez(path, x=x) writes one")


def _check_members(path: Path, members: list[zipfile.ZipInfo], nbytes: int) -> None:
    """Refuse what no archive of arrays can be, before anything is unpacked."""
    seen: set[str] = set()
    for one in members:
        name = one.filename
        if not name.endswith(SUFFIX):
            refuse(path, f"{name!r} in the archive is no array", "np.savez writes only arrays")
        if name in seen:
            refuse(path, f"{name!r} occurs twice in the archive")
        seen.add(name)
        if one.flag_bits & 1 or one.compress_type not in METHODS:
            refuse(path, f"{name!r} is encrypted, or packed in a way that np.savez has not")
        if one.file_size > DEFLATE_RATIO * (one.compress_size + 1):
            refuse(path, f"{name!r} promises {one.file_size:,} bytes out of {one.compress_size:,}")
    if sum(one.compress_size for one in members) > nbytes:
        refuse(path, f"its parts have more bytes than the file: {nbytes:,}")
    refuse_beyond_free(path, sum(one.file_size for one in members), "its arrays unpacked")


def _read_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as content:
        assert isinstance(content, zipfile.ZipExtFile)  # its stubs say less
        what = f"the header of {member.filename.removesuffix(SUFFIX)!r}"
        header = read_header(path, content, what)
        return array_of(path, content, header, member.file_size - header.nbytes, what)
