"""Python for the browser comes with bytecode, and with the sources that messages show."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import bytecode
import pytest

SITE = Path(__file__).resolve().parents[2] / ".website" / "site"


def test_bytecode_is_beside_a_source_that_is_shown_and_in_place_of_others() -> None:
    made = {one: b"code" for one in ("numpy/linalg.py", "chainrule/graph/node.py", "optree.py")}
    found = [bytecode.files(name, b"source", made) for name in (*made, "numpy/core.so")]
    assert found == [
        [("numpy/linalg.pyc", b"code")],
        [
            ("chainrule/graph/node.py", b"source"),
            ("chainrule/graph/__pycache__/node.cpython-312.pyc", b"code"),
        ],
        [("optree.py", b"source"), ("__pycache__/optree.cpython-312.pyc", b"code")],
        [("numpy/core.so", b"source")],
    ]


def test_without_node_the_archives_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    bytecode.add(tmp_path, tmp_path)
    assert "there is no node" in capsys.readouterr().out and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_site_has_the_bytecode_of_what_its_pages_load() -> None:
    found = sorted(SITE.glob("*/assets/python"))
    if not found or shutil.which("node") is None:
        pytest.skip("there is no site (python3 scripts/website.py), or no node to compile with")
    with zipfile.ZipFile(found[-1] / "packages.zip") as archive:
        names = set(archive.namelist())
        code = archive.read("chainrule/graph/__pycache__/node.cpython-312.pyc")
    assert code[4:8] == (1).to_bytes(4, "little")  # by a hash, which nobody compares at a start
    assert "chainrule/graph/node.py" in names
    assert "numpy/__init__.pyc" in names and "numpy/__init__.py" not in names
    with zipfile.ZipFile(found[-1] / "python_stdlib.zip") as archive:
        assert "ast.pyc" in archive.namelist()
