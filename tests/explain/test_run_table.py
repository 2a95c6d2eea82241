"""A run shown as a table: in a terminal, in a notebook, with whatever names and numbers."""

from __future__ import annotations

import math
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import chainrule as cr
from chainrule import float64
from chainrule.explain.values.statistics import statistics_of
from chainrule.explain.values.table import html, plain, rows_of

NASTY = "<script>&\"'[bold]]]>\n\x1b[31m"


def f(x: float64[3], y: float64[0]):
    z = np.log(x)
    s = np.sum(z) + np.sum(y)
    return s


def run_of(x: list[float]) -> cr.Run:
    return cr.trace(f).run(x=np.array(x), y=np.zeros(0))


def test_a_printed_run_is_a_row_for_each_value_with_its_extremes_mean_and_norm():
    lines = str(run_of([1.0, math.e, math.e**2])).splitlines()
    assert lines[0] == "run of f"
    assert lines[1].split() == ["name", "type", "min", "max", "mean", "norm"]
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert rows["z"] == ["z", "float64[3]", "0", "2", "1", "2.236"]
    assert rows["y"] == ["y", "float64[0]"]
    assert rows["s"] == ["s", "float64[]", "3", "3", "3", "3"]


def test_what_is_not_finite_is_counted_apart_and_does_not_spoil_the_rest():
    with np.errstate(all="ignore"):
        text = str(run_of([0.0, -1.0, math.e]))
    row = next(line for line in text.splitlines() if line.split()[0] == "z")
    assert row.split() == ["z", "float64[3]", "1", "1", "1", "1", "1", "NaN,", "1", "inf"]
    assert text.splitlines()[1].endswith("not finite")


@pytest.mark.parametrize("size", [1e-200, 1e200, 1e300])
def test_statistics_of_very_large_and_small_numbers_neither_overflow_nor_vanish(size: float):
    found = statistics_of(size * np.array([3.0, -4.0]))
    assert found.norm == pytest.approx(5 * size, rel=1e-12)
    assert found.mean == pytest.approx(-0.5 * size, rel=1e-12)
    assert (found.least, found.greatest) == (-4 * size, 3 * size)


@pytest.mark.parametrize(
    ("array", "mean", "norm"),
    [
        (np.array([True, False, True, True]), 0.75, math.sqrt(3)),
        (np.array([[1, 2], [3, 4]], np.uint8), 2.5, math.sqrt(30)),
        (np.array(7, np.int64), 7.0, 7.0),
        (np.full(3, 6e4, np.float16), 6e4, 6e4 * math.sqrt(3)),
    ],
)
def test_statistics_of_other_numbers_are_taken_in_float64(
    array: np.ndarray, mean: float, norm: float
):
    found = statistics_of(array)
    assert (found.mean, found.norm) == pytest.approx((mean, norm), rel=1e-3)
    assert found.count == array.size


def test_many_values_are_cut_and_counted():
    def many(x: float64[2]):
        for _ in range(100):
            x = x + 1
        return x

    run = cr.trace(many).run(x=np.zeros(2))
    found, left_out = rows_of(run)
    assert len(found) + left_out == len(run) == 101
    assert str(run).splitlines()[-1] == f"  and {left_out} more values: run[name]"
    assert rows_of(run, None)[1] == 0


def test_names_cannot_write_markup_into_a_page_or_codes_into_a_terminal():
    graph = cr.trace(f)
    graph = graph.replace(name=NASTY, names={**graph.names, NASTY: graph["z"]})
    run = graph.run(x=np.ones(3), y=np.zeros(0))
    page = html(run)
    assert "<script>" not in page and "&lt;script&gt;" in page
    console = Console(file=StringIO(), width=200)
    console.print(run)
    for text in (plain(run), page, console.file.getvalue()):  # type: ignore[attr-defined]
        assert "\x1b[31m" not in text and r"\x1b" in text
