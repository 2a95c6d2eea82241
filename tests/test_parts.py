"""scripts/test.py runs pytest in parts, and tells what came of all of them as pytest would."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def parts() -> Any:
    spec = importlib.util.spec_from_file_location("parts", ROOT / "scripts" / "parts.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = {
    "test_a.py": "def test_one():\n    pass\n",
    "test_b.py": "def test_two():\n    assert 1 == 2\n",
    "test_c.py": "import pytest\ndef test_three():\n    pytest.skip('so')\ndef test_one(): pass\n",
}


def folder_with_tests(folder: Path) -> Path:
    (folder / "tests").mkdir()
    for name, text in FILES.items():
        (folder / "tests" / name).write_text(text, encoding="utf-8")
    return folder


def test_folders_are_parted_and_what_is_named_is_kept(parts: Any, tmp_path: Path) -> None:
    folder = folder_with_tests(tmp_path)
    assert parts._files("tests", folder) == [f"tests/{name}" for name in FILES]
    assert parts._files("tests/test_a.py::test_one", folder) == ["tests/test_a.py::test_one"]
    assert parts._is_path("tests/test_a.py::test_one", folder)
    assert not parts._is_path("split", folder) and not parts._is_path("-k", folder)


def test_parts_take_about_as_long(parts: Any) -> None:
    assert parts._shares(list("abcde"), {"c": 2.5, "d": 2.0}, 2) == [["c", "e"], ["d", "b", "a"]]
    assert parts._shares(["a::x", "b", "a::y"], {"a": 2.0}, 9) == [["a::x"], ["a::y"], ["b"]]
    files = parts._files("tests", ROOT)
    for quick in (True, False):
        known = parts._seconds(ROOT, quick)
        assert known.keys() <= set(files)
        shares = parts._shares(files, known, 2)
        assert sorted([*shares[0], *shares[1]]) == files
    assert known != parts._seconds(ROOT, True)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("=== 1 failed, 2 passed, 3 deselected in 0.12s ===", {"failed": 1, "passed": 2}),
        ("20 passed, 1 warning, 2 errors in 61.00s (0:01:01)", {"passed": 20, "error": 2}),
        ("\x1b[32m=== \x1b[1m5 passed\x1b[0m in 1.00s ===\x1b[0m", {"passed": 5}),
        ("FAILED tests/test_a.py::test_one - 1 failed in 0.1s", {}),
        ("5 passed in my opinion", {}),
    ],
)
def test_the_last_line_of_pytest_is_read(
    parts: Any, line: str, counts: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    found = parts._show([f"{line}\n"])
    assert counts.items() <= found.items()
    assert capsys.readouterr().out == ("" if counts else f"{line}\n")
    last = parts._last_line(Counter(passed=1, error=2, warning=1), 1.5)
    assert last.strip("=") == " 1 passed, 2 errors, 1 warning in 1.50s "


@pytest.mark.slow
def test_all_parts_are_run_and_the_first_failure_is_the_status(
    parts: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = folder_with_tests(tmp_path)
    (folder / "tests" / "test_d.py").write_text("import os\ndef test_end(): os._exit(3)\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    files = [f"tests/{name}" for name in FILES]
    assert parts.run_in_parts(command, ["-v", *files], folder, count=2) == 1
    out = capfd.readouterr().out
    assert out.count("PASSED") == 2 and "FAILED tests/test_b.py::test_two" in out
    assert out.splitlines()[-1].strip("= ").startswith("2 passed, 1 skipped, 1 failed in ")
    assert parts.run_in_parts(command, ["-k", "end"], folder, count=2) == 3
    assert "ended with 3, before it was done" in capfd.readouterr().out
    assert parts.run_in_parts(command, ["-k", "none"], folder, 1) == parts.NO_TESTS_COLLECTED
