"""Names as mathematics: Unicode and LaTeX, with nothing of a user's text left unescaped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, NameLookupError
from chainrule.explain.reading.symbols import Notation, escape, notation_of, parted

PLAIN = Notation(arrays=frozenset({"W1", "W_xh", "x", "x_dot"}))


@pytest.mark.parametrize(
    ("name", "text", "latex"),
    [
        ("z", "z", "z"),
        ("x", "x", r"\mathbf{x}"),
        ("W1", "W₁", r"\mathbf{W}_{1}"),
        ("h_1", "h₁", "h_{1}"),
        ("layer12", "layer₁₂", r"\mathrm{layer}_{12}"),
        ("alpha", "α", r"\alpha"),
        ("lambda_", "λ", r"\lambda"),
        ("beta2", "β₂", r"\beta_{2}"),
        ("x_dot", "x\u0307", r"\dot{\mathbf{x}}"),
        ("J_bar", "J\u0304", r"\bar{J}"),
        ("W_xh", "W_xh", r"\mathbf{W}_{\mathrm{xh}}"),
        ("weight_decay", "weight_decay", r"\mathrm{weight\_decay}"),
        ("params.layer1.W", "params.layer1.W", r"\mathrm{params.layer1.W}"),
        ("dJ/dz", "∂J/∂z", r"\frac{\partial J}{\partial z}"),
        ("dJ/dW1", "∂J/∂W₁", r"\frac{\partial J}{\partial \mathbf{W}_{1}}"),
        (
            "dJ/d(params.W)",
            "∂J/∂params.W",
            r"\frac{\partial J}{\partial \mathrm{params.W}}",
        ),
        (
            "d(dJ/dW1)/dx",
            "∂(∂J/∂W₁)/∂x",
            r"\frac{\partial (\partial J / \partial \mathbf{W}_{1})}{\partial \mathbf{x}}",
        ),
    ],
)
def test_a_name_is_written_as_textbooks_do(name: str, text: str, latex: str):
    assert PLAIN.text(name) == text
    assert PLAIN.latex(name) == latex


def test_numbers_can_stand_above_as_in_the_book_or_stay():
    above = Notation("superscript", arrays=frozenset({"W1"}))
    assert (above.text("W1"), above.latex("W1")) == ("W⁽¹⁾", r"\mathbf{W}^{(1)}")
    assert above.text("h_1") == "h₁"  # h, assigned again
    assert (Notation("plain").text("W1"), Notation("plain").latex("W1")) == ("W1", r"\mathrm{W1}")


def test_symbols_replace_names_and_are_plain_text():
    given_ = Notation(symbols={"weight_decay": "λ", "rate": r"\input{x}"})
    assert (given_.text("weight_decay"), given_.latex("weight_decay")) == ("λ", r"\lambda")
    assert given_.latex("rate") == r"\mathrm{\backslash input\{x\}}"


def test_a_gradient_of_an_array_names_what_it_was_multiplied_with():
    def f(x: float64[3]):
        y = np.exp(x)
        return y

    graph = cr.backward(cr.trace(f), wrt="x", seed="v")
    notation = notation_of(graph)
    assert notation.text("dy/dx") == "∂⟨v, y⟩/∂x"
    assert notation.latex("dy/dx") == (
        r"\frac{\partial \langle \mathbf{v}, \mathbf{y} \rangle}{\partial \mathbf{x}}"
    )


def test_no_two_names_of_a_graph_look_alike():
    def f(h1: float64[3]):
        h = h1 * 2
        h = h + 1
        beta = h * h
        β = beta + h
        return β

    graph = cr.trace(f)
    shown = [notation_of(graph).text(name) for name in graph.names]
    assert sorted(shown) == sorted(graph.names) != []
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("dJ/dW", ("J", "W")),
        ("d(dJ/dW)/dx", ("dJ/dW", "x")),
        ("dJ/d(a.b)", ("J", "a.b")),
        ("d", None),
        ("data", None),
        ("d/d", None),
        ("a/dx", None),
        ("d.a/dx", None),
        ("W_grad_sum", None),
        ("d(a/dx", None),
    ],
)
def test_the_name_of_a_derivative_is_taken_apart(name: str, parts: tuple[str, str] | None):
    assert parted(name) == parts


def test_a_derivative_of_high_order_is_no_deep_recursion():
    name = "J"
    for _ in range(3000):
        name = f"d({name})/dx"
    assert PLAIN.text(name).startswith("∂(")
    assert PLAIN.latex(name).startswith(r"\frac{")


def unescaped(latex: str) -> list[str]:
    """Characters that TeX would act on, outside of a backslash and its command."""
    found, place = [], 0
    while place < len(latex):
        if latex[place] == "\\":
            place += 2
            continue
        if latex[place] in "#$%&~^\\":
            found.append(latex[place])
        place += 1
    return found


@pytest.mark.slow
@given(st.text(max_size=30))
def test_escaped_text_holds_no_active_character_and_its_braces_match(text: str):
    latex = escape(text)
    assert unescaped(latex) == []
    depth, place = 0, 0
    while place < len(latex):
        if latex[place] == "\\":
            place += 2
            continue
        depth += (latex[place] == "{") - (latex[place] == "}")
        assert depth >= 0
        place += 1
    assert depth == 0
    assert latex.isprintable() or "\u200b" in text or not text.isprintable()


def test_what_a_terminal_would_obey_is_not_printed():
    assert PLAIN.text("a\x1b[31m\n1") == r"a\x1b[31m\n₁"


@pytest.mark.slow
@given(st.text(min_size=1, max_size=12))
def test_any_name_has_a_notation_without_active_characters(name: str):
    latex = PLAIN.latex(name)
    allowed = {"^"} if "^{" in latex else set()
    assert set(unescaped(latex)) <= allowed
    assert PLAIN.text(name) != ""


@pytest.mark.parametrize(
    ("symbols", "what"),
    [
        ({"x": 3}, "the symbol of x is a text, got 3"),
        ({"x": ""}, "the symbol of x is a text, got ''"),
        ({1: "x"}, "symbols has a symbol for 1, which is no name"),
        (["x"], "symbols=['x'] is no mapping"),
        (5, "symbols=5 is no mapping"),
    ],
)
def test_symbols_that_are_no_texts_by_names_are_refused(symbols: Any, what: str):
    graph = cr.trace(lambda x: x * 2, float64[3])
    with pytest.raises(InputError) as caught:
        notation_of(graph, symbols=symbols)
    assert caught.value.what == what
    assert caught.value.hint == "texts by names, such as symbols={'x': 'λ'}"


def test_a_symbol_for_a_name_that_is_not_there_is_refused():
    graph = cr.trace(lambda width: width * 2, float64[3])
    with pytest.raises(NameLookupError, match="no value called 'widht'") as caught:
        notation_of(graph, symbols={"widht": "w"})
    assert "one of: width" in str(caught.value)
