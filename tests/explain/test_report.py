"""`cr.report`: what it takes, what it writes, what it refuses before anything is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import errors, float64

INPUTS = {"x": np.arange(6.0).reshape(3, 2), "w": np.array([1.0, -1.0])}


def objective(x: float64["n 2"], w: float64["2"]):
    z = x @ w
    J = np.sum(z**2)
    return J


@pytest.fixture
def graph() -> cr.Graph:
    return cr.backward(cr.trace(objective), wrt="w")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_one_page_and_says_what_it_found(graph: cr.Graph, folder: Path) -> None:
    report = cr.report(graph, INPUTS, "report.html")
    assert isinstance(report, cr.Report)
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert Path("report.html").read_text(encoding="utf-8") == report.html()
    assert report.path == Path("report.html")
    first, second, *rows = str(report).splitlines()
    assert (first, second) == ("objective", "  " + report.data["subtitle"])
    assert any(row.split() == ["Nodes", str(len(graph))] for row in rows)
    assert repr(report) == "<Report: objective>"


def test_without_a_path_nothing_is_written_until_it_is_saved(graph: cr.Graph, folder: Path) -> None:
    report = cr.report(graph, INPUTS)
    assert report.path is None and list(folder.iterdir()) == []
    report.save("a page.HTM")
    assert Path("a page.HTM").read_bytes() == report.html().encode()


def test_a_notebook_gets_a_few_lines_and_no_page(graph: cr.Graph) -> None:
    bundle = cr.report(graph, INPUTS, title="<b>mine</b>")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert all(len(text) < 2000 for text in bundle.values())
    assert "&lt;b&gt;mine&lt;/b&gt;" in bundle["text/html"]
    assert 'report.save("report.html")' in bundle["text/plain"]
    assert "report.save(&quot;report.html&quot;)" in bundle["text/html"]
    written = cr.report(graph, INPUTS, Path("r.html"))._repr_mimebundle_()
    assert "Open r.html in a browser." in written["text/html"]


def test_a_training_step_takes_its_arrays_from_the_state() -> None:
    step = cr.training_step(objective, "w", cr.adam())
    state = step.init(w=INPUTS["w"])
    report = cr.report(step, {"x": INPUTS["x"]}, state=state)
    names = {value["name"]: value for value in report.data["values"]}
    assert report.data["has_values"] and names["w_m"]["stats"]["max"] == 0
    assert "w_next" in names and state.steps == 0


def test_a_run_is_shown_as_it_was(graph: cr.Graph) -> None:
    report = cr.report(graph.run(INPUTS))
    z = next(value for value in report.data["values"] if value["name"] == "z")
    assert z["numbers"] == [-1, -1, -1]


@pytest.mark.slow
def test_the_same_arguments_give_the_same_bytes_in_every_process() -> None:
    program = (
        "import numpy as np, chainrule as cr\n"
        "def f(x, w):\n    z = x @ w\n    h = np.tanh(z)\n    J = np.sum(h * z)\n    return J\n"
        "x, w = np.arange(6.0).reshape(3, 2), np.ones(2)\n"
        "graph = cr.backward(cr.trace(f, x, w), wrt='all')\n"
        "drawing, memory = graph.draw(), graph.memory()\n"
        "texts = [cr.report(graph, {'x': x, 'w': w}).html(), memory.timeline_svg()]\n"
        "texts += [drawing.svg(), drawing.dot(), drawing.mermaid()]\n"
        "import hashlib; print(*[hashlib.sha256(one.encode()).hexdigest() for one in texts])\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


class Counting(dict[str, Any]):
    """Inputs that fail when they are looked at: nothing may be run."""

    def __iter__(self) -> Any:
        raise AssertionError("the inputs were read")

    def items(self) -> Any:
        raise AssertionError("the inputs were read")

    keys = values = items


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        (
            {"path": "report.pdf"},
            errors.InputError,
            "a report cannot be written as .pdf, asked for by report.pdf\n"
            "  try: a file whose name ends in .html: report.html",
        ),
        (
            {"path": "report"},
            errors.InputError,
            "a report cannot be written as a file without an ending, asked for by report",
        ),
        (
            {"path": "no/report.html"},
            errors.InputError,
            "cannot write to no/report.html: there is no folder no\n"
            "  try: a path in a folder that exists and that you may write to",
        ),
        (
            {"path": "taken.html"},
            errors.InputError,
            "cannot write to taken.html: it is a folder",
        ),
        (
            {"path": 3},
            errors.InputError,
            'a report is written to a path, got int\n  try: path="report.html"',
        ),
        (
            {"history": "no.jsonl"},
            errors.InputError,
            "cannot read the history no.jsonl: No such file or directory",
        ),
        ({"history": [{"objective": 1.0}]}, errors.InputError, 'has no "step"'),
        ({"executor": "cuda"}, errors.InputError, "cuda"),
        ({"indices": "roman"}, errors.InputError, "roman"),
    ],
)
def test_arguments_are_refused_before_anything_is_run(
    graph: cr.Graph, folder: Path, arguments: dict[str, Any], kind: type[Exception], told: str
) -> None:
    (folder / "taken.html").mkdir()
    with pytest.raises(kind) as caught:
        cr.report(graph, Counting(INPUTS), **arguments)
    assert told in str(caught.value)
    assert [path.name for path in folder.iterdir()] == ["taken.html"]


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(errors.InputError, match="is about a graph, a training step or a run"):
        cr.report(objective)  # pyright: ignore[reportArgumentType]


def test_a_run_that_fails_writes_nothing(graph: cr.Graph, folder: Path) -> None:
    with pytest.raises(errors.InputError, match="input w of objective was not given"):
        cr.report(graph, {"x": INPUTS["x"]}, "report.html")
    assert list(folder.iterdir()) == []


def test_an_older_page_stays_where_writing_fails(graph: cr.Graph, monkeypatch: Any) -> None:
    Path("report.html").write_text("old")

    def full(self: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(errors.InputError, match="No space left on device"):
        cr.report(graph, INPUTS, "report.html")
    assert Path("report.html").read_text() == "old"
    assert [path.name for path in Path().iterdir()] == ["report.html"]


def test_the_screenshots_of_the_documentation_are_there_and_small() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    pages = [(docs / name).read_text("utf-8") for name in ("report.md", "memory-budget.md")]
    shown = re.findall(r'src="(screenshots/[^"]+)"', "".join(pages))
    found = sorted(path.relative_to(docs).as_posix() for path in (docs / "screenshots").iterdir())
    assert sorted(shown) == found and len(found) == 3
    for name in found:
        content = (docs / name).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 250_000
