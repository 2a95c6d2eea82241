"""The README's example is quiet under ruff and pyright as a user has them (docs/decisions/0001)."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT, blocks

from chainrule.frontend.traced import Traced

FUTURE = "from __future__ import annotations\n\n"
EITHER_WAY = pytest.mark.parametrize("first", ["", FUTURE], ids=["plain", "future annotations"])

# Of `Traced`, what a user is not meant to find: how it works inside, NumPy's protocols, and what
# it has in order to refuse it with a message.
INSIDE = {
    "node",
    "program",
    "__array_function__",
    "__array_priority__",
    "__array_ufunc__",
    "__copy__",
    "__deepcopy__",
}
REFUSED = {
    "__bool__",
    "__complex__",
    "__contains__",
    "__float__",
    "__index__",
    "__int__",
    "__setitem__",
    "item",
    "tolist",
}
FROM_OBJECT = {*dir(object), "__annotations__", "__module__", "__slots__", "__getattr__"} - {
    "__eq__",
    "__ne__",
}


def example() -> str:
    """The Python of the README, as one file."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(block.text for block in blocks(page) if block.is_run)


def run_tool(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m NAME ARGUMENTS` in a folder without any configuration."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed here")
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


ONLY_TRACED = """
def only_traced(x: float64["n 3"], w: float64[()]):
    h = x.at[0].set(1.0)
    return np.sum(h) * round(w) + x.trace()

only_traced(np.ones((2, 3)), np.ones(()))
"""
CALLS = "objective(images, labels, W1, W2)\nobjective(np.ones((2, 3)), labels, W1, W2)\n"
PROGRAMS = {  # with arrays of NumPy, and with what only traced ones have
    "plain": example() + CALLS + "from chainrule import float64\n" + ONLY_TRACED,
    "a misspelled attribute": FUTURE + example().replace("z = x @ W1", "z = x @ W1 * x.sahpe"),
}


def pyright_errors(folder: Path) -> dict[str, list[str]]:
    """What pyright says of each program, with its default configuration: in one run."""
    names = {f"program_{number}.py": name for number, name in enumerate(PROGRAMS)}
    for file, name in names.items():
        (folder / file).write_text(PROGRAMS[name], encoding="utf-8")
    arguments = ["--outputjson", "--pythonpath", sys.executable, *names]
    done = run_tool("pyright", *arguments, folder=folder)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright did not start: {done.stderr.strip()[-200:]}")
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    found: dict[str, list[str]] = {name: [] for name in PROGRAMS}
    for item in report["generalDiagnostics"]:
        found[names[Path(item["file"]).name]].append(item["message"])
    return found


@EITHER_WAY
def test_ruff_is_quiet(first: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(first + example(), encoding="utf-8")
    done = run_tool("ruff", "check", "--isolated", "--no-cache", "example.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_is_quiet_and_still_finds_a_misspelled_attribute(tmp_path: Path) -> None:
    errors = pyright_errors(tmp_path)
    (message,) = errors.pop("a misspelled attribute")
    assert "sahpe" in message
    assert errors == {name: [] for name in errors}


def declared(of_traced: bool = False) -> set[str]:
    """The members of `Array` and its kinds, which exist for type checkers alone; or those of
    `OfTraced`, which NumPy's arrays lack.

    `&` and its like belong to `bool_`: NumPy's arrays of floats have none, and would not fit.
    """
    tree = ast.parse((ROOT / "src/chainrule/annotations.py").read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    wanted = [
        c
        for c in classes
        if (c.name == "OfTraced" if of_traced else "Protocol" in map(ast.unparse, c.bases))
    ]
    methods = {node.name for c in wanted for node in c.body if isinstance(node, ast.FunctionDef)}
    return methods - {"__class_getitem__"}


def test_a_checker_accepts_nothing_that_a_traced_array_lacks() -> None:
    assert declared() - set(dir(Traced)) == set()


def test_a_checker_knows_everything_that_a_traced_array_offers() -> None:
    private = {name for name in dir(Traced) if name.startswith("_") and name[1] != "_"}
    offered = set(dir(Traced)) - private - INSIDE - REFUSED - FROM_OBJECT
    assert offered - declared() == declared(of_traced=True)


def test_what_only_traced_arrays_have_is_not_of_numpy() -> None:
    assert declared(of_traced=True) & set(dir(np.ndarray)) == set()
