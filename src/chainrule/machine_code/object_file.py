"""Reads which names an object file has: an ELF file as LLVM writes it."""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator

# LLVM's names of the architectures, and their numbers in ELF headers.
MACHINES = {"x86_64": 62, "aarch64": 183}


class ObjectError(ValueError):
    """Bytes that are not an object file for this machine, or that name an unknown symbol."""


def names_in(data: bytes) -> Iterator[tuple[str, bool]]:
    """The global names in an ELF object, and whether they are defined there.

    ObjectError where it is not whole.
    """
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise ObjectError("not an object file (64-bit little-endian ELF)")
    header = struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
    kind, machine, table, entry_nbytes, count = (header[at] for at in (0, 1, 5, 10, 11))
    if kind != 1 or machine != MACHINES.get(platform.machine()) or entry_nbytes != 64:
        raise ObjectError(f"not an object file for {platform.machine()}")
    if table + 64 * count > len(data) or header[12] >= count:
        raise ObjectError("an object file that was cut off")
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * at) for at in range(count)]
    for _, section_kind, _, _, offset, nbytes, *_ in sections:
        occupies = section_kind not in (0, 8)  # not empty, nor zeros that are not stored
        if occupies and offset + nbytes > len(data):
            raise ObjectError("an object file that was cut off")
    for _, section_kind, _, _, offset, nbytes, link, *_ in sections:
        if section_kind != 2:  # the table of symbols
            continue
        if link >= count:
            raise ObjectError("an object file with a damaged table of symbols")
        strings = data[sections[link][4] : sections[link][4] + sections[link][5]]
        for at in range(offset, offset + nbytes - 23, 24):
            name, information, _, section = struct.unpack_from("<IBBH", data, at)
            if information >> 4 == 1:  # global
                found = strings[name : strings.find(b"\0", name)].decode("ascii", "replace")
                yield found, section != 0
