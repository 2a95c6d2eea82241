"""A run gives every kept value by the user's name, in memory of its own, and changes no input."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import hashlib
from collections.abc import Mapping

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, NameLookupError
from chainrule.execute import Run, run_graph

TABLE = np.array([1.0, 2.0])


def objective(x: float64["n 3"], params: object, rate=0.5):
    view = x.T
    h = np.tanh(view.T @ params["W"]) * TABLE
    same = cr.stop_gradient(h)
    flat = h.reshape(-1)
    J = rate * np.sum(same * h) + np.sum(flat)
    return {"J": J, "h": [h, x]}


X, PARAMS = np.arange(6.0).reshape(2, 3) / 8, {"W": np.ones((3, 2)) / 4}
GRAPH = cr.trace(objective, params=PARAMS)
STEP = cr.backward(GRAPH, wrt="params", of="J")


def digest(*arrays):
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]


def test_a_run_is_a_mapping_of_the_named_values():
    run = GRAPH.run(x=X, params=PARAMS)
    assert isinstance(run, Mapping)
    names = ["x", "params.W", "rate", "view", "TABLE", "h", "same", "flat", "J"]
    assert sorted(run) == sorted(names)
    assert len(run) == len(names)
    assert "h" in run
    assert "q" not in run
    assert run.get("q") is None
    want = objective(X, PARAMS)
    assert np.array_equal(run["h"], want["h"][0])
    assert np.array_equal(run["J"], want["J"])
    assert np.array_equal(run["rate"], 0.5)
    assert repr(run).startswith("<Run of objective: x: float64[2, 3], params.W: float64[3, 2]")


def test_outputs_have_the_containers_of_what_was_returned():
    outputs = GRAPH.run(x=X, params=PARAMS).outputs
    want = objective(X, PARAMS)
    assert list(outputs) == ["J", "h"]
    assert np.array_equal(outputs["J"], want["J"])
    assert np.array_equal(outputs["h"][0], want["h"][0])
    assert np.array_equal(outputs["h"][1], X)
    gradients = STEP.run(x=X, params=PARAMS).outputs
    assert [value.shape for value in gradients] == [(), (2, 2), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    ("keep", "names"),
    [
        ("outputs", {"J", "h", "x"}),
        ([], {"J", "h", "x"}),
        (["flat"], {"J", "h", "x", "flat"}),
        (("params.W", "view"), {"J", "h", "x", "params.W", "view"}),
    ],
)
def test_keep_says_which_values_outlive_the_run(keep, names):
    run = GRAPH.run(x=X, params=PARAMS, keep=keep)
    assert set(run) == names
    assert np.array_equal(run.outputs["J"], objective(X, PARAMS)["J"])


def test_gradients_are_found_by_their_variable():
    run = STEP.run(x=X, params=PARAMS)
    assert run.gradient("params.W") is run["dJ/d(params.W)"]
    assert run.gradient("h", of="J") is run["dJ/dh"]
    with pytest.raises(NameLookupError, match="the gradient with respect to 'h' was not computed"):
        run.gradient("h", of="K")


LOOKUPS = [
    (lambda: GRAPH.run(x=X, params=PARAMS)["hh"], "the graph objective has no value called 'hh'", "one of: h"),
    (lambda: GRAPH.run(x=X, params=PARAMS, keep="outputs")["flat"], "the value 'flat' was computed and not kept: keep='outputs'", "run with keep=[..., 'flat'] or keep='named'"),
    (lambda: GRAPH.run(x=X, params=PARAMS, keep=["hh"]), "the graph objective has no value called 'hh'", "one of: h"),
    (lambda: STEP.run(x=X, params=PARAMS)["dJ/dx"], "the graph objective has no value called 'dJ/dx'", "ask for it where the gradient is made: cr.backward(..., wrt=[..., 'x']).\none of: dJ/dh, dJ/dflat"),
    (lambda: STEP.run(x=X, params=PARAMS).gradient("x"), "the gradient with respect to 'x' was not computed", "ask for it where the gradient is made: cr.backward(..., wrt=[..., 'x'])"),
    (lambda: GRAPH["dJ/dx"], "the graph objective has no value called 'dJ/dx'", "one of: x, params.W, rate, view, TABLE, h, same, flat, J"),
]  # fmt: skip


@pytest.mark.parametrize(("look", "what", "hint"), LOOKUPS)
def test_a_value_that_is_not_there_is_explained(look, what, hint):
    with pytest.raises(KeyError) as caught:
        look()
    assert str(caught.value) == f"{what}\n  try: " + hint.replace("\n", "\n       ")


def test_kept_arrays_share_no_memory_with_inputs_constants_or_each_other():
    table = TABLE.copy()
    run = GRAPH.run(x=X, params=PARAMS, rate=np.float64(0.5))
    kept = list(run.items())
    for place, (name, value) in enumerate(kept):
        value = np.asarray(value)
        assert value.flags.writeable, name
        for given in (X, PARAMS["W"], TABLE):
            assert not np.shares_memory(value, given), name
        for other, array in kept[:place]:
            assert not np.shares_memory(value, array), (name, other)
    for value in run.values():
        value[...] = -7
    assert np.array_equal(GRAPH.run(x=X, params=PARAMS)["TABLE"], table)


def test_inputs_are_never_modified():
    before = digest(X, PARAMS["W"], TABLE)
    for graph in (GRAPH, STEP):
        graph.run(x=X, params=PARAMS)
        cr.value_and_grad(lambda p: objective(X, p)["J"])(PARAMS)
    assert digest(X, PARAMS["W"], TABLE) == before


def test_read_only_and_strided_inputs_are_read():
    wide = np.zeros((2, 6))
    wide[:, ::2] = X
    frozen = PARAMS["W"].copy()
    frozen.setflags(write=False)
    run = GRAPH.run(x=wide[:, ::2], params={"W": frozen})
    assert np.array_equal(run["h"], objective(X, PARAMS)["h"][0])


def test_defaults_are_used_until_a_value_is_given():
    assert GRAPH.run(x=X, params=PARAMS)["rate"] == 0.5
    for rate in (2, 2.0, np.float32(2), np.array(2.0)):
        run = GRAPH.run(x=X, params=PARAMS, rate=rate)
        assert run["rate"] == 2
        assert np.allclose(run["J"], objective(X, PARAMS, 2.0)["J"], 1e-15)


def test_arguments_may_be_given_in_a_mapping():
    def program(keep):
        return keep * 2

    graph = cr.trace(program, np.ones(2))
    assert np.array_equal(graph.run({"keep": np.ones(2)}, keep="outputs").outputs, [2, 2])


def test_flat_arguments_are_the_inputs_by_their_own_names():
    run = run_graph(GRAPH, {"x": X, "params.W": PARAMS["W"]}, flat=True)
    assert isinstance(run, Run)
    assert np.array_equal(run["J"], objective(X, PARAMS)["J"])


WRONG = [
    (dict(params=PARAMS), "the input x of objective was not given; expected float64[n, 3]", "graph.run(..., x=...)"),
    (dict(x=X.astype(np.float32), params=PARAMS), "the input x of objective must be float64[n, 3], got float32[2, 3]", "convert it: x.astype(np.float64)"),
    (dict(x=[[1, 2, 3]], params=PARAMS), "the input x of objective must be float64[n, 3], got int64[1, 3]", "convert it: np.asarray(x, np.float64)"),
    (dict(x=X[0], params=PARAMS), "the input x of objective must be float64[n, 3], got float64[3]", "check the order of the axes and which array is passed under which name"),
    (dict(x=X.T, params=PARAMS), "the input x of objective must be float64[n, 3], got float64[3, 2] (axis 1)", "check the order of the axes and which array is passed under which name"),
    (dict(x=None, params=PARAMS), "the input x of objective must be float64[n, 3], got None", "give a NumPy array or a number"),
    (dict(x=[[1.0], [1.0, 2.0]], params=PARAMS), "the input x of objective must be float64[n, 3], got [[1.0], [1.0, 2.0]]", "give a NumPy array or a number"),
    (dict(x=X, params=PARAMS, rate=True), "the input rate of objective must be weak float64[], got bool[]", "convert it: np.asarray(rate, np.float64)"),
    (dict(x=X, params=PARAMS, rat=1.0), "the graph objective has no input called 'rat'", "perhaps rate; its inputs are: x, params, rate"),
    (dict(x=X, params={"V": X}), "the container params does not have the parts it was traced with: missing params.W; unknown params.V", "its parts are: params.W"),
    (dict(x=X, params=[X]), "the container params does not have the parts it was traced with: missing params.W; unknown params[0]", "its parts are: params.W"),
    (dict(x=X, params=PARAMS, keep="h"), "keep='h' is neither \"named\" nor \"outputs\" nor a list of names", "keep=['h']"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "what", "hint"), WRONG)
def test_wrong_arguments_are_explained(arguments, what, hint):
    with pytest.raises(InputError) as caught:
        GRAPH.run(**arguments)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_positional_arrays_are_refused_with_the_names():
    with pytest.raises(InputError) as caught:
        GRAPH.run(X)
    assert caught.value.what == "graph.run takes its arguments by name, got ndarray"
    assert caught.value.hint == "graph.run(x=..., params=..., rate=...)"
