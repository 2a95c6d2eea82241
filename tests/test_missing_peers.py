"""`scripts/test.py` says how to install what is missing, in commands that shells take as meant."""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("run_tests", SCRIPTS / "test.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_command_installs_all_but_torch_and_no_shell_redirects(script: ModuleType):
    lines = list(script._installs(Path("python"), ["torch==2.13.0", "jax", "onnx>=1.23"]))
    torch, _, others = (
        list(shlex.shlex(line, posix=True, punctuation_chars=True)) for line in lines
    )
    assert torch[:5] == ["python", "-m", "pip", "install", "torch==2.13.0"]
    assert others == ["python", "-m", "pip", "install", "jax", "onnx>=1.23"]
    assert next(script._installs(Path("python"), ["torch==2.13.0"])) == lines[0]


def test_help_of_the_browsers_installs_nothing():
    command = [sys.executable, SCRIPTS / "browsers.py"]
    asked = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "Installs what the tests" in asked.stdout and "browsers:" not in asked.stdout
    assert subprocess.run([*command, "firefox"], capture_output=True).returncode == 2
