"""Where the types of arguments come from, and what is an array, a named number, or plain Python."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64
from chainrule.errors import TypeSpecError

n, d = cr.sizes("n d")
X, W = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)


@dataclasses.dataclass
class Layer:
    W: float32["d 4"]
    b: float32["4"]


def types_of(graph):
    return {item.name: str(item.type) for item in graph.inputs}


def one_string(x: float32["n 3"], W: float32["3 4"]):
    return x @ W


def separate(x: float32["n", 3], W: float32[3, 4]):
    return x @ W


def declared(x: float32[n, 3], W: float32[3, 4]):
    return x @ W


def annotated(x: Annotated[cr.Array, float32["n 3"]], W: Annotated[object, "W", float32[3, 4]]):
    return x @ W


@pytest.mark.parametrize("function", [one_string, separate, declared, annotated])
def test_an_array_type_is_written_in_any_of_these_ways(function):
    graph = cr.trace(function)
    assert types_of(graph) == {"x": "float32[n, 3]", "W": "float32[3, 4]"}
    assert np.array_equal(graph.run(x=X, W=W).outputs, X @ W)


def test_annotations_of_local_names_are_read():
    width = 5

    def program(x: float32["n", width]):
        return x * width

    assert types_of(cr.trace(program)) == {"x": "float32[n, 5]"}


def test_an_annotated_dataclass_is_a_container_of_arrays():
    def program(x: float32["n d"], layer: Layer):
        return x @ layer.W + layer.b

    graph = cr.trace(program)
    assert types_of(graph) == {
        "x": "float32[n, d]",
        "layer.W": "float32[d, 4]",
        "layer.b": "float32[4]",
    }
    layer = Layer(W, np.ones(4, np.float32))
    assert np.array_equal(graph.run(x=X, layer=layer).outputs, X @ W + 1)


@dataclasses.dataclass
class Block:
    inner: Layer
    slope: float = 0.5
    activation: str = "tanh"


@dataclasses.dataclass
class Residual(Block):
    scale: float32[()] = None


def test_annotated_dataclasses_nest_and_keep_their_defaults():
    def program(x: float32["n d"], block: Residual):
        assert block.activation == "tanh"
        return block.slope * block.scale * (x @ block.inner.W + block.inner.b)

    assert types_of(cr.trace(program)) == {
        "x": "float32[n, d]",
        "block.inner.W": "float32[d, 4]",
        "block.inner.b": "float32[4]",
        "block.slope": "weak float64[]",
        "block.scale": "float32[]",
    }


def test_an_annotation_that_cannot_be_read_is_told():
    width = 3
    assert width

    def program(x: float32["n", width]):
        return x

    with pytest.raises(TypeSpecError) as caught:
        cr.trace(program)
    assert caught.value.what == (
        "the argument x of program has no array type: its annotation float32['n', width] "
        "cannot be read (name 'width' is not defined)"
    )


def test_a_default_of_an_annotated_number_is_kept():
    def program(x, rate: float = 1, count: int = 3):
        return x * rate * count

    graph = cr.trace(program, X)
    assert types_of(graph)["rate"] == "weak float64[]"
    assert [item.default for item in graph.inputs] == [None, 1.0, 3]
    assert isinstance(graph.inputs[1].default, float)
    assert np.array_equal(graph.run(x=X, rate=2).outputs, X * 6)


def test_types_and_examples_are_keywords_too():
    def program(params, x):
        return x @ params["W"] + params["b"]

    graph = cr.trace(program, x=float32["n 3"], params={"W": W, "b": float32[4]})
    assert types_of(graph) == {
        "params.W": "float32[3, 4]",
        "params.b": "float32[4]",
        "x": "float32[n, 3]",
    }


def test_a_keyword_overrides_an_example_which_overrides_an_annotation():
    assert types_of(cr.trace(one_string, np.zeros((5, 3)), W=float64["3 k"])) == {
        "x": "float64[5, 3]",
        "W": "float64[3, k]",
    }


def test_a_missing_type_is_asked_for():
    def program(x, W: float32[3, 4]):
        return x @ W

    with pytest.raises(TypeSpecError) as caught:
        cr.trace(program)
    line = program.__code__.co_firstlineno
    assert str(caught.value) == (
        "the argument x of program has no array type\n"
        f"  where: {__file__}:{line}, in program\n"
        '  try: annotate it (x: chainrule.float32["n 784"]), or give an example or a type: '
        "cr.trace(program, x=np.zeros((2, 784)))"
    )


@pytest.mark.parametrize(
    "example", [np.zeros(2, complex), np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]")]
)
def test_an_example_of_another_kind_is_refused(example):
    with pytest.raises(TypeSpecError, match=r"the argument x has dtype \S+, which is"):
        cr.trace(lambda x: x, example)


@pytest.mark.parametrize("spec", [-1, 1.5, None, ("n", -2)])
def test_what_is_no_size_is_refused(spec):
    with pytest.raises(TypeSpecError, match=r"an axis is a size, and .* is none"):
        float32[spec]
