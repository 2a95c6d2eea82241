"""What circles and squares say: axes, numbers, penalties, names that are too long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawings import picture
from thirteen_programs import PROGRAMS

import chainrule as cr
from chainrule import float64, int64
from chainrule.explain.drawing.drawing import draw
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.lettering import Face, ems, pieces, shortened
from chainrule.explain.drawing.scene import Wishes, scene_of


def labels(graph: cr.Graph, **wishes: Any) -> dict[str, str]:
    """What the circle of each value says, and after a bar its formula in the tooltip."""
    looks = scene_of(graph, Wishes(fold="none", **wishes)).looks
    return {
        key.removeprefix("operator "): f"{look.label.text} | {look.tip.splitlines()[1]}"
        for key, look in looks.items()
        if key.startswith("operator ")
    }


def along_axes(x: float64["n d"], t: float64["n d k"], i: int64["n"]):
    rows = np.sum(x, axis=1)
    total = np.sum(x)
    kept = np.sum(x, axis=0, keepdims=True)
    outer = np.sum(t, axis=(0, 2))
    largest = np.max(x, axis=-1)
    place = np.argmax(x, axis=0)
    mean = np.mean(x, axis=0)
    norm = np.linalg.norm(x, axis=1)
    inside = 1 + np.sum(np.exp(x), axis=1)
    beside = np.concatenate([x, x], axis=1)
    three = np.concatenate([x, x, x], axis=0)
    stacked = np.stack([x, x], axis=1)
    usual = cr.softmax(x)
    last = cr.softmax(x, axis=1)
    first = cr.softmax(x, axis=0)
    whole = cr.logsumexp(x, axis=None)
    matrix = x.T
    turned = np.transpose(t, (2, 0, 1))
    flat = np.reshape(x, (-1,))
    longer = x[:, None]
    line = np.sum(rows, axis=0)
    return (rows, total, kept, outer, largest, place, mean, norm, inside, beside, three,
            stacked, usual, last, first, whole, matrix, turned, flat, longer, line)  # fmt: skip


def test_axes_are_an_index_where_an_operation_is_not_along_all():
    assert labels(cr.trace(along_axes)) == {
        "rows": "Σ1 | rows = Σ₁ x",
        "total": "Σ | total = Σ x",
        "kept": "Σ0 | kept = Σ₀ x",
        "outer": "Σ_{0,2} | outer = Σ₀,₂ t",
        "largest": "max1 | largest = max₁(x)",
        "place": "argmax0 | place = argmax₀(x)",
        "mean": "mean0 | mean = mean₀(x)",
        "norm": "norm1 | norm = norm₁(x)",
        "inside": "1 + Σ1 exp(x) | inside = 1 + Σ₁ exp(x)",
        "beside": "[ ]1 | beside = [x, x]₁",
        "three": "[ ]0 | three = [x, x, x]₀",
        "stacked": "[ ]1 | stacked = [x, x]₁",
        "usual": "softmax | usual = softmax(x)",
        "last": "softmax | last = softmax(x)",
        "first": "softmax0 | first = softmax₀(x)",
        "whole": "logsumexp_{0,1} | whole = logsumexp₀,₁(x)",
        "matrix": "⊤ | matrix = xᵀ",
        "turned": "⊤_{2,0,1} | turned = tᵀ₂,₀,₁",
        "flat": "reshape | flat = reshape(x)",
        "longer": "reshape | longer = reshape(x)",
        "line": "Σ | line = Σ rows",
    }


def test_axes_are_lowered_in_the_picture_and_shown_on_single_primitives():
    graph = cr.trace(along_axes)
    assert 'dy="' in draw(graph).svg().split(">Σ<")[1][:40]
    assert labels(graph, detail="primitives")["rows"].startswith("Σ1 |")


def test_a_penalty_is_the_sign_of_one_only_where_nothing_is_added_to_it():
    def f(L: float64, W: float64["n d"], w: float64["d"], weight_decay=0.1):
        s = weight_decay / 2 * (np.sum(W**2) + np.sum(w * w))
        J = L + weight_decay * np.sum(W**2)
        a_loss_with_a_long_name = J + s
        K = a_loss_with_a_long_name + np.sum(W**2) / 2
        D = np.sum(W**2) - L
        return K, D

    shown = {name: text.partition(" | ")[0] for name, text in labels(cr.trace(f)).items()}
    assert (shown["s"], shown["J"], shown["K"]) == ("ℓ2", "L + ℓ2", "· + ℓ2")
    assert shown["D"] == "Σ W2 − L"


def test_numbers_stand_before_what_they_multiply_and_for_themselves():
    factor = np.array([2.0, 4.0])

    def f(x: float64["n"], a_very_long_name_of_an_array: float64["n"]):
        doubled = x * 2
        z = np.sum(factor) * x
        ones = np.ones_like(x)
        part = a_very_long_name_of_an_array / 4
        return doubled, z, ones, part

    shown = {name: text.partition(" | ")[0] for name, text in labels(cr.trace(f)).items()}
    assert shown == {"doubled": "2 x", "z": "6 x", "ones": "1", "part": "· / 4"}


def test_what_is_made_because_of_a_composite_is_not_the_composite():
    def f(x: float64["n d"], w: float64["d"]):
        J = np.mean((x @ w) ** 2)
        return J

    step = cr.training_step(f, "w", cr.sgd(0.1))
    parts = step.micro_batched(2)
    assert labels(step.graph)["J"].startswith("mean(")
    assert labels(parts.updating.graph)["J"] == "J_sum / 2 | J = J_sum / 2"
    assert labels(parts.accumulating.graph)["J_sum_next"].startswith("+ |")


def test_long_names_are_cut_in_the_middle_so_that_they_stay_apart():
    one, other = (pieces(f"weight_of_the_{end}_layer_next", Face.UPRIGHT) for end in ("in", "out"))
    both = [shortened(line, 8.0) for line in (one, other)]
    texts = ["".join(piece.text for piece in line) for line in both]
    assert all(ems(line) <= 8.0 for line in both)
    assert all(text.startswith("weight") and text.endswith("_next") for text in texts)
    indexed = shortened(pieces("a_name_of_a_weight_that_is_long₁₂", Face.UPRIGHT), 6.0)
    assert [(piece.text, piece.level) for piece in indexed][-1] == ("12", -1)
    assert shortened(one, 99.0) == one


def test_words_on_the_bands_lie_on_nothing():
    def f(x: float64["n"]):
        a = np.sin(x)
        b = np.cos(x)
        c = np.exp(x)
        d = np.tanh(x)
        e = a * b
        g = c * d
        J = np.sum(e + g)
        return J

    def with_unused(x: float64["n"], y: float64["n"], u: float64["n"], v: float64["n"]):
        z = x * x
        J = np.sum(np.tanh(z) + z)
        return J

    for function in (f, with_unused):
        shown = picture(draw(cr.backward(cr.trace(function), wrt="x")).svg())
        for note in shown.words:
            assert 0 <= note.left and note.right <= shown.width and note.bottom <= shown.height
            assert not [box.text for box in shown.boxes if box.overlaps(note)]


def circles(name: str) -> dict[str, str]:
    """What stands in the circles of one of the thirteen programs, by the values they compute."""
    made = PROGRAMS[name]()
    graph = made if isinstance(made, cr.Graph) else made.graph
    looks = draw(graph, fold="none").scene.looks
    found = [(key, look) for key, look in looks.items() if look.form is Form.CIRCLE]
    shown = {key.partition(" ")[2]: look for key, look in found if "back" not in key}
    return {key: " ".join((look.label.text, *look.captions)) for key, look in shown.items()}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [*PROGRAMS])
def test_no_operator_is_called_f(name: str) -> None:
    assert not {"f", "f′", ""} & set(circles(name).values())


def test_a_product_in_a_sum_and_the_sum_are_circles_of_their_own() -> None:
    assert [*circles("book with bias").values()][:5] == ["×", "+", "φ sigmoid", "×", "+"]
    gates = circles("GRU")
    assert gates["cell.z_t"] == "φ sigmoid" and [*gates.values()].count("+") >= 3
    assert gates["cell.s_t"] == "· ⊙ · + · ⊙ ·"


def functions(x: float64["n d"], w: float64["n d"]):
    a = np.exp(x)
    b = np.sqrt(a)
    c = cr.leaky_relu(b)
    d = np.maximum(c, 0)
    e = 1 / (1 + np.exp(-d))
    f = np.abs(e) + np.abs(e) ** 3
    g = np.log10(f)
    h = cr.log_sigmoid(g.T).T
    i = np.tanh(h) * w
    J = np.tanh(np.sum(cr.softmax(i)))
    return J


def test_a_function_of_one_array_is_phi_with_its_name_below_the_circle():
    looks = draw(cr.trace(functions), fold="none").scene.looks
    shown = {key[9:]: (one.label.text, *one.captions) for key, one in looks.items()}
    named = {"a": "exp", "c": "leaky relu", "d": "max(·, 0)", "e": "1 / (1 + exp(−·))"}
    named |= {"f": "|·| + |·|³", "g": "log₁₀"}
    assert {key: shown[key] for key in named} == {key: ("φ", name) for key, name in named.items()}
    others = {"b": "√", "h": "log σ(g⊤)⊤", "i": "tanh(h) ⊙ w", "J": "tanh(Σ ·)"}
    assert {key: shown[key] for key in others} == {key: (sign,) for key, sign in others.items()}


def test_the_name_of_a_function_is_said_once_and_again_where_it_alone_is_left():
    graph = cr.backward(cr.trace(functions), wrt="x")
    both, alone = (
        picture(draw(graph, phase=one, width=None).svg()) for one in ("both", "backward")
    )
    assert [one.text for one in both.names][:2] == ["exp", "leaky relu"]
    assert {one.text for one in alone.names} >= {"exp′", "log₁₀′", "(leaky relu)′"}
    for one in (both, alone):
        assert one.overlaps() == [] and one.crossings() == []
    dot, mermaid = draw(graph).dot(), draw(graph).mermaid()
    assert 'label="φ\\nexp"' in dot and '(("φ exp"))' in mermaid


def test_operators_without_a_short_formula_say_their_outermost_operations() -> None:
    assert circles("batch-norm MLP")["normed"] == "normalise"
    assert circles("Hessian-vector product")["objective.L"] == "−mean(· + ·)"
    assert circles("while")["better.x_t"] == "(· + ·) / 2"


def test_a_convolution_says_its_window() -> None:
    def net(x: float64["n 3 8 8"], K1: float64["4 3 3 5"], K2: float64["4 4 1 1"]):
        c = cr.conv2d(x, K1, padding=1)
        h = cr.sigmoid(cr.conv2d(c, K2))
        J = np.sum(h)
        return J

    svg = cr.backward(cr.trace(net), wrt=("K1", "K2")).draw().svg()
    assert ">conv 3×5<" in svg and ">(conv 3×5)′<" in svg and ">σ(conv(K" in svg
