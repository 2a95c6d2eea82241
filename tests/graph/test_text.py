"""The text form is stable, documented, and says everything; `REFRESH=1` rewrites golden files."""

import dataclasses
import os
import re
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import InvariantError, NameLookupError
from chainrule.graph.invariants import INVARIANTS, check
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "text-form.md"
REFRESH = os.environ.get("REFRESH") == "1"


def mlp(
    x: float64["n 4"],
    y: int64["n"],
    W1: float64["4 3"],
    W2: float64["3 2"],
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def small(x: float32["n 4"], W: float32["4 3"], rate=0.5):
    z = x @ W
    h = np.tanh(z)
    J = rate * np.mean(h * h)
    return J


TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


def with_everything(params, x: float64["n 2"], depth=2):
    h = x @ TABLE
    for _ in range(depth):
        h = np.sin(h) + params["b"]
    pairs = h.reshape(-1, 4)
    same = h
    return {"pairs": pairs, "rest": x[1:] * 2, "same": same}


MLP = cr.trace(mlp)
STEP = cr.backward(MLP, wrt=("W1", "W2"))
EVERYTHING = cr.trace(with_everything, params={"b": float64[2]})
GOLDENS = {"mlp": MLP, "mlp-backward": STEP, "everything": EVERYTHING}


def golden(path, text):
    if REFRESH:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GOLDENS)
def test_the_text_is_that_of_the_golden_file(name):
    text = str(GOLDENS[name])
    assert text + "\n" == golden(HERE / "golden" / f"{name}.txt", text), (
        "the text form changed: if it should, run REFRESH=1 pytest tests/graph/test_text.py"
    )


# The grammar of docs/text-form.md as regular expressions, rule by rule.
NAME = r"[^\s%,=][^\s,=]*"
VALUE = rf"(?:%\d+|{NAME})"
SIZE = r"[\w()*+/%\- ,]+?"
TYPE = rf"(?:weak )?[a-z]+\d*\[(?:{SIZE}(?:, {SIZE})*)?\]"
TUPLE = r"\((?:[^()]|\([^()]*\))*\)"
PARAMETER = rf"[A-Za-z_]\w*=(?:{TUPLE}|[^,\[\]()]+(?:\([^()]*\))?[^,\[\]()]*)"
PRIMITIVE = rf"[A-Za-z_]\w*(?:\[{PARAMETER}(?:, {PARAMETER})*\])?"
INPUT = rf"{NAME}: {TYPE}(?: = [-\w.]+)?"
HEAD = rf"graph [A-Za-z_]\w*\((?:{INPUT}(?:, {INPUT})*)?\)"
NODE = rf"  {VALUE}: {TYPE} = {PRIMITIVE}\((?:{VALUE}(?:, {VALUE})*)?\)(?: +# .+)?"
ALIAS = rf"  {NAME} = {VALUE}"
REQUIRE = rf"  require (?:{SIZE} (?:==|>=) 0|{NAME} == -?\d+)"
OUTPUT = rf"{NAME}(?: = {VALUE})?"
RETURN = rf"  return (?:{OUTPUT}(?:, {OUTPUT})*)?"
LINES = (HEAD, NODE, ALIAS, REQUIRE, RETURN)


def kinds_of(text):
    """Which rule each line is an instance of, as one letter a line."""
    found = ""
    for line in text.splitlines():
        rules = [rule for rule in LINES if re.fullmatch(rule, line)]
        assert len(rules) >= 1, line
        found += "hnarx"[LINES.index(rules[-1] if rules[-1] is RETURN else rules[0])]
    return found


@pytest.mark.parametrize("name", GOLDENS)
@pytest.mark.parametrize("origins", [False, True])
def test_the_text_follows_its_grammar(name, origins):
    assert re.fullmatch("hn*a*r*x", kinds_of(GOLDENS[name].text(origins=origins)))


