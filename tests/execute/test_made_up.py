"""Arrays that are made up for a program let it run."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule.execute import reference
from chainrule.execute.made_up import BLOCK, made_up

ROWS = 300


def program(x, table, tokens, classes, keep, key, scale=0.5):
    rows = table[tokens.astype(np.int32)]
    noise = cr.random.normal(key, rows.shape)
    logits = (rows + noise) @ x
    return scale * np.where(keep, cr.cross_entropy(logits, classes), 0.0)


TYPES = {
    "x": cr.float32["256 7"],
    "table": cr.float64["50 256"],
    "tokens": cr.int64["300"],
    "classes": cr.int64["300"],
    "keep": cr.bool_["300"] if hasattr(cr, "bool_") else cr.bool["300"],
    "key": cr.uint32["2"],
}


def arrays(known=None):
    graph = cr.trace(program, **TYPES)
    return graph, {item.name: made_up(graph, known)[item.node] for item in graph.inputs}


def test_every_input_has_an_array_of_its_type():
    graph, found = arrays()
    assert {item.name: (item.node.shape, item.node.dtype) for item in graph.inputs} == {
        name: (one.shape, one.dtype) for name, one in found.items()
    }
    assert found["scale"] == 0.5
    assert {0, 1} == {*found["keep"].astype(int)}


def test_indices_are_anywhere_in_range():
    graph, found = arrays()
    assert found["tokens"].min() >= 0 and 40 < found["tokens"].max() < 50
    assert {*found["classes"]} == {*range(7)}
    results = [node for _, node in graph.outputs]
    inputs = {item.node: found[item.name] for item in graph.inputs}
    (values,) = reference.evaluate(graph, inputs, results).values()
    assert np.all(np.isfinite(values))


def test_products_neither_grow_nor_vanish():
    _, found = arrays()
    assert 0.9 < 16 * found["x"].std() < 1.1
    large = cr.trace(lambda x: x + 1, x=cr.float64[f"{2 * BLOCK}"])
    ((array),) = made_up(large).values()
    assert 0.99 < array.std() < 1.01


def test_known_elements_are_repeated_or_cut():
    _, found = arrays({"tokens": [3, 4, 5], "classes": np.arange(900) % 2})
    assert found["tokens"].tolist() == [3, 4, 5] * 100
    assert found["classes"].tolist() == [0, 1] * 150
    assert np.array_equal(arrays()[1]["x"], arrays()[1]["x"])
