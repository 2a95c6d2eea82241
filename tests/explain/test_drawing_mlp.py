"""The network of the README, drawn with defaults, is the figure of the book; read from the SVG."""

from __future__ import annotations

import pytest
from drawings import Picture, mlp, mlp_with_gradients, picture

from chainrule.explain.drawing.drawing import draw


@pytest.fixture(scope="module")
def forward() -> Picture:
    return picture(draw(mlp()).svg())


@pytest.fixture(scope="module")
def both() -> Picture:
    return picture(draw(mlp_with_gradients()).svg())


def test_the_forward_pass_has_the_ten_squares_and_six_circles_of_the_book(forward):
    squares = sorted(box.text for box in forward.of("variable", "parameter"))
    assert squares == sorted(["x", "z", "h", "o", "L", "J", "s", "y", "W1", "W2"])
    assert sorted(box.text for box in forward.of("operator")) == [*sorted("×φ×ℓ+"), "ℓ2"]


def test_they_are_arranged_as_in_the_book(forward):
    """The spine in one row to the right; parameters and labels above it; s above ℓ2; J at the
    upper right."""

    def at(text, *roles):
        return forward.named(text, *roles or ("variable", "parameter")).middle

    spine = [at(text) for text in ("x", "z", "h", "o")]
    assert [y for _, y in spine] == [spine[0][1]] * 4
    assert [x for x, _ in spine] == sorted(x for x, _ in spine)
    for above, below in (("W1", "z"), ("W2", "o"), ("y", "J")):
        assert at(above)[0] < at(below)[0]
        assert at(above)[1] < spine[0][1]
    assert at("W1")[1] == at("W2")[1] == at("ℓ2", "operator")[1]
    assert at("s")[0] == at("ℓ2", "operator")[0] and at("s")[1] < at("ℓ2", "operator")[1]
    assert at("J")[1] == at("s")[1] == at("+", "operator")[1]
    assert at("J")[0] == max(box.middle[0] for box in forward.boxes)
    assert at("L")[1] < spine[0][1]


def test_forward_arrows_go_right_or_up_but_for_what_hangs_beside_the_flow(forward):
    arrows = forward.arrows("forward")
    assert len(arrows) == 17
    for source, target in arrows:
        beside = source.text in ("W1", "W2", "y")
        right = target.middle[0] > source.middle[0]
        up = target.middle[0] == source.middle[0] and target.middle[1] < source.middle[1]
        assert beside or right or up, (source.text, target.text)


def test_arrows_are_the_reads_and_writes_of_the_program(forward):
    found = sorted((source.text, target.text) for source, target in forward.arrows("forward"))
    assert found == sorted(
        [
            ("x", "×"), ("W1", "×"), ("×", "z"), ("z", "φ"), ("φ", "h"), ("h", "×"), ("W2", "×"),
            ("×", "o"), ("o", "ℓ"), ("y", "ℓ"), ("ℓ", "L"), ("W1", "ℓ2"), ("W2", "ℓ2"),
            ("ℓ2", "s"), ("s", "+"), ("L", "+"), ("+", "J"),
        ]
    )  # fmt: skip


def test_nothing_lies_on_anything(forward, both):
    for one in (forward, both):
        assert one.overlaps() == []
        assert one.crossings() == []
        for box in one.boxes:
            assert 0 <= box.left and box.right <= one.width
            assert 0 <= box.top and box.bottom <= one.height


def test_every_gradient_is_below_its_variable(both):
    pairs = dict(s="s", L="L", o="o", h="h", z="z", W1="W1", W2="W2")
    gradients = both.of("gradient", "parameter-gradient")
    assert sorted(box.text for box in gradients) == sorted(f"∂J/∂{name}" for name in pairs)
    for name in pairs:
        variable = both.named(name, "variable", "parameter")
        gradient = both.named(f"∂J/∂{name}", "gradient", "parameter-gradient")
        assert variable.middle[0] == gradient.middle[0]
        assert variable.bottom < gradient.top
    for box in both.of("backward"):
        above = [one for one in both.of("operator") if one.middle[0] == box.middle[0]]
        assert box.text.removesuffix("′") in [one.text for one in above]


def test_backward_arrows_are_the_chain_rule(both):
    found = sorted((source.text, target.text) for source, target in both.arrows("backward"))
    assert found == sorted(
        [
            ("+′", "∂J/∂L"), ("+′", "∂J/∂s"), ("∂J/∂L", "ℓ′"), ("ℓ′", "∂J/∂o"), ("∂J/∂o", "×′"),
            ("×′", "∂J/∂h"), ("×′", "∂J/∂W2"), ("∂J/∂h", "φ′"), ("φ′", "∂J/∂z"), ("∂J/∂z", "×′"),
            ("×′", "∂J/∂W1"), ("∂J/∂s", "ℓ2′"), ("ℓ2′", "∂J/∂W1"), ("ℓ2′", "∂J/∂W2"),
        ]
    )  # fmt: skip


def test_dashed_arrows_are_the_values_that_the_backward_pass_reads(both):
    found = sorted((source.text, target.text) for source, target in both.arrows("saved"))
    assert found == sorted(
        [
            ("x", "×′"), ("z", "φ′"), ("h", "×′"), ("W2", "×′"), ("y", "ℓ′"), ("ℓ", "ℓ′"),
            ("W1", "ℓ2′"), ("W2", "ℓ2′"),
        ]
    )  # fmt: skip


def test_circles_are_numbered_in_the_order_of_the_program(both):
    svg = draw(mlp_with_gradients()).svg()
    assert [f">{number}</text>" in svg for number in range(1, 13)] == [True] * 12
    assert ">13</text>" not in svg
    assert both.notes == (
        "forward →",
        "← backward (gradients of J; dashed: values saved by the forward pass)",
    )


def test_the_words_for_screen_readers_tell_the_graph(both):
    assert both.title == "Computational graph of objective"
    assert "10 variables and 6 operators" in both.description
    assert "7 gradients" in both.description
    assert "L from o, y" in both.description


def test_a_tooltip_has_name_type_bytes_formula_and_line(both):
    tip = both.named("z", "variable").tip
    assert "z: float32[n, 256], 1024·n bytes" in tip
    assert "z = x W₁" in tip
    assert "drawings.py:" in tip and "z = x @ W1" in tip
