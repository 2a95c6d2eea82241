"""Layouts of known figures: the book's arrangement to the pixel, and what each rule says."""

from __future__ import annotations

import itertools

import pytest
from layout_faults import faults
from layout_figures import MLP, MLP_BOTH, band, copy_of, gradient, mirrored

from chainrule.explain.drawing.figure import Band, Figure, Form, Group, Item, Link, Placement
from chainrule.explain.drawing.layout import place

# Columns and rows of the figure in the book; 88 and 96 pixels apart.
BOOK = dict(
    x=(0, 0), m1=(1, 0), z=(2, 0), phi=(3, 0), h=(4, 0), m2=(5, 0), o=(6, 0), l=(7, 0),
    W1=(1, 1), W2=(5, 1), y=(7, 1), l2=(3, 1), L=(8, 1), s=(3, 2), J=(10, 2),
) | {"+": (9, 2)}  # fmt: skip


def laid_out(figure: Figure) -> Placement:
    """A placement without faults."""
    placement = place(figure)
    assert faults(figure, placement) == []
    return placement


def columns_and_rows(placement: Placement, lowest: float) -> dict[str, tuple[float, float]]:
    """Cells of the book's grid; row 0 has its middle at `lowest`."""
    return {
        key: ((box.centre[0] - 56) / 88, (lowest - box.centre[1]) / 96)
        for key, box in placement.boxes.items()
    }


def test_the_network_of_the_book_stands_as_in_the_book() -> None:
    placement = laid_out(Figure(MLP))
    assert columns_and_rows(placement, 270) == BOOK
    assert (placement.width, placement.height) == (992, 348)
    assert all(len(arrow.points) == 2 for arrow in placement.arrows)


def test_the_backward_band_is_the_mirror_image() -> None:
    placement = laid_out(MLP_BOTH)
    mirror = {gradient(key): (column, -row) for key, (column, row) in BOOK.items()}
    found = columns_and_rows(placement, 438)
    assert {key: found[key] for key in mirror if key in found} == {
        key: cell for key, cell in mirror.items() if key not in ("dx", "dy")
    }
    assert (placement.width, placement.height) == (992, 708)
    assert placement.spans == ((52, 296), (368, 656))


def test_values_near_by_are_kept_by_an_arrow_and_others_by_a_copy() -> None:
    placement = laid_out(MLP_BOTH)
    direct = {(one.source, one.target) for one in placement.arrows if one.kept}
    assert {("x", "dm1"), ("z", "dphi"), ("h", "dm2"), ("o", "dl")} <= direct
    assert [one.source for one in placement.copies] == ["W1", "W2", "y", "W2", "W1"]
    beside = placement.boxes["W1 for m1"].centre
    assert beside == (204, 385)


def test_the_backward_band_alone_has_the_same_shape() -> None:
    both = laid_out(MLP_BOTH)
    alone = laid_out(
        Figure(MLP, MLP_BOTH.backward, MLP_BOTH.under, MLP_BOTH.kept, hide_forward=True)
    )
    first, second = both.boxes["dJ"], alone.boxes["dJ"]
    for key in (item.key for item in MLP_BOTH.backward.items):
        assert both.boxes[key].x - first.x == alone.boxes[key].x - second.x
        assert both.boxes[key].y - first.y == alone.boxes[key].y - second.y
    assert len(alone.spans) == 1 and len(alone.copies) == len(MLP_BOTH.kept)


def test_biases_stand_beside_the_weights() -> None:
    figure = band(
        "x m1, W1 m1, b1 m1, m1 z, z phi, phi h, h m2, W2 m2, b2 m2, m2 o, o l, y l, l L,"
        "W1 l2, W2 l2, l2 s, L +, s +, + J",
        "m1 phi m2 l l2 +",
        "W1 W2 b1 b2 y",
    )
    cells = columns_and_rows(laid_out(Figure(figure)), 270)
    assert cells["b1"] == (1, 1) and cells["b2"] == (5, 1)
    assert cells["W1"] == (2, 1) and cells["W2"] == (4, 1)
    assert cells["l2"] == (3, 1) and cells["s"] == (3, 2) and cells["J"] == (10, 2)


