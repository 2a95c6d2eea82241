"""The forms of a drawing: SVG, DOT, Mermaid, files, notebooks; whatever the names are."""

from __future__ import annotations

import base64
import os
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from drawings import mlp, mlp_with_gradients, picture

import chainrule as cr
from chainrule.errors import InputError
from chainrule.explain.drawing.drawing import draw
from chainrule.explain.drawing.lettering import Face, ems, pieces, shortened

HOSTILE = (
    "<script>alert(1)</script>",
    "a\"b'c&d",
    "]]></title><svg onload=x>",
    r"\input{x}$x_1^2$%",
    "nul\x00bell\x07\x1b[31m",
    "end\n-->\n```",
    "a;b|c{d}[e](f)",
    "\ud800",
)
STRING = r'"(?:[^"\\]|\\.)*"'


def hostile() -> cr.Graph:
    """A graph whose values have all these names."""
    graph = cr.trace(lambda params: sum(np.sum(p * p) for p in params.values()),
                     params={f"k{i}": np.zeros(3) for i in range(len(HOSTILE))})  # fmt: skip
    new = {f"params.k{i}": name for i, name in enumerate(HOSTILE)}
    return graph.replace(
        name=HOSTILE[0],
        names={new.get(name, name): node for name, node in graph.names.items()},
        inputs=tuple(
            type(item)(new.get(item.name, item.name), item.node, item.default)
            for item in graph.inputs
        ),
        structures={},
    )


def statements(dot: str) -> list[tuple[str, ...]]:
    """DOT taken apart strictly: every line is one of a few forms, strings end where they should."""
    attributes = rf"\[\w+={STRING}(?:, \w+={STRING})*\]"
    forms = (
        rf"digraph ({STRING}) \{{",
        rf"subgraph ({STRING}) \{{",
        r"rankdir=LR;",
        rf"node {attributes};",
        rf"label={STRING}; color={STRING}; (?:labeljust|style)={STRING};",
        rf"({STRING}) -> ({STRING})(?: {attributes})?;",
        rf"({STRING}) {attributes};",
        r"\}",
    )
    found = []
    for line in dot.splitlines():
        matches = [m for form in forms if (m := re.fullmatch(form, line.strip()))]
        assert matches, line
        found.append((matches[0].re.pattern[:8], *matches[0].groups()))
    assert dot.count("{\n") == sum(1 for one in found if one[0] == r"\}")
    return found


def test_hostile_names_harm_no_format():
    drawn = draw(hostile())
    svg = drawn.svg()
    ElementTree.fromstring(svg)
    assert "<script" not in svg.lower() and "onload=x>" not in svg.replace("&gt;", "")
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff]", svg)
    statements(drawn.dot())
    mermaid = drawn.mermaid()
    for line in mermaid.splitlines():
        assert line.count('"') in (0, 2), line
        inside = re.findall('"([^"]*)"', line)
        assert all(not set(one) & set("<>`$\\{}|[]()") for one in inside), line


def test_every_hostile_name_is_in_its_tooltip():
    tips = "\n".join(box.tip for box in picture(draw(hostile()).svg()).boxes)
    for name in HOSTILE:
        shown = re.sub("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", "\ufffd", name)
        assert shown in tips, name


def test_dot_has_every_box_and_every_arrow():
    drawn = draw(mlp_with_gradients())
    found = statements(drawn.dot())
    figure = drawn.scene.figure
    arrows = [one[1:] for one in found if len(one) == 3]
    links = [*figure.forward.links, *figure.backward.links, *figure.kept]
    assert sorted(arrows) == sorted((f'"{one.source}"', f'"{one.target}"') for one in links)


def test_mermaid_has_every_box_and_every_arrow():
    drawn = draw(mlp_with_gradients())
    lines = drawn.mermaid().splitlines()
    figure = drawn.scene.figure
    assert sum(" --> " in line for line in lines) == len(figure.forward.links) + len(
        figure.backward.links
    )
    assert sum(" -.-> " in line for line in lines) == len(figure.kept)
    assert sum(":::" in line for line in lines) == len(figure.forward.items) + len(
        figure.backward.items
    )


def test_two_drawings_on_one_page_share_no_id():
    ids = [set(re.findall(r' id="([^"]+)"', draw(g).svg())) for g in (mlp(), mlp_with_gradients())]
    assert ids[0] and not ids[0] & ids[1]


@pytest.mark.parametrize("ending", ["svg", "dot", "gv", "mmd"])
def test_saving_writes_one_file(tmp_path, ending):
    drawn = draw(mlp())
    drawn.save(tmp_path / f"graph.{ending}")
    assert os.listdir(tmp_path) == [f"graph.{ending}"]
    text = (tmp_path / f"graph.{ending}").read_text(encoding="utf-8")
    form = {"svg": drawn.svg, "mmd": drawn.mermaid}.get(ending, drawn.dot)
    assert text == form()


def test_a_name_may_be_as_long_as_the_folder_takes_it(tmp_path):
    path = tmp_path / ("語" * 80 + ".svg")  # 244 bytes
    draw(mlp()).save(path)
    assert os.listdir(tmp_path) == [path.name]


def test_what_cannot_be_written_is_explained_and_leaves_nothing(tmp_path):
    drawn = draw(mlp())
    with pytest.raises(InputError, match=r"cannot be written as \.png") as caught:
        drawn.save(tmp_path / "graph.png")
    assert "graph.svg" in str(caught.value)
    with pytest.raises(InputError, match="a file without an ending"):
        drawn.save(tmp_path / "graph")
    missing = tmp_path / "no" / "graph.svg"
    with pytest.raises(InputError, match="cannot write to") as caught:
        drawn.save(missing)
    assert str(missing) in str(caught.value) and "try:" in str(caught.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        drawn.save(tmp_path / "file" / "graph.svg")
    (tmp_path / "graph.svg").mkdir()
    with pytest.raises(InputError, match="cannot write to"):
        drawn.save(tmp_path / "graph.svg")
    assert sorted(os.listdir(tmp_path)) == ["file", "graph.svg"]


def test_notebooks_get_a_picture_that_survives_distrust():
    drawn = draw(mlp())
    bundle = drawn._repr_mimebundle_()
    image = re.fullmatch(
        r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)" style="max-width:100%">',
        bundle["text/html"],
    )
    assert image is not None
    assert base64.b64decode(image[1]).decode() == drawn.svg() == bundle["image/svg+xml"]
    assert bundle["text/plain"] == "Computational graph of objective: 10 variables, 6 operators"


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_themes_differ_only_in_their_colours(theme):
    svg = draw(mlp(), theme=theme).svg()
    assert ("prefers-color-scheme" in svg) == (theme == "auto")
    assert ("#15181d" in svg) == (theme != "light")


def test_words_stay_in_their_boxes():
    long = "a_very_long_name_of_an_array_that_no_square_can_hold"
    scope: dict = {"np": np}
    exec(f"def f({long}):\n    J = np.sum({long})\n    return J\n", scope)
    svg = draw(cr.trace(scope["f"], np.zeros(3))).svg()
    (box,) = [one for one in picture(svg).of("variable") if "…" in one.text]
    assert box.right - box.left <= 170
    assert long in box.tip
    line = pieces(long, Face.UPRIGHT)
    assert ems(shortened(line, 5.0)) <= 5.0 < ems(line)
