"""The source of a graph reads as a person would write it, and nothing in it is anybody else's."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_examples import EXAMPLES, GOLDEN, MLP, objective
from sources import check, function_of, values_of

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, SizeError
from chainrule.explain.python_source import constants_of, python
from chainrule.graph.graph import Graph


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_source_is_as_checked_in(name: str) -> None:
    graph = EXAMPLES[name][0]()
    assert python(graph, delete=name == "mlp-adam") == (GOLDEN / f"{name}.py.txt").read_text()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_give_the_references_bits(name: str) -> None:
    make, arguments = EXAMPLES[name]
    for options in ({}, {"delete": True}, {"comments": False}):
        check(make(), {k: v for k, v in arguments.items() if k in make().names}, **options)


def test_the_gradients_read_as_in_the_book() -> None:
    source = python(EXAMPLES["mlp"][0]())
    assert "    dJ_dW2 = h.T @ dJ_do + weight_decay * W2\n" in source
    assert "    h = np.maximum(z, 0)  # source_examples.py:" in source


def traced(function: Any, **arguments: Any) -> Graph:
    return cr.trace(function, **arguments)


def body_of(graph: Graph) -> str:
    """The statements, without what comes before them."""
    return python(graph, comments=False).partition('    """\n')[2].rpartition('"""\n')[2]


X = np.arange(6.0).reshape(2, 3) - 2.5
X32 = X.astype(np.float32)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: (x - 1) * (x + 1), "(x - 1) * (x + 1)"),
        (lambda x: x - (x - 1) - x, "x - (x - 1) - x"),
        (lambda x: x / (x / 2), "x / (x / 2)"),
        (lambda x: x * (x / 2), "x * (x / 2)"),
        (lambda x: -(x**2), "-x**2"),
        (lambda x: (-x) ** 2, "(-x)**2"),
        (lambda x: x @ (x.T @ x), "x @ (x.T @ x)"),
        (lambda x: x @ x.T @ x, "x @ x.T @ x"),
        (lambda x: np.where((x > 0) & ~(x < 2), x, -np.inf), "np.where((x > 0) & ~(x < 2)"),
        (lambda x: (x > 0) == (x < 1), "(x > 0) == (x < 1)"),
        (lambda x: x * -1.5, "x * -1.5"),
        (lambda x: x[:, ::-1], "x[:, ::-1]"),
        (lambda x: x[1:, :2], "x[1:, :2]"),
        (lambda x: np.exp(x).sum(axis=1, keepdims=True), "np.sum(np.exp(x), axis=1, keepdims=T"),
        (lambda x: x + x[0], "x + x[:1].reshape(3)"),
        (lambda x: np.maximum(x, np.nan), "np.maximum(x, np_nan)"),
        (lambda x: x * -0.0, "x * -0.0"),
        (lambda x: x[np.array([1, 0, 1])], "x[np.array([1, 0, 1])]"),
        (lambda x: np.concatenate([x, x], axis=1), "np.concatenate([x, x], axis=1)"),
        (lambda x: np.zeros_like(x), "np.zeros((2, 3), np.float64)"),
        (lambda x: np.broadcast_to(x[0], (4, 3)), "np.broadcast_to(x[:1].reshape(3), (4, 3))"),
    ],
)
def test_expressions_have_the_brackets_they_need(function: Any, text: str) -> None:
    graph = traced(function, x=X)
    assert text in body_of(graph)
    check(graph, {"x": X})


def test_a_python_number_widens_nothing_even_where_numpy_s_number_is_given() -> None:
    graph = traced(lambda x, rate=0.1: x * rate + np.exp(rate), x=X32)
    check(graph, {"x": X32})
    check(graph, {"x": X32, "rate": 0.3})
    (got,) = values_of(graph, {"x": X32, "rate": np.float64(0.3)})
    assert got.dtype == np.float32
    assert "x * rate + np.float32(np.exp(rate))" in body_of(graph)


def test_a_number_that_is_zero_divides_as_numpy_does() -> None:
    check(traced(lambda x, rate=0.0: x + 1 / rate, x=X), {"x": X})


@pytest.mark.parametrize("function", [lambda x: x[:, -1] * 2, lambda x: x.T @ x, lambda x: x + 1])
@pytest.mark.parametrize("array", [X[:0], X[:1], X[:, :1], X.T, np.asfortranarray(X)])
def test_awkward_shapes_and_orders(function: Any, array: np.ndarray) -> None:
    check(traced(function, x=array), {"x": array})


def test_a_power_of_a_scalar_is_that_of_an_array() -> None:
    function = function_of(python(traced(lambda x: x**3 + x**-3, x=np.float64(0.5))))
    for x in np.random.default_rng(0).uniform(0.5, 2, 300):
        array = np.asarray(x)
        assert function(x) == np.add(array**3, array**-3)


def test_a_function_of_a_broadcast_keeps_the_shape() -> None:
    check(traced(lambda x: np.exp(np.broadcast_to(x[0], (4, 3))) * 2, x=X), {"x": X})


def test_a_large_intermediate_keeps_the_order_of_its_axes() -> None:
    # NumPy writes the sum into the left operand if that is an intermediate of 256 KiB or more.
    x = np.random.default_rng(0).normal(size=(260, 260))
    turned = traced(lambda x: np.sum(np.sin(np.einsum("ij,jk->ki", x, x)) * 2 + x, axis=0), x=x)
    check(turned, {"x": x})
    graph = traced(lambda x: np.sum((np.sin(x.T) * 2 + x) * x.T, axis=0), x=x)
    check(graph, {"x": x})
    assert graph.nodes[1].primitive.name == "transpose"


def test_named_sizes_are_read_off_shapes_and_conditions_are_checked() -> None:
    n, d = cr.sizes("n d")

    def halves(x, w):
        return np.sum(x.reshape(-1, 2 * n + 1), axis=0) / n + w[2]

    graph = cr.trace(halves, x=float64[2 * n + 1, d], w=float64[d])
    source = python(graph)
    assert "n = (x.shape[0] - (1)) // (2)" in source
    check(graph, {"x": np.ones((5, 3)), "w": np.ones(3)})
    with pytest.raises(ValueError, match=r"\(from test_python_source\.py:\d+\)"):
        values_of(graph, {"x": np.ones((5, 1)), "w": np.ones(1)})


def test_a_value_the_program_relied_on_is_checked() -> None:
    graph = traced(lambda x, heads=2: x * heads if heads > 1 else x, x=X)
    check(graph, {"x": X})
    with pytest.raises(ValueError, match="traced with heads = 2, which the program used as a Py"):
        values_of(graph, {"x": X, "heads": 3})


def test_an_index_out_of_range_is_an_index_error() -> None:
    graph = cr.trace(objective)
    for wrong in (2, -1):
        with pytest.raises(IndexError, match=f"indices from .*{wrong}.* do not fit an axis of le"):
            values_of(graph, {**MLP, "y": np.array([0, 1, wrong, 0, 1])})


def test_large_constants_are_arguments_and_small_ones_are_written() -> None:
    table = np.random.default_rng(0).normal(size=(300, 3))
    small = np.array([[0.1, np.nan, -0.0], [np.inf, 1e30, -1.0]], np.float32, order="F")
    graph = traced(lambda x: x + small + np.sum(table * x[0]), x=X)
    check(graph, {"x": X})
    source = python(graph)
    assert len(source) < 1500 and "(x, *, table):" in source
    assert "table: float64[300, 3], a constant of the program" in source
    np.testing.assert_array_equal(constants_of(graph)["table"], table)
    assert (
        "small = np.array([[0.1, np.inf], [np.nan, 1e+30], [-0.0, -1.0]], np.float32).T" in source
    )


def test_containers_are_flat_arguments() -> None:
    params = {"layer": [{"W": X}, {"W": X.T.copy()}]}
    graph = traced(lambda params: params["layer"][0]["W"] @ params["layer"][1]["W"], params=params)
    names = {"params.layer[0].W": X, "params.layer[1].W": X.T.copy()}
    check(graph, names)
    assert "def function(params_layer_0_W, params_layer_1_W):" in python(graph)
    assert "params_layer_0_W: float64[2, 3] (params.layer[0].W)" in python(graph)


EVIL = [
    "a'); import os #",
    'a"""\nraise SystemExit\n"""',
    "a\\",
    "a\n    raise SystemExit",
    "a\r\u2028raise SystemExit",
    "np",
    "float",
    "class",
    "__debug__",
    "",
    "ﬁ",
    "fi",
    "x\u202e",
    "λ",
    "2",
    "²",
    "t",
    "scatter_add",
]


def test_no_name_can_become_code() -> None:
    params = {name: X[:1] * (i + 1) for i, name in enumerate(EVIL)}
    function = lambda params: sum((np.sum(x**2) for x in params.values()), 0.0)  # noqa: E731
    graph = cr.backward(traced(function, params=params), wrt="params")
    source = python(graph)
    tree = ast.parse(source)
    calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    assert calls <= {"np.sum", "np.float64", "np.broadcast_to"}
    assert not [one for one in ast.walk(tree) if isinstance(one, (ast.Raise, ast.If))]
    assert sum(isinstance(one, ast.Import) for one in ast.walk(tree)) == 1
    values = [params[name] for name in sorted(EVIL)]
    by_name = dict(zip((item.name for item in graph.inputs), values, strict=True))
    check(graph, by_name)


def test_no_source_line_can_leave_its_comment(tmp_path: Path) -> None:
    path = tmp_path / "evil\nraise SystemExit.py"
    text = "def f(x):\n    y = x * 2; 'a\x0craise SystemExit\u2028raise SystemExit'\n    return y\n"
    path.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), scope)
    source = python(traced(scope["f"], x=X))
    assert not [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Raise)]
    assert all(line.isprintable() for line in source.splitlines())


def test_a_name_of_the_user_wins_over_those_of_the_source() -> None:
    def f(logistic, np_, total):
        erf = cr.erf(logistic)
        scatter_add = cr.sigmoid(erf) * total
        return scatter_add + np_

    graph = traced(f, logistic=X, np_=X, total=X)
    check(graph, {"logistic": X, "np_": X, "total": X})
    assert "erf = erf_2(logistic)" in python(graph)


def test_graphs_without_names_values_and_nodes() -> None:
    graph = traced(lambda x: x * 2, x=X)
    bare = graph.replace(names={}, outputs=tuple(("", node) for _, node in graph.outputs))
    assert "return x * 2" in python(bare)
    empty = Graph(name="", inputs=(), outputs=(), nodes=(), names={})
    assert function_of(python(empty))() == ()
    assert "def function():" in python(empty)


def test_a_name_for_the_function_is_an_identifier() -> None:
    graph = traced(lambda x: x * 2, x=X)
    assert "def step(x):" in python(graph, name="step")
    for wrong in ("two words", "class", "np", "f(): pass\n#"):
        with pytest.raises(InputError, match=r"cannot be the name of the function that graph\.py"):
            python(graph, name=wrong)


def test_a_size_that_no_axis_shows_is_explained() -> None:
    n, m = cr.sizes("n m")

    def f(x):
        return x.reshape(n, m) * 2

    graph = cr.trace(f, x=float64[n * m])
    with pytest.raises(SizeError, match="the sizes m, n of f cannot be read off the shapes of its"):
        python(graph)
    assert "reshape(2, 3)" in python(graph.bind(n=2, m=3))


def test_deleted_values_are_no_longer_needed() -> None:
    source = python(EXAMPLES["mlp"][0](), delete=True)
    assert "    del z, dJ_dh\n" in source or "    del dJ_dh, z\n" in source
    assert "del J" not in source.replace("del J_", "") and "del x" not in source


def test_the_same_graph_gives_the_same_text() -> None:
    make = EXAMPLES["mlp-adam"][0]
    assert python(make()) == python(make())


@pytest.mark.slow
def test_deep_graphs_are_written_without_recursion() -> None:
    def deep(x: float64["n 4"]):
        for _ in range(1500):
            x = np.tanh(x)
        return np.sum(x)

    graph = cr.backward(cr.trace(deep), wrt="x")
    assert len(graph) > 6_000
    source = python(graph, delete=True)
    assert source.count("\n") > 4_500


def test_no_line_is_longer_than_100_columns() -> None:
    for make, _ in EXAMPLES.values():
        assert max(map(len, python(make()).splitlines())) <= 100
