"""`example()` of a file gives commands the arguments of its function: types, sizes and data."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main

MODEL = """
import numpy as np
from chainrule import float32

def loss(params, x: float32["n 3"], y: float32["n"]):
    h = x
    for W, b in params["hidden"]:
        h = np.tanh(h @ W + b)
    J = np.mean((h @ params["w"] - y) ** 2)
    return J

def plain(params, x, y, times=1):
    return times * loss(params, x, y)

def annotated(x: float32["n 3"]):
    J = np.sum(x * x)
    return J

def example():
    generator = np.random.default_rng(0)
    normal = lambda *shape: generator.standard_normal(shape).astype(np.float32)
    params = {"w": normal(4), "hidden": [(normal(3, 4), normal(4))]}
    return {"params": params, "x": normal(10, 3), "y": normal(10)}

def in_order():
    return tuple(example().values())

def types():
    layer = float32["d h"], float32["h"]
    params = {"hidden": [layer], "w": float32["h"]}
    return {"params": params, "x": float32["n d"], "y": float32["n"], "times": 2}

def raising():
    W = np.zeros((3, 4)) @ np.zeros(3)
    return {"params": W}

def misspelled():
    return {"param": 1}

def too_many():
    return 1, 2, 3, 4

def nothing():
    pass

def in_part():
    return {"x": np.zeros((3, 3), np.float32)}

def of_other_lengths():
    return {**example(), "y": np.zeros(7, np.float32)}

def in_double():
    return {**example(), "x": np.zeros((10, 3))}
"""

PACKED = re.compile(r'id="data">(?P<data>[^<]*)</script>')


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    return path


def place(beginning: str) -> str:
    """The line of the file that begins so."""
    lines = MODEL.splitlines()
    return f"model.py:{1 + next(i for i, x in enumerate(lines) if x.strip().startswith(beginning))}"


def call(*arguments: str) -> Result:
    sys.modules.pop("model", None)
    return CliRunner().invoke(main, [*arguments])


def printed(*arguments: str) -> str:
    result = call(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def notes(path: str) -> list[str]:
    """What a report page says of its values."""
    text = Path(path).read_text(encoding="utf-8")
    found = PACKED.search(text)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found["data"])))["notes"]


def said(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code and not result.stdout, result.output
    return result.stderr.partition("Error: ")[2].rstrip("\n")


def test_memory_takes_containers_and_sizes_of_the_example() -> None:
    text = printed("memory", "model.py:loss", "--optimizer", "adam")
    assert "n = 10\n" in text and "params.hidden[0][0]" in text
    report = json.loads(printed("memory", "model.py:loss", "--wrt", "params", "--json"))
    assert report["sizes"] == {"n": 10}
    other = json.loads(printed("memory", "model.py:loss", "--dim", "n=5", "--json"))
    assert other["sizes"] == {"n": 5}


@pytest.mark.parametrize("command", ["cost", "equations", "python"])
def test_sizes_stay_letters_where_nothing_asks_for_numbers(command: str) -> None:
    text = printed(command, "model.py:loss", "--wrt", "params")
    assert text == printed(command, "model.py:loss", "--wrt", "params", "--example", "in_order")
    assert ("n" in text) and "params" in text
    assert printed(command, "model.py:plain", "--wrt", "params")


def test_draw_takes_the_example(tmp_path: Path) -> None:
    printed("draw", "model.py:loss", "--wrt", "params", "-o", "loss.svg")
    assert "params.hidden" in Path("loss.svg").read_text(encoding="utf-8")


def test_an_example_may_be_of_types_with_named_sizes() -> None:
    text = printed("equations", "model.py:plain", "--example", "types")
    assert "params.hidden[0][0] ∈ ℝ^{d×h}" in text and "x ∈ ℝ^{n×d}" in text
    text = printed("memory", "model.py:plain", "--example", "types", "--wrt", "params")
    assert "d = 256 (assumed)" in text


def test_explain_runs_on_the_example() -> None:
    text = printed("explain", "model.py:loss", "--wrt", "params", "-o", "page.html")
    assert "n = 10" in text
    assert notes("page.html")[0].endswith("x, y: of the example in model.py.")
    printed("explain", "model.py:loss", "--optimizer", "adam", "-o", "page.html")
    text = printed("explain", "model.py:loss", "--dim", "n=5", "-o", "page.html")
    assert "n = 5" in text
    assert "other sizes than n=5" in notes("page.html")[0]


def test_an_example_that_nothing_needs_is_of_another_function() -> None:
    assert "n = 256 (assumed)" in printed("memory", "model.py:annotated")
    shown = said("memory", "model.py:annotated", "--example", "example")
    assert shown.startswith("example() gives 'params', and annotated has no argument of that name")


def test_what_to_train_is_asked_for_by_containers() -> None:
    shown = said("memory", "model.py:plain", "--optimizer", "sgd")
    assert "try: --wrt params; the inputs of floats are: params, x, y" in shown


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("raising", ["raising() raised: ValueError: matmul", place("W = np.zeros((3, 4)) @")]),
        (
            "misspelled",
            ["gives 'param', and loss has no", place("def misspelled"), "perhaps params"],
        ),
        ("too_many", ["returns 4 arguments, and loss takes params, x, y", place("def too_many")]),
        ("nothing", ["nothing() returns None", 'return {"params": ..., "x": ..., "y": ...}']),
        ("in_part", ["in_part() gives nothing for params, whose type no annotation says"]),
        ("nowhere", ["model.py has no function 'nowhere'", "its functions are: loss, plain"]),
        ("of_other_lengths", ["n is 10 in x, and 7 in y"]),
        ("in_double", ["the input x of loss must be float32[n, 3], got float64[10, 3]"]),
    ],
)
def test_an_example_that_cannot_be_used_is_told_where(name: str, parts: list[str]) -> None:
    shown = said("memory", "model.py:loss", "--example", name)
    assert all(part in shown for part in parts), shown


def test_without_an_example_the_message_says_how_one_is_written(model: Path) -> None:
    model.write_text(MODEL.replace("def example():", "def elsewhere():"))
    shown = said("equations", "model.py:loss")
    assert shown.startswith("the argument params of loss has no array type\n  where: ")
    assert 'def example():\n           return {"params": ..., "x": ..., "y": ...}' in shown


def test_an_example_that_takes_arguments_is_none(model: Path) -> None:
    model.write_text(MODEL.replace("def example():", "def example(count):"))
    assert "has no array type" in said("equations", "model.py:loss")
    assert "raised: TypeError" in said("equations", "model.py:loss", "--example", "in_order")
