"""Executors of installed packages are found by name, and nobody asks which executor it is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule as cr
from chainrule.machine_code.target import native_refusal

SOURCE = Path(cr.__file__).parent

# Installed packages -----------------------------------------------------------------------------

PACKAGE = """
from chainrule.execute.plain import PlainExecutor
from chainrule.testing import simulate
from chainrule.execute.reference import evaluate

LOADED = []

def counted(graph, inputs, results, traced=None):
    LOADED.append(graph.name)
    return evaluate(graph, inputs, results, traced)

EXECUTOR = PlainExecutor("counted", counted)
MISNAMED = PlainExecutor("another", counted)
"""
ENTRIES = """[chainrule.executors]
counted = counted_executor:EXECUTOR
misnamed = counted_executor:MISNAMED
missing = counted_executor:NOTHING
broken = package_that_is_not_there:EXECUTOR
native = counted_executor:EXECUTOR
"""
PROGRAM = """
import sys
import numpy as np
import chainrule as cr

graph = cr.trace(lambda x: np.sum(x * x), np.ones(3))
graph.compile(executor="native")
graph.compile()
assert "counted_executor" not in sys.modules and "importlib.metadata" not in sys.modules
print(graph.run(x=np.arange(3.0), executor="counted").outputs)
from counted_executor import LOADED
print(LOADED)
for name in ("misnamed", "missing", "broken", "gpu"):
    try:
        graph.run(x=np.ones(3), executor=name)
    except ValueError as error:
        print(type(error).__name__, str(error).replace("\\n", " | "))
print(graph.compile(executor="native").executor)
"""


def installed(folder: Path) -> dict[str, str]:
    """The environment of a Python that has a package with executors installed."""
    info = folder / "counted_executor-1.0.dist-info"
    info.mkdir()
    (folder / "counted_executor.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted-executor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    import os

    return {**os.environ, "PYTHONPATH": str(folder), "CHAINRULE_EXECUTOR": "reference"}


def output_of(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(native_refusal() is not None, reason="a compiled graph is made")
def test_executors_of_installed_packages_are_found_by_name(tmp_path: Path) -> None:
    lines = output_of([sys.executable, "-c", PROGRAM], installed(tmp_path)).splitlines()
    assert lines[:2] == ["5.0", "['function']"]
    misnamed, missing, broken, unknown, native = lines[2:]
    assert misnamed.startswith("InputError the entry point 'misnamed' of counted-executor gives")
    assert "which is no executor of that name" in misnamed
    assert "'missing' of counted-executor cannot be loaded: AttributeError" in missing
    assert "'broken' of counted-executor cannot be loaded: ModuleNotFoundError" in broken
    assert "install what counted-executor needs" in broken
    known = "'native', 'reference', 'xla', 'counted', 'misnamed', 'missing', 'broken'"
    assert unknown == f"InputError there is no executor 'gpu' |   try: one of: {known}"
    assert native == "native"  # no package takes the place of an own one


@pytest.mark.slow
def test_the_command_knows_them(tmp_path: Path) -> None:
    environment = installed(tmp_path)
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np\nfrom chainrule import float32\n"
        'def f(x: float32["n 4"]):\n    return np.sum(np.tanh(x))\n'
    )
    command = [sys.executable, "-m", "chainrule", "memory", f"{model}:f", "--dim", "n=8"]
    text = output_of([*command, "--executor", "counted"], environment)
    assert "executor  counted" in text
    assert "|counted|" in output_of([*command, "--help"], environment)
    done = subprocess.run(
        [*command, "--executor", "broken"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "cannot be loaded" in done.stderr


# Nobody asks for an executor by its name --------------------------------------------------------

NAMES = {"native", "reference", "xla"}


def compared(source: str) -> list[int]:
    """The lines where something is compared with the name of an executor."""
    if not any(f'"{name}"' in source for name in NAMES):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = list(node.args) if node.func.attr in ("startswith", "endswith") else []
        inner = (one for part in parts for one in ast.walk(part))
        if any(isinstance(one, ast.Constant) and one.value in NAMES for one in inner):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "text",
    [
        'if executor == "native":\n    pass',
        'x = "reference" != self.executor',
        'x = one.executor in ("native", "other")',
        'match e:\n    case "native":\n        pass',
        'x = name.startswith("native")',
    ],
)
def test_a_comparison_is_found(text: str) -> None:
    assert compared(text)


def test_nothing_is_compared_with_the_name_of_an_executor() -> None:
    found = {
        file.relative_to(SOURCE).as_posix(): lines
        for file in SOURCE.rglob("*.py")
        if (lines := compared(file.read_text("utf-8")))
    }
    assert found == {}


# `execute/overhead.py`: how many threads BLAS has is known there; `machine_code/forks.py` asks by
# name whether threads of the pool are loaded.
MAY_IMPORT_NATIVE = {
    "devices/adding.py",  # receives into memory that compiled code has let go of
    "devices/cores.py",  # shares out the threads of compiled code, and of BLAS
    "devices/given.py",  # sums in memory that compiled code has let go of
    "advice/batch/study.py",  # asks for the threads of compiled code
    "devices/planning/measuring.py",  # measures devices
    "devices/launcher.py",  # shares out the threads of compiled code
    "execute/executors.py",
    "explain/cost/calibration.py",  # asks which BLAS it is
    "explain/cost/measured_speeds.py",  # measures compiled code
    "exchange/to_onnx/of_elements.py",  # writes the polynomials of compiled code
    "machine_code/forks.py",
    "views.py",  # times the instructions of compiled code
}


def test_only_the_registry_imports_the_native_executor() -> None:
    found = set()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).as_posix()
        if not name.startswith("execute/native/") and "chainrule.execute.native" in file.read_text(
            "utf-8"
        ):
            found.add(name)
    assert found == MAY_IMPORT_NATIVE
