"""Equations as an object: what is in them, what is refused, how they are saved."""

from __future__ import annotations

import cProfile
import pstats
import re
from typing import Any

import numpy as np
import pytest
from graphs_to_explain import GRAPHS, adam, hessian_vector_product, mlp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, NameLookupError
from chainrule.explain.equations import equations
from chainrule.explain.equations.formula import Formula, Named
from chainrule.graph.graph import Graph


def traced(function: Any, *arguments: Any, **options: Any) -> Graph:
    return cr.trace(function, *arguments, **options)


def of(expression: str, **types: Any) -> str:
    """The right side of the equation of an expression in x, y, ... without its shape."""
    names = ", ".join(types)
    scope: dict[str, Any] = {"np": np, "cr": cr}
    exec(f"def program({names}):\n    out = {expression}\n    return out\n", scope)
    found = equations(cr.trace(scope["program"], **types), shapes=False)
    return str(found["out"]).removeprefix("out = ")


N, ND, DK = float64["n"], float64["n d"], float64["d k"]
WRITTEN = [
    ("(x + y) * x", dict(x=ND, y=ND), "(x + y) ⊙ x"),
    ("x - (y - x)", dict(x=ND, y=ND), "x − (y − x)"),
    ("x - y + x", dict(x=ND, y=ND), "x − y + x"),
    ("x + -y", dict(x=ND, y=ND), "x − y"),
    ("-(x + y)", dict(x=ND, y=ND), "−(x + y)"),
    ("(x * y) @ w", dict(x=ND, y=ND, w=DK), "(x ⊙ y) w"),
    ("(x @ w) * y", dict(x=ND, w=DK, y=float64["n k"]), "x w ⊙ y"),
    ("(x + y) @ w", dict(x=ND, y=ND, w=DK), "(x + y) w"),
    ("(x + y).T", dict(x=ND, y=ND), "(x + y)ᵀ"),
    ("x.T @ x", dict(x=ND), "xᵀ x"),
    ("x.transpose(1, 2, 0)", dict(x=float64["2 3 4"]), "transpose_{(1, 2, 0)}(x)"),
    ("x @ y", dict(x=N, y=N), "x · y"),
    ("np.outer(x, y)", dict(x=N, y=float64["m"]), "x yᵀ"),
    ("(w @ x) @ v", dict(w=DK, x=float64["k"], v=float64["d m"]), "(w x) v"),
    ("c * x", dict(c=float64[()], x=ND), "c x"),
    ("x * c", dict(c=float64[()], x=ND), "c x"),
    ("2 * x / 3", dict(x=ND), "(2 x)/3"),
    ("x * -2.5", dict(x=ND), "−2.5 x"),
    ("x + 1e-5", dict(x=ND), "x + 10⁻⁵"),
    ("x ** 2", dict(x=ND), "x^{⊙2}"),
    ("c ** 2", dict(c=float64[()]), "c²"),
    ("np.sum(x ** 2)", dict(x=ND), "‖x‖²_F"),
    ("np.sum(x ** 2)", dict(x=N), "‖x‖²"),
    ("np.sum(x * y)", dict(x=N, y=N), "∑ x ⊙ y"),
    ("np.sum(x + y) * y", dict(x=N, y=N), "(∑ (x + y)) y"),
    ("np.sum(x, axis=0) + y", dict(x=ND, y=float64["d"]), "∑_{axis 0} x + y"),
    ("x / x.sum(1, keepdims=True)", dict(x=ND), "x/(∑_{axis 1, keepdims} x)"),
    ("x - np.sum(x, axis=0, keepdims=True)", dict(x=ND), "x − ∑_{axis 0} x"),
    ("x - np.sum(x, keepdims=True)", dict(x=ND), "x − ∑ x"),
    ("x - np.sum(x, axis=1)[None, :]", dict(x=float64["2 2"]), "x − ∑_{axis 1} x"),
    ("x - np.sum(x, axis=0)[:, None]", dict(x=float64["n n"]), "x − reshape_{n×1}(∑_{axis 0} x)"),
    ("x - np.max(x, axis=(0, 2), keepdims=True)", dict(x=float64["n m d"]),
     "x − max_{axes 0, 2, keepdims}(x)"),
    ("x - np.mean(x, axis=-1, keepdims=True)", dict(x=ND), "x − mean_{axis 1, keepdims}(x)"),
    ("x - np.mean(x, axis=-2, keepdims=True)", dict(x=ND), "x − mean_{axis 0}(x)"),
    ("x - np.mean(x, axis=(0, 1), keepdims=True)", dict(x=ND), "x − mean(x)"),
    ("y @ np.sum(x, axis=0, keepdims=True)", dict(x=ND, y=float64["m 1"]),
     "y (∑_{axis 0, keepdims} x)"),
    ("y @ (np.sum(x, axis=0, keepdims=True) + 1)", dict(x=ND, y=float64["m 1"]),
     "y (∑_{axis 0, keepdims} x + 𝟏_{1×d})"),
    ("y @ (np.sum(x, axis=1, keepdims=True) + 1)", dict(x=ND, y=float64["m n"]),
     "y (∑_{axis 1, keepdims} x + 1)"),
    ("x.reshape(3, 4) + 1", dict(x=float64["1 3 4"]), "reshape_{3×4}(x) + 1"),
    ("x[None] * 2", dict(x=ND), "2 x"),
    ("np.concatenate([x, np.sum(x).reshape(1)])", dict(x=N), "[x, reshape₁(∑ x)]"),
    ("np.max(x, axis=1)", dict(x=ND), "max_{axis 1}(x)"),
    ("np.sqrt(x + 1)", dict(x=N), "√(x + 1)"),
    ("x > y", dict(x=N, y=N), "(x > y)"),
    ("(x == y) & (x > 0)", dict(x=N, y=N), "(x = y ∧ x > 0)"),
    ("np.where(x > 0, x, -x)", dict(x=N), "{x if x > 0; −x otherwise}"),
    ("(x > y) * x", dict(x=N, y=N), "[x > y] ⊙ x"),
    ("x[1:3, ::2]", dict(x=float64["5 6"]), "x[1:3, ::2]"),
    ("x[:, -1]", dict(x=ND), "x[:, d − 1]"),
    ("x[::-1]", dict(x=N), "x[::−1]"),
    ("x[0] @ y[1:]", dict(x=float64["3 n d"], y=float64["d+1 k"]), "x[0] y[1:]"),
    ("x[:, None] * y", dict(x=N, y=float64["m"]), "reshape_{n×1}(x) ⊙ y"),
    ("x + y", dict(x=ND, y=float64["d"]), "x + y"),
    ("np.sum(x * 0 + c)", dict(x=N, c=float64[()]), "∑ (0 x + c)"),
    ("np.sum(np.broadcast_to(c, (2, 3)))", dict(c=float64[()]), "∑ c 𝟏_{2×3}"),
    ("np.stack([x, x])", dict(x=N), "stack_{axis 0}(x, x)"),
    ("cr.softmax(x, axis=0)", dict(x=ND), "softmax_{axis 0}(x)"),
    ("cr.softmax(x, axis=1)", dict(x=ND), "softmax(x)"),
    ("cr.logsumexp(x, axis=None)", dict(x=ND), "logsumexp_{all axes}(x)"),
    ("cr.softmax(2 * x)", dict(x=ND), "softmax(2 x)"),
    ("np.mean(x)", dict(x=N), "mean(x) = (∑ x)/n"),
    ("cr.max_pool2d(x, (2, 3), stride=(2, 1))", dict(x=float64["2 3 5 5"]),
     "max pool_{kernel_size = (2, 3), stride = (2, 1)}(x) = "
     "max_{axes 4, 5}(windows_{(2, 3), stride = (2, 1)}(x))"),
    ("np.einsum('ij,kj->ik', x, y)", dict(x=ND, y=float64["m d"]), "x yᵀ"),
    ("np.einsum('ijk,kj->i', x, y)", dict(x=float64["2 3 4"], y=float64["4 3"]),
     "einsum_{ijk,kj→i}(x, y)"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "types", "written"), WRITTEN)
