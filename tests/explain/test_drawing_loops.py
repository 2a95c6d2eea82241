"""Loops and choices in pictures: what a body computes is a band of its own, in a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawings import picture
from layout_faults import faults
from test_equations_loops import CASES, recurrent
from thirteen_programs import PROGRAMS

import chainrule as cr
from chainrule import float64
from chainrule.explain.drawing.drawing import Drawing
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.layout import place

EVERY_CASE = pytest.mark.parametrize("name", CASES)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"fold": "none"},
    {"fold": "all"},
    {"detail": "primitives", "shapes": True, "nbytes": True},
    {"phase": "forward"},
)


def frames(drawing: Drawing) -> list[str]:
    """The titles of the bands that are bodies."""
    groups = [group for band in drawing.scene.bands for group in band.groups]
    looks = drawing.scene.looks
    return [looks[one.key].label.text for one in groups if one.key.startswith("body ")]


@pytest.mark.sweep(13)
@EVERY_CASE
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pictures_of_loops_keep_the_rules_of_the_layout(name: str, options: dict[str, Any]) -> None:
    drawing = CASES[name][0].draw(**options)
    assert faults(drawing.scene.figure, place(drawing.scene.figure)) == []
    assert drawing.svg() == CASES[name][0].draw(**options).svg()


def test_the_iteration_of_a_loop_is_drawn_in_a_frame() -> None:
    drawing = cr.trace(recurrent).draw()
    (forward, step) = drawing.scene.bands
    assert frames(drawing) == ["cell"]
    assert (
        drawing.scene.notes[1]
        == "each iteration of cell, t = 1, …, n → (dashed: values from above)"
    )
    shown = {drawing.scene.looks[one.key].label.text: one for one in step.items}
    squares = {text for text, one in shown.items() if one.form is Form.SQUARE}
    assert squares == {"h_{t−1}", "x_t", "z_t", "h_t", "o_t"}
    assert {text for text, one in shown.items() if one.form is Form.COPY} == {"W", "U", "v"}
    labels = {one.key: drawing.scene.looks[one.key].label.text for one in step.items}
    links = {(labels[one.source], labels[one.target]) for one in step.links}
    assert links >= {("h_{t−1}", "×"), ("x_t", "×"), ("×", "+"), ("+", "z_t"), ("φ", "h_t")}
    labels = [drawing.scene.looks[one.key].label.text for one in forward.items]
    assert {"scan cell", "last", "all", "h", "o"} <= {*labels}


def test_every_dependence_in_a_step_is_an_arrow() -> None:
    """The lines of the step's text, read again: what each named value is computed from."""
    wanted = {"z_t": {"x_t", "h_{t−1}", "U", "W"}, "h_t": {"z_t"}, "o_t": {"h_t", "v"}}
    drawing = cr.trace(recurrent).draw()
    step, looks = drawing.scene.bands[1], drawing.scene.looks
    sources: dict[str, set[str]] = {}
    for link in step.links:
        sources.setdefault(link.target, set()).add(link.source)
    made = {looks[one.key].label.text: sources[one.key] for one in step.items
            if one.form is Form.SQUARE and one.key in sources}  # fmt: skip
    unnamed = {key for key in sources if looks[key].form is Form.CIRCLE}

    def read(circle: str) -> set[str]:
        """What a circle reads, and what the unnamed ones do that it reads."""
        return {
            text
            for one in sources[circle]
            for text in (read(one) if one in unnamed else {looks[one].label.text})
        }

    found = {text: set().union(*map(read, circles)) for text, circles in made.items()}
    assert found == wanted


def test_the_iteration_of_a_backward_loop_is_drawn_where_it_is_asked_for() -> None:
    graph = CASES["recurrent"][0]
    closed = graph.draw()
    assert frames(closed) == ["cell"]
    assert "the bodies of loops are not drawn: expand='dJ/dW' draws them" in closed.scene.notes[1]
    drawing = graph.draw(expand="dJ/dW")
    assert frames(drawing) == ["cell", "cell_saving", "cell_cotangent"]
    assert drawing.scene.notes[-1].startswith("each iteration of cell_cotangent, t = n, …, 1 →")
    labels = {look.label.text for look in drawing.scene.looks.values()}
    assert {"dh_t", "dh_{t−1}", "dW_t", "dW_{t−1}", "h_{t−1}", "h_t"} <= labels
    assert "not drawn" not in "".join(drawing.scene.notes)


