"""The rule of legibility: on a page and on a phone, no letter of a picture is under 9 pixels."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from drawings import SVG, chain, mlp_with_gradients, picture
from thirteen_programs import PROGRAMS

import chainrule as cr
from chainrule.errors import InputError
from chainrule.explain.drawing.drawing import draw

LEGIBLE = 9.0  # pixels
TALLEST = {900: 2100, 390: 3200}  # pixels of a page that is scrolled
EVERY = pytest.mark.parametrize("name", [*PROGRAMS])


@cache
def graph_of(name: str) -> cr.Graph:
    made = PROGRAMS[name]()
    return made if isinstance(made, cr.Graph) else made.graph


def sizes(svg: str) -> Iterator[float]:
    """The size of every text and of every part of one, in pixels of the picture."""
    of_class = dict(re.findall(r"\.(\w+)\{[^}]*?font-size:([\d.]+)px", svg))
    for element in ElementTree.fromstring(svg).iter():
        if element.tag in (f"{SVG}text", f"{SVG}tspan") and "".join(element.itertext()):
            names = (element.get("class") or "").split()
            found = [float(of_class[one]) for one in names if one in of_class]
            own = element.get("font-size")
            assert own or found or element.tag == f"{SVG}tspan"
            yield from found or ([float(own)] if own else [])


def assert_legible(graph: cr.Graph, width: int, phase: str = "both", taller: float = 1.0):
    svg = draw(graph, width=width, phase=phase).svg()
    shown = picture(svg)
    scale = min(1.0, width / shown.width)
    assert min(sizes(svg)) * scale >= LEGIBLE
    assert shown.height * scale <= TALLEST[width] * taller
    assert shown.overlaps() == []
    assert not [box for _, box in shown.crossings() if box in shown.names]
    assert all(0 <= box.left and box.right <= shown.width for box in (*shown.boxes, *shown.names))
    assert all(note.right <= shown.width for note in shown.words)


@pytest.mark.sweep(11)
@pytest.mark.parametrize("width", [900, 390])
@EVERY
def test_no_letter_is_too_small_at_the_width_of_a_page_and_of_a_phone(name: str, width: int):
    graph = graph_of(name)
    for phase in ("both", "forward", "backward") if graph.gradients else ("both",):
        assert_legible(graph, width, phase)


@pytest.mark.slow
@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", ["book", "LeNet", "GRU", "batch-norm MLP", "residual net"])
def test_updates_are_legible_too(name: str):
    graph = graph_of(name)
    inputs = {item.node: item.name for item in graph.inputs}
    wrt = [inputs[one.wrt] for one in graph.gradients if one.wrt in inputs]
    step = cr.training_step(graph, wrt, cr.adam(1e-3), of=graph.gradients[0].of)
    for width in TALLEST:
        assert_legible(step.graph, width, taller=1.1)  # with the update below


def test_one_row_of_many_columns_would_be_too_small():
    graph = graph_of("LeNet")
    whole = picture(draw(graph, width=None).svg())
    assert min(sizes(draw(graph, width=None).svg())) * 900 / whole.width < LEGIBLE


@pytest.mark.sweep(5)
@EVERY
def test_rows_show_the_boxes_of_the_whole(name: str):
    graph = graph_of(name)
    shown, whole = (picture(draw(graph, width=width).svg()) for width in (390, None))
    count = [Counter((box.role, box.text, box.tip) for box in one.boxes) for one in (shown, whole)]
    assert count[0] == count[1]


def test_a_broken_arrow_says_at_both_ends_what_it_carries():
    svg = draw(mlp_with_gradients(), width=390).svg()
    texts = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    shown = [one for one in texts if (one.get("class") or "").startswith("small ")]
    sides: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for one in shown:
        is_left = float(one.get("x") or 0) < 100
        sides[is_left]["".join(one.itertext())] += 1
    assert sides[True] == sides[False] and sides[True]["∂J/∂s"]
    broken = re.findall(r'<path class="line (\S+)-line"[^>]* d="[^"]*"/>', svg)
    assert set(broken) == {"forward", "backward", "saved"}


def test_lines_of_several_pieces_begin_at_their_left_end():
    """CairoSVG takes the middle or the end of a line to be that of each of its pieces."""
    svg = draw(mlp_with_gradients(), width=390).svg()
    several = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if len(one)]
    starts = [
        (one.get("class") or "").split()[-1:] for one in several if len(one) + bool(one.text) > 1
    ]
    assert starts and all(one == ["after"] for one in starts)
    assert "baseline-shift" not in svg


def test_a_long_chain_goes_on_in_rows():
    shown = picture(draw(chain(20), width=900, fold="none").svg())
    rows = {round(box.middle[1]) for box in shown.of("operator")}
    assert len(rows) == 4 and shown.overlaps() == [] and shown.crossings() == []


@pytest.mark.parametrize("width", [0, 299, "900", True, float("nan")])
def test_a_width_that_is_none_of_a_page_is_explained(width: object):
    with pytest.raises(InputError, match="is not the width of a page in pixels") as caught:
        draw(mlp_with_gradients(), width=width)  # type: ignore[arg-type]
    assert "width=390, of a phone" in str(caught.value)


def test_parameters_of_one_call_are_one_box_and_so_are_their_gradients():
    shown = picture(draw(graph_of("GRU")).svg())
    assert [box.text for box in shown.of("parameter")] == ["9 parameters"]
    assert [box.text for box in shown.of("parameter-gradient")] == ["9 gradients"]
    arrows = {(a.text, b.text) for a, b in shown.arrows("forward")}
    assert ("9 parameters", "scan cell") in arrows and shown.overlaps() == []
    whole = picture(draw(graph_of("GRU"), fold="none", width=None).svg())
    assert len(whole.of("parameter")) == len(whole.of("parameter-gradient")) == 9


def test_a_fan_of_updates_has_arrows_from_gradients_and_parameters():
    graph = graph_of("transformer of 2 layers")
    shown = picture(draw(graph, width=None).svg())
    arrows = {(a.text, b.text) for line in ("saved", "update") for a, b in shown.arrows(line)}
    assert {("26 gradients", "update/×26"), ("26 parameters", "update/×26")} <= arrows
    assert ("update/×26", "26 new parameters") in arrows
    assert sum(name.startswith("dloss/d(params") for name in graph.names) == 26