def test_an_expression_is_written(expression: str, types: dict[str, Any], written: str) -> None:
    assert of(expression, **types) == written


GRADIENTS = [
    ("np.sum(x * x)", dict(x=N), "2 x"),
    ("np.sum(x * np.sin(x) * x)", dict(x=N), "x ⊙ x ⊙ cos(x) + 2 (x ⊙ sin(x))"),
    ("np.mean((y @ x) ** 2)", dict(x=DK, y=ND), "2/(k n) yᵀ y x"),
    ("np.sum((y @ x.T) ** 2)", dict(x=float64["k d"], y=ND), "2 x yᵀ y"),
    ("np.sum(np.sin(y @ x.T))", dict(x=float64["k d"], y=ND), "cos(y xᵀ)ᵀ y"),
    ("cr.squared_error(y @ x.T, z)", dict(x=float64["k d"], y=ND, z=float64["n k"]),
     "((2 (y xᵀ − z))/(k n))ᵀ y"),
    ("np.sum(cr.softplus(-x)) / y", dict(x=N, y=float64[()]), "−σ(−x)/y"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "types", "written"), GRADIENTS)
def test_a_gradient_is_written(expression: str, types: dict[str, Any], written: str) -> None:
    scope: dict[str, Any] = {"np": np, "cr": cr}
    exec(f"def program({', '.join(types)}):\n    J = {expression}\n    return J\n", scope)
    graph = cr.backward(cr.trace(scope["program"], **types), wrt="x")
    assert str(equations(graph, shapes=False)["dJ/dx"]) == f"∂J/∂x = {written}"