@pytest.mark.parametrize("name", GOLDENS)
def test_every_node_is_defined_before_it_is_used(name):
    graph = GOLDENS[name]
    known = {item.name for item in graph.inputs}
    for line in str(graph).splitlines():
        found = re.fullmatch(rf"  ({VALUE}): {TYPE} = {PRIMITIVE}\((.*)\)", line)
        if found:
            assert set(filter(None, found[2].split(", "))) <= known
            assert found[1] not in known
            known.add(found[1])
    assert len(known) == len(graph)


def test_the_page_prints_the_graph_of_the_example():
    page = PAGE.read_text(encoding="utf-8")
    block = page.split("```")[1]
    want = f"\n{MLP}\n"
    if REFRESH:
        page = page.replace(f"```{block}```", f"```{want}```", 1)
        PAGE.write_text(page, encoding="utf-8")
        block = want
    assert block == want
    rules = re.findall(r"^(\w+) +::=", page, re.MULTILINE)
    assert rules[:6] == ["graph", "head", "input", "node", "alias", "require"]


def test_origins_are_files_and_lines():
    lines = STEP.text(origins=True).splitlines()
    first = mlp.__code__.co_firstlineno
    assert lines[1].endswith(f"# test_text.py:{first + 7}")
    assert any(line.endswith(" backward") for line in lines)


# Looking things up -------------------------------------------------------------------------------


def reassigned(x):
    h = np.sin(x)
    h = np.cos(h)
    h_2 = 2 * h
    h = h + h_2
    return h


def test_values_are_found_by_name():
    assert MLP["h"].primitive.name == "maximum"
    assert MLP["x"] is MLP.inputs[0].node is MLP.input("x").node
    assert MLP.outputs == (("J", MLP["J"]),)
    assert "h" in MLP
    assert "q" not in MLP
    assert list(MLP) == list(MLP.nodes)
    assert len(MLP) == len(MLP.nodes)
    assert MLP.name_of[MLP["h"]] == "h"
    assert repr(MLP) == f"<Graph mlp: 5 inputs, {len(MLP)} nodes, outputs J>"
    assert MLP.input("weight_decay").default == 1e-3
    assert MLP.all("h") == (MLP["h"],)


def test_a_name_that_is_assigned_again_is_counted():
    graph = cr.trace(reassigned, np.ones(2))
    assert list(graph.names) == ["x", "h", "h_1", "h_2", "h_3"]
    assert graph.assigned == {"h": ("h", "h_1", "h_3")}
    assert [node.primitive.name for node in graph.all("h")] == ["sin", "cos", "add"]
    assert graph["h_2"].primitive.name == "multiply"
    for look in (lambda: graph["h_4"], lambda: graph.all("h_4"), lambda: graph.input("h_4")):
        with pytest.raises(NameLookupError) as caught:
            look()
        assert caught.value.what == "the graph reassigned has no value called 'h_4'"
        assert caught.value.hint.startswith("h is assigned 3 times: h, h_1, h_3\none of: ")


def test_nodes_types_and_graphs_are_frozen():
    node = MLP["h"]
    for change in (
        lambda: setattr(node, "inputs", ()),
        lambda: delattr(node, "inputs"),
        lambda: setattr(node.type, "shape", ()),
        lambda: setattr(MLP, "name", "other"),
        lambda: setattr(MLP.inputs[0], "name", "other"),
    ):
        with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
            change()
    with pytest.raises(TypeError):
        MLP.names["h"] = MLP["z"]
    assert hash(node.type) == hash(float64["n 3"])
    assert node.type == float64["n 3"]


# The structural hash -----------------------------------------------------------------------------


def hash_of(function, *examples, **types):
    return cr.trace(function, *examples, **types).structural_hash


def test_equal_programs_have_equal_hashes_whatever_the_names():
    def other(x, W, rate=0.25):
        a = x @ W
        return rate * np.mean(np.tanh(a) * np.tanh(a)) if False else _rest(a, rate)

    def _rest(a, rate):
        b = np.tanh(a)
        return rate * np.mean(b * b)

    types = {"x": float32["n 4"], "W": float32["4 3"]}
    assert hash_of(other, **types) == hash_of(small)