def test_with_three_layers_the_penalty_stands_above_the_weight_in_the_middle() -> None:
    figure = band(
        "x m1, W1 m1, m1 a, a m2, W2 m2, m2 b, b m3, W3 m3, m3 c, W1 l2, W2 l2, W3 l2, l2 s,"
        "c +, s +, + J",
        "m1 m2 m3 l2 +",
        "W1 W2 W3",
    )
    cells = columns_and_rows(
        laid_out(Figure(figure)), laid_out(Figure(figure)).boxes["x"].centre[1]
    )
    assert cells["W2"] == (3, 1) and cells["l2"] == (3, 2) and cells["s"] == (3, 3)


def test_a_residual_block_rises_where_its_branch_joins() -> None:
    figure = band("x f, W f, f h, h +, x +, + y", "f +", "W")
    placement = laid_out(mirrored(figure, (), "x f, W f"))
    heights = {key: placement.boxes[key].centre[1] for key in ("x", "f", "h", "+", "y")}
    assert heights["x"] == heights["f"] > heights["h"] > heights["+"] == heights["y"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x f",
        "x f, f y, y g, x g, g z",
        "x f, x g, f a, g b, a h, b h, h y",
        ", ".join(f"x f{i}, f{i} v{i}, v{i} join" for i in range(40)) + ", join y",
        ", ".join(f"v{i} f{i}, f{i} v{i + 1}" for i in range(100)),
        "x f, f y, a g, g b",
        "a f, b f, c f, d f, f y, a g, d g, g z, z h, y h, h r",
        ", ".join(f"v{i} f{i}, f{i} v{i + 1}, v{i} f{9 - i}" for i in range(4))
        + ", "
        + ", ".join(f"v{i} f{i}, f{i} v{i + 1}" for i in range(4, 10)),
    ],
    ids=["empty", "pair", "triangle", "diamond", "wide", "long", "two", "leaves", "nested"],
)
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
def test_small_figures_have_no_faults(text: str, both: bool) -> None:
    keys = text.replace(",", " ").split()
    circles = " ".join(key for key in keys if key[0] in "fghj")
    forward = band(text, circles, "a c d" if " c f" in text else "")
    laid_out(mirrored(forward) if both else Figure(forward))


def test_one_item_stands_in_the_middle_of_its_margins() -> None:
    placement = laid_out(Figure(Band((Item("x", Form.SQUARE),), ())))
    assert (placement.width, placement.height) == (52 + 60, 52 + 104)


def test_an_empty_figure_has_a_size() -> None:
    placement = laid_out(Figure(Band((), ())))
    assert placement.boxes == {} and placement.width > 0 and placement.height > 0


def test_further_bands_stand_below() -> None:
    tangent = band("p q, q r", "q")
    placement = laid_out(Figure(MLP, MLP_BOTH.backward, MLP_BOTH.under, MLP_BOTH.kept, (tangent,)))
    assert len(placement.spans) == 3
    assert placement.boxes["p"].y > placement.boxes["dJ"].y


def test_many_kept_values_stand_in_a_line_and_the_rows_part() -> None:
    forward = band(
        "x f, a f, f z, z g, b g, c g, d g, e g, g y, x y2, y2 u, u j, y j, j r",
        "f g j y2",
        "a b c d e",
    )
    figure = mirrored(forward, (), "x f, a f, z g, b g, c g, d g, e g, u j, y j, x j, z j")
    placement = laid_out(figure)
    assert {one.source for one in placement.copies if one.target == "dg"} >= {*"bcde"}


