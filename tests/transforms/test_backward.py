"""`backward` names gradients after the user's variables, and finds all of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64
from chainrule.graph.invariants import INVARIANTS

RANDOM = np.random.default_rng(7)
EPS = 1e-6


def objective(x: float64["n 4"], W1: float64["4 3"], W2: float64["3 2"], decay=0.1):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = np.mean(o * o)
    s = decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


ARGUMENTS = {
    "x": RANDOM.normal(size=(5, 4)),
    "W1": RANDOM.normal(size=(4, 3)),
    "W2": RANDOM.normal(size=(3, 2)),
}


@dataclasses.dataclass
class Layer:
    W: np.ndarray
    b: np.ndarray


def deep(params, x):
    h = np.tanh(x @ params["layer1"].W + params["layer1"].b)
    J = np.sum(h @ params["heads"][0]) + np.sum(params["heads"][1] ** 2)
    return J


PARAMETERS = {
    "layer1": Layer(RANDOM.normal(size=(4, 3)), RANDOM.normal(size=3)),
    "heads": [RANDOM.normal(size=(3, 2)), RANDOM.normal(size=2)],
}
LEAVES = ("params.heads[0]", "params.heads[1]", "params.layer1.W", "params.layer1.b")


def gradients(graph):
    """The names of the outputs that are gradients."""
    return [name for name, _ in graph.outputs if "/" in name]


def differences(graph, arguments, name, of="J"):
    """Central differences of `of` by each element of an input, in float64."""
    result = np.zeros(np.shape(arguments[name]))
    for place in np.ndindex(*result.shape):
        ends = []
        for sign in (1, -1):
            moved = np.array(arguments[name], dtype=float)
            moved[place] += sign * EPS
            ends.append(float(graph.run({**arguments, name: moved})[of]))
        result[place] = (ends[0] - ends[1]) / (2 * EPS)
    return result


# Names -------------------------------------------------------------------------------------------


def test_gradients_of_inputs_and_intermediates_are_named_after_them():
    step = cr.backward(cr.trace(objective), wrt=("W1", "W2"))
    assert gradients(step) == ["dJ/dW1", "dJ/dW2"]
    run = step.run(ARGUMENTS)
    for name in ("dJ/dh", "dJ/dz", "dJ/do", "dJ/dL", "dJ/ds", "dJ/dW1"):
        assert run[name].shape == run[name.removeprefix("dJ/d")].shape
    assert "dJ/dx" not in run
    assert np.array_equal(run.gradient("h"), run["dJ/dh"])


def test_gradients_of_container_entries_have_brackets():
    step = cr.backward(cr.trace(deep, PARAMETERS, np.ones((5, 4))), wrt="params")
    assert gradients(step) == [f"dJ/d({leaf})" for leaf in LEAVES]


def test_a_gradient_of_a_gradient_nests_brackets():
    step = cr.backward(cr.trace(objective), wrt=("W1", "W2"))
    twice = cr.backward(step, of="dJ/dW1", wrt=("W2", "W1"), seed="u")
    assert gradients(twice)[2:] == ["d(dJ/dW1)/dW2", "d(dJ/dW1)/dW1"]
    assert [item.name for item in twice.inputs] == ["x", "W1", "W2", "decay", "u"]


def test_a_variable_assigned_twice_has_a_gradient_for_each_value():
    def f(x: float64[3]):
        h = np.sin(x)
        h = h * x
        J = np.sum(h)
        return J

    run = cr.backward(cr.trace(f)).run(x=np.ones(3))
    np.testing.assert_allclose(run["dJ/dh_1"], 1)
    np.testing.assert_allclose(run["dJ/dh"], 1 * np.ones(3))


def test_an_unnamed_output_is_called_out():
    graph = cr.trace(lambda x: np.sum(x * x), np.ones(2))
    assert gradients(cr.backward(graph)) == ["dout/dx"]


# What wrt means ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrt, expected",
    [
        (None, ["dJ/dx"]),
        ("W2", ["dJ/dW2"]),
        (1, ["dJ/dW1"]),
        (-1, ["dJ/ddecay"]),
        ((2, "x"), ["dJ/dW2", "dJ/dx"]),
        (["W1", "W1"], ["dJ/dW1"]),
        ("h", ["dJ/dh"]),
        (("z", "W2"), ["dJ/dz", "dJ/dW2"]),
        ("decay", ["dJ/ddecay"]),
    ],
)
def test_wrt_is_a_name_a_position_or_several(wrt, expected):
    graph = cr.trace(objective)
    assert gradients(cr.backward(graph, wrt=wrt)) == expected


def test_wrt_all_is_every_named_float_value():
    step = cr.backward(cr.trace(objective), wrt="all")
    assert set(gradients(step)) == {f"dJ/d{n}" for n in "x W1 W2 decay z h o L s".split()}


@pytest.mark.parametrize(
    "wrt, expected",
    [
        ("params", LEAVES),
        ("params.layer1", LEAVES[2:]),
        ("params.heads", LEAVES[:2]),
        (("params.layer1.b", "x"), ("params.layer1.b", "x")),
        (0, LEAVES),
        (None, LEAVES),
    ],
)
def test_wrt_takes_containers_apart(wrt, expected):
    step = cr.backward(cr.trace(deep, PARAMETERS, np.ones((5, 4))), wrt=wrt)
    assert gradients(step) == [
        f"dJ/d({n})" if not n.isidentifier() else f"dJ/d{n}" for n in expected
    ]


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "W1", "W2", "decay"])
def test_gradients_are_finite_differences(name):
    graph = cr.trace(objective)
    arguments = {**ARGUMENTS, "decay": 0.1}
    run = cr.backward(graph, wrt="all").run(arguments)
    expected = differences(graph, arguments, name)
    np.testing.assert_allclose(run[f"dJ/d{name}"], expected, rtol=1e-7, atol=1e-7)


def test_second_derivatives_are_finite_differences_of_first_ones():
    step = cr.backward(cr.trace(objective), wrt="W1")
    seed = RANDOM.normal(size=(4, 3))
    twice = cr.backward(step, of="dJ/dW1", wrt="W2", seed=seed)
    mixed = twice.run(ARGUMENTS)["d(dJ/dW1)/dW2"]
    expected = np.zeros((3, 2))
    for place in np.ndindex(3, 2):
        ends = []
        for sign in (1, -1):
            W2 = ARGUMENTS["W2"].copy()
            W2[place] += sign * EPS
            ends.append(np.sum(seed * step.run({**ARGUMENTS, "W2": W2})["dJ/dW1"]))
        expected[place] = (ends[0] - ends[1]) / (2 * EPS)
    np.testing.assert_allclose(mixed, expected, rtol=1e-7, atol=1e-7)


def test_the_terms_of_the_chain_rule_add_up_to_the_gradient():
    def f(x: float64[3]):
        h = np.sin(x)
        J = np.sum(h * h) + np.sum(np.exp(h)) + h[0]
        return J

    step = cr.backward(cr.trace(f))
    gradient = next(g for g in step.gradients if g.wrt is step["h"])
    assert len(gradient.terms) == 4
    consumers = [term.consumer.primitive.name for term in gradient.terms]
    assert consumers == ["multiply", "multiply", "exp", "slice"]
    named = step.replace(
        names={**step.names, **{f"t{i}": t.value for i, t in enumerate(gradient.terms)}}
    )
    run = named.run(x=RANDOM.normal(size=3))
    total = sum(run[f"t{i}"] for i in range(4))
    np.testing.assert_allclose(total, run["dJ/dh"], rtol=1e-14)


def test_the_forward_pass_is_unchanged():
    graph = cr.trace(objective)
    step = cr.backward(graph, wrt=("W1", "W2"))
    assert set(graph.nodes) <= set(step.nodes)
    assert [step[name] is graph[name] for name in graph.names] == [True] * len(graph.names)
    assert step.outputs[0] == graph.outputs[0]


def test_decay_times_the_weights_is_written_as_the_book_writes_it():
    step = cr.backward(cr.trace(objective), wrt="W2")
    penalty = step["dJ/dW2"].inputs[1]  # (decay / 2) 2 W2 has become decay W2
    assert penalty.primitive.name == "multiply" and penalty.inputs[1] is step["W2"]
    factor = penalty.inputs[0]
    while factor.primitive.name in ("broadcast_to", "cast"):
        factor = factor.inputs[0]
    assert factor is step["decay"]
    run = step.run({**ARGUMENTS, "decay": 0.5})
    h, o = run["h"], run["o"]
    by_hand = h.T @ (2 * o / o.size) + 0.5 * ARGUMENTS["W2"]
    np.testing.assert_allclose(run["dJ/dW2"], by_hand, rtol=1e-13)


def test_gradients_have_the_dtype_of_their_variable():
    def f(x: float32["n 2"], w: float64[2], c=2.0):
        J = np.sum(c * x * w.astype("float32"))
        return J

    step = cr.backward(cr.trace(f), wrt=("x", "w", "c"))
    run = step.run(x=np.ones((3, 2), np.float32), w=np.ones(2))
    for name in "xwc":
        assert run[f"dJ/d{name}"].dtype == run[name].dtype
        assert run[f"dJ/d{name}"].shape == run[name].shape
    assert all(invariant(step) for invariant in INVARIANTS)


# of, seed, unreached ------------------------------------------------------------------------------


def two(x: float64[3]):
    h = np.sin(x)
    a = np.sum(h)
    b = np.sum(h * x)
    return a, b


def test_of_chooses_among_outputs_and_named_values():
    graph = cr.trace(two)
    both = cr.backward(cr.backward(graph, of="a"), of="b")
    assert gradients(both) == ["da/dx", "db/dx"]
    x = RANDOM.normal(size=3)
    run = both.run(x=x)
    np.testing.assert_allclose(run["da/dx"], np.cos(x), rtol=1e-14)
    np.testing.assert_allclose(run["db/dx"], np.cos(x) * x + np.sin(x), rtol=1e-14)
    np.testing.assert_array_equal(run.gradient("h", of="b"), x)
    np.testing.assert_array_equal(run.gradient("h", of="a"), np.ones(3))


def test_a_seed_is_an_array_or_a_new_input():
    graph = cr.trace(two)
    x, u = RANDOM.normal(size=3), RANDOM.normal(size=3)
    fixed = cr.backward(graph, of="h", seed=u).run(x=x)
    free = cr.backward(graph, of="h", seed="u").run(x=x, u=u)
    np.testing.assert_allclose(fixed["dh/dx"], u * np.cos(x), rtol=1e-14)
    np.testing.assert_array_equal(free["dh/dx"], fixed["dh/dx"])
    scaled = cr.backward(graph, of="a", seed=3.0).run(x=x)
    np.testing.assert_allclose(scaled["da/dx"], 3 * np.cos(x), rtol=1e-14)


def test_what_the_objective_does_not_depend_on_has_a_zero_gradient_and_is_listed():
    def f(x: float64[3], y: float64["n 2"], c=1.0):
        k = np.sign(x)
        J = np.sum(k)
        return J

    step = cr.backward(cr.trace(f), wrt=("x", "y", "c"))
    assert step.unreached == ("x", "y", "c")
    run = step.run(x=np.ones(3), y=np.ones((4, 2)))
    np.testing.assert_array_equal(run["dJ/dx"], np.zeros(3))
    np.testing.assert_array_equal(run["dJ/dy"], np.zeros((4, 2)))
    assert run["dJ/dc"] == 0
    assert cr.backward(cr.trace(objective), wrt="all").unreached == ()


def test_the_objective_may_itself_be_an_input():
    graph = cr.trace(lambda x: x, np.float64(1.0))
    assert cr.backward(graph).run(x=2.0).graph.outputs[-1][0] == "dx/dx"
    assert cr.backward(graph).run(x=2.0)["dx/dx"] == 1


def test_a_gradient_that_is_a_constant_takes_no_value_of_the_forward_pass():
    def program(x):
        h = x * 2
        h = h + 1
        J = np.sum(h)
        return J

    step = cr.backward(cr.trace(program, np.ones(3)))
    forward = [node for node in step.nodes if not node.origin.transform]
    assert not {name for node in forward for name in [step.name_of.get(node, "")] if "/" in name}
