"""autograd's own tests of its NumPy pass with chainrule in its place."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import autograd.numpy as anp
import pytest
from autograd.core import primitive_vjps
from autograd_left_out import CALLS_ALONE, COMPLEX_ONLY, FAILING, FILES, LEFT_OUT
from executors import needs_jax

VERSION = "1.9.1"
HERE = Path(__file__).parent
ENOUGH = 0.9
MOST_COMBINATIONS = 1  # of the arguments that one check of a test is for
# Of each test: [passed, failed, complex or uncollected; the message; how much was compared].
Outcomes = dict[str, list[Any]]


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
        if importlib.util.find_spec("hatchling"):  # else pip installs it first
            command.append("--no-build-isolation")
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"the tests of autograd cannot be downloaded: {done.stderr[-300:]}")
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            found.extractall(folder, filter="data")
    return tests


def files_of(suite: Path) -> list[str]:
    return [path.name for path in sorted(suite.glob("test_*.py")) if path.name not in FILES]


def outcomes_of(
    folder: Path,
    files: list[str],
    written: Path,
    combinations: int = 0,
    executor: str = "reference",
) -> Outcomes:
    """What becomes of each test of the files with chainrule in autograd's place."""
    options = ["-p", "adapter", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", *options]
    command += ["--outcomes", str(written), "--combinations", str(combinations), "--tb", "native"]
    command += ["--executor", executor, "--continue-on-collection-errors", *files]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
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


@pytest.mark.slow
def test_most_differentiable_functions_pass_autograds_tests(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """All but those that are left out or listed as failing; each that passes compares something."""
    check_left_out(suite)
    outcomes = outcomes_of(suite, files_of(suite), tmp_path / "outcomes.json", MOST_COMBINATIONS)
    assert failing(outcomes).keys() == FAILING.keys(), failing(outcomes)
    assert comparing_nothing(suite, outcomes) == set(CALLS_ALONE)
    said: dict[str, list[str]] = {}
    for file in sorted(suite.glob("test_*.py")):
        if file.name in FILES:
            continue
        for test, names in functions_of(file):
            if test in LEFT_OUT:
                continue
            for name in filter(is_differentiable, names):
                if name not in COMPLEX_ONLY:
                    found = [
                        (outcome, message)
                        for node, (outcome, message, _) in outcomes.items()
                        if name_of(node) == test
                        and node.startswith(file.name)
                        and outcome != "complex"
                    ]
                    if found:
                        said.setdefault(name, []).extend(
                            f"{test}: {message.splitlines()[0][-150:] if message else outcome}"
                            for outcome, message in found
                            if outcome != "passed"
                        )
    right = [name for name, bad in said.items() if not bad]
    share = len(right) / len(said)
    passed = [counts for outcome, _, counts in outcomes.values() if outcome == "passed"]
    partly = sum(counts["complex"] > 0 for counts in passed)
    alone = sum(outcome == "complex" for outcome, _, _ in outcomes.values())
    with capsys.disabled():
        print(f"\nautograd {VERSION}: {len(right)} of {len(said)} differentiable functions pass")
        print(f"  {len(passed)} tests, {partly} of them without their complex cases; {alone} more")
        print("  have complex cases alone, and are left out")
        for name in sorted(set(said) - set(right)):
            print(f"  np.{name}: {'; '.join(said[name])}")
    assert len(said) > 100 and share >= ENOUGH
    page = (HERE.parents[1] / "docs" / "numpy-functions.md").read_text(encoding="utf-8")
    assert f"({VERSION})" in page and f"{len(right)} of {len(said)}" in " ".join(page.split())


def check_left_out(suite: Path) -> None:
    """Every test that is left out exists."""
    known = {test for file in suite.glob("test_*.py") for test, _ in functions_of(file)}
    assert not [test for test in (*LEFT_OUT, *FAILING) if test not in known]
    assert not [name for name in FILES if not (suite / name).exists()]


@pytest.mark.exhaustive
def test_every_other_test_passes_in_all_combinations(suite: Path, tmp_path: Path):
    found = failing(outcomes_of(suite, files_of(suite), tmp_path / "outcomes.json"))
    assert found.keys() == FAILING.keys(), found


@needs_jax
@pytest.mark.slow
def test_functions_of_scalars_pass_on_xla(suite: Path, tmp_path: Path):
    """Each derivative of each function is compiled."""
    written = tmp_path / "outcomes.json"
    outcomes = outcomes_of(suite, ["test_scalar_ops.py"], written, MOST_COMBINATIONS, "xla")
    assert len(outcomes) > 30 and not failing(outcomes)


@needs_jax
@pytest.mark.exhaustive
def test_every_test_passes_on_xla(suite: Path, tmp_path: Path):
    written = tmp_path / "outcomes.json"
    outcomes = outcomes_of(suite, files_of(suite), written, MOST_COMBINATIONS, "xla")
    found = failing(outcomes)
    assert found.keys() == FAILING.keys(), found


def failing(outcomes: Outcomes) -> dict[str, str]:
    """The tests that should pass and do not, with their first line."""
    return {
        name_of(node): message.splitlines()[0] if message else outcome
        for node, (outcome, message, _) in outcomes.items()
        if outcome not in ("passed", "complex") and name_of(node) not in LEFT_OUT
    }


def asserts_something(file: Path) -> set[str]:
    """The tests of a file that have an assertion of their own."""
    said = ("assert ", "assert_", "raises(")
    return {
        node.name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any(word in ast.unparse(node) for word in said)
    }


def comparing_nothing(suite: Path, outcomes: Outcomes) -> set[str]:
    """The tests that pass and compare nothing."""
    return {
        name_of(node)
        for node, (outcome, _, counts) in outcomes.items()
        if outcome == "passed"
        and not any(counts.values())
        and name_of(node) not in asserts_something(suite / node.partition("::")[0])
    }


PLANTED = """
import autograd.numpy as np
import chainrule as cr
from autograd.test_util import check_grads

tripled = cr.custom_derivative(lambda x: 2 * x)
tripled.defvjp(lambda x: (2 * x, ()), lambda residuals, g: (3 * g,))

def test_right(): check_grads(np.tanh)(0.3)
def test_wrong(): check_grads(tripled, modes=("rev",))(0.3)
def test_complex(): check_grads(np.tanh)(0.3 + 0.1j)
def test_both(): check_grads(np.tanh)(0.3 + 0.1j), check_grads(np.tanh)(0.3)
def test_nothing(): check_grads(np.sign, order=0)
"""


def test_a_planted_fault_fails_and_a_complex_case_is_left_out(tmp_path: Path):
    (tmp_path / "test_planted.py").write_text(PLANTED, encoding="utf-8")
    found = outcomes_of(tmp_path, ["test_planted.py"], tmp_path / "outcomes.json")
    became = {name_of(node): outcome for node, (outcome, *_) in found.items()}
    assert became == {
        "test_right": "passed",
        "test_wrong": "failed",
        "test_complex": "complex",
        "test_both": "passed",
        "test_nothing": "passed",
    }
    counts = {name_of(node): counts for node, (*_, counts) in found.items()}
    assert not any(counts["test_nothing"].values())
    assert counts["test_both"]["complex"] == 1 and counts["test_both"]["derivatives"] > 0
