"""What the playground asks of Python: programs explained, cells run, errors with their lines."""

from __future__ import annotations

import explaining
import numpy as np
import pytest
from catalogue import PROGRAMS, Program, graph_of, inputs_of

import chainrule as cr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_a_program_is_explained_and_runs_on_random_arrays(program: Program) -> None:
    found = explaining.explained(program.text, 800)
    assert found["error"] == "" and found["line"] is None
    assert found["svg"].startswith("<svg") and "import numpy" in found["python"]
    assert [row[0] for row in found["equations"] if row[0]] == list(
        range(1, max(row[0] for row in found["equations"]) + 1)
    )
    graph = graph_of(program)
    run = graph.run(**inputs_of(graph))
    assert all(np.isfinite(run[name]).all() for name, _ in graph.outputs)
    assert found["text"] == str(graph)


def test_an_edit_changes_what_is_shown() -> None:
    before = explaining.explained(PROGRAMS[0].text)
    after = explaining.explained(PROGRAMS[0].text.replace("np.maximum(z, 0)", "np.tanh(z)"))
    for view in ("svg", "equations", "python", "text"):
        assert before[view] != after[view], view
    assert r"\tanh" in dict((row[0], row[2]) for row in after["equations"])[2]


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("x = (1,\ny", "SyntaxError", 1),
        ("x = 1\ny = z", "NameError: name 'z' is not defined", 2),
        ("def f(x):\n    return x @ 1\n\n\nf(3)", "TypeError", 2),
        ("x = 1", "the program makes no graph: write graph = ", None),
        ("import sys\nsys.exit(3)", "SystemExit: 3", 2),
    ],
)
def test_an_error_has_its_message_and_line(source: str, message: str, line: int | None) -> None:
    found = explaining.explained(source)
    assert found["error"].startswith(message) and found["line"] == line
    assert "svg" not in found


def test_an_error_of_chainrule_names_the_line_of_the_program() -> None:
    text = PROGRAMS[0].text.replace("x @ W1", "W1 @ x")
    found = explaining.explained(text)
    assert "the inner sizes differ" in found["error"]
    assert found["line"] == text.splitlines().index("    z = W1 @ x") + 1


def test_cells_share_their_names_and_show_their_last_value() -> None:
    assert explaining.ran("p", "1", "x = 3\nprint(x)")["printed"] == "3\n"
    assert explaining.ran("p", "2", "x + 1")["html"] == "<pre>4</pre>"
    assert "<svg" in explaining.ran("p", "3", "import chainrule as cr\ncr.trace(abs, 1.0)")["html"]
    assert "NameError" in explaining.ran("another", "1", "x")["error"]
    assert explaining.ran("p", "4", "'<b>'")["html"] == "<pre>'&lt;b>'</pre>"


def test_the_report_page_of_a_program(tmp_path) -> None:
    path = tmp_path / "report.html"
    assert explaining.report(PROGRAMS[0].text, str(path)) == ""
    assert path.stat().st_size > 100_000
    assert "NameError" in explaining.report("y", str(path))


def test_reshape_for_an_older_numpy_refuses_to_copy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert explaining.reshape(x, (3, 2), copy=False).base is not None
    with pytest.raises(ValueError, match="Unable to avoid"):
        explaining.reshape(x.T, (6,), copy=False)
    assert cr.float64 is not None