def test_what_the_program_adds_or_transposes_is_written_as_it_is() -> None:
    assert of("x + x", x=N) == "x + x" and of("(x @ w).T", x=ND, w=DK) == "(x w)ᵀ"
    assert of("x @ (2 * w)", x=ND, w=DK) == "x · 2 w"


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_is_said_before_its_equation(name: str) -> None:
    known = {item.name for item in GRAPHS[name]().inputs}
    found = equations(GRAPHS[name]())
    computed = {one.name for one in found}
    for one in found:
        names = {name for side in one.formulas for name in said(side)}
        assert names & computed <= known, str(one)
        known.add(one.name)


def test_a_gradient_stands_after_another_that_it_is_made_of() -> None:
    def valley(x: float64[()], y: float64[()]):
        f = (1 - x) ** 2 + 100 * (y - x**2) ** 2
        return f

    found = equations(cr.backward(cr.trace(valley), wrt=("x", "y")))
    assert [one.name for one in found] == ["f", "df/dy", "df/dx"]


def said(formula: Formula) -> list[str]:
    own = [formula.name] if isinstance(formula, Named) else []
    return own + [name for one in formula.operands for name in said(one)]


NUMBERS = st.sampled_from(["a", "b", "c", "2", "0.5", "3"])
SUMS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("(-{})".format, inner),
        st.builds("({} ** {})".format, inner, st.sampled_from(["2", "3"])),
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SUMS)
def test_brackets_mean_what_they_say(expression: str) -> None:
    """The text, read by Python's rules with products by juxtaposition, has the value."""
    values = {"a": np.float64(1.25), "b": np.float64(-0.75), "c": np.float64(2.5)}
    scope: dict[str, Any] = {}
    exec(f"def program(a, b, c):\n    out = a * 0 + {expression}\n    return out\n", scope)
    with np.errstate(all="ignore"):
        try:
            expected = scope["program"](**values)
        except ZeroDivisionError:
            expected = np.inf
    assume(np.isfinite(expected))
    graph = cr.trace(scope["program"], **values)
    found = equations(graph, shapes=False)
    known: dict[str, Any] = dict(values)
    for one in sorted(found, key=lambda one: one.number > 0):
        left, _, right = str(one).partition(" = ")
        known[left] = eval(_as_python(right), {}, known)
    np.testing.assert_allclose(known["out"], expected, rtol=1e-9)


def _as_python(text: str) -> str:
    for old, new in (("−", "-"), ("·", "*"), ("²", "**2"), ("³", "**3")):
        text = text.replace(old, new)
    return re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)


