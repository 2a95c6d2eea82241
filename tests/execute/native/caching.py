"""A cache for each test, and what to put into it."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256

from chainrule.disk import cache, entry
from chainrule.execute.native.artifact import Artifact, Foreign, Part, Place, is_sensible
from chainrule.execute.native.runtime import machine

KEY = sha256(b"a key").hexdigest()
PLACES = Place(3, "scratch", 64, (8, -4)), Place(0, "given 0", 0, ())
ARTIFACT = Artifact(
    code=bytes(range(256)) * 10,
    code_nbytes=(2000, 560),
    parts=(
        Part("step0", True, Foreign(PLACES[0], PLACES, True, 64, 128)),
        Part("step1", False, None),
    ),
    arenas=("given 0", "result 0"),
    scratch_nbytes=4096,
    allocated_nbytes=100,
    threads=2,
    overwritten=(True, False),
    routines=("dgemm", "sgemm"),
    threaded_products=True,
    barrier_count=3,
)


# No functions of their own, as warnings show the line of the caller.
load = partial(cache.load, kind=Artifact, is_sensible=is_sensible)
unpack = partial(entry.unpack, kind=Artifact, is_sensible=is_sensible)
digest = cache._generator.__wrapped__


def a_version():
    """Takes the place of the digest of our files, for somebody may be editing them."""
    return "a version"


def fresh_folder(tmp_path, monkeypatch):
    """A cache of its own for one test, and a process that has not warned yet; where it is."""
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
    code = bytes([number % 256]) * (1000 + 7 * number)
    return replace(ARTIFACT, code=code, code_nbytes=(len(code),))


def stored_file(folder):
    (found,) = folder.glob(f"*{cache.ENTRY}")
    return found


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, who may enter every folder."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
