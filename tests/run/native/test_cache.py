"""Compiled code is found again by later processes, and whatever is wrong with it does no harm."""

import json
import multiprocessing
import os
import stat
import subprocess
import sys
import tracemalloc
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.run.native import cache, entry, machine
from chainrule.run.native.artifact import Artifact, Foreign, Part, Place, compiled, key_of
from chainrule.run.native.cache import CacheWarning
from chainrule.run.native.entry import DamagedEntryError, pack, unpack
from chainrule.run.native.evaluate import evaluate
from chainrule.run.native.target import host_target, native_refusal

pytestmark = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))

KEY = sha256(b"a key").hexdigest()
PLACES = Place(3, "scratch", 64, (8, -4)), Place(0, "given 0", 0, ())
ARTIFACT = Artifact(
    code=bytes(range(256)) * 10,
    parts=(Part("step0", True, Foreign(PLACES[0], PLACES)), Part("step1", False, None)),
    arenas=("given 0", "result 0"),
    scratch_nbytes=4096,
    threads=2,
    overwritten=(True, False),
    routines=("dgemm", "sgemm"),
    threaded_products=True,
    phase_count=3,
)


digest = cache._generator.__wrapped__


def a_version():
    """Takes the place of the digest of our files, for somebody may be editing them."""
    return "a version"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for every test, and a process that has not warned yet."""
    path = tmp_path / "cache"
    monkeypatch.setenv(cache.FOLDER, str(path))
    monkeypatch.delenv(cache.SWITCH, raising=False)
    monkeypatch.delenv(cache.SIZE, raising=False)
    monkeypatch.setattr(cache, "_told", set())
    monkeypatch.setattr(cache, "_generator", a_version)
    monkeypatch.setattr(machine, "_machines", type(machine._machines)())
    return path


def numbered(number):
    """An artifact that is different for each number, and larger for larger ones."""
    return replace(ARTIFACT, code=bytes([number % 256]) * (1000 + 7 * number))


def stored_file(folder):
    (found,) = folder.glob(f"*{cache.ENTRY}")
    return found


def sealed(changed=None, text=None, head=(entry.MAGIC, entry.FORMAT), code=b"code"):
    """An entry with a right checksum and anything in it."""
    if text is None:
        data = pack(KEY, ARTIFACT)
        assert data is not None
        size = entry.HEADER.unpack_from(data)[2]
        shown = json.loads(data[entry.HEADER.size : entry.HEADER.size + size])
        text = json.dumps({**shown, **(changed or {})}).encode()
    sizes = *head, len(text), len(code)
    checksum = entry._checksum(*sizes, text, code)
    return entry.HEADER.pack(*sizes, checksum) + text + code


# what is stored comes back


def test_an_artifact_comes_back_as_it_was():
    assert cache.load(KEY) is None
    cache.store(KEY, ARTIFACT)
    found = cache.load(KEY)
    assert found == ARTIFACT
    for field in fields(Artifact):
        assert type(getattr(found, field.name)) is type(getattr(ARTIFACT, field.name))


def test_an_artifact_stored_again_takes_the_place_of_the_one_before(folder):
    for number in range(3):
        cache.store(KEY, numbered(number))
        assert cache.load(KEY) == numbered(number)
    stored_file(folder)


def test_a_key_finds_only_its_own_entry(folder):
    cache.store(KEY, ARTIFACT)
    assert cache.load("another") is None
    stored_file(folder).rename(folder / cache._name("another"))
    assert cache.load("another") is None
    assert list(folder.iterdir()) == []


def test_an_artifact_too_large_is_not_stored(folder, monkeypatch):
    monkeypatch.setattr(entry, "MOST_NBYTES", 2000)
    cache.store(KEY, ARTIFACT)
    assert not folder.exists()


def test_another_version_of_the_library_or_of_llvm_has_other_entries(monkeypatch):
    cache.store(KEY, ARTIFACT)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_generator", lambda: "other files")
        assert cache.load(KEY) is None
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.__version__", "99")
        assert cache.load(KEY) is None
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.binding.llvm_version_info", (99, 0, 0))
        assert cache.load(KEY) is None
    assert cache.load(KEY) == ARTIFACT


def test_an_edited_generator_is_another_version(tmp_path, monkeypatch):
    file = tmp_path / "plan" / "deep" / "order.py"
    file.parent.mkdir(parents=True)
    (tmp_path / "__init__.py").write_text("")
    file.write_text("x = 1")
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    assert digest() == "", "edited after the import"
    monkeypatch.setattr(cache, "IMPORTED", 2e10)
    before = digest()
    assert digest() == before != ""
    file.write_text("x = 2")
    assert digest() not in (before, "")


def test_without_the_files_of_the_library_there_is_no_cache(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "in an archive")
    monkeypatch.setattr(cache, "_generator", digest)
    cache.store(KEY, ARTIFACT)
    assert cache.load(KEY) is None
    assert not folder.exists()


# damage


def refused(folder, data):
    """Whether a file with these bytes is ignored, and taken away."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / cache._name(KEY)
    path.write_bytes(data)
    path.chmod(0o600)
    return cache.load(KEY) is None and not path.exists()


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


