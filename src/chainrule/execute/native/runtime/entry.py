"""One artifact as bytes, as `cache` keeps it: a header, JSON, machine code, and a checksum of all.

    magic, format, length of the JSON, length of the code, SHA-256 of all else | JSON | code

Nothing in it is executed or trusted in being read: bytes that `pack` did not make are a
`DamagedEntryError`, whatever they are, and take no more memory than a few times their length.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from chainrule.execute.native.artifact import Artifact, Foreign, Place
from chainrule.execute.native.plan_to_ir.driver import RUNTIME
from chainrule.execute.native.products.blas import ROUTINES
from chainrule.schedule.records import SCRATCH

MAGIC = b"chainrule code\r\n"
FORMAT = 2
HEADER = struct.Struct(f"<{len(MAGIC)}sIIQ32s")
MOST_JSON_NBYTES = 4 << 20  # as Python objects, the worst JSON takes thirty times as much
MOST_NBYTES = 64 << 20
MOST_INTEGER = 1 << 46  # addresses of x86-64 have 47 bits, those of arrays fewer
MOST_THREADS = 1 << 12
MOST_BARRIERS = 1 << 20
MOST_AXES = 64  # NumPy's own limit
FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class DamagedEntryError(ValueError):
    """Bytes that are not an entry of this format, or one for another key."""


def pack(key: str, artifact: Artifact) -> bytes | None:
    """The bytes of an entry; None for an artifact that is too large to be one."""
    shown: dict[str, Any] = {"key": key}
    for field in fields(artifact):
        if field.name != "code":
            shown[field.name] = _plain(getattr(artifact, field.name))
    text = json.dumps(shown, separators=(",", ":")).encode()
    if len(text) > MOST_JSON_NBYTES or HEADER.size + len(text) + len(artifact.code) > MOST_NBYTES:
        return None
    head = MAGIC, FORMAT, len(text), len(artifact.code)
    return HEADER.pack(*head, _checksum(*head, text, artifact.code)) + text + artifact.code


def unpack(key: str, data: bytes) -> Artifact:
    """The artifact that `pack` made bytes of, with the same key.

    DamagedEntryError for all else.
    """
    if not HEADER.size <= len(data) <= MOST_NBYTES:
        raise DamagedEntryError("too short or too long")
    magic, version, text_nbytes, code_nbytes, checksum = HEADER.unpack_from(data)
    if magic != MAGIC or version != FORMAT:
        raise DamagedEntryError("of another format")
    if text_nbytes > MOST_JSON_NBYTES or HEADER.size + text_nbytes + code_nbytes != len(data):
        raise DamagedEntryError("not of the length that it says")
    text = data[HEADER.size : HEADER.size + text_nbytes]
    code = data[HEADER.size + text_nbytes :]
    if checksum != _checksum(magic, version, text_nbytes, code_nbytes, text, code):
        raise DamagedEntryError("its checksum is wrong")
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also what is no UTF-8
        raise DamagedEntryError("not JSON") from error
    hints = dict(_hints(Artifact))
    del hints["code"]
    if not isinstance(shown, dict) or shown.pop("key", None) != key or shown.keys() != hints.keys():
        raise DamagedEntryError("of another key, or with other fields")
    values = {name: _typed(hint, shown[name]) for name, hint in hints.items()}
    artifact = Artifact(code=code, **values)
    _check(artifact)
    return artifact


def _checksum(
    magic: bytes, version: int, text_nbytes: int, code_nbytes: int, text: bytes, code: bytes
) -> bytes:
    found = hashlib.sha256(HEADER.pack(magic, version, text_nbytes, code_nbytes, b""))
    found.update(text)
    found.update(code)
    return found.digest()


def _plain(value: Any) -> Any:
    """Records and tuples as arrays; numbers, texts and None as they are."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    """The fields of a record with their types."""
    return get_type_hints(kind)


def _typed(hint: Any, value: Any) -> Any:
    """The reverse of `_plain`, by the type that the value must have."""
    if get_origin(hint) is types.UnionType:
        (kind,) = (one for one in get_args(hint) if one is not type(None))
        return None if value is None else _typed(kind, value)
    if hint in (int, bool, str):
        if type(value) is not hint or (type(value) is int and abs(value) >= MOST_INTEGER):
            raise DamagedEntryError("a number or text of another type or size")
        return value
    if not isinstance(value, list):
        raise DamagedEntryError("something else where an array belongs")
    if get_origin(hint) is tuple:
        kind, _ = get_args(hint)
        return tuple(_typed(kind, one) for one in value)
    kinds = _hints(hint).values()
    if len(kinds) != len(value):
        raise DamagedEntryError("an array of another length")
    return hint(*(_typed(kind, one) for kind, one in zip(kinds, value, strict=True)))


def _check(artifact: Artifact) -> None:
    """What `machine` relies on, beyond the types."""
    names = [part.function for part in artifact.parts]
    foreign = [part.then for part in artifact.parts if part.then is not None]
    places = [place for one in foreign for place in (one.result, *one.reads)]
    arenas = set(artifact.arenas)
    sensible = (
        names
        and len(set(names)) == len(names)
        and all(map(FUNCTION.fullmatch, names))
        and len(arenas) == len(artifact.arenas)
        and SCRATCH not in arenas
        and 0 <= artifact.scratch_nbytes
        and 0 <= artifact.allocated_nbytes
        and 1 <= artifact.threads <= MOST_THREADS
        and 0 <= artifact.barrier_count <= MOST_BARRIERS
        and {*artifact.routines} <= {*ROUTINES} & {*RUNTIME}
        and all(_is_sensible(place, arenas) for place in places)
        and all(_has_room(one, artifact.scratch_nbytes) for one in foreign)
    )
    if not sensible:
        raise DamagedEntryError("numbers and names that do not go together")


def _has_room(foreign: Foreign, scratch_nbytes: int) -> bool:
    """Whether the workspace lies in the scratch memory."""
    offset, nbytes = foreign.workspace_offset, foreign.workspace_nbytes
    return 0 <= offset and 0 <= nbytes and (not nbytes or offset + nbytes <= scratch_nbytes)


def _is_sensible(place: Place, arenas: set[str]) -> bool:
    return (
        (place.arena == SCRATCH or place.arena in arenas)
        and place.node >= 0
        and place.offset >= 0
        and len(place.strides) <= MOST_AXES
    )
