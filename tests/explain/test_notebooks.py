"""An executed notebook shows graphs, equations, tables, plans and trainings by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.in_notebooks import ShownByText

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.peers

START = """
import numpy as np
import chainrule as cr
from chainrule import float64

def objective(x: float64["n 3"], W: float64["3 2"]):
    h = np.tanh(x @ W)
    J = np.mean(h**2)
    return J

graph = cr.backward(cr.trace(objective), wrt="W")
step = cr.training_step(objective, "W", cr.sgd(0.1), executor="reference")
x, W = np.ones((4, 3)), np.ones((3, 2))
trainer = cr.Trainer(objective, {"W": W}, cr.sgd(0.1), {"x": x}, batch_size=2, progress=False)
"""
SHOWN = {  # the cell, and for each kind of output what it has
    "graph": {"image/svg+xml": "<svg", "text/html": "<img", "text/plain": "<Graph objective"},
    "step": {"image/svg+xml": "<svg", "text/plain": "<Graph"},
    "graph.draw()": {"image/svg+xml": "<svg"},
    "graph.equations()": {"text/latex": r"\begin{align*}", "text/markdown": "$$"},
    "graph.run(x=x, W=W)": {"text/html": "<table"},
    "step.memory(n=4)": {"text/html": "<table", "text/plain": "memory of objective"},
    "graph.cost(n=4)": {"text/html": "<pre"},
    "step.plan(n=4)": {"text/html": "<td>matmul</td>", "text/plain": "plan of objective\n"},
    "graph.compile(executor='native').plan(n=4)": {
        "text/html": "<small>",
        "text/plain": "plan of objective\n",
    },
    "graph.zeros(x=0 * x, W=W)": {"text/html": "<", "text/plain": "dJ/dW"},
    "cr.report(graph, {'x': x, 'W': W})": {"text/plain": "objective"},
}
FOLLOWED = 'cr.follow(trainer, norms="dJ/dW", batch={"x": x}).fit(3);'


@pytest.fixture(scope="module")
def outputs() -> list[list[Any]]:
    """What each cell of one notebook shows."""
    nbformat = pytest.importorskip("nbformat")
    cells = [START, *SHOWN, FOLLOWED]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def test_every_result_shows_itself(outputs: list[list[Any]]) -> None:
    for (cell, kinds), (shown, *others) in zip(SHOWN.items(), outputs, strict=False):
        assert others == [], cell
        for kind, part in kinds.items():
            found = shown["data"].get(kind, "")
            assert part in found, f"{cell}: {kind} is {found[:200]!r}"
        assert len(shown["data"]["text/plain"]) < 5000, cell


def test_a_training_is_one_picture_that_was_updated(outputs: list[list[Any]]) -> None:
    assert len(outputs[-1]) == 1, outputs[-1]
    (shown,) = outputs[-1]
    assert shown["output_type"] == "display_data"
    assert shown["data"]["text/html"].count("<svg") == 2  # the objective, the norms
    assert shown["data"]["text/plain"].startswith("<Following: 3 epochs, objective 0.")


def test_what_has_a_text_of_several_lines_shows_that() -> None:
    from IPython.lib.pretty import pretty

    found = cr.trace(lambda x: np.sum(x**2), np.ones(3))
    for one in (found.memory(), found.cost(), found.compile(executor="reference").plan()):
        assert isinstance(one, ShownByText)
        assert pretty(one) == str(one)