def test_another_format_is_ignored_and_removed(folder):
    assert refused(folder, sealed(head=(entry.MAGIC, entry.FORMAT + 1)))
    assert refused(folder, sealed(head=(b"something else!!", entry.FORMAT)))


HUGE = 1 << 60
STEP = ["step0", True, None]
HOSTILE = [
    {"key": "another"},
    {"more": 1},
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
    {"phase_count": -1},
    {"phase_count": 1 << 30},
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


def test_a_large_file_is_refused_in_little_memory(folder):
    worst = b"[" + b"[]," * (entry.MOST_JSON_NBYTES // 3 - 2) + b"[]]"
    folder.mkdir(mode=0o700)
    path = folder / cache._name(KEY)
    cache.load(KEY)
    tracemalloc.start()
    try:
        path.touch(0o600)
        os.truncate(path, 1 << 40)  # of holes
        assert cache.load(KEY) is None
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
    assert cache.load(KEY) is None
    assert elsewhere.exists()
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    assert cache.load(KEY) is None
    path.unlink(missing_ok=True)
    path.mkdir()
    assert cache.load(KEY) is None
    path.rmdir()
    elsewhere.rename(path)
    assert cache.load(KEY) == ARTIFACT


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_ignored(folder, mode):
    cache.store(KEY, ARTIFACT)
    assert stat.S_IMODE(stored_file(folder).stat().st_mode) == 0o600
    stored_file(folder).chmod(mode)
    assert cache.load(KEY) is None


def test_a_file_of_another_user_is_ignored(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    real = os.fstat

    def of_another(descriptor):
        found = real(descriptor)
        if stat.S_ISDIR(found.st_mode):
            return found
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.setattr(os, "fstat", of_another)
    assert cache.load(KEY) is None


# the folder


def test_the_folder_is_made_for_the_user_alone(folder, monkeypatch):
    monkeypatch.setenv(cache.FOLDER, str(folder / "deep" / "down"))
    before = os.umask(0)
    try:
        cache.store(KEY, ARTIFACT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "deep" / "down").stat().st_mode) == 0o700
    assert not list(folder.glob("*.code"))
    assert cache.load(KEY) == ARTIFACT


def test_a_folder_that_others_can_enter_is_not_used_and_one_warning_says_so(folder):
    cache.store(KEY, ARTIFACT)
    folder.chmod(0o755)
    with pytest.warns(CacheWarning) as told:
        assert cache.load(KEY) is None
        assert cache.load(KEY) is None
        cache.store("another", ARTIFACT)
    assert [str(one.message) for one in told] == [
        f"compiled code is not kept on disk: {folder} is open to other users (mode 0755)\n"
        f"  try: chmod 700 {folder}, or set CHAINRULE_CACHE_DIR to a folder of your own, or "
        "CHAINRULE_CACHE=0 to do without"
    ]
    assert told[0].filename == __file__
    stored_file(folder)
    folder.chmod(0o700)
    assert cache.load(KEY) == ARTIFACT


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert cache.load(KEY) is None


def test_a_symbolic_link_or_a_file_is_no_folder(folder, tmp_path, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "link"))
    (tmp_path / "link").symlink_to(folder)
    with pytest.warns(CacheWarning, match="link is a symbolic link"):
        cache.store(KEY, ARTIFACT)
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match=r"file cannot be opened \(Not a directory\)"):
        cache.store(KEY, ARTIFACT)
    assert list(folder.iterdir()) == []


