"""`graph.memory` and `step.memory`, and what they print."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from reports import EITHER, NASTY, both, deep, forward, nasty, needs_native, step

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, NameLookupError, SizeError
from chainrule.explain.memory.table import ROWS


def cells(text: str, first: str) -> list[str]:
    """The columns of the only line that begins with these words."""
    (line,) = [line for line in text.splitlines() if line.startswith(first + "  ")]
    return line[len(first) :].split()


@EITHER
def test_the_text_shows_the_numbers_of_the_report(executor: str) -> None:
    report = both().memory(n=16, executor=executor)
    text, runs = str(report), (report.training, report.prediction)
    assert cells(text, "peak") == [f"{run.peak_nbytes:,}" for run in runs if run]
    for part in report.prediction.parts:
        assert cells(text, part) == [f"{run.parts[part]:,}" for run in runs if run]
    assert report.training is not None and sum(report.training.parts.values()) == (
        report.training.peak_nbytes
    )
    for name, value in report.values.items():
        if value.stored:
            assert f"{value.nbytes:,}" in cells(text, name) and value.type in text


def test_the_text_says_what_its_numbers_are_for() -> None:
    lines = str(both().memory(keep=["h"], predict="o", executor="reference")).splitlines()
    assert lines[:5] == [
        "memory of objective",
        "  sizes     n = 256 (assumed)",
        "  executor  reference",
        "  keep      h",
        "  predict   o",
    ]
    assert "  sizes     n = 3" in str(forward().memory(n=3, executor="reference")).splitlines()


def test_a_value_is_told_from_when_to_when_and_why() -> None:
    text = str(step().memory(n=16))
    row = cells(text, "h")
    assert row[0:3] == ["float32[16,", "32]", "2,048"]
    assert "needs it (reports.py:" in " ".join(row)
    assert cells(text, "x")[2:5] == ["4,096", "inputs", "start"]
    assert cells(text, "W1")[3] == "parameters" and cells(text, "W1_m")[3:5] == [
        "optimizer",
        "state",
    ]


@needs_native
def test_what_takes_no_bytes_of_its_own_says_so() -> None:
    report = step("native").memory(n=16)
    text = str(report)
    assert "in place" in " ".join(cells(text, "W1_next")) and report.values["W1_next"].in_place
    assert "not stored" in " ".join(cells(text, "dJ/dL")) and not report.values["dJ/dL"].stored


def test_a_graph_without_a_backward_pass_has_no_training() -> None:
    report = forward().memory(n=16, executor="reference")
    assert report.training is None and report.main is report.prediction
    assert len(cells(str(report), "peak")) == 1


def test_keep_is_what_outlives_a_run_without_a_backward_pass_too() -> None:
    def nbytes(keep: str) -> int:
        report = forward().memory(n=16, keep=keep, executor="reference")
        return report.prediction.timeline[-1].nbytes["results"]

    assert nbytes("outputs") == 4
    assert nbytes("named") == 4 * (2 * 16 * 32 + 16 * 10 + 3)  # z, h, o; L, s, J


def test_only_the_largest_values_are_shown_unless_all_are_wanted() -> None:
    report = deep(60).memory(n=4, executor="reference")
    few, all_ = str(report).splitlines(), report.table(rows=None).splitlines()
    heading = next(place for place, line in enumerate(few) if line.startswith("value "))
    assert len(few) - heading - 2 == ROWS
    left_out = len(report.values) - ROWS
    assert few[-1] == (
        f"{left_out} values of at most 256 bytes left out: report.table(rows=None) shows all"
    )
    assert len(all_) - heading - 1 == len(report.values) > ROWS
    assert all(line.rstrip() == line for line in all_)


def test_sizes_with_names_of_keywords_go_into_the_mapping() -> None:
    keep = cr.size("keep")
    graph = cr.trace(lambda x: np.sum(x), x=float32[keep, 3])
    report = graph.memory({"keep": 5}, executor="reference")
    assert report.sizes == {"keep": 5} and report.values["x"].nbytes == 60
    trained = cr.training_step(
        lambda x, w: np.sum((x @ w) ** 2), "w", cr.sgd(0.1), x=float32[keep, 3], w=float32[3]
    )
    assert trained.memory({"keep": 5}).values["x"].nbytes == 60


def refusal(kind: type[Exception], call) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_unknown_sizes_are_refused_as_bind_does() -> None:
    graph, trained = forward(), step()
    wanted = refusal(SizeError, lambda: graph.bind(m=3))
    assert refusal(SizeError, lambda: graph.memory(m=3)) == wanted
    assert refusal(SizeError, lambda: trained.memory(m=3)) == wanted
    wanted = refusal(SizeError, lambda: graph.bind(n=0))
    assert refusal(SizeError, lambda: graph.memory(n=0)) == wanted
    graph.memory(n=4, executor="reference")
    for wrong in (4.0, [4], np.zeros(3)):
        assert "the size n must be an integer" in refusal(
            SizeError, lambda wrong=wrong: graph.memory(n=wrong)
        )


def test_sizes_by_position_are_refused() -> None:
    assert refusal(InputError, lambda: forward().memory(256)) == (
        "graph.memory takes sizes by name, got int\n  try: graph.memory(n=256)"
    )
    assert refusal(InputError, lambda: step().memory(256)) == (
        "step.memory takes sizes by name, got int\n  try: step.memory(n=256)"
    )


def test_unknown_names_are_refused() -> None:
    for wrong in ({"keep": ["hh"]}, {"predict": "hh"}):
        for graph in (forward(), both()):
            said = refusal(NameLookupError, lambda w=wrong, g=graph: g.memory(n=4, **w))
            assert "has no value called 'hh'" in said


def test_json_is_data_and_adds_up() -> None:
    report = step().memory(predict="o")
    found = json.loads(json.dumps(report.json(), allow_nan=False))
    assert found["schema"] == "chainrule.memory/1"
    assert (found["sizes"], found["assumed"], found["predict"]) == ({"n": 256}, ["n"], ["o"])
    for name in ("training", "prediction"):
        run = found[name]
        assert sum(run["parts"].values()) == run["peak_nbytes"]
        assert len(run["timeline"]) == run["instructions"] + 1
    by_name = {value["name"]: value for value in found["values"]}
    assert by_name["h"]["dtype"] == "float32" and by_name["h"]["shape"] == [256, 32]
    assert by_name["h"]["nbytes"] == report.values["h"].nbytes == 4 * 256 * 32
    assert both().memory(keep=("h",), executor="reference").json()["keep"] == ["h"]


def test_names_in_the_text_stay_on_their_line() -> None:
    text = str(nasty().memory(n=4, executor="reference"))
    assert "\x1b" not in text and "alert(1)" in text and r"\n\x1b[31m\ud800" in text
    assert r"needs it (<b>\n\x1b[31m[bold]x.py:" in text
    text.encode()


def test_rich_shows_the_same_and_obeys_no_names() -> None:
    from rich.console import Console

    console = Console(width=400, record=True, file=io.StringIO())
    report = nasty().memory(n=4, executor="reference")
    console.print(report)
    shown = console.export_text()
    assert f"{report.main.peak_nbytes:,}" in shown
    assert "<script>alert(1)</script>&" in shown and "[bold]]]>" in shown and "\x1b" not in shown


def test_html_is_whole_loads_nothing_and_obeys_no_names() -> None:
    report = nasty().memory(n=4, executor="reference")
    page = report.html()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in page
    assert "http" not in page and "url(" not in page and 'src="data:image/svg+xml;base64,' in page
    assert f"{report.main.peak_nbytes:,}" in page
    assert report._repr_html_() in page
    page.encode()
    assert NASTY not in page


@pytest.mark.slow
def test_neither_reports_nor_rich_are_loaded_before_they_are_used() -> None:
    program = """
import sys, numpy as np, chainrule as cr
loaded = [name for name in sys.modules if name.startswith("chainrule.explain")]
report = cr.trace(lambda x: np.sum(x), x=np.ones(3)).memory(executor="reference")
str(report), report.html(), report.json(), report.timeline_svg()
print(loaded, "rich" in sys.modules, isinstance(report, cr.MemoryReport))
report.__rich__()
print("rich" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[] False True", "True"]
