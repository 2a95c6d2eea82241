"""Graphs as ONNX models: names, gradients, training steps; and what ONNX lacks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peers
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from in_onnxruntime import agrees, ran  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.errors import (  # noqa: E402
    InputError,
    NotDifferentiableError,
    UnsupportedError,
)
from chainrule.frontend.traced import Traced  # noqa: E402
from chainrule.primitives.arithmetic import exp  # noqa: E402
from chainrule.primitives.primitive import Library, Map  # noqa: E402


def mlp(
    x: cr.float32["n 6"],  # type: ignore[name-defined]
    y: cr.int64["n"],  # type: ignore[name-defined]
    W1: cr.float32["6 4"],  # type: ignore[name-defined]
    W2: cr.float32["4 3"],  # type: ignore[name-defined]
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def numbers(n: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=(n, 6)).astype(np.float32),
        "y": rng.integers(0, 3, n),
        "W1": rng.normal(size=(6, 4)).astype(np.float32),
        "W2": rng.normal(size=(4, 3)).astype(np.float32),
    }


def test_names_dimensions_and_defaults_are_kept(tmp_path: Path) -> None:
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "W2"))
    graph.to_onnx(tmp_path / "mlp.onnx")
    made = onnx.load(tmp_path / "mlp.onnx").graph
    assert [one.name for one in made.input] == ["x", "y", "W1", "W2", "weight_decay"]
    assert [one.name for one in made.output] == ["J", "dJ/dW1", "dJ/dW2"]
    assert made.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    values = {name for one in made.node for name in one.output}
    assert {"z", "h", "o", "L", "s", "J", "dJ/dh", "dJ/dW1"} <= values
    session = runtime.InferenceSession(tmp_path / "mlp.onnx")
    for n in (1, 5):
        given = numbers(n)
        wanted = graph.run(given)
        for one, found in zip(("J", "dJ/dW1", "dJ/dW2"), session.run(None, given), strict=True):
            np.testing.assert_allclose(found, wanted[one], rtol=1e-5, atol=1e-6)


def test_parameters_go_into_the_file() -> None:
    given = numbers()
    weights = {"W1": given["W1"], "W2": given["W2"]}
    graph = cr.trace(mlp)
    agrees(graph, given, parameters=weights)
    made = onnx.load_from_string(graph.to_onnx(parameters=weights)).graph
    assert [one.name for one in made.input] == ["x", "y", "weight_decay"]
    with pytest.raises(InputError, match="W3"):
        graph.to_onnx(parameters={"W3": given["W1"]})
    with pytest.raises(InputError, match="the parameter W1 is float64 of shape"):
        graph.to_onnx(parameters={"W1": np.ones((6, 4))})


def normalised(x, y, W1, W2, mean, var, key, training=True):
    """Batch statistics and dropout: state that is not trained, and a key."""
    h, mean, var = cr.batch_norm(x @ W1, mean, var, training=training)
    h = cr.dropout(np.maximum(h, 0), 0.3, key=key, training=training)
    J = cr.cross_entropy(h @ W2, y)
    return J, {"mean": mean, "var": var}


def unrolled(x, y, W1, W2):
    """A loop over the columns."""

    def cell(h, column):
        h = np.tanh(h @ (W1.T @ W1) + column[:, None] * W1[0])
        return h, ()

    last, _ = cr.scan(cell, np.zeros_like(x @ W1) @ W1.T @ W1, x.T)
    J = cr.cross_entropy(last @ W2, y)
    return J


TRAININGS = {
    "sgd": (mlp, cr.sgd(0.1)),
    "momentum": (mlp, cr.sgd(0.1, momentum=0.9)),
    "nesterov": (mlp, cr.sgd(0.1, momentum=0.9, nesterov=True)),
    "adam": (mlp, cr.adam(1e-2)),
    "adamw": (mlp, cr.adamw(1e-2, weight_decay=0.1)),
    "schedule": (mlp, cr.adam(cr.schedules.cosine(0.02, steps=100))),
    "clipped": (mlp, cr.clip_by_global_norm(cr.adamw(1e-2), max_norm=0.1)),
    "state": (normalised, cr.sgd(0.1)),
    "loop": (unrolled, cr.sgd(0.1, momentum=0.9)),
}
QUICK_TRAININGS = ("momentum", "clipped")
SLOW_TRAININGS = ("schedule", "state", "loop")


def marked(name: str) -> Any:
    if name in QUICK_TRAININGS:
        return name
    mark = pytest.mark.slow if name in SLOW_TRAININGS else pytest.mark.exhaustive
    return pytest.param(name, marks=mark)


@pytest.mark.filterwarnings("ignore:J contains a sum of squares")
@pytest.mark.parametrize("name", [marked(name) for name in TRAININGS])
def test_a_training_step_runs_in_onnxruntime(name: str) -> None:
    """State in, state out: a hundred steps end where ours end."""
    objective, optimizer = TRAININGS[name]
    given, more = numbers(8), {}
    batch = {name: given[name] for name in ("x", "y")}
    types = {key: cr.trace(mlp)[key].type for key in given}
    begin = {key: given[key] for key in ("W1", "W2")}
    if name == "state":
        begin |= {"mean": np.zeros(4, F), "var": np.ones(4, F)}
        types |= {"mean": cr.float32["4"], "var": cr.float32["4"], "key": cr.uint32["2"]}
        more = {"state": ("mean", "var")}
    if objective is not mlp:
        more |= types
    step = cr.training_step(objective, ("W1", "W2"), optimizer, **more)
    session = runtime.InferenceSession(step.graph.to_onnx())
    state = step.init(**begin)
    arrays = {key: np.array(array) for key, array in state.items()}
    names = [one.name for one in session.get_outputs()]
    ours: Any = 0
    found: dict[str, Any] = {}
    for number in range(100):
        if name == "state":
            batch["key"] = np.asarray(cr.random.fold_in(cr.random.key(1), number))
        ours = step(state, batch)
        found = dict(zip(names, session.run(None, {**batch, **arrays}), strict=True))
        arrays = {one.name: found[one.next_name] for one in step.persistent}
    np.testing.assert_allclose(found["J"], ours, rtol=1e-5)
    for key, array in state.items():
        np.testing.assert_allclose(arrays[key], array, rtol=1e-5, atol=1e-5, err_msg=key)


def convolutional(x, w, b):
    h = cr.relu(cr.conv2d(x, w, b, padding=1, stride=2))
    p = cr.max_pool2d(h, 2)
    q = cr.avg_pool2d(x, 2)
    J = np.mean(p**2) + np.var(q)
    return J


def attention(x, w):
    q, k, v = np.split(x @ w, 3, axis=-1)
    h = cr.scaled_dot_product_attention(q, k, v, is_causal=True)
    J = np.sum(cr.layer_norm(h) * cr.gelu(x, approximate="tanh"))
    return J


def recurrent(x, w):
    def cell(h, row):
        h = np.tanh(h @ w + row)
        return h, h

    last, rows = cr.scan(cell, x[0], x)
    J = np.sum(last) + np.sum(rows**2)
    return J


def choosing(x):
    h = cr.cond(np.sum(x) > 0, lambda: np.sin(x), lambda: np.cos(x) * 2)
    J = np.sum(h * x)
    return J


def sorting(x, i):
    s = np.sort(x, axis=1)[:, ::-1]
    t = np.take_along_axis(x, i, 1)
    c = np.cumsum(x, 1)
    J = np.sum(s * c) + np.sum(t[::-1] ** 2) + np.linalg.norm(x) + np.prod(x[0])
    return J


F = np.float32
PROGRAMS = [
    (convolutional, {"x": ("n 2 9 8", (3, 2, 9, 8)), "w": ("4 2 3 3", (4, 2, 3, 3)),
                     "b": ("4", (4,))}, ("w", "b")),
    (attention, {"x": ("n 5 4", (2, 5, 4)), "w": ("4 12", (4, 12))}, ("x", "w")),
    (recurrent, {"x": ("t 3", (6, 3)), "w": ("3 3", (3, 3))}, ("x", "w")),
    (choosing, {"x": ("n", (4,))}, ("x",)),
    (sorting, {"x": ("n 4", (3, 4)), "i": ("n 2", (3, 2))}, ("x",)),
]  # fmt: skip


def traced(function: Any, types: Any, wrt: Any) -> tuple[cr.Graph, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    given = {
        name: rng.integers(0, 3, shape) if name == "i" else rng.normal(size=shape).astype(F)
        for name, (_, shape) in types.items()
    }
    kinds = {
        name: (cr.int64 if name == "i" else cr.float32)[axes] for name, (axes, _) in types.items()
    }
    return cr.backward(cr.trace(function, **kinds), wrt=wrt), given


@pytest.mark.parametrize(
    ("function", "types", "wrt"), PROGRAMS, ids=lambda one: getattr(one, "__name__", "")
)
def test_gradients_of_programs(function: Any, types: Any, wrt: Any) -> None:
    graph, given = traced(function, types, wrt)
    agrees(graph, given)


@pytest.mark.parametrize(
    ("function", "types", "wrt"), PROGRAMS, ids=lambda one: getattr(one, "__name__", "")
)
def test_there_and_back(function: Any, types: Any, wrt: Any) -> None:
    """Graph, ONNX, graph: the same values, and the same gradients of the forward pass."""
    graph, given = traced(function, types, wrt)
    back = cr.from_onnx(graph.to_onnx())
    found, wanted = back.graph.run(given), graph.run(given)
    for name, _ in graph.outputs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)
    forward = cr.from_onnx(
        cr.trace(function, **{item.name: item.node.type for item in graph.inputs}).to_onnx()
    )
    again = cr.backward(forward.graph, wrt=wrt)
    run = again.run(given)
    for name in wrt:
        np.testing.assert_allclose(run[f"dJ/d{name}"], wanted[f"dJ/d{name}"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2])
def test_a_convolution_becomes_one(axes: int) -> None:
    """Without the array of all windows; there and back it is the convolution that it was."""
    conv = (cr.conv1d, cr.conv2d)[axes - 1]
    rng = np.random.default_rng(0)
    given = {
        "x": rng.normal(size=(2, 3, 9, 8)[: 2 + axes]).astype(F),
        "w": rng.normal(size=(4, 3, 3, 2)[: 2 + axes]).astype(F),
        "b": rng.normal(size=4).astype(F),
    }
    graph = cr.trace(lambda x, w, b: conv(x, w, b, padding=1, stride=2, dilation=2), **given)
    agrees(graph, given)
    made = onnx.load_from_string(graph.to_onnx()).graph.node
    operators = [one.op_type for one in made]
    assert operators.count("Conv") == 1 and not {"Gather", "Einsum"} & set(operators)
    step = cr.backward(graph, wrt=("x", "w", "b"), seed="g")
    agrees(step, {**given, "g": np.ones(graph.outputs[0][1].shape, F)})


def test_a_transposed_matrix_times_a_vector_is_not_fused_wrongly() -> None:
    def f(x, W, v):
        a = W.T @ (W @ x)
        return a, v @ W, x @ x

    types = {"x": cr.float64["d"], "W": cr.float64["m d"], "v": cr.float64["m"]}
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=2), "W": rng.normal(size=(3, 2)), "v": rng.normal(size=3)}
    agrees(cr.trace(f, **types), given)


def test_random_numbers_have_the_same_bits() -> None:
    def f(x, key):
        first, second = cr.random.split(key, 2)
        h = cr.dropout(x, 0.5, key=first)
        u = cr.random.uniform(second, (3,))
        return h, u, first

    graph = cr.trace(f, x=cr.float32["n 4"], key=cr.uint32["2"])
    given = {"x": np.ones((3, 4), F), "key": np.asarray(cr.random.key(3))}
    wanted = graph.run(given)
    for (name, _), found in zip(graph.outputs, ran(graph.to_onnx(), given), strict=True):
        np.testing.assert_array_equal(found, wanted[name])


def test_a_while_loop_becomes_a_loop() -> None:
    def f(x):
        return cr.while_loop(lambda s: np.sum(s) < 100, lambda s: s * 2 + 1, x)

    agrees(cr.trace(f, x=cr.float32["3"]), {"x": np.ones(3, F)})


def test_what_onnx_lacks_is_refused_all_at_once() -> None:
    own = dataclasses.replace(exp, name="own", kernel=Library())
    other = dataclasses.replace(exp, name="other", kernel=Map("erfi(x)"))

    def f(x):
        a = Traced(own(x.node), x.program)
        b = Traced(other(x.node), x.program) + Traced(other(a.node), x.program)
        s = np.linalg.svd(x)[1]
        return a, b, s

    with pytest.raises(UnsupportedError) as caught:
        cr.trace(f, x=cr.float32["n n"]).to_onnx()
    said = str(caught.value)
    assert "ONNX has no operator for own: a function of your own (1 node), other: erfi (2" in said
    assert "svd: matrices with n columns, which must be a number (1 node)" in said
    with pytest.raises(UnsupportedError) as caught:
        cr.trace(lambda x: np.linalg.svd(x)[1], x=cr.float32["n n"]).to_onnx()
    assert "where: " in str(caught.value) and "np.linalg.svd(x)[1]" in str(caught.value)


def test_a_function_of_the_users_is_not_taken_for_ours() -> None:
    own = cr.primitive(lambda x: x + 1, name="gammaln", partials=lambda out, x: x * 0 + 1)
    with pytest.raises(UnsupportedError, match="gammaln: a function of your own"):
        cr.trace(lambda x: own(x), x=cr.float32["3"]).to_onnx()


@cr.custom_derivative
def through(x):
    return np.rint(x)


@through.defjvp
def _straight(primals, tangents):
    return through(*primals), tangents[0]


def test_derivatives_that_onnx_does_not_hold() -> None:
    """Values stopped for gradients come back so; a rule of the user's is said to be lost."""
    x = np.array([0.4, 1.6])
    graph = cr.trace(lambda x: np.sum(x * cr.stop_gradient(x) ** 2), x=x)
    back = cr.from_onnx(graph.to_onnx()).graph
    found = cr.backward(back, wrt="x").run(x=x)
    np.testing.assert_allclose(found["dout/dx"], x**2)
    graph = cr.trace(lambda x: np.sum(through(x) * 3), x=x)
    back = cr.from_onnx(graph.to_onnx()).graph
    assert back.run(x=x)["out"] == graph.run(x=x)["out"] == 6
    with pytest.raises(NotDifferentiableError, match="a rule of the program that wrote the file"):
        cr.backward(back, wrt="x")
    agrees(cr.backward(graph, wrt="x"), {"x": x})