def test_the_environment_says_where_the_folder_is(monkeypatch, tmp_path):
    assert cache.folder_path() == tmp_path / "cache"
    monkeypatch.delenv(cache.FOLDER)
    monkeypatch.setenv("HOME", "/home/user")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache.folder_path() == Path("/shared/chainrule")
    for ignored in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache.folder_path() == Path("/home/user/.cache/chainrule")
    monkeypatch.setenv(cache.FOLDER, "~/code")
    assert cache.folder_path() == Path("/home/user/code")


def test_without_a_home_there_is_no_cache(monkeypatch):
    monkeypatch.delenv(cache.FOLDER)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where nobody knows the user
    with pytest.warns(CacheWarning, match="this user has no home folder"):
        cache.store(KEY, ARTIFACT)


def test_the_cache_can_be_turned_off(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    monkeypatch.setenv(cache.SWITCH, "0")
    assert cache.load(KEY) is None
    cache.store("another", ARTIFACT)
    monkeypatch.delenv(cache.SWITCH)
    assert cache.load(KEY) == ARTIFACT
    assert cache.load("another") is None


def test_a_full_disk_is_told_once_and_leaves_nothing_behind(folder):
    script = (
        "import resource, sys, warnings; sys.path.insert(0, sys.argv[1])\n"
        "from test_cache import ARTIFACT, a_version, cache\n"
        "cache._generator = a_version\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    cache.store('one', ARTIFACT); cache.store('two', ARTIFACT)\n"
        "print(*(one.message for one in told))"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert told.count("compiled code is not kept on disk") == 1
    assert f"{folder} cannot be written (File too large)\n  try: make room there, or set" in told
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_read(folder):
    cache.store(KEY, ARTIFACT)
    folder.chmod(0o500)
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.store("another", ARTIFACT)
    assert cache.load(KEY) == ARTIFACT
    folder.chmod(0o700)


# its size


def age(folder, key, seconds):
    path = folder / cache._name(key)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def test_what_was_not_used_for_the_longest_time_goes_first(folder, monkeypatch):
    for number in range(8):
        cache.store(str(number), ARTIFACT)
        age(folder, str(number), 1000 - number)
    nbytes = (folder / cache._name("0")).stat().st_size
    assert cache.load("0") is not None  # used
    monkeypatch.setenv(cache.SIZE, str(8 * nbytes / (1 << 20)))
    cache.store("8", ARTIFACT)
    kept = [key for key in map(str, range(9)) if cache.load(key) is not None]
    assert kept == ["0", "3", "4", "5", "6", "7", "8"]  # room for one more
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8 * nbytes


def test_an_entry_larger_than_the_cache_is_not_stored(folder, monkeypatch):
    monkeypatch.setenv(cache.SIZE, "0.001")
    cache.store(KEY, ARTIFACT)
    assert not folder.exists()


def test_there_are_not_too_many_entries(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_ENTRIES", 16)
    for number in range(40):
        cache.store(str(number), ARTIFACT)
        age(folder, str(number), 1000 - number)
        assert len(list(folder.iterdir())) <= 16
        assert cache.load(str(number)) is not None


def test_a_size_that_is_no_number_is_told(monkeypatch):
    monkeypatch.setenv(cache.SIZE, "much")
    with pytest.warns(CacheWarning, match="CHAINRULE_CACHE_SIZE is 'much', which is no number"):
        cache.store(KEY, ARTIFACT)


def test_what_a_dead_process_left_unfinished_is_removed(folder):
    cache.store(KEY, ARTIFACT)
    old, new = folder / f"old{cache.UNFINISHED}", folder / f"new{cache.UNFINISHED}"
    other = folder / "a file of the user's"
    for path in (old, new, other):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    cache.store("another", ARTIFACT)
    assert not old.exists()
    assert new.exists() and other.exists()


# many processes


def stores_and_loads(seed):
    """Store and load keys that others use too, and some of its own; what was not whole."""
    cache._generator = a_version
    random = np.random.default_rng(seed)
    faults = []
    for turn in range(150):
        number = int(random.integers(0, 6)) if turn % 3 else 100 + seed
        match random.integers(0, 8):
            case 0:
                Path(os.environ[cache.FOLDER], cache._name(str(number))).unlink(missing_ok=True)
            case 1 | 2 | 3:
                cache.store(str(number), numbered(number))
            case _:
                found = cache.load(str(number))
                if found is not None and found != numbered(number):
                    faults.append(number)
    return faults


@pytest.mark.parametrize("size", ["256", "0.01"])
def test_many_processes_may_use_one_folder(folder, monkeypatch, size):
    monkeypatch.setenv(cache.SIZE, size)  # 0.01: room for a few entries
    with multiprocessing.get_context("spawn").Pool(8) as workers:
        assert workers.map(stores_and_loads, range(8), 1) == [[]] * 8
    left = list(folder.iterdir())
    assert all(path.name.endswith(cache.ENTRY) for path in left)
    assert sum(path.stat().st_size for path in left) <= float(size) * (1 << 20)


# code


def program():
    def objective(x: float32[5, 40], W: float32[40, 30]):
        return np.sum(np.tanh(x @ W) ** 2)

    return cr.backward(cr.trace(objective), wrt=("W",))


def values():
    graph = program()
    random = np.random.default_rng(0)
    shapes = [(5, 40), (40, 30)]
    inputs = {
        item.node: random.standard_normal(shape, dtype=np.float32)
        for item, shape in zip(graph.inputs, shapes, strict=True)
    }
    keep = [node for _, node in graph.outputs]
    return list(evaluate(graph, inputs, keep).values())


def test_code_that_another_process_stored_runs_here(folder, monkeypatch):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_cache import a_version, cache, values\n"
        "cache._generator = a_version\n"
        "print(*(one.tobytes().hex() for one in values()))"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    outputs, files = [], []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        outputs.append(done.stdout.decode().split())
        files.append((stored_file(folder).name, stored_file(folder).read_bytes()))
        if seed == "1":
            stored_file(folder).unlink()
    assert files[0] == files[1], "code depends on addresses or on the order of hashes"

    def compiled(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(machine, "compiled", compiled)
    assert [one.tobytes().hex() for one in values()] == outputs[0] == outputs[1]


def test_code_is_stored_when_it_is_made_and_found_on_disk_later(folder, monkeypatch):
    first = values()
    before = stored_file(folder).stat().st_mtime_ns
    machine._machines.clear()
    monkeypatch.setattr(machine, "compiled", None)
    again = values()
    assert all(map(np.array_equal, first, again))
    assert stored_file(folder).stat().st_mtime_ns > before


@pytest.mark.parametrize("damaged", ["nothing", "cut off", "other functions"])
def test_code_that_cannot_be_loaded_is_compiled_again(folder, damaged):
    first = values()
    graph = program()
    results = [node for _, node in graph.outputs]
    threads = machine._default_threads()
    key = key_of(graph, results, {}, threads, host_target(), machine.likes_chunks(graph))
    whole = cache.load(key)
    assert whole is not None
    changed = {
        "nothing": replace(whole, code=b""),
        "cut off": replace(whole, code=whole.code[:-50]),
        "other functions": replace(whole, parts=(Part("unknown", False, None),)),
    }
    cache.store(key, changed[damaged])
    machine._machines.clear()
    assert all(map(np.array_equal, first, values()))
    assert cache.load(key) == whole


def test_constants_of_one_type_are_told_apart_in_the_key():
    A, B = np.ones(3, np.float32), np.full(3, 5, np.float32)

    def with_first(x: float32[3]):
        return (x - A) * B + A

    def with_second(x: float32[3]):
        return (x - A) * B + B

    keys = set()
    for function in (with_first, with_second):
        graph = cr.trace(function)
        keys.add(key_of(graph, [node for _, node in graph.outputs], {}, 1, host_target()))
    assert len(keys) == 2


def test_a_real_artifact_comes_back_as_it_was():
    graph = program()
    results = [node for _, node in graph.outputs]
    made = compiled(graph, results, {}, 2, host_target())
    data = pack(KEY, made)
    assert data is not None
    assert unpack(KEY, data) == made
