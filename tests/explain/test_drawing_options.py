"""What the options of `draw` change, and what is said about wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawings import chain, irregular, mlp, mlp_with_gradients, picture, traced

import chainrule as cr
from chainrule.errors import InputError, NameLookupError
from chainrule.explain.drawing.drawing import draw
from chainrule.explain.drawing.folding import MOST_BOXES
from chainrule.explain.drawing.signs import sign
from chainrule.primitives.registry import PRIMITIVES


def block(x, W):
    h = np.tanh(x @ W)
    return x + h


def network(x, Ws):
    for W in Ws:
        x = block(x, W)
    J = np.sum(x * x)
    return J


def blocks(count: int) -> cr.Graph:
    graph = cr.trace(network, x=np.zeros((2, 3)), Ws=[np.zeros((3, 3))] * count)
    return cr.backward(graph, wrt="Ws")


def test_phase_chooses_the_passes():
    graph = mlp_with_gradients()
    forward = picture(draw(graph, phase="forward").svg())
    backward = picture(draw(graph, phase="backward").svg())
    assert not forward.of("gradient", "backward") and len(forward.of("operator")) == 6
    assert not backward.of("operator", "variable", "parameter")
    assert len(backward.of("backward")) == 6
    assert {box.text for box in backward.of("copy")} >= {"x", "z", "h", "W2", "y", "W1"}
    assert backward.overlaps() == []


def test_primitives_are_drawn_alone_on_request():
    every = picture(draw(mlp(), detail="primitives").svg())
    one = picture(draw(mlp(), expand=("s",)).svg())
    signs = [box.text for box in one.of("operator")]
    assert signs.count("Σ") == 2 and signs.count("·2") == 2 and "ℓ2" not in signs
    assert len(every.of("operator")) > len(signs) > 6
    names = {"x", "z", "h", "o", "L", "J", "s", "y", "W1", "W2"}
    for drawn in (every, one):
        assert {box.text for box in drawn.of("variable", "parameter")} == names
        assert drawn.overlaps() == []


def test_shapes_and_bytes_are_written_into_the_squares():
    graph = mlp_with_gradients().bind(n=100)
    shown = picture(draw(graph, shapes=True, nbytes=True).svg())
    assert "W1/float32[784, 256]/784 KiB" in {box.text for box in shown.of("parameter")}
    assert shown.overlaps() == []
    svg = draw(graph, nbytes=True).svg()
    assert svg.count("stroke-width:5") == 1  # the widest dashed arrow carries the most bytes
    symbolic = picture(draw(mlp(), nbytes=True).svg())
    assert "z/1024·n bytes" in {box.text for box in symbolic.of("variable")}


def test_indices_and_symbols_change_the_notation():
    plain = draw(mlp(), indices="superscript", symbols={"x": "ξ"}).svg()
    assert "(1)" in plain and "ξ" in plain


def test_equal_blocks_fold_into_one_box():
    drawn = draw(blocks(40))
    shown = picture(drawn.svg())
    folds = [box for box in shown.boxes if "×40" in box.text]
    assert [box.text for box in folds] == ["block/×40", "block′/×40"]
    assert "40 operators" not in str(drawn)
    assert shown.overlaps() == [] and shown.crossings() == []


def test_few_boxes_are_not_folded_and_calls_are_framed():
    shown = picture(draw(blocks(2)).svg())
    assert not [box for box in shown.boxes if "×" in box.text and "/" in box.text]
    assert draw(blocks(2)).svg().count(">block</text>") == 4  # two calls, each with its mirror


def test_all_and_names_fold_calls():
    everything = draw(blocks(2), fold="all")
    by_name = draw(blocks(2), fold="block")
    for drawn in (everything, by_name):
        assert "2 folded" in str(drawn) or "4 folded" in str(drawn)
    assert "block" in picture(by_name.svg()).boxes[1].text or "block" in by_name.svg()


@pytest.mark.parametrize("program", [chain, irregular])
def test_long_programs_are_readable_by_default_and_whole_on_request(program):
    graph = program(400)
    short = draw(graph)
    figure = short.scene.figure
    assert len(figure.forward.items) <= MOST_BOXES
    whole = draw(graph, fold="none").scene.figure
    assert len(whole.forward.items) == 2 * 401 + 1


def test_equal_operations_that_are_wired_differently_are_no_repetition():
    lines = [f"v{i + 1} = v{i} + v{i * 7 // 11}" for i in range(200)]
    figure = draw(traced("v0", [*lines, "J = np.sum(v200)"])).scene
    texts = [caption for look in figure.looks.values() for caption in look.captions]
    assert "1–6 of 201" in texts and not any("×" in text for text in texts)


def test_parameters_that_are_read_far_apart_do_not_fill_the_drawing():
    def program(x, ws):
        for at in range(400):
            x = np.tanh(x * ws[at * 37 % 200]) if at % 3 else x + ws[at * at % 200]
        J = np.sum(x)
        return J

    graph = cr.trace(program, x=np.zeros(3), ws=[np.zeros(3)] * 200)
    assert len(draw(graph).scene.figure.forward.items) <= MOST_BOXES


def test_folds_hold_every_value_once():
    from chainrule.explain.drawing.bands import Builder
    from chainrule.explain.drawing.folding import Folder
    from chainrule.explain.drawing.units import Units
    from chainrule.explain.reading.statements import FORWARD, read

    units = Units(read(irregular(500)), "names")
    band = Builder(units, ()).band(FORWARD, list(units.all))
    folding = Folder(units, [band], None).folding("auto")
    folded = [unit for fold in folding.folds.values() for unit in fold.units]
    assert len(folded) == len(set(folded)) == 501


def test_every_primitive_has_a_sign():
    for primitive in PRIMITIVES:
        shown = sign(primitive)
        assert 0 < len(shown) <= 12, primitive
        assert not set(shown) & set("{}\\"), primitive


def test_second_order_and_updates_are_bands_of_their_own():
    graph = cr.backward(mlp_with_gradients(), of="dJ/dW1", wrt=("W2",), seed="v")
    shown = picture(draw(graph).svg())
    assert shown.notes[2].startswith("backward again")
    assert shown.overlaps() == []
    step = cr.training_step(
        network,
        wrt="Ws",
        optimizer=cr.sgd(0.1),
        x=np.zeros((2, 3)),
        Ws=[np.zeros((3, 3))],
    ).graph
    assert picture(draw(step).svg()).notes[-1].startswith("update")


def test_wrong_words_are_explained():
    graph = mlp()
    for argument, value in (("phase", "back"), ("detail", "all"), ("theme", "blue")):
        with pytest.raises(InputError, match=f"{argument}='{value}' is none of") as caught:
            draw(graph, **{argument: value})  # type: ignore[arg-type]
        assert f"try: {argument}=" in str(caught.value)
    with pytest.raises(InputError, match="no backward pass to draw") as caught:
        draw(graph, phase="backward")
    assert "cr.backward(graph, wrt=...)" in str(caught.value)
    with pytest.raises(InputError, match="nothing to fold is called 'layer'") as caught:
        draw(blocks(2), fold=("layer",))
    assert "block" in str(caught.value)
    with pytest.raises(NameLookupError, match="no value called 'nowhere'"):
        draw(graph, expand=("nowhere",))
    with pytest.raises(InputError, match="draw needs a graph, got int"):
        draw(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [5, None, True, b"all", [5], ["s", None]])
@pytest.mark.parametrize("argument", ["fold", "expand"])
def test_names_that_are_none_are_explained(argument: str, value: Any):
    with pytest.raises(InputError) as caught:
        draw(mlp(), **{argument: value})
    assert caught.value.what == f"{argument}={value!r} is neither a name nor several names"
    hints = {
        "fold": "one of 'auto', 'none', 'all', or names of functions that the program calls",
        "expand": "names of values, such as expand=['J']",
    }
    assert caught.value.hint == hints[argument]


@pytest.mark.parametrize("value", [None, 5, ["both"], np.array(["both", "forward"])])
def test_a_word_that_is_no_text_is_explained(value: Any):
    with pytest.raises(InputError) as caught:
        draw(mlp(), phase=value)
    assert caught.value.what == f"phase={value!r} is none of 'both', 'forward', 'backward'"


def test_symbols_are_for_names_of_the_graph():
    with pytest.raises(NameLookupError, match="no value called 'weight_decy'") as caught:
        draw(mlp(), symbols={"weight_decy": "λ"})
    assert "one of: weight_decay" in str(caught.value)
    with pytest.raises(InputError, match="the symbol of z is a text, got 3"):
        draw(mlp(), symbols={"z": 3})  # type: ignore[dict-item]


def test_updates_that_repeat_are_one_box_with_all_that_they_read():
    step = cr.training_step(
        network, "Ws", cr.sgd(0.1), x=np.zeros((2, 3)), Ws=[np.zeros((3, 3))] * 40
    )
    scene = draw(step.graph).scene
    (update,) = scene.figure.further
    texts = {key: (one.label.text, *one.captions) for key, one in scene.looks.items()}
    links = [(texts[one.source][0], texts[one.target][0]) for one in update.links]
    assert ("update", "×40") in [texts[item.key] for item in update.items]
    assert sorted(links) == [
        ("40 gradients", "update"),
        ("40 parameters", "update"),
        ("update", "40 new parameters"),
    ]
    assert scene.notes[-1] == "update → (dashed: values from above)"


def test_a_program_that_gives_its_argument_back_is_drawn():
    nothing = cr.trace(lambda x: x, np.zeros(3))
    shown = picture(draw(nothing).svg())
    assert [box.text for box in shown.boxes] == ["x"]
    empty = nothing.replace(inputs=(), outputs=(), nodes=(), names={})
    assert picture(draw(empty).svg()).boxes == ()


def test_values_without_names_are_drawn():
    graph = cr.trace(lambda x: np.sum(np.tanh(x) * x), np.zeros(4))
    bare = graph.replace(names={}, outputs=())
    assert draw(bare).svg()
    assert picture(draw(graph, detail="primitives").svg()).of("operator")


def test_one_copy_stands_for_values_of_one_circle():
    graph = traced("v0", ["h = np.tanh(v0)", "J = np.sum(h * h)"])
    assert picture(draw(graph).svg()).overlaps() == []


def test_sizes_do_not_change_what_is_drawn():
    graph = mlp_with_gradients()
    named, bound = (picture(draw(one).svg()) for one in (graph, graph.bind(n=100)))
    assert [box.text for box in named.boxes] == [box.text for box in bound.boxes]
    assert [line.points for line in named.lines] == [line.points for line in bound.lines]


def test_many_inputs_that_nothing_reads_are_left_out_and_counted() -> None:
    def f(x, others):
        J = np.sum(x * x)
        return J

    for count in (4, 5):
        others = {f"counter{i}": np.zeros(()) for i in range(count)}
        shown = draw(cr.trace(f, x=np.ones(3), others=others)).svg()
        is_drawn = count == 4
        assert ("counter3" in shown) is is_drawn
        assert ("5 inputs that nothing reads are not drawn" in shown) is not is_drawn