def test_numbers_next_to_1_are_not_left_out() -> None:
    """onnxruntime takes 1 + 1e-9 for 1 in products and quotients of float64."""
    x = np.arange(1.0, 4.0)
    near = 1 + 1e-9
    graph = cr.trace(lambda x: (x * near - x, near * -x + x, x / near - x), x=x)
    for (name, _), found in zip(graph.outputs, ran(graph.to_onnx(), {"x": x}), strict=True):
        np.testing.assert_allclose(found, graph.run(x=x)[name], rtol=1e-6)


@pytest.mark.parametrize("opset", [17, 29, "18", True])
def test_operator_sets_that_are_not_written(opset: Any) -> None:
    with pytest.raises(InputError, match=r"opset=.* is not written"):
        cr.trace(mlp).to_onnx(opset=opset)


@pytest.mark.parametrize("opset", [18, 21, 24])
def test_operator_sets_are_chosen(opset: int) -> None:
    model = onnx.load_from_string(cr.trace(mlp).to_onnx(opset=opset))
    assert model.opset_import[0].version == opset
    onnx.checker.check_model(model, full_check=True)


def test_a_size_that_no_input_has_alone_is_refused() -> None:
    graph = cr.trace(lambda x: np.sum(x), x=cr.float32["n*m"])
    with pytest.raises(UnsupportedError, match="the size m, n can be read off no input"):
        graph.to_onnx()


def test_sizes_are_solved_for() -> None:
    graph = cr.trace(lambda x: x.reshape(2, -1)[:, ::-1] / x.shape[0], x=cr.float32["2*n+2"])
    agrees(graph, {"x": np.arange(8, dtype=F)})
