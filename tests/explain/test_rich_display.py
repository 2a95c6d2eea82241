"""Graphs show themselves: a picture in notebooks, coloured text in a terminal."""

from __future__ import annotations

import base64
from io import StringIO

import numpy as np
from rich.console import Console

import chainrule as cr
from chainrule import float64


def f(x: float64[3], w: float64[3]):
    z = x * w
    J = np.sum(z**2)
    return J


GRAPH = cr.backward(cr.trace(f), wrt="w")


def test_a_notebook_shows_the_picture_of_a_graph_also_where_it_trusts_nobody():
    bundle = GRAPH._repr_mimebundle_()
    assert bundle["text/plain"] == repr(GRAPH)
    svg = GRAPH.draw().svg()
    assert bundle["image/svg+xml"] == svg
    assert f"base64,{base64.b64encode(svg.encode()).decode()}" in bundle["text/html"]


def test_rich_prints_the_text_form_in_colours_without_changing_it():
    console = Console(file=StringIO(), width=200, force_terminal=True, record=True)
    console.print(GRAPH)
    lines = [line.rstrip() for line in console.export_text(clear=False).rstrip().splitlines()]
    assert lines == [line.rstrip() for line in str(GRAPH).splitlines()]
    styled = console.export_text(styles=True)
    assert "\x1b[1;34mz\x1b[0m" in styled.replace("  z", "z") or "\x1b[1;34m  z" in styled
    assert styled.count("\x1b[") > 20


def test_what_a_terminal_would_obey_is_not_printed():
    nasty = GRAPH.replace(name="f\x1b[31m\n")
    console = Console(file=StringIO(), width=200, record=True)
    console.print(nasty)
    assert r"f\x1b[31m" in console.export_text()
    assert r"f\x1b[31m" in str(nasty.equations()) or "\x1b" not in str(nasty.equations())


def test_a_graph_says_what_was_not_finite():
    found = GRAPH.nonfinite(x=np.array([1.0, np.inf, 2.0]), w=np.ones(3))
    assert found is not None and "x[1] is inf" in str(found)
    assert GRAPH.nonfinite(x=np.ones(3), w=np.ones(3)) is None
