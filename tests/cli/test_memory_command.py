"""`chainrule memory file.py:function`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from executors import needs_native

from chainrule.cli import main

MODEL = """
import numpy as np
import chainrule as cr
from chainrule import float32, int64
from widths import HIDDEN

classes = 10

def objective(x: float32["n", 64], y: int64["n"], W1: float32[64, HIDDEN],
              W2: float32[HIDDEN, classes]):
    h = np.maximum(x @ W1, 0)
    o = h @ W2
    J = cr.cross_entropy(o, y)
    return J

def several(x: float32["n d"], W: float32["d h"]):
    o = x @ W
    J = np.sum(o**2)
    return o, J

def affine(x: float32["n d"], W: float32["d 3"], b: float32["3"]):
    return np.sum((x @ W + b) ** 2)

def untyped(x):
    return x

class Net:
    @staticmethod
    def loss(x: float32["n 4"], w: float32["4"]):
        return np.sum((x @ w) ** 2)

if __name__ == "__main__":
    raise SystemExit("this is not to be run")
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with functions, in the current folder, that imports another one beside it."""
    (tmp_path / "widths.py").write_text("HIDDEN = 32\n")
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("model", "widths"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["memory", *map(str, arguments)])


def row(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(first + "  ")]
    return line[len(first) :].split()


def said(*arguments: object, status: int = 2) -> str:
    """The message of a command that is refused."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    return result.stderr.partition("Error: ")[2].rstrip("\n")


STATE = """
import numpy as np
import chainrule as cr
from chainrule import float32

def objective(x: float32["n 4"], W: float32["4 3"], mean: float32["3"], var: float32["3"],
              training=True):
    h, mean, var = cr.batch_norm(x @ W, mean, var, training=training)
    J = np.mean(h**2)
    return J, {"mean": mean, "var": var}
"""


def test_state_that_the_function_returns_is_not_trained(model: Path) -> None:
    (model / "state.py").write_text(STATE)
    options = ("state.py:objective", "--dim", "n=8", "--optimizer", "adam", "--predict", "h")
    result = call(*options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert row(result.stdout, "parameters") == ["48", "48"]
    assert row(result.stdout, "carried state") == ["24", "24"]  # which prediction takes, too
    assert row(result.stdout, "optimizer state")[0] == "104"
    assert call(*options, "--wrt", "W").stdout == result.stdout


def test_a_training_step_is_counted(model: Path) -> None:
    result = call("model.py:objective", "--dim", "n=8", "--optimizer", "adam", "--predict", "o")
    assert (result.exit_code, result.stderr) == (0, "")
    weights = 4 * (64 * 32 + 32 * 10)
    assert row(result.stdout, "parameters") == [f"{weights:,}"] * 2
    assert row(result.stdout, "optimizer state")[0] == f"{2 * weights + 8:,}"
    assert row(result.stdout, "  predict") == ["o"]
    assert "W1_m" in result.stdout


@pytest.mark.parametrize(
    ("optimizer", "arrays"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)]
)
def test_every_optimizer_has_its_arrays(model: Path, optimizer: str, arrays: int) -> None:
    result = call("model.py:Net.loss", "--optimizer", optimizer, "--json")
    found = json.loads(result.stdout)["training"]["parts"]["optimizer state"]
    assert found // 16 == arrays


def test_without_an_optimizer_wrt_decides_what_is_counted(model: Path) -> None:
    forward = json.loads(call("model.py:objective", "--json").stdout)
    both = json.loads(call("model.py:objective", "--json", "--wrt", "W1", "--wrt", "W2").stdout)
    assert forward["training"] is None and both["training"]["parts"]["gradients"] > 0
    assert (forward["sizes"], forward["assumed"]) == ({"n": 256}, ["n"])


def test_several_outputs_need_their_objective_named(model: Path) -> None:
    arguments = ("model.py:several", "--dim", "d=3", "--dim", "h=2", "--wrt", "W")
    assert "of=" in said(*arguments, status=1)
    assert call(*arguments, "--of", "J").exit_code == 0


def test_options_reach_the_report(model: Path) -> None:
    found = json.loads(
        call(
            *("model.py:objective", "--dim", "n=8", "--keep", "h", "--keep", "o"),
            *("--predict", "o", "--executor", "reference", "--json"),
        ).stdout
    )
    assert (found["keep"], found["predict"]) == (["h", "o"], ["o"])
    assert (found["executor"], found["sizes"], found["assumed"]) == ("reference", {"n": 8}, [])
    assert json.loads(call("model.py:objective", "--keep", "named", "--json").stdout)["keep"] == (
        "named"
    )


