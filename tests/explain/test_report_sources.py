"""The lines of source in the data of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from report_data_checks import by_name, checked

import chainrule as cr
from chainrule import float32
from chainrule.explain.report.data import report_data


def traced(path: Path, source: str) -> cr.Graph:
    """The graph of the function f of a file."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(source, "utf-8")
    names: dict[str, Any] = {"np": np}
    exec(compile(source, str(path), "exec"), names)
    return cr.trace(names["f"], x=float32[3])


def test_columns_count_letters_as_they_are_shown(tmp_path: Path) -> None:
    source = (
        "def f(x):\n\tif True:\n\t\tθ = (np.tanh(x), 'ü\x07'); h = np.exp(θ[0])\n"
        "\tJ = np.sum(\n\t\th * h\n\t)\n\treturn J\n"
    )
    data = checked(report_data(traced(tmp_path / "model.py", source)))
    lines, values = data["sources"][0]["lines"], by_name(data)
    place = values["h"]["source"]
    assert lines[str(place["line"])] == "        θ = (np.tanh(x), 'ü\\x07'); h = np.exp(θ[0])"
    assert lines[str(place["line"])][slice(*place["column"])] == "np.exp(θ[0])"
    place = values["J"]["source"]  # an expression of several lines is marked to the line's end
    assert lines[str(place["line"])][slice(*place["column"])] == "np.sum("


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    source = "def f(x):\n    h = np.tanh(x)\n    return h\n"
    first, second = tmp_path / "a" / "model.py", tmp_path / "b" / "model.py"
    traced(second, source)
    names: dict[str, Any] = {"np": np}
    exec(compile(source, str(second), "exec"), names)
    inner = names["f"]
    names = {"np": np, "inner": inner}
    exec(compile(source.replace("np.tanh", "inner"), str(first), "exec"), names)
    first.parent.mkdir()
    first.write_text(source.replace("np.tanh", "inner"), "utf-8")
    data = checked(report_data(cr.trace(names["f"], x=float32[3])))
    assert {one["file"] for one in data["sources"]} == {"a/model.py", "b/model.py"}
    scopes = {one["name"]: one["scope"] for one in data["values"]}
    assert set(scopes.values()) == {"", "f"}


def test_a_file_that_has_changed_shows_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    graph = traced(path, "def f(x):\n    h = np.tanh(x) + np.tanh(2 * x)\n    return h\n")
    path.write_text("def f(x):\n    h = x\n    return h\n", "utf-8")
    data = checked(report_data(graph))
    assert by_name(data)["h"]["source"] == {"file": 0, "line": 2, "column": None}


def test_sources_of_programs_without_a_file() -> None:
    names: dict[str, Any] = {"np": np}
    exec(compile("def f(x):\n    h = np.tanh(x)\n    return h\n", "<made up>", "exec"), names)
    data = checked(report_data(cr.trace(names["f"], x=float32[3])))
    assert data["sources"] == [{"file": "<made up>", "lines": {}}]
    assert by_name(data)["h"]["source"] == {"file": 0, "line": 2, "column": None}
