"""`cr.named` and `cr.scope`: what importers say of names, scopes and places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError

X = cr.float64["n 3"]


def graph_of(function: Any, **types: Any) -> cr.Graph:
    return cr.trace(function, **(types or {"x": X}))


def test_a_value_is_called_as_it_is_named():
    graph = graph_of(lambda x: {"out": cr.named(np.tanh(x), "/conv1/Conv:0")})
    assert graph["/conv1/Conv:0"].primitive.name == "tanh"
    assert graph.outputs[0][0] == "/conv1/Conv:0"


def test_naming_is_no_operation():
    def plain(x):
        return np.tanh(np.tanh(x))

    def by_hand(x):
        return cr.named(np.tanh(cr.named(np.tanh(x), "h")), "o")

    assert graph_of(plain).structural_hash == graph_of(by_hand).structural_hash


def test_the_last_name_counts_and_the_others_stay():
    def f(x):
        h = np.tanh(x)
        cr.named(h, "first")
        cr.named(h, "second")
        cr.named(h, "first")
        return h

    graph = graph_of(f)
    assert graph.name_of[graph["h"]] == "second"
    assert graph["h"] is graph["first"] is graph["second"]


def test_an_input_keeps_its_name():
    graph = graph_of(lambda x: np.tanh(cr.named(x, "other")))
    assert graph.name_of[graph["other"]] == "x"
    assert str(graph).count("other = x") == 1


def test_a_name_that_is_taken_gets_a_number():
    graph = graph_of(lambda x: cr.named(np.tanh(cr.named(np.tanh(x), "h")), "h"))
    assert [graph.name_of[node] for node in graph.all("h")] == ["h", "h_1"]


def test_parts_of_containers_are_named_by_path():
    graph = graph_of(lambda x: cr.named({"a": x * 2, "b": [x * 3, 4, None]}, "out")["a"])
    assert "out.a" in graph and "out.b[0]" in graph


def test_arrays_become_constants_of_that_name():
    graph = graph_of(lambda x: x * cr.named(np.arange(3.0), "weights:0"))
    assert graph["weights:0"].primitive.name == "constant"


def test_inputs_have_any_names():
    names = ["layer1.0.conv1.weight", "/in:0", "a b", "1", "class", "ß"]
    graph = cr.trace(lambda **given: sum(given.values()), **dict.fromkeys(names, X))
    assert [one.name for one in graph.inputs] == names
    step = cr.backward(graph, wrt=names[0], seed="g")
    values = {name: np.ones((2, 3)) for name in [*names, "g"]}
    for executor in ("reference", "native"):
        run = step.run(values, executor=executor)
        assert run["out"].tolist() == [[6.0] * 3] * 2
    namespace: dict[str, Any] = {}
    exec(step.python(), namespace)
    assert step.equations() and step.draw()


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x1b[2J", 3, None])
def test_a_name_that_is_none_is_refused(name: Any):
    with pytest.raises(InputError, match="takes the name of a value, got"):
        cr.named(np.ones(3), name)


def imported(**given: Any) -> Any:
    x = given["x"]
    for line, part in enumerate(["layer1.0", "layer1.1", "layer1.0"], 5):
        with cr.scope(part, file="net.model", line=line, function="Tanh"):
            inner = np.tanh(x * 2.0)
            x = cr.named(inner, "h")
    return x


def test_scopes_are_known_by_their_paths():
    graph = graph_of(imported)
    assert [name for name in graph.names if name != "x"] == [
        "layer1.0.h",
        "layer1.1.h",
        "layer1.0.h_1",
    ]
    first, second, third = (graph[name].origin.scope for name in graph.names if name != "x")
    assert first is third and first is not second and first is not None
    assert second is not None and first.parent is second.parent


def test_places_are_those_of_the_model():
    graph = graph_of(imported)
    assert {node.origin.short() for node in graph if node.inputs} == {
        "net.model:5",
        "net.model:6",
        "net.model:7",
    }
    assert "net.model:6" in graph.text(origins=True)
    assert graph["layer1.0.h"].origin.describe() == "net.model:5, in Tanh"


def test_an_error_points_into_the_model():
    def f(x):
        with cr.scope("layer1", file="net.model", line=5, function="Gemm"):
            return x @ np.ones((4, 2))

    with pytest.raises(cr.errors.ShapeError, match=r"where: net\.model:5, in Gemm"):
        graph_of(f)


def test_an_error_without_a_line_gets_that_of_the_model():
    def f(x):
        with cr.scope(file="net.model", line=5, function="Gemm"):
            raise cr.errors.UnsupportedError("no")

    with pytest.raises(cr.errors.UnsupportedError, match=r"net\.model:5, in Gemm"):
        graph_of(f)


def test_what_follows_a_scope_is_named_as_before():
    def f(x):
        with cr.scope("part"):
            hidden = np.tanh(x)
            with cr.scope("inner", file="net.model"):
                cr.named(hidden, "h")
            again = hidden + 1
        h = again * 2
        return h

    graph = graph_of(f)
    assert [name for name in graph.names if name != "x"] == ["part.inner.h", "h"]
    assert graph["h"].origin.scope is None
    assert graph["h"].inputs[0].origin.short().startswith("test_by_hand.py")


def test_a_scope_ends_with_an_error():
    def f(x):
        try:
            with cr.scope("part"):
                raise KeyError
        except KeyError:
            h = x * 2
        return h

    assert list(graph_of(f).names) == ["x", "h"]


def test_lengths_rows_and_loops_keep_the_place():
    def f(x):
        with cr.scope("part", file="net.model", line=3):
            first, *_ = list(x)
            total = first * len(x)
            last, _ = cr.scan(lambda c, row: (c + row, c * row), total, x)
            other = np.linalg.norm(last) * 0.5
        return other

    graph = graph_of(f, x=cr.float64[2, 3])
    assert {node.origin.short() for node in graph if node.inputs} == {"net.model:3"}
    assert list(graph.names) == ["x", "out"]


def test_scopes_in_a_loop_are_its_own():
    def body(c, row):
        with cr.scope("cell"):
            h = cr.named(np.tanh(c + row), "h")
        return h, h

    def f(x):
        with cr.scope("cell"):
            h = cr.named(x * 2, "h")
        last, _ = cr.scan(body, x[0], h)
        return last

    graph = graph_of(f, x=cr.float64[2, 3])
    (loop,) = (node for node in graph if node.primitive.name == "scan")
    assert "cell.h" in graph
    assert any(name.endswith("cell.h") for name in loop.param("body").graph.names)


def test_a_scope_within_a_function_is_part_of_it():
    def block(x):
        with cr.scope("part"):
            y = cr.named(x * 2, "h")
        return y

    def f(x):
        a = block(x)
        b = block(a)
        return b

    graph = graph_of(f)
    assert [name for name in graph.names if name != "x"] == ["block.part.h", "block_1.part.h"]


def test_outside_of_a_trace_nothing_happens():
    x = np.ones(3)
    with cr.scope("layer1"):
        assert cr.named(x, "h") is x
    with pytest.raises(ValueError, match="as it was"), cr.scope("layer1"):
        raise ValueError("as it was")
