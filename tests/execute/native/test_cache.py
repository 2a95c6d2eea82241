"""Compiled code is found again by later processes, and does not fill the disk."""

import ast
import multiprocessing
import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from caching import ARTIFACT, KEY, a_version, digest, fresh_folder, load, numbered, stored_file
from executors import needs_native

from chainrule.disk import cache, entry
from chainrule.errors import CacheWarning
from chainrule.execute.native.artifact import Artifact

pytestmark = needs_native


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return fresh_folder(tmp_path, monkeypatch)


# what is stored comes back


def test_an_artifact_comes_back_as_it_was():
    assert load(KEY) is None
    cache.store(KEY, ARTIFACT)
    found = load(KEY)
    assert found == ARTIFACT
    for field in fields(Artifact):
        assert type(getattr(found, field.name)) is type(getattr(ARTIFACT, field.name))


def test_an_artifact_stored_again_takes_the_place_of_the_one_before(folder):
    for number in range(3):
        cache.store(KEY, numbered(number))
        assert load(KEY) == numbered(number)
    stored_file(folder)


def test_a_key_finds_only_its_own_entry(folder):
    cache.store(KEY, ARTIFACT)
    assert load("another") is None
    stored_file(folder).rename(folder / cache._name("another"))
    assert load("another") is None
    assert list(folder.iterdir()) == []


def test_an_artifact_too_large_is_not_stored(folder, monkeypatch):
    monkeypatch.setattr(entry, "MOST_NBYTES", 2000)
    cache.store(KEY, ARTIFACT)
    assert not folder.exists()


def test_another_version_of_the_library_has_other_entries(monkeypatch):
    cache.store(KEY, ARTIFACT)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_generator", lambda: "other files")
        assert load(KEY) is None
    assert load(KEY) == ARTIFACT


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


# What they decide is in the graph or in the key, or told to people alone.
NO_PART_OF_CODE = {"dataclass", "errors", "tracebacks", "source", "execute"}


@pytest.mark.slow
def test_all_that_code_is_made_by_is_a_part_of_the_version():
    """What is imported by a file of which there is a digest is such a file itself."""
    files = [one for part in cache.GENERATOR for one in (cache.PACKAGE / part).rglob("*.py")]
    imported = {
        node.module.split(".")[1]
        for file in files
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chainrule.")
    }
    parts = {part.split("/")[0] for part in cache.GENERATOR}
    assert parts <= imported
    assert imported - parts - NO_PART_OF_CODE == set()


def test_without_the_files_of_the_library_there_is_no_cache(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "in an archive")
    monkeypatch.setattr(cache, "_generator", digest)
    cache.store(KEY, ARTIFACT)
    assert load(KEY) is None
    assert not folder.exists()


# its size


def age(folder, key, seconds):
    path = folder / cache._name(key)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def test_what_was_not_used_for_the_longest_time_goes_first(folder, monkeypatch):
    for number in range(8):
        cache.store(str(number), ARTIFACT)
        age(folder, str(number), 1000 - number)
    nbytes = (folder / cache._name("0")).stat().st_size
    assert load("0") is not None  # used
    monkeypatch.setenv(cache.SIZE, str(8 * nbytes / (1 << 20)))
    cache.store("8", ARTIFACT)
    kept = [key for key in map(str, range(9)) if load(key) is not None]
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
        assert load(str(number)) is not None


def test_a_size_that_is_no_number_is_told(monkeypatch):
    monkeypatch.setenv(cache.SIZE, "much")
    with pytest.warns(CacheWarning, match="CHAINRULE_CACHE_SIZE is 'much', which is no number"):
        cache.store(KEY, ARTIFACT)


def test_the_folder_is_looked_through_the_more_rarely_the_more_room_there_is(folder, monkeypatch):
    looks = []
    make_room = cache._make_room
    monkeypatch.setattr(cache, "_make_room", lambda *args: looks.append(args) or make_room(*args))
    for number in range(64):
        cache.store(str(number), ARTIFACT)
    assert len(looks) == 1
    monkeypatch.setattr(cache, "MOST_ENTRIES", 96)
    monkeypatch.setattr(cache, "_until_look", {})
    for number in range(64, 96):
        cache.store(str(number), ARTIFACT)
    assert 8 < len(looks) < 24  # after 4 of the 32, then after 3


def test_what_a_dead_process_left_unfinished_is_removed(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    old, new = folder / f"old{cache.UNFINISHED}", folder / f"new{cache.UNFINISHED}"
    other = folder / "a file of the user's"
    for path in (old, new, other):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    monkeypatch.setattr(cache, "_until_look", {})  # as in another process
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
                found = load(str(number))
                if found is not None and found != numbered(number):
                    faults.append(number)
    return faults


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("size", ["256", "0.01"])
def test_many_processes_may_use_one_folder(folder, monkeypatch, size):
    monkeypatch.setenv(cache.SIZE, size)  # 0.01: room for a few entries
    with multiprocessing.get_context("spawn").Pool(3) as workers:
        assert workers.map(stores_and_loads, range(4), 1) == [[]] * 4
    left = list(folder.iterdir())
    assert all(path.name.endswith(cache.ENTRY) for path in left)
    assert sum(path.stat().st_size for path in left) <= float(size) * (1 << 20)