def blocks(count: int) -> Band:
    """Residual blocks, each in a frame with a frame inside."""
    links, groups, circles = [], [], []
    for i in range(count):
        links += [
            f"v{i} f{i}, W{i} f{i}, f{i} h{i}, h{i} g{i}, g{i} k{i}, k{i} p{i}, v{i} p{i}",
            f"p{i} v{i + 1}",
        ]
        circles += [f"f{i}", f"g{i}", f"p{i}"]
        inner = Group(f"inner{i}", (f"g{i}", f"k{i}"), label_width=90, pattern="inner")
        own = (f"W{i}", f"f{i}", f"h{i}", f"p{i}", f"v{i + 1}")
        groups.append(Group(f"block{i}", own, (inner,), 60, "block"))
    beside = " ".join(f"W{i}" for i in range(count))
    return band(", ".join(links), " ".join(circles), beside, groups=tuple(groups))


def test_equal_groups_look_alike() -> None:
    laid_out(mirrored(blocks(3), (), "v0 f0, W0 f0, h1 g1, W2 f2"))
    placement = laid_out(Figure(blocks(3)))
    frames = [placement.groups[f"block{i}"] for i in range(3)]
    assert len({one.width for one in frames}) == 1
    for key in ("W", "f", "g", "p"):
        boxes = [placement.boxes[f"{key}{i}"] for i in range(3)]
        offsets = {round(box.x - one.x, 6) for box, one in zip(boxes, frames, strict=True)}
        assert len(offsets) == 1


def test_groups_in_one_row_are_equally_high() -> None:
    """However many stand beside each other."""
    links = "x f0, " + ", ".join(f"f{i} a{i}, a{i} f{i + 1}" for i in range(3)) + ", f3 a3"
    groups = tuple(Group(f"G{i}", (f"f{i}", f"a{i}")) for i in range(4))
    placement = laid_out(Figure(band(links, "f0 f1 f2 f3", groups=groups)))
    assert len({(one.y, one.height) for one in placement.groups.values()}) == 1


def test_a_value_comes_into_a_group_once() -> None:
    forward = band(
        "x f, x g, f a, g b, a h, b h, h y",
        "f g h",
        groups=(Group("G", ("f", "g", "a", "b", "h")),),
    )
    placement = laid_out(Figure(forward))
    left = placement.groups["G"].x
    ports = {
        y
        for arrow in placement.arrows
        if arrow.source == "x"
        for (x0, y), (x1, _) in zip(arrow.points, arrow.points[1:], strict=False)
        if x0 <= left <= x1
    }
    assert len(ports) == 1


def test_groups_that_close_a_ring_are_drawn() -> None:
    forward = band("x f, f a, a g, g b, b h, h y", "f g h", groups=(Group("G", ("f", "a", "h")),))
    placement = place(Figure(forward))
    found = [one for one in faults(Figure(forward), placement) if "goes left or down" not in one]
    assert found == []


def test_a_gradient_that_no_forward_arrow_mirrors_is_routed() -> None:
    forward = band("x f, f y, y g, g z, z h, h r", "f g h")
    figure = mirrored(forward)
    extra = (*figure.backward.links, Link("dr", "dy"), Link("dy", "dz"))
    laid_out(
        Figure(forward, Band(figure.backward.items, extra), figure.under, (copy_of("x", "h"),))
    )


def test_the_same_figure_has_the_same_placement() -> None:
    assert place(MLP_BOTH) == place(MLP_BOTH)
    assert place(Figure(blocks(4))) == place(Figure(blocks(4)))


def test_a_deep_nest_of_groups_is_laid_out() -> None:
    group = Group("g0", ("f",))
    for depth in range(1, 1100):
        group = Group(f"g{depth}", (), (group,))
    placement = place(Figure(band("x f, f y", "f", groups=(group,))))
    assert len(placement.groups) == 1100


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.exhaustive)])
def test_a_long_chain_is_laid_out(count: int) -> None:
    keys = [f"{'f' if place % 2 else 'v'}{place}" for place in range(count)]
    items = tuple(Item(key, Form.CIRCLE if key[0] == "f" else Form.SQUARE) for key in keys)
    links = tuple(Link(*pair) for pair in itertools.pairwise(keys))
    placement = place(Figure(Band(items, links)))
    assert placement.width == count * 88 + 24
