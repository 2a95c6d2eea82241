"""One record as bytes, as `cache` keeps it: a header, JSON, data, and a checksum of all.

    magic, format, length of the JSON, length of the data, SHA-256 of all else | JSON | data

A record is a dataclass whose fields are integers, truth values, texts, records, tuples of one of
these, or one of them or None.  One field is of type `bytes`: the data, such as machine code.

Nothing in it is executed or trusted in being read: bytes that `pack` did not make are a
`DamagedEntryError`, whatever they are, and take no more memory than a few times their length.
"""

from __future__ import annotations

import hashlib
import json
import struct
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

MAGIC = b"chainrule code\r\n"
FORMAT = 2
HEADER = struct.Struct(f"<{len(MAGIC)}sIIQ32s")
MOST_JSON_NBYTES = 4 << 20  # as Python objects, the worst JSON takes thirty times as much
MOST_NBYTES = 64 << 20
MOST_INTEGER = 1 << 46  # addresses of x86-64 have 47 bits, those of arrays fewer

Record = TypeVar("Record")


class DamagedEntryError(ValueError):
    """Bytes that are not an entry of this format, or one for another key."""


def pack(key: str, record: Any) -> bytes | None:
    """The bytes of an entry; None for a record that is too large to be one."""
    shown: dict[str, Any] = {"key": key}
    name = _data_field(type(record))
    for field in fields(record):
        if field.name != name:
            shown[field.name] = _plain(getattr(record, field.name))
    text, data = json.dumps(shown, separators=(",", ":")).encode(), getattr(record, name)
    if len(text) > MOST_JSON_NBYTES or HEADER.size + len(text) + len(data) > MOST_NBYTES:
        return None
    head = MAGIC, FORMAT, len(text), len(data)
    return HEADER.pack(*head, _checksum(*head, text, data)) + text + data


def unpack(
    key: str, entry: bytes, kind: type[Record], is_sensible: Callable[[Record], bool]
) -> Record:
    """The record of this kind that `pack` made an entry of, with the same key.

    DamagedEntryError for all else, and for a record that is not sensible.
    """
    if not HEADER.size <= len(entry) <= MOST_NBYTES:
        raise DamagedEntryError("too short or too long")
    magic, version, text_nbytes, data_nbytes, checksum = HEADER.unpack_from(entry)
    if magic != MAGIC or version != FORMAT:
        raise DamagedEntryError("of another format")
    if text_nbytes > MOST_JSON_NBYTES or HEADER.size + text_nbytes + data_nbytes != len(entry):
        raise DamagedEntryError("not of the length that it says")
    text = entry[HEADER.size : HEADER.size + text_nbytes]
    data = entry[HEADER.size + text_nbytes :]
    if checksum != _checksum(magic, version, text_nbytes, data_nbytes, text, data):
        raise DamagedEntryError("its checksum is wrong")
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also what is no UTF-8
        raise DamagedEntryError("not JSON") from error
    hints = dict(_hints(kind))
    name = _data_field(kind)
    del hints[name]
    if not isinstance(shown, dict) or shown.pop("key", None) != key or shown.keys() != hints.keys():
        raise DamagedEntryError("of another key, or with other fields")
    values = {one: _typed(hint, shown[one]) for one, hint in hints.items()}
    record = kind(**values, **{name: data})
    if not is_sensible(record):
        raise DamagedEntryError("numbers and names that do not go together")
    return record


def _data_field(kind: type) -> str:
    """The name of the one field with bytes."""
    (found,) = (name for name, hint in _hints(kind).items() if hint is bytes)
    return found


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