def test_a_value_is_found_by_its_name() -> None:
    found = equations(mlp())
    assert [one.number for one in found] == list(range(1, 16))
    assert found["dJ/dW2"].number == 12 and found["dJ/dW2"].name == "dJ/dW2"
    assert "z" in found and "x" not in found and len(found) == 15
    with pytest.raises(NameLookupError, match="has no value called 'Z'"):
        found["Z"]
    with pytest.raises(
        NameLookupError, match=r"(?s)no equation for 'x' here.*inputs have no equation"
    ):
        found["x"]


def test_names_and_phase_choose() -> None:
    graph = mlp()
    assert [one.name for one in equations(graph, ["h", "dJ/dh"])] == ["h", "dJ/dh"]
    assert [one.number for one in equations(graph, "dJ/dh")] == [13]
    forward = [one.name for one in equations(graph, phase="forward")]
    assert forward == ["z", "h", "o", "L", "s", "J"]
    assert next(iter(equations(graph, phase="backward"))).name == "dJ/dL"
    assert equations(graph, phase="backward")["dJ/dz"].number == 14


def test_auxiliary_equations_come_with_what_needs_them() -> None:
    whole = equations(hessian_vector_product())
    some = equations(hessian_vector_product(), "d(dJ/dW1)/do")
    assert [one.name for one in some] == ["d(dJ/dW1)/do", "a1"]
    assert str(some["a1"]) == str(whole["a1"]) and some["a1"].number == 0
    assert "where a₁ = " in str(some)


