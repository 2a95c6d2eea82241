"""An entry that is damaged, hostile or somebody else's does no harm."""

import json
import os
import stat
import tracemalloc
from dataclasses import replace

import pytest
from caching import ARTIFACT, KEY, fresh_folder, load, stored_file, unpack
from executors import needs_native

from chainrule.disk import cache, entry
from chainrule.disk.entry import DamagedEntryError, pack

pytestmark = needs_native


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return fresh_folder(tmp_path, monkeypatch)


def sealed(changed=None, text=None, head=(entry.MAGIC, entry.FORMAT), code=b"code"):
    """An entry with a right checksum and anything in it."""
    if text is None:
        data = pack(KEY, ARTIFACT)
        assert data is not None
        size = entry.HEADER.unpack_from(data)[2]
        shown = json.loads(data[entry.HEADER.size : entry.HEADER.size + size])
        shown["code_nbytes"] = [len(code)]
        text = json.dumps({**shown, **(changed or {})}).encode()
    sizes = *head, len(text), len(code)
    checksum = entry._checksum(*sizes, text, code)
    return entry.HEADER.pack(*sizes, checksum) + text + code


def refused(folder, data):
    """Whether a file with these bytes is ignored, and taken away."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / cache._name(KEY)
    path.write_bytes(data)
    path.chmod(0o600)
    return load(KEY) is None and not path.exists()


def test_a_file_as_stored_is_not_refused(folder):
    assert not refused(folder, sealed())


def test_every_changed_byte_is_noticed():
    whole = pack(KEY, replace(ARTIFACT, code=b"some code"))
    assert whole is not None
    for place in range(len(whole)):
        damaged = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        with pytest.raises(DamagedEntryError):
            unpack(KEY, damaged)


def test_every_other_length_is_noticed(folder):
    whole = pack(KEY, replace(ARTIFACT, code=b"some code"))
    assert whole is not None
    for nbytes in range(len(whole)):
        with pytest.raises(DamagedEntryError):
            unpack(KEY, whole[:nbytes])
    with pytest.raises(DamagedEntryError):
        unpack(KEY, whole + b"\0")
    for damaged in [b"", b"x", whole[:100], whole + whole]:
        assert refused(folder, damaged)


def test_reading_an_entry_takes_no_more_memory_than_its_length(folder):
    data = sealed(code=bytes(1 << 20))
    assert not refused(folder, data)
    for given in (data, data[:-1]):
        stored_file(folder).write_bytes(given)
        tracemalloc.start()
        try:
            assert (load(KEY) is None) == (given is not data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4 * len(data)  # the file, its code, and the JSON


def test_another_format_is_ignored_and_removed(folder):
    assert refused(folder, sealed(head=(entry.MAGIC, entry.FORMAT + 1)))
    assert refused(folder, sealed(head=(b"something else!!", entry.FORMAT)))


HUGE = 1 << 60
STEP = ["step0", True, None]
HOSTILE = [
    {"key": "another"},
    {"more": 1},
    {"code_nbytes": [3]},
    {"code_nbytes": [5, -1]},
    {"code_nbytes": [4, 0]},
    {"code_nbytes": []},
    {"code_nbytes": 4},
    {"parts": []},
    {"parts": [STEP, STEP]},
    {"parts": [["../../x", True, None]]},
    {"parts": [["step0", 1, None]]},
    {"parts": [["step0", True]]},
    {"parts": {"step0": True}},
    {"parts": [["step0", True, [[0, "scratch", 0, [4]], [[0, "elsewhere", 0, [4]]]]]]},
    {"parts": [["step0", True, [[-1, "scratch", 0, [4]], []]]]},
    {"parts": [["step0", True, [[0, "scratch", -8, [4]], []]]]},
    {"parts": [["step0", True, [[0, "scratch", 0, [HUGE]], []]]]},
    {"parts": [["step0", True, [[0, "scratch", 0, [4] * 65], []]]]},
    {"parts": [["step0", True, [[True, "scratch", 0, [4]], []]]]},
    {"arenas": ["given 0", "given 0"]},
    {"arenas": ["given 0", "scratch"]},
    {"arenas": "given 0"},
    {"scratch_nbytes": -1},
    {"scratch_nbytes": 191},  # the workspace of the loop ends at 192
    {"allocated_nbytes": -1},
    {"scratch_nbytes": HUGE},
    {"scratch_nbytes": 1.0},
    {"scratch_nbytes": float("inf")},
    {"scratch_nbytes": None},
    {"threads": 0},
    {"threads": 10**6},
    {"threads": "2"},
    {"overwritten": [0]},
    {"routines": ["system"]},
    {"routines": ["scratch"]},
    {"threaded_products": 1},
    {"barrier_count": -1},
    {"barrier_count": 1 << 30},
]


@pytest.mark.parametrize("changed", HOSTILE, ids=str)
def test_what_does_not_fit_is_refused_although_its_checksum_is_right(folder, changed):
    assert refused(folder, sealed(changed))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{" * 100_000,
        b"[" * entry.MOST_JSON_NBYTES,
        b'{"key":' * 100_000,
        b"9" * 100_000,
        b'{"key":"' + KEY.encode() + b'"}',
    ],
    ids=lambda text: str(text[:10]),
)
def test_text_that_is_not_ours_is_refused_although_its_checksum_is_right(folder, text):
    assert refused(folder, sealed(text=text))


def test_lengths_that_are_not_those_of_the_file_are_refused(folder):
    for sizes in [(1 << 31, 4), (4, 1 << 62), (0, 0), (10, 0)]:
        data = entry.HEADER.pack(entry.MAGIC, entry.FORMAT, *sizes, b"\0" * 32)
        assert refused(folder, data + b"{}")


def test_a_length_that_is_not_that_of_the_file_is_refused_although_the_checksum_is_right(folder):
    data = sealed()
    size = entry.HEADER.unpack_from(data)[2]
    text = data[entry.HEADER.size : entry.HEADER.size + size]
    for nbytes in (3, 5, 1 << 62):
        head = entry.MAGIC, entry.FORMAT, size, nbytes
        checksum = entry._checksum(*head, text, b"code")
        assert refused(folder, entry.HEADER.pack(*head, checksum) + text + b"code")
    assert refused(folder, sealed(text=text + b" " * entry.MOST_JSON_NBYTES))


@pytest.mark.exhaustive
def test_a_large_file_is_refused_in_little_memory(folder):
    worst = b"[" + b"[]," * (entry.MOST_JSON_NBYTES // 3 - 2) + b"[]]"
    folder.mkdir(mode=0o700)
    path = folder / cache._name(KEY)
    load(KEY)
    tracemalloc.start()
    try:
        path.touch(0o600)
        os.truncate(path, 1 << 40)  # of holes
        assert load(KEY) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        assert refused(folder, sealed(text=worst))
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_what_is_no_file_of_the_user_is_ignored(folder, tmp_path):
    cache.store(KEY, ARTIFACT)
    path = stored_file(folder)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)

    path.symlink_to(elsewhere)
    assert load(KEY) is None
    assert elsewhere.exists()
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    assert load(KEY) is None
    path.unlink(missing_ok=True)
    path.mkdir()
    assert load(KEY) is None
    path.rmdir()
    elsewhere.rename(path)
    assert load(KEY) == ARTIFACT


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_ignored(folder, mode):
    cache.store(KEY, ARTIFACT)
    assert stat.S_IMODE(stored_file(folder).stat().st_mode) == 0o600
    stored_file(folder).chmod(mode)
    assert load(KEY) is None


def test_a_file_of_another_user_is_ignored(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    real = os.fstat

    def of_another(descriptor):
        found = real(descriptor)
        if stat.S_ISDIR(found.st_mode):
            return found
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.setattr(os, "fstat", of_another)
    assert load(KEY) is None
