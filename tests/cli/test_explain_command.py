"""`chainrule explain`: the page it writes, where its numbers come from, what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main
from chainrule.cli.explain import training_report
from chainrule.examples.digits import Settings, begin, train_epoch

MODEL = """
import numpy as np
import chainrule as cr
from chainrule import float64, int64

def objective(x: float64["n d"], y: int64["n"], w: float64["d 3"], weight_decay=0.5):
    o = x @ w
    J = cr.cross_entropy(o, y) + weight_decay * np.sum(w**2)
    return J

class Model:
    def loss(x: float64["n"]):
        J = np.sum(x**2)
        return J
"""
PACKED = re.compile(r'id="data">(?P<data>[^<]*)</script>')


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with functions in the current folder."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explain", *[str(argument) for argument in arguments]])


def page(*arguments: object, path: str = "objective.html") -> dict[str, Any]:
    """The data of the page that a command writes, the only file it writes."""
    before = files()
    result = call(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert result.stdout.startswith(f"{path}: ")
    assert set(files()) - set(before) == {path}
    found = PACKED.search(Path(path).read_text(encoding="utf-8"))
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found["data"])))


def said(*arguments: object, status: int) -> str:
    before = files()
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert files() == before
    return result.stderr.partition("Error: ")[2].rstrip("\n")


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name != "__pycache__")


def statistics(data: dict[str, Any]) -> dict[str, Any]:
    return {value["name"]: value["stats"] for value in data["values"]}


def test_without_numbers_the_page_has_none() -> None:
    data = page("model.py:objective", "--wrt", "w")
    assert (data["schema"], data["has_values"], data["memory"]) == (
        "chainrule.report/1",
        False,
        None,
    )
    names = [value["name"] for value in data["values"]]
    assert {"x", "y", "w", "o", "J", "dJ/dw"} <= set(names)


def test_sizes_alone_give_the_memory() -> None:
    data = page("model.py:objective", "--dim", "n=32", "--dim", "d=4")
    assert data["memory"]["peak_nbytes"] > 0 and not data["has_values"]


@pytest.mark.slow
def test_budgets_are_planned_if_they_are_asked_for() -> None:
    sizes = ("--dim", "n=32", "--dim", "d=4")
    assert (
        page("model.py:objective", "--wrt", "w", *sizes, "-o", "a.html", path="a.html")["tradeoff"]
        is None
    )
    data = page("model.py:objective", "--wrt", "w", *sizes, "--tradeoff")
    assert data["tradeoff"]["points"][0]["peak_nbytes"] == data["memory"]["peak_nbytes"]


def test_the_arrays_of_a_file_are_those_of_the_page() -> None:
    x, w = np.arange(10.0).reshape(5, 2), np.eye(2, 3)
    np.savez("run.npz", x=x, y=np.zeros(5, np.int64), w=w)
    data = page("model.py:objective", "--wrt", "w", "--inputs", "run.npz")
    assert data["has_values"]
    assert statistics(data)["x"]["max"] == 9 and statistics(data)["o"]["max"] == 9
    assert not any("drawn" in note for note in data["notes"])


def test_what_is_missing_is_drawn_and_the_page_says_so() -> None:
    np.savez("run.npz", x=np.full((5, 2), 7.0))
    options = ["--wrt", "w", "--inputs", "run.npz", "--random", 3]
    data = page("model.py:objective", *options)
    found = statistics(data)
    assert found["x"]["min"] == found["x"]["max"] == 7
    expected = np.random.default_rng(3).normal(size=(2, 3))
    assert found["y"]["max"] == 0 and np.isclose(found["w"]["max"], expected.max())
    assert data["notes"][0] == (
        "These are not your numbers: y, w were drawn from seed 3, standard normal numbers for "
        "floats and zeros for all else."
    )


def test_all_arrays_can_be_drawn_and_the_same_seed_gives_the_same_page() -> None:
    options = ["--wrt", "w", "--random", 0, "--dim", "n=4", "--dim", "d=2"]
    page("model.py:objective", *options)
    page("model.py:objective", *options, "-o", "again.html", path="again.html")
    page("model.py:objective", *options[:3], 1, *options[4:], "-o", "other.html", path="other.html")
    one, again, other = (Path(f"{n}.html").read_bytes() for n in ("objective", "again", "other"))
    assert one == again != other


def test_a_training_step_begins_with_a_new_optimizer() -> None:
    options = ["--wrt", "w", "--optimizer", "adam", "--random", 0, "--dim", "n=4", "--dim", "d=2"]
    data = page("model.py:objective", *options)
    assert data["has_values"] and "w_next" in statistics(data)
    assert statistics(data)["w_m"]["max"] == 0
    assert data["notes"][0].startswith("These are not your numbers: x, y, w were drawn")


def test_a_history_becomes_curves() -> None:
    lines = [json.dumps({"step": step, "objective": 1 / (1 + step)}) for step in range(5)]
    Path("log.jsonl").write_text("\n".join(lines) + "\n")
    data = page("model.py:objective", "--history", "log.jsonl")
    assert data["curves"]["x"]["values"] == [0, 1, 2, 3, 4]
    assert data["curves"]["series"][0]["label"] == "objective"


def test_the_file_has_the_name_of_the_function() -> None:
    page("model.py:Model.loss", path="Model_loss.html")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["model.py:objective", "-o", "page.pdf"], 1, "a report cannot be written as .pdf"),
        (["model.py:objective", "-o", "no/page.html"], 1, "there is no folder no"),
        (["model.py:objective", "-o", "."], 1, "a file without an ending"),
        (["model.py:objective", "--inputs", "no.npz"], 1, "no.npz"),
        (["model.py:objective", "--inputs", "model.py"], 1, "model.py"),
        (["model.py:objective", "--inputs", "x.npz"], 2, "has no array called y; it has x"),
        (["model.py:objective", "--inputs", "x.npz"], 2, "try: --random 0, which draws"),
        (["model.py:objective", "--inputs", "z.npz", "--random", "0"], 2, "--dim n=16 --dim d=16"),
        (["model.py:objective", "--random", "0", "--dim", "n=4"], 2, "what d is"),
        (["model.py:objective", "--tradeoff", "--dim", "n=4"], 2, "try: --dim d=256"),
        (["model.py:objective", "--random", "-1"], 2, "-1 is not in the range x>=0"),
        (["model.py:objective", "--history", "no.jsonl"], 1, "cannot read the history no.jsonl"),
        (["model.py:objective", "--history", "model.py"], 1, "line 2 of model.py"),
        (["model.py:objective", "--wrt", "v"], 1, "no value called 'v'"),
        (["model.py:missing"], 2, "model.py has no function 'missing'"),
        (["model.py"], 2, "does not say which function of which file"),
    ],
)
def test_what_makes_no_sense_is_explained(arguments: list[str], status: int, told: str) -> None:
    np.savez("x.npz", x=np.ones((2, 2)))
    np.savez("z.npz", z=np.ones((2, 2)))
    assert told in said(*arguments, status=status)


def test_an_array_that_no_input_has_is_named() -> None:
    np.savez("run.npz", x=np.ones((2, 2)), y=np.zeros(2, np.int64), w=np.ones((2, 3)), v=np.ones(1))
    told = said("model.py:objective", "--inputs", "run.npz", status=1)
    assert "has no input called 'v'" in told


def test_the_page_of_a_training_has_its_curves_and_its_weights() -> None:
    training = begin(Settings(epochs=1, hidden=8))
    train_epoch(training, 1)
    history = [{"step": training.state.steps, "objective": 0.5}]
    data = training_report(training, history).data
    assert data["has_values"] and data["curves"]["series"][0]["values"] == [0.5]
    assert data["notes"][0].startswith("The values are those of one more step")
    weights = training.state.parameters["W1"]
    assert np.isclose(statistics(dict(data))["W1"]["max"], weights.max(), rtol=1e-6)
    assert {"W1_next", "dJ/dW1", "h"} <= set(statistics(dict(data)))
