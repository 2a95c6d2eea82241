"""autograd's own tests of its NumPy pass with chainrule in its place."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import autograd.numpy as anp
import pytest
from autograd.core import primitive_vjps
from autograd_left_out import COMPLEX_ONLY, FAILING, FILES, LEFT_OUT

VERSION = "1.9.1"
HERE = Path(__file__).parent
ENOUGH = 0.9


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tests in the source distribution, which is downloaded once."""
    cache = getattr(request.config, "cache", None)  # None with -p no:cacheprovider
    folder = tmp_path_factory.mktemp("suite") if cache is None else None
    folder = folder or Path(cache.mkdir(f"autograd-{VERSION}"))
    tests = folder / f"autograd-{VERSION}" / "tests"
    if not (tests / "test_numpy.py").exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", f"autograd=={VERSION}", "--dest", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"the tests of autograd cannot be downloaded: {done.stderr[-300:]}")
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            found.extractall(folder, filter="data")
    return tests


@pytest.fixture(scope="session")
def outcomes(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What became of each test: [outcome, message]."""
    written = tmp_path_factory.mktemp("autograd") / "outcomes.json"
    options = ["-p", "adapter", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    files = [path.name for path in sorted(suite.glob("test_*.py")) if path.name not in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", *options]
    command += ["--outcomes", str(written), "--continue-on-collection-errors", *files]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=suite, env=environment, capture_output=True, text=True, timeout=600
    )
    assert written.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(written.read_text(encoding="utf-8"))


def name_of(node: str) -> str:
    """The test's name without its file and its parameters."""
    return node.partition("::")[2].partition("[")[0]


def functions_of(file: Path) -> Iterator[tuple[str, set[str]]]:
    """(test, the functions of np and np.linalg in it) for each test of a file."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found = set()
            for one in ast.walk(node):
                name = ast.unparse(one) if isinstance(one, ast.Attribute) else ""
                if name.startswith("np."):
                    found.add(name.removeprefix("np."))
            yield node.name, found


def is_differentiable(name: str) -> bool:
    """Whether autograd has a derivative of the function, or writes it with functions that have."""
    value = anp
    for part in name.split("."):
        value = getattr(value, part, None)
    module = getattr(value, "__module__", "") or ""
    return callable(value) and (
        value in primitive_vjps or module.startswith("autograd.numpy.numpy_wrapper")
    )


def test_most_differentiable_functions_pass_autograds_tests(
    suite: Path, outcomes: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
):
    said: dict[str, list[str]] = {}
    for file in sorted(suite.glob("test_*.py")):
        if file.name in FILES:
            continue
        for test, names in functions_of(file):
            if test in LEFT_OUT:
                continue
            for name in filter(is_differentiable, names):
                if name not in COMPLEX_ONLY:
                    bad = [
                        f"{test}: {message.splitlines()[0][-150:] if message else outcome}"
                        for node, (outcome, message) in outcomes.items()
                        if name_of(node) == test
                        and node.startswith(file.name)
                        and outcome != "passed"
                    ]
                    said.setdefault(name, []).extend(bad)
    right = [name for name, bad in said.items() if not bad]
    share = len(right) / len(said)
    with capsys.disabled():
        print(f"\nautograd {VERSION}: {len(right)} of {len(said)} differentiable functions pass")
        for name in sorted(set(said) - set(right)):
            print(f"  np.{name}: {'; '.join(said[name])}")
    assert len(said) > 100 and share >= ENOUGH


def test_every_test_that_is_left_out_exists(suite: Path):
    known = {test for file in suite.glob("test_*.py") for test, _ in functions_of(file)}
    assert not [test for test in (*LEFT_OUT, *FAILING) if test not in known]
    assert not [name for name in FILES if not (suite / name).exists()]


def test_every_other_test_passes(outcomes: dict[str, list[str]]):
    bad = {
        name_of(node): message.splitlines()[0] if message else outcome
        for node, (outcome, message) in outcomes.items()
        if outcome != "passed" and name_of(node) not in LEFT_OUT
    }
    assert bad.keys() == FAILING.keys(), bad