@needs_native
def test_a_search_for_offsets_is_said(model: Path) -> None:
    arguments = ["model.py:objective", "--executor", "native", "--search", "5"]
    for more in ([], ["--optimizer", "sgd"]):
        printed = call(*arguments, *more)
        assert printed.exit_code == 0, printed.output
        assert "executor  native (offsets searched for 5 s)" in printed.output
    refused = call("model.py:objective", "--executor", "reference", "--search", "5")
    assert refused.exit_code == 1 and "has no such block" in refused.output


def test_the_timeline_is_written(model: Path) -> None:
    result = call("model.py:objective", "--timeline", "memory.svg", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)
    assert ElementTree.parse(model / "memory.svg").getroot().tag.endswith("svg")
    assert said("model.py:objective", "--timeline", "memory.png", status=1) == (
        "the timeline is an SVG picture, and cannot be written to memory.png\n"
        "  try: a file whose name ends in .svg: memory.svg"
    )
    assert said("model.py:objective", "--timeline", Path("no", "a.svg"), status=1) == (
        f"cannot write to {Path('no', 'a.svg')}: No such file or directory\n"
        "  try: a path in a folder that exists and that you may write to"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["model.py"],
            "'model.py' does not say which function of which file\n  try: model.py:objective",
        ),
        (["modell.py:f"], "there is no file modell.py\n  try: model.py"),
        (["model.py:objectiv"], "model.py has no function 'objectiv'\n  try: model.py:objective"),
        (
            ["model.py:zzz"],
            "model.py has no function 'zzz'\n"
            "  its functions are: objective, several, affine, untyped",
        ),
        (
            ["model.py:classes"],
            "classes in model.py is of type int, and no function\n"
            "  its functions are: objective, several, affine, untyped",
        ),
        (["model.py:objective", "--dim", "n"], "--dim n is not a size: write --dim n=256"),
        (["model.py:objective", "--dim", "n=big"], "--dim n=big is not a size: write --dim n=256"),
        (
            ["model.py:objective", "--optimizer", "sgd", "--keep", "h"],
            "--keep is for graphs: a training step keeps its outputs\n"
            "  try: leave out --keep, or --optimizer",
        ),
        (
            ["model.py:several", "--optimizer", "sgd"],
            "say with --wrt which inputs to train, unless the number "
            "of examples is the only named size\n"
            "  try: --wrt W; the inputs of floats are: x, W",
        ),
        (
            ["model.py:affine", "--optimizer", "sgd"],
            "say with --wrt which inputs to train, unless the number "
            "of examples is the only named size\n"
            "  try: --wrt W,b; the inputs of floats are: x, W, b",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_try(
    model: Path, arguments: list[str], message: str
) -> None:
    assert said(*arguments) == message


def test_errors_of_the_library_end_with_1(model: Path) -> None:
    assert said("model.py:objective", "--dim", "m=3", status=1) == (
        "the graph objective has no size called 'm'\n  try: its sizes are: n"
    )
    assert said("model.py:untyped", status=1).startswith(
        f"the argument x of untyped has no array type\n  where: {model / 'model.py'}:"
    )
    assert "has no value called 'hh'" in said("model.py:objective", "--predict", "hh", status=1)


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("a = 1\nb = a / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("import no_such_module\n", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit(3): it ends the program while it is imported"),
    ],
)
def test_a_file_that_raises_is_told_with_its_line(
    model: Path, source: str, line: int, what: str
) -> None:
    (model / "broken.py").write_text(source)
    assert said("broken.py:f", status=1) == (
        f"broken.py cannot be imported: {what}\n  where: broken.py:{line}\n"
        "  try: python with this file; what only a program does belongs under if __name__ == "
        '"__main__":'
    )


def test_a_file_with_a_syntax_error_is_told(model: Path) -> None:
    (model / "broken.py").write_text("def f(:\n    pass\n")
    assert "broken.py cannot be imported:" in said("broken.py:f", status=1)


def test_a_file_may_be_called_as_a_module_that_is_loaded(model: Path) -> None:
    (model / "json.py").write_text(MODEL)
    result = call("json.py:objective", "--optimizer", "sgd")
    assert result.exit_code == 0 and json.__name__ == "json" and json is sys.modules["json"]


@pytest.mark.slow
def test_the_real_command_prints_plain_text_and_runs_nothing(model: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "chainrule",
        "memory",
        "model.py:objective",
        "--dim",
        "n=99999999",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "" and "\x1b[" not in done.stdout
    assert "n = 99999999" in done.stdout and " GiB" in done.stdout


def test_help_explains_every_option() -> None:
    text = " ".join(call("--help").stdout.split())
    for option in main.get_command(None, "memory").params:
        assert option.name == "place" or (option.help and option.opts[0] in text)