def test_auxiliary_symbols_and_functions_do_not_meet_the_users() -> None:
    def program(a1: Any, φ: Any) -> Any:
        h = np.maximum(a1 * φ, 0)
        g = np.maximum(h, 1) * 2
        J = np.sum((np.exp(a1 - φ) + np.exp(a1 - φ)) * g)
        return J

    text = str(equations(cr.backward(cr.trace(program, np.ones(3), np.ones(3)), wrt="all")))
    assert "where a₁" not in text and "φ(" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (dict(phase="sideways"), "phase='sideways' is not one of 'forward', 'backward', 'both'"),
        (dict(phase=[]), r"phase=\[\] is not one of 'forward'"),
        (dict(indices="below"), "indices='below' is not one of 'subscript', 'superscript'"),
        (dict(indices=5), "indices=5 is not one of 'subscript'"),
        (dict(names=5), r"(?s)names=5 is no name and no list.*names of values: names='x'"),
        (dict(names=[5]), r"(?s)names has 5 in it, which is no name.*names=\['x'\]"),
        (dict(names=["J", None]), "names has None in it, which is no name"),
        (dict(symbols=5), "symbols=5 is no mapping"),
        (dict(symbols={5: "x"}), "5, which is no name"),
        (dict(symbols={"W1": 5}), "the symbol of W1 is a text, got 5"),
    ],
)
def test_a_wrong_option_is_explained(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        equations(mlp(), **arguments)


def test_what_is_no_graph_or_no_name_is_explained() -> None:
    with pytest.raises(InputError, match=r"(?s)of a graph, got int.*cr\.trace\(objective\)"):
        equations(5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"by the name of a value, got 5"):
        equations(mlp())[5]  # type: ignore[index]
    with pytest.raises(InputError, match=r"(?s)5 is no path of a file.*equations\.tex"):
        equations(mlp()).save(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [dict(names="W3"), dict(symbols={"W3": "x"})])
def test_an_unknown_name_is_explained(arguments: dict[str, Any]) -> None:
    with pytest.raises(NameLookupError, match=r"(?s)no value called 'W3'.*one of: W"):
        equations(mlp(), **arguments)


def test_names_may_come_one_by_one() -> None:
    found = equations(mlp(), (name for name in ("h", "o")))
    assert [one.name for one in found] == ["h", "o"]
    assert str(equations(mlp(), "x")).endswith("nothing of what was asked for: inputs are given.")


def test_a_graph_without_nodes_has_no_equations() -> None:
    found = equations(Graph("nothing", (), (), (), {}))
    assert len(found) == 0 and str(found) == "nothing computes nothing that has a name."
    assert "nothing computes nothing" in found.latex() and found.markdown()


def test_a_graph_without_names_has_its_outputs() -> None:
    graph = traced(eval("lambda x: np.tanh(x) * 2", {"np": np}), np.ones(3))
    assert str(equations(graph, shapes=False)) == "Forward\n(1)  out = 2 tanh(x)"


def test_the_update_has_its_heading() -> None:
    text = str(equations(adam()))
    assert text.index("Forward") < text.index("Backward") < text.index("Update")


def test_a_bound_graph_has_the_same_equations() -> None:
    graph = mlp()
    symbolic = [str(one) for one in equations(graph, shapes=False)]
    bound = equations(graph.bind(n=2, d=3, h=4, q=5), shapes=False)
    said = "(softmax(o) − onehot_q(y))/n"
    assert any(said in one for one in symbolic)
    with_numbers = [one.replace(said, "(softmax(o) − onehot₅(y))/2") for one in symbolic]
    assert [str(one) for one in bound] == with_numbers


def test_the_cost_of_an_equation_does_not_grow_with_the_graph() -> None:
    """Calls of functions, which are the same on every machine: about 900 an equation."""

    def deep(layers: int) -> Graph:
        def network(x: Any, W: Any) -> Any:
            for place in range(layers):
                z = x @ W[place]
                x = np.tanh(z)
            J = np.sum(x * x)
            return J

        parameters = [np.ones((3, 3))] * layers
        return cr.backward(cr.trace(network, np.ones((2, 3)), parameters), wrt="all")

    costs = []
    for layers in (10, 40):
        graph, profile = deep(layers), cProfile.Profile()
        str(equations(graph))  # what is computed once
        profile.enable()
        found = equations(graph)
        str(found)
        profile.disable()
        costs.append(pstats.Stats(profile).total_calls / len(found))  # pyright: ignore
    assert costs[1] < 1.05 * costs[0] < 1100


@pytest.mark.exhaustive
def test_long_programs_stay_short_on_paper() -> None:
    def program(x: Any) -> Any:
        for place in range(1500):
            x = np.sin(x) if place % 3 else x * x + x
        J = np.sum(x)
        return J

    def unnamed(x: Any) -> Any:
        return sum((np.sin(x * k) for k in range(500)), x)

    for function in (program, unnamed):
        found = equations(cr.backward(cr.trace(function, np.ones(()))))
        assert max(len(str(one)) for one in found) < 500


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_graph_gives_the_same_equations(name: str) -> None:
    graph = GRAPHS[name]()
    assert equations(graph).latex() == equations(graph).latex()


def test_a_call_in_a_call_is_not_written_out_twice() -> None:
    def program(x: float64["b 1 5 5"], k: float64["1 1 2 2"], W: float64["5 3"]):
        h = cr.relu(cr.conv2d(x, k))
        z = x @ W
        g = cr.relu(z)
        return h, g

    equations = cr.trace(program).equations(shapes=False)
    assert str(equations["h"]) == "h = relu(∗(x, k))"
    assert str(equations["g"]) == "g = relu(z) = {0 if z ≤ 0; z otherwise}"


def test_functions_that_sort_go_by_their_names() -> None:
    def program(x: float64["n 3"]):
        s = np.sort(x)
        r = np.sort(x, axis=0)
        m = np.median(x, axis=0)
        p = np.percentile(x, [25, 62.5])
        J = np.sum(s * r) + np.sum(m) + np.sum(p)
        return J

    graph = cr.backward(cr.trace(program), wrt="x")
    equations = graph.equations(shapes=False)
    assert [str(equations[one]) for one in "srmp"] == [
        "s = sort(x)",
        "r = sort_{axis 0}(x)",
        "m = median_{axis 0}(x)",
        "p = percentile_{q = (25, 62.5)}(x)",
    ]
    assert "∂sort(x)/∂x" in str(equations["dJ/dx"])
    scene = graph.draw().scene
    labels = {scene.looks[one.key].label.text for one in scene.figure.forward.items}
    assert {"sort", "sort0", "median0", "percentile"} <= labels
