r"""The LaTeX of equations can be set: by matplotlib's mathtext, and by KaTeX where there is node.

The KaTeX is that of the report page, which shows the same formulas.

mathtext knows no `cases` environment; there it is replaced by a brace and its rows on one line, and
KaTeX alone sees the environment.  Everything else is in the part of LaTeX that both know.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from every_sample import for_every_sample
from graphs_to_explain import GRAPHS, primitive_graph

import chainrule as cr
from chainrule.explain.equations import Equations, equations
from chainrule.primitives.primitive import Given
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import cases

COMPUTED = [one for one in PRIMITIVES if not isinstance(one.kernel, Given)]
EVERY_GRAPH = pytest.mark.parametrize("name", GRAPHS)
NAMES = [
    r"\input{/etc/passwd}", "$x$", "100%", "a}b{", "x_1^2", "<script>&", 'q"\'`', "new\nline",
    "日本é", "#1~", "\\", "W1", "x_dot", "\x1b[31m", "]]>", r"\end{align*}",
]  # fmt: skip


SET: set[str] = set()  # what mathtext has set, numbers and letters aside: it takes long


def set_by_mathtext(latex: str) -> None:
    mathtext = pytest.importorskip("matplotlib.mathtext")
    kind = re.sub(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])", "x", re.sub(r"\d+", "0", latex))
    if kind in SET:
        return
    for old, new in (
        (r"\begin{cases}", r"\{"),
        (r"\end{cases}", ""),
        (" & ", r"\ "),
        (r" \\ ", r";\ "),
    ):
        latex = latex.replace(old, new)
    mathtext.MathTextParser("path").parse(f"${latex}$")
    SET.add(kind)


KATEX = files("chainrule.explain.report").joinpath("vendor", "katex", "katex.min.js")


def set_by_katex(formulas: list[str]) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed: KaTeX is JavaScript")
    script = (
        f"const katex = require({json.dumps(str(KATEX))});"
        "for (const one of JSON.parse(require('fs').readFileSync(0, 'utf8')))"
        "  katex.renderToString(one, {displayMode: true, throwOnError: true, strict: (code) =>"
        "    code === 'unicodeTextInMathMode' ? 'ignore' : 'error', trust: false});"
    )
    done = subprocess.run(
        ["node", "-e", script],
        input=json.dumps(formulas),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def check_formulas(primitive: Any, sample: Any) -> None:
    for one in equations(primitive_graph(primitive, sample)):
        set_by_mathtext(one.latex())


@pytest.mark.sweep(11)
@pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)
def test_mathtext_sets_every_primitive(primitive: Any) -> None:
    """In its first sample; KaTeX sets all of them below."""
    check_formulas(primitive, primitive.samples[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)
def test_mathtext_sets_every_sample(primitive: Any) -> None:
    for_every_sample(primitive, check_formulas)


@pytest.mark.slow
def test_katex_sets_every_primitive() -> None:
    graphs = [primitive_graph(*one[1:]) for one in cases(COMPUTED)]
    set_by_katex([equations(graph).latex() for graph in graphs])


@pytest.mark.sweep(14)
@EVERY_GRAPH
def test_mathtext_sets_forward_and_backward(name: str) -> None:
    for one in equations(GRAPHS[name]()):
        set_by_mathtext(one.latex())


@pytest.mark.slow
def test_katex_sets_forward_and_backward() -> None:
    formulas: list[str] = []
    for make in GRAPHS.values():
        found = equations(make(), indices="superscript")
        formulas += [found.latex(), *(one.latex() for one in found)]
    set_by_katex(formulas)


def with_names() -> Equations:
    def program(p: Any) -> Any:
        h = sum(np.tanh(one) for one in p.values())
        J = np.sum(h * h)
        return J

    graph = cr.trace(program, p={name: np.ones(3) for name in NAMES})
    return equations(cr.backward(graph, wrt="p"))


def test_names_are_only_ever_shown() -> None:
    found = with_names()
    text, latex = str(found), found.latex()
    assert all(letter.isprintable() for letter in text.replace("\n", ""))
    assert r"\input" not in latex and "$" not in latex.replace(r"\$", "")
    assert latex.count(r"\end{align*}") == 1 and "%" not in latex.replace(r"\%", "")
    assert "<script" not in found.markdown() and found.markdown().count("$$") % 2 == 0
    for one in found:
        assert "\n" not in one.latex() and "\n" not in str(one)
        set_by_mathtext(one.latex().replace(r"\&", "+"))  # which it knows in no font command


def test_katex_shows_names() -> None:
    set_by_katex([with_names().latex()])


def test_symbols_are_text_and_never_latex() -> None:
    graph = cr.trace(lambda x: x * 2, np.ones(2))
    found = equations(graph, symbols={"x": r"\input{y}$%"})
    assert r"\input" not in found.latex()
    for one in found:
        set_by_mathtext(one.latex())