def test_values_of_constants_are_not_hashed_and_their_types_are():
    def scaled(by):
        return hash_of(lambda x: x * by, np.ones(2))

    assert scaled(np.array([1.0, 2.0])) == scaled(np.array([3.0, 4.0]))
    assert scaled(np.array([1.0, 2.0])) != scaled(np.array([[3.0, 4.0]]))
    assert scaled(np.array([1.0, 2.0])) != scaled(np.array([1, 2]))


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: np.sum(x, axis=1) - np.sum(y, axis=0),
        lambda x, y: np.sum(y, axis=0) - np.sum(x, axis=0),
        lambda x, y: np.sum(x, axis=0) + np.sum(y, axis=0),
        lambda x, y: np.sum(x, axis=0) - np.sum(x, axis=0),
        lambda x, y: np.sum(x, axis=0, keepdims=True) - np.sum(y, axis=0),
        lambda x, y: (np.sum(x, axis=0) - np.sum(y, axis=0)) * 2,
        lambda x, y: [np.sum(x, axis=0) - np.sum(y, axis=0), x],
    ],
)
def test_another_parameter_wiring_or_output_has_another_hash(other):
    def program(x, y):
        return np.sum(x, axis=0) - np.sum(y, axis=0)

    square = np.ones((2, 2))
    assert hash_of(program, square, square) == hash_of(program, square, square)
    assert hash_of(program, square, square) != hash_of(other, square, square)
    assert hash_of(program, square, square) != hash_of(program, square.astype("f4"), square)
    assert hash_of(program, square, square) != hash_of(program, np.ones((3, 2)), square)


# Invariants --------------------------------------------------------------------------------------


def broken_graphs():
    """For each invariant, graphs that break it."""
    nodes, inputs, h = MLP.nodes, MLP.inputs, MLP["h"]
    wrong = Node(h.primitive, h.inputs, h.params, float64["n 2"], h.origin)
    stray = Node(inputs[0].node.primitive, (), inputs[0].node.params, inputs[0].type)
    gradient = Gradient("J", MLP["W1"], MLP["z"], ())
    twin = dataclasses.replace(inputs[0], name="y")
    return {
        "inputs_come_first": [
            MLP.replace(nodes=nodes[::-1]),
            MLP.replace(nodes=(*nodes, nodes[0])),
        ],
        "references_are_nodes": [
            MLP.replace(nodes=nodes[:-1]),
            MLP.replace(names={**MLP.names, "new": wrong}),
            MLP.replace(gradients=(Gradient("J", MLP["W1"], wrong, ()),)),
        ],
        "sources_are_inputs": [MLP.replace(inputs=inputs[1:]), MLP.replace(nodes=(*nodes, stray))],
        "names_are_unique": [
            MLP.replace(inputs=(twin, *inputs[1:])),
            MLP.replace(outputs=MLP.outputs * 2),
            MLP.replace(names={k: v for k, v in MLP.names.items() if k != "x"}),
        ],
        "types_are_inferred": [MLP.replace(nodes=(*nodes, wrong))],
        "gradients_have_the_type_of_their_value": [MLP.replace(gradients=(gradient,))],
    }


def test_every_invariant_holds_and_is_broken_here():
    assert set(broken_graphs()) == {invariant.__name__ for invariant in INVARIANTS}
    for graph in GOLDENS.values():
        assert check(graph, INVARIANTS) is graph


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda invariant: invariant.__name__)
def test_an_invariant_goes_red_on_a_graph_that_breaks_it(invariant):
    for graph in broken_graphs()[invariant.__name__]:
        assert not invariant(graph)
        with pytest.raises(InvariantError) as caught:
            check(graph, (invariant,))
        assert caught.value.what == (
            f"the graph mlp breaks the invariant {invariant.__name__}: {invariant.__doc__}"
        )