def test_a_backward_step_has_the_same_names_where_the_first_loop_is_folded() -> None:
    graph = CASES["recurrent"][0]
    drawing = graph.draw(expand="dJ/dW", fold="cell")
    assert frames(drawing) == ["cell_saving", "cell_cotangent"]
    labels = {look.label.text for look in drawing.scene.looks.values()}
    assert {"dh_t", "dh_{t−1}", "h_{t−1}"} <= labels and "dh_{t+1}" not in labels


def test_bodies_are_folded_by_their_names_or_all() -> None:
    graph = CASES["both ways"][0]
    assert frames(graph.draw()) == ["forth", "back"]
    assert frames(graph.draw(fold="forth")) == ["back"]
    assert frames(graph.draw(fold=["forth", "back"])) == []
    assert frames(graph.draw(fold="all")) == []
    derived = frames(graph.draw(phase="backward", fold="none"))
    assert {"forth_cotangent", "back_cotangent"} <= {*derived}
    assert frames(graph.draw(fold="none")) == ["forth", "back", *derived]
    note = graph.draw(fold="all").scene.notes[0]
    assert note == "forward → (the bodies of loops are not drawn: expand='h1' draws them)"
    assert frames(graph.draw(expand="h1")) == ["forth", "back"]


def test_large_bodies_are_drawn_only_where_they_are_asked_for() -> None:
    def long(x: float64["n 3"]) -> Any:
        def cell(h: Any, x: Any) -> Any:
            for _ in range(70):
                h = np.tanh(h + x)
            return h, None

        last, _ = cr.scan(cell, np.zeros(3), x)
        return last

    graph = cr.trace(long)
    assert frames(graph.draw()) == []
    drawing = graph.draw(expand="last")
    assert frames(drawing) == ["cell"]
    assert faults(drawing.scene.figure, place(drawing.scene.figure)) == []


def test_a_loop_in_a_loop_and_a_choice_in_a_loop_have_bands_of_their_own() -> None:
    assert frames(CASES["nested"][0].draw()) == ["layer", "inner"]
    assert frames(CASES["chosen"][0].draw()) == ["step", "step_2", "early"]
    assert frames(CASES["root"][0].draw()) == ["newton", "newton_condition"]


@EVERY_CASE
def test_dot_and_mermaid_have_the_same_boxes(name: str) -> None:
    drawing = CASES[name][0].draw(fold="none")
    count = sum(len(band.items) for band in drawing.scene.bands)
    assert len(picture(drawing.svg()).boxes) >= count
    assert drawing.mermaid().count(":::") == count
    assert drawing.dot().count("tooltip=") == count


def test_a_constant_without_a_name_is_drawn_with_its_number() -> None:
    def shifted(x: float64["3"], y: float64["4"], z: float64["2"]) -> Any:
        a = np.array([1.5, 2.0, -1.0]) * x
        b = np.arange(4.0)[::-1].copy() * y
        c = np.zeros(2) - z
        return a, b, c

    drawing = cr.trace(shifted).draw()
    labels = {look.label.text for look in drawing.scene.looks.values()}
    assert {"[1.5, 2, −1]", "const", "0"} <= labels
    assert "·" not in labels
    assert "a constant without a name: float64[2]" in drawing.svg()


def test_a_choice_says_its_condition_and_which_branch_is_taken_where() -> None:
    drawing = PROGRAMS["choice"]().draw()
    labels = {look.label.text for look in drawing.scene.looks.values()}
    assert {"large > 1 ?", "(large > 1 ?)′"} <= labels and "cond" not in labels
    assert frames(drawing) == ["clipped", "squared"]
    notes = drawing.scene.notes
    assert "the branches of choices are not drawn: expand='dL/do' draws them" in notes[1]
    assert "loops" not in notes[1]
    assert notes[2].startswith("clipped, where large > 1 holds →")
    assert notes[3].startswith("squared, where large > 1 does not hold →")
