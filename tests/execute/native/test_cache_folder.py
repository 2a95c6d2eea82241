"""The cache is a folder of the user alone; without one there is none."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from caching import ARTIFACT, KEY, as_nobody, fresh_folder, load, stored_file
from executors import needs_native

from chainrule.disk import cache
from chainrule.errors import CacheWarning

pytestmark = needs_native


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return fresh_folder(tmp_path, monkeypatch)


def test_the_folder_is_made_for_the_user_alone(folder, monkeypatch):
    monkeypatch.setenv(cache.FOLDER, str(folder / "deep" / "down"))
    before = os.umask(0)
    try:
        cache.store(KEY, ARTIFACT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "deep" / "down").stat().st_mode) == 0o700
    assert not list(folder.glob("*.code"))
    assert load(KEY) == ARTIFACT


def test_a_folder_that_others_can_enter_is_not_used_and_one_warning_says_so(folder):
    cache.store(KEY, ARTIFACT)
    folder.chmod(0o755)
    with pytest.warns(CacheWarning) as told:
        assert load(KEY) is None
        assert load(KEY) is None
        cache.store("another", ARTIFACT)
    assert [str(one.message) for one in told] == [
        f"compiled code and plans are not kept on disk: {folder} is open to other users "
        "(mode 0755)\n"
        f"  try: chmod 700 {folder}, or set CHAINRULE_CACHE_DIR to a folder of your own, or "
        "CHAINRULE_CACHE=0 to do without"
    ]
    assert told[0].filename == __file__
    stored_file(folder)
    folder.chmod(0o700)
    assert load(KEY) == ARTIFACT


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    cache.store(KEY, ARTIFACT)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert load(KEY) is None


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


def test_a_folder_that_the_user_may_not_enter_is_told(tmp_path, monkeypatch):
    """As where HOME is that of root, and the user is not."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    monkeypatch.setenv(cache.FOLDER, str(closed / "cache"))
    with as_nobody(), pytest.warns(CacheWarning, match=r"cannot be opened \(Permission denied\)"):
        cache.store(KEY, ARTIFACT)
        assert load(KEY) is None


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
    assert load(KEY) is None
    cache.store("another", ARTIFACT)
    monkeypatch.delenv(cache.SWITCH)
    assert load(KEY) == ARTIFACT
    assert load("another") is None


@pytest.mark.slow
def test_a_full_disk_is_told_once_and_leaves_nothing_behind(folder):
    script = (
        "import resource, sys, warnings; sys.path.insert(0, sys.argv[1])\n"
        "from caching import ARTIFACT, a_version, cache\n"
        "cache._generator = a_version\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    cache.store('one', ARTIFACT); cache.store('two', ARTIFACT)\n"
        "print(*(one.message for one in told))"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert told.count("compiled code and plans are not kept on disk") == 1
    assert f"{folder} cannot be written (File too large)\n  try: make room there, or set" in told
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_read(folder):
    cache.store(KEY, ARTIFACT)
    folder.chmod(0o500)
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.store("another", ARTIFACT)
    assert load(KEY) == ARTIFACT
    folder.chmod(0o700)
