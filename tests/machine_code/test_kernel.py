"""A kernel that an earlier process compiled is loaded; what cannot be loaded is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from executors import needs_native

from chainrule.disk import cache
from chainrule.machine_code import kernel
from chainrule.machine_code.kernel import Kernel

pytestmark = needs_native


@dataclass
class State:
    """One number."""

    count: int


def doubled(s: State) -> int:
    s.count = s.count * 2
    return s.count + 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv(cache.FOLDER, str(path))
    monkeypatch.delenv(cache.SWITCH, raising=False)
    monkeypatch.setattr(cache, "_generator", lambda: "a version")
    return path


def check() -> None:
    state = State(21)
    assert Kernel(doubled, (), State).native(state) == 43
    assert state.count == 42


def test_it_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(kernel, "compile_object", None)
    check()


@pytest.mark.parametrize("code", [b"", b"no object file"])
def test_what_cannot_be_loaded_is_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: bytes
) -> None:
    store = cache.store
    with monkeypatch.context() as patch:
        patch.setattr(cache, "store", lambda key, _: store(key, kernel.Compiled(code)))
        check()
    (path,) = folder.iterdir()
    before = path.read_bytes()
    check()
    (path,) = folder.iterdir()
    assert path.read_bytes() != before
