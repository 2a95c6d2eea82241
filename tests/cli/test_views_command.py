"""`chainrule draw`, `equations` and `python`: what they print, write and refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main

MODEL = """
import numpy as np
import chainrule as cr
from chainrule import float64

def objective(x: float64["n d"], w: float64["d"], weight_decay=0.5):
    z = x @ w
    J = np.sum(z**2) + weight_decay * np.sum(w**2)
    return J

def two(x: float64["n"]):
    a = x + 1
    b = np.sum(a)
    return a, b
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with functions in the current folder."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def printed(*arguments: object) -> str:
    result = call(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def said(*arguments: object, status: int = 1) -> str:
    """The message of a command that is refused."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    return result.stderr.partition("Error: ")[2].rstrip("\n")


def files() -> list[str]:
    """The names of all files in the current folder, without what Python writes there."""
    return sorted(path.name for path in Path().iterdir() if path.name != "__pycache__")


def words(svg: str) -> str:
    """All text of a drawing, one label after another."""
    return " ".join("".join(one.itertext()) for one in ElementTree.fromstring(svg).iter())


def test_a_drawing_goes_into_a_file_with_the_name_of_the_function():
    line = printed("draw", "model.py:objective", "--wrt", "w")
    assert line.startswith("objective.svg: Computational graph of objective: ")
    assert "gradients of J" in words(Path("objective.svg").read_text(encoding="utf-8"))


def test_a_drawing_is_written_as_the_ending_says_or_printed():
    printed("draw", "model.py:objective", "-o", "one.dot")
    printed("draw", "model.py:objective", "-o", "one.mmd")
    assert Path("one.dot").read_text().startswith("digraph")
    assert Path("one.mmd").read_text().startswith("flowchart")
    svg = printed("draw", "model.py:objective", "--output", "-", "--symbol", "w=ω", "--shapes")
    assert "ω" in words(svg) and "float64[n, d]" in words(svg)
    assert files() == ["model.py", "one.dot", "one.mmd"]


@pytest.mark.parametrize(
    "options",
    [
        ["--phase", "forward"],
        ["--detail", "primitives"],
        ["--expand", "J"],
        ["--fold", "none"],
        ["--nbytes", "--dim", "n=5", "--dim", "d=3"],
        ["--indices", "superscript"],
        ["--theme", "dark"],
    ],
)
def test_every_option_of_a_drawing_changes_it(options: list[str]):
    plain = printed("draw", "model.py:objective", "--wrt", "w", "-o", "-", "--fold", "all")
    changed = printed("draw", "model.py:objective", "--wrt", "w", "-o", "-", *options)
    if options[0] in ("--fold", "--indices"):  # nothing to fold, and no index, in this program
        assert changed == plain
    else:
        assert changed != plain


def test_equations_are_printed_as_text_latex_or_markdown():
    text = printed("equations", "model.py:objective", "--wrt", "w", "--symbol", "weight_decay=λ")
    assert "z = x w ∈ ℝ^n" in text and "∂J/∂w" in text and "λ" in text
    latex = printed("equations", "model.py:objective", "--format", "latex")
    assert r"\mathbf{z} & = \mathbf{x}" in latex
    assert "$$" in printed("equations", "model.py:objective", "--format", "markdown")


def test_equations_can_be_of_some_values_and_go_into_a_file():
    text = printed("equations", "model.py:objective", "z")
    assert "z = " in text and "J = " not in text
    line = printed("equations", "model.py:objective", "--wrt", "w", "-o", "all.tex")
    assert line == "all.tex: 5 equations\n"
    assert r"\partial J" in Path("all.tex").read_text(encoding="utf-8")


def test_the_gradient_as_code_runs_by_itself():
    source = printed("python", "model.py:objective", "--wrt", "w")
    assert "chainrule" not in source.replace("written out by chainrule", "")
    space: dict[str, Any] = {}
    exec(compile(source, "generated.py", "exec"), space)
    x, w = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0, 2.0])
    J, gradient = space["objective"](x, w, 0.25)
    assert np.isclose(J, np.sum((x @ w) ** 2) + 0.25 * np.sum(w**2))
    assert np.allclose(gradient, 2 * x.T @ (x @ w) + 0.5 * w)


def test_source_can_go_into_a_file_and_delete_what_is_not_needed():
    line = printed("python", "model.py:objective", "--wrt", "w", "--delete", "-o", "gradient.py")
    source = Path("gradient.py").read_text(encoding="utf-8")
    assert line == f"gradient.py: {len(source.splitlines())} lines\n"
    assert "del " in source and "model.py:" in source
    assert "model.py:" not in printed("python", "model.py:objective", "--no-comments")


def test_a_whole_training_step_can_be_seen():
    assert "θ_next = θ − learning_rate ∂J/∂θ, for each of the 3 parameters θ" in printed(
        "equations", "model.py:objective", "--wrt", "all", "--optimizer", "sgd", "--dim", "d=3"
    )
    text = printed("equations", "model.py:objective", "--wrt", "w", "--optimizer", "sgd")
    assert "w_next" in text


@pytest.mark.parametrize("command", ["draw", "equations", "python"])
def test_what_cannot_be_written_is_said_and_leaves_nothing(command: str):
    path = {"draw": "no/one.svg", "equations": "no/one.tex", "python": "no/one.py"}[command]
    message = said(command, "model.py:objective", "-o", path)
    assert message.splitlines()[0] == f"cannot write to {path}: No such file or directory"
    assert files() == ["model.py"]


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["draw", "model.py:objective", "-o", "one.xyz"], 1, "one.xyz"),
        (["equations", "model.py:objective", "-o", "one.xyz"], 1, "one.xyz"),
        (["draw", "model.py:objective", "--phase", "backward"], 1, "no backward pass"),
        (["draw", "model.py:objective", "--wrt", "v"], 1, "no value called 'v'"),
        (["equations", "model.py:objective", "v"], 1, "no value called 'v'"),
        (["draw", "model.py:two", "--wrt", "x"], 1, "two has 2 outputs: a, b"),
        (["draw", "model.py:missing"], 2, "model.py has no function 'missing'"),
        (["python", "model.py"], 2, "does not say which function of which file"),
        (["draw", "model.py:objective", "--symbol", "w"], 2, "--symbol w is not a pair"),
        (["draw", "model.py:objective", "--symbol", "v=λ"], 1, "no value called 'v'"),
        (["draw", "model.py:objective", "--dim", "n=many"], 2, "is not a size: write --dim n=256"),
        (["draw", "model.py:objective", "--dim", "n=0"], 1, "n"),
        (["draw", "model.py:objective", "--dim", "n=--5"], 2, "is not a size: write --dim n=256"),
        (["draw", "model.py:two", "--of", "b"], 2, "try: --of b --wrt x"),
        (["python", "model.py:objective", "-o", "."], 1, "'.' is no name of a file"),
        (["draw", "model.py:objective", "-o", "/"], 1, "a file without an ending, asked for by /"),
        (["draw", "model.py:objective", "--theme", "pink"], 2, "'pink' is not one of"),
    ],
)
def test_what_makes_no_sense_is_explained(arguments: list[str], status: int, told: str):
    assert told in said(*arguments, status=status)
    assert files() == ["model.py"]


RAISING = """
import sys
from chainrule import float64
import helper

def direct(x: float64["n"]):
    z = x * 2
    raise ValueError("no such thing\\nas this")

def through(x: float64["n"]):
    return helper.lookup(x)

def again(x: float64["n"]):
    return again(x)

def numpy(x: float64["n"]):
    import numpy
    numpy.zeros(-1)
    return x

def ending(x: float64["n"]):
    sys.exit(3)

class Odd(Exception):
    def __str__(self):
        raise RuntimeError

def odd(x: float64["n"]):
    raise Odd
"""
HELPER = """
def lookup(x):
    return {}["missing"]
"""


@pytest.mark.parametrize(
    ("function", "what", "lines"),
    [
        (
            "direct",
            "ValueError: no such thing\nas this",
            ["raising.py:8, in direct", 'raise ValueError("no such thing\\nas this")'],
        ),
        (
            "through",
            "KeyError: 'missing'",
            [
                "raising.py:11, in through",
                "    return helper.lookup(x)",
                "helper.py:3, in lookup",
                '    return {}["missing"]',
            ],
        ),
        (
            "again",
            "RecursionError: maximum recursion depth exceeded",
            ["raising.py:14, in again", "    return again(x)"],
        ),
        (
            "numpy",
            "ValueError: negative dimensions are not allowed",
            ["raising.py:18, in numpy", "    numpy.zeros(-1)"],
        ),
        ("ending", "SystemExit: 3", ["raising.py:22, in ending", "    sys.exit(3)"]),
        ("odd", "raising.Odd: <exception str() failed>", ["raising.py:29, in odd", "raise Odd"]),
    ],
)
def test_what_a_function_raises_is_told_with_the_users_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, what: str, lines: list[str]
):
    (tmp_path / "raising.py").write_text(RAISING)
    (tmp_path / "helper.py").write_text(HELPER)
    for module in ("raising", "helper"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    message = said("equations", f"raising.py:{function}")
    head, _, rest = message.partition("\n  where: ")
    shown, _, hint = rest.partition("\n  try: ")
    assert head.startswith(f"{function} raised while it was traced: {what}")
    assert [line.strip() for line in shown.splitlines()] == [line.strip() for line in lines]
    code = f"import chainrule, raising; chainrule.trace(raising.{function})"
    assert hint == f'python -c "{code}" shows the whole traceback'


@pytest.mark.parametrize("command", ["draw", "equations", "python", "memory"])
def test_every_command_tells_what_a_function_raises(tmp_path: Path, command: str):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one-two.py").write_text(
        'from chainrule import float64\ndef f(x: float64["n"]):\n    return x / 0 // (1 % 0)\n'
    )
    assert said(command, "below/one-two.py:f") == (
        "f raised while it was traced: ZeroDivisionError: integer modulo by zero\n"
        "  where: below/one-two.py:3, in f\n        return x / 0 // (1 % 0)"
    )
    assert files() == ["below", "model.py"]


def test_what_the_library_itself_raises_is_not_laid_on_the_users_file(
    monkeypatch: pytest.MonkeyPatch,
):
    def broken(function: Any) -> Any:
        raise RuntimeError("a fault of the library")

    monkeypatch.setattr("chainrule.cli.graphs.trace", broken)
    assert isinstance(call("draw", "model.py:objective").exception, RuntimeError)


@pytest.mark.slow
def test_the_real_command_prints_equations_or_says_that_the_terminal_cannot():
    command = [sys.executable, "-m", "chainrule", "equations", "model.py:objective"]
    done = subprocess.run(
        command, capture_output=True, check=True, timeout=100, env={**os.environ, "PYTHONUTF8": "1"}
    )
    assert "ℝ" in done.stdout.decode()
    western = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, timeout=100, env=western)
    assert done.returncode == 1
    assert "which the encoding latin-1 of the terminal lacks" in done.stderr.decode()


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path):
    (tmp_path / "kept.py").write_text("old")
    (tmp_path / "link.py").symlink_to("kept.py")
    printed("python", "model.py:objective", "-o", "link.py")
    assert (tmp_path / "link.py").is_symlink()
    assert "def objective" in (tmp_path / "kept.py").read_text()

    os.mkfifo(tmp_path / "pipe.py")
    reader = os.open(tmp_path / "pipe.py", os.O_RDONLY | os.O_NONBLOCK)
    try:
        printed("python", "model.py:objective", "-o", "pipe.py")
        assert os.read(reader, 1 << 20) == (tmp_path / "kept.py").read_bytes()
    finally:
        os.close(reader)
    assert (tmp_path / "pipe.py").is_fifo()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["equations", "model.py:objective"], ["--help"]])
def test_a_full_disk_is_said_without_a_traceback(arguments: list[str]):
    command = [sys.executable, "-m", "chainrule", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=100)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "Error: the output cannot be written: No space left on device\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a shell closes the output")
@pytest.mark.parametrize("command", ["memory", "cost"])
def test_a_command_whose_output_is_closed_ends_well(command: str):
    shell = f'"{sys.executable}" -m chainrule {command} model.py:objective >&-'
    done = subprocess.run(shell, shell=True, stderr=subprocess.PIPE, timeout=100)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_list_of_commands_has_whole_sentences():
    for columns in ("40", "80"):
        text = CliRunner(env={"COLUMNS": columns}).invoke(main, ["--help"]).stdout
        assert "..." not in text.partition("Commands:")[2]
        assert "value by value." in " ".join(text.split())
