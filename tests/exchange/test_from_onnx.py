"""ONNX files as models: names, parameters, sizes, scopes, gradients; and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")

from onnx_models import F, helper, mlp, model, node, onnx, tensor, text, value  # noqa: E402
from onnx_widened import widened  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.errors import (  # noqa: E402
    DataFileError,
    InputError,
    QuantisedWeightsWarning,
    UnsupportedError,
)

X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> cr.Model:
    return cr.from_onnx(text(mlp()))


def test_names_sizes_and_scopes_are_those_of_the_file(net: cr.Model) -> None:
    graph = net.graph
    assert list(net.inputs) == ["x"] and net.outputs == ("logits",)
    assert [one.name for one in graph.inputs] == [
        "x",
        "layer1.weight",
        "layer1.bias",
        "onnx::MatMul_7",
    ]
    assert graph.sizes == ("batch",)
    made = graph["/layer1/Gemm_output_0"]
    assert made.origin.scope is not None and made.origin.scope.path == "layer1"
    assert made.origin.describe() == "<model>:1, in Gemm (/layer1/Gemm)"
    assert graph.outputs[0][0] == "logits"


def test_the_numbers_are_those_of_onnxruntime(net: cr.Model) -> None:
    runtime = pytest.importorskip("onnxruntime")
    (wanted,) = runtime.InferenceSession(text(mlp())).run(None, {"x": X})
    np.testing.assert_allclose(net(X), wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(net(x=X), wanted, rtol=1e-6, atol=1e-6)


def test_the_model_is_a_part_of_an_objective() -> None:
    net = cr.from_onnx(text(widened(mlp())))

    def objective(x: cr.float64["n 3"], parameters: Any) -> Any:  # type: ignore[name-defined]
        o = net(x, parameters)
        J = np.sum(o**2)
        return J

    x = X.astype(np.float64)
    cr.testing.check_gradients(lambda p: objective(x, p), net.parameters)
    step = cr.training_step(objective, "parameters", cr.sgd(0.01), parameters=net.parameters)
    assert {"J", "o", "net./layer1/Gemm_output_0"} <= {*step.graph.names}
    state = step.init(parameters=net.parameters)
    first = step(state, x=x)
    assert step(state, x=x) < first


def test_a_model_of_a_file_is_called_as_one_of_pytorch_is(net: cr.Model) -> None:
    y = net(X)
    for found in (net(X, net.parameters), net(x=X, parameters=net.parameters)):
        np.testing.assert_array_equal(found, y)
    out, buffers = net(X, net.parameters, net.buffers)
    assert buffers == {} == net.buffers
    np.testing.assert_array_equal(out, y)
    assert net.training is None
    with pytest.raises(InputError, match="net has one mode: the file <model> does not say"):
        net(X, training=True)


def test_an_input_may_be_called_key() -> None:
    made = model(
        [node("MatMul", "query key", "y")],
        [value("query", ["n", 3]), value("key", [3, 2])],
        [value("y", None)],
    )
    found = cr.from_onnx(text(made))
    key = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(found(query=X, key=key), found(X, key))


def test_a_model_of_a_path_is_called_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "my-net 2.onnx").write_bytes(text(mlp()))
    assert cr.from_onnx(tmp_path / "my-net 2.onnx").graph.name == "my_net_2"


def test_parameters_are_chosen() -> None:
    none = cr.from_onnx(text(mlp()), parameters=())
    assert not none.parameters and len(none.graph.inputs) == 1
    some = cr.from_onnx(text(mlp()), parameters=["layer1.bias"])
    assert list(some.parameters) == ["layer1.bias"]
    np.testing.assert_array_equal(none(X), some(X))
    with pytest.raises(InputError, match="no floating-point arrays 'bias'"):
        cr.from_onnx(text(mlp()), parameters=["bias"])


def test_statistics_and_fixed_operands_are_no_parameters() -> None:
    ones = np.ones(3, np.float32)
    made = model(
        [
            node("BatchNormalization", "x scale bias mean var", "h"),
            node("Clip", "h - most", "y"),
        ],
        [value("x", ["n", 3, 4])],
        [value("y", ["n", 3, 4])],
        [tensor(name, ones) for name in ("scale", "bias", "mean", "var")]
        + [tensor("most", np.float32(0.5))],
    )
    assert list(cr.from_onnx(text(made)).parameters) == ["scale", "bias"]


def test_sizes_get_numbers(net: cr.Model) -> None:
    fixed = cr.from_onnx(text(mlp()), sizes={"batch": 5})
    assert fixed.graph["x"].shape == (5, 3) and not fixed.graph.sizes


def test_odd_names_of_sizes_become_identifiers() -> None:
    axes = ["seq-len + 1", None, "7", 2, "?", "?"]
    made = model([node("Relu", "x", "y")], [value("x", axes)], [value("y", None)])
    assert cr.from_onnx(text(made)).graph.sizes == ("seq_len___1", "x_1", "n_7", "x_4", "x_5")


def test_what_must_be_known_but_depends_on_a_size_is_said() -> None:
    branches = [
        helper.make_graph([node(name, "x", "a", axis=0)], name, [], [value("a", None)])
        for name in ("Softmax", "Flatten")
    ]
    made = model(
        [
            node("Shape", "x", "s"),
            node("Equal", "s one", "is1"),
            node("Squeeze", "is1", "is1_"),
            node("If", "is1_", "y", then_branch=branches[0], else_branch=branches[1]),
        ],
        [value("x", ["n"])],
        [value("y", None)],
        [tensor("one", np.array([1]))],
    )
    with pytest.raises(UnsupportedError) as caught:
        cr.from_onnx(text(made))
    assert "If: its condition must be known" in str(caught.value)
    assert "but depends on the size n" in str(caught.value)
    assert "give it a number: cr.from_onnx(path, sizes={'n': ...})" in str(caught.value)
    assert cr.from_onnx(text(made), sizes={"n": 1}).graph["y"].shape == (1,)


def test_constants_are_parameters_too_also_in_branches() -> None:
    weights = np.ones((3, 2), np.float32)
    inner = [node("Constant", "", "w", value=tensor("", weights)), node("MatMul", "x w", "a")]
    other = [node("Constant", "", "v", value=tensor("", weights)), node("MatMul", "x v", "a")]
    branches = [helper.make_graph(one, "g", [], [value("a", None)]) for one in (inner, other)]
    made = model(
        [
            node("Constant", "", "half", value=tensor("", np.float32(0.5))),
            node("Greater", "k half", "which"),
            node("If", "which", "y", then_branch=branches[0], else_branch=branches[1]),
        ],
        [value("x", ["n", 3]), value("k", [])],
        [value("y", ["n", 2])],
    )
    found = cr.from_onnx(text(made))
    assert sorted(found.parameters) == ["v", "w"]
    x, zero = np.ones((1, 3), np.float32), {"w": 0 * weights, "v": weights}
    for k, wanted in ((1, 0), (0, 3)):
        result = found(x, np.array(k, np.float32), parameters=zero)
        assert result.tolist() == [[wanted, wanted]]


def test_shapes_that_a_file_computes_are_sizes() -> None:
    made = model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n", axis=0),
            node("Gather", "s one", "d", axis=0),
            node("Mul", "n d", "nd"),
            node("Unsqueeze", "nd axes", "nd1"),
            node("Concat", "nd1 last", "shape", axis=0),
            node("Reshape", "x shape", "y"),
            node("ReduceProd", "s", "count", keepdims=0),
            node("Cast", "count", "float", to=F),
            node("Div", "y float", "z"),
        ],
        [value("x", ["n", "d", 4])],
        [value("y", None), value("z", None)],
        [
            tensor("zero", np.int64(0)),
            tensor("one", np.int64(1)),
            tensor("axes", np.array([0])),
            tensor("last", np.array([-1])),
        ],
    )
    found = cr.from_onnx(text(made))
    assert str(found.graph["y"].type) == "float32[d*n, 4]"
    x = np.ones((2, 3, 4), np.float32)
    np.testing.assert_allclose(found(x)["z"], np.ones((6, 4)) / 24)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("way", ["half_pixel", "asymmetric"])
def test_named_sizes_are_resized(mode: str, way: str) -> None:
    options = {"mode": mode, "coordinate_transformation_mode": way, "nearest_mode": "floor"}
    made = model(
        [node("Resize", "x - scales", "y", **options)],
        [value("x", ["n", 2, "h", "w"])],
        [value("y", None)],
        [tensor("scales", np.array([1, 1, 2, 3], np.float32))],
    )
    x = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype(np.float32)
    named = cr.from_onnx(text(made))
    assert str(named.graph["y"].type) == "float32[n, 2, 2*h, 3*w]"
    fixed = cr.from_onnx(text(made), sizes={"n": 2, "h": 3, "w": 4})
    np.testing.assert_allclose(named(x), fixed(x), rtol=1e-5, atol=1e-6)


def test_branches_and_loops_become_ours() -> None:
    made = model(
        [
            node("ReduceSum", "x", "total", keepdims=0),
            node("Greater", "total zero", "positive"),
            node(
                "If",
                "positive",
                "h",
                then_branch=helper.make_graph(
                    [node("Mul", "x two", "a")], "t", [], [value("a", None)]
                ),
                else_branch=helper.make_graph([node("Neg", "x", "b")], "e", [], [value("b", None)]),
            ),
            node(
                "Loop",
                "many - h",
                "y rows",
                body=helper.make_graph(
                    [
                        node("Identity", "go", "going"),
                        node("Mul", "c two", "d"),
                        node("ReduceSum", "d", "row", keepdims=0),
                    ],
                    "body",
                    [value("i", [], 7), value("go", [], 9), value("c", [3])],
                    [value("going", [], 9), value("d", [3]), value("row", [])],
                ),
            ),
        ],
        [value("x", [3])],
        [value("y", [3]), value("rows", [4])],
        [tensor("zero", np.float32(0)), tensor("two", np.float32(2)), tensor("many", np.int64(4))],
    )
    found = cr.from_onnx(text(made))
    assert {"cond", "scan"} <= {one.primitive.name for one in found.graph}
    for x in (np.ones(3, np.float32), -np.ones(3, np.float32)):
        h = x * 2 if x.sum() > 0 else -x
        run = found(x)
        np.testing.assert_allclose(run["y"], h * 16)
        np.testing.assert_allclose(run["rows"], [h.sum() * 2**k for k in (1, 2, 3, 4)])


def test_functions_of_the_file_are_run() -> None:
    made = mlp()
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(
        helper.make_function(
            "own",
            "Twice",
            ["a"],
            ["b"],
            [
                node("Constant", "", "two", value=tensor("", np.float32(2))),
                node("Mul", "a two", "b"),
            ],
            [helper.make_opsetid("", 18)],
        )
    )
    made.graph.node.append(helper.make_node("Twice", ["logits"], ["twice"], domain="own"))
    made.graph.output.append(value("twice", ["batch", 2]))
    found = cr.from_onnx(text(made))(X)
    np.testing.assert_allclose(found["twice"], 2 * found["logits"])


def test_quantised_weights_are_read_as_floats() -> None:
    made = model(
        [node("DequantizeLinear", "w8 scale zero", "w"), node("MatMul", "x w", "y")],
        [value("x", ["n", 3])],
        [value("y", None)],
        [
            tensor("w8", np.arange(6, dtype=np.int8).reshape(3, 2)),
            tensor("scale", np.float32(0.5)),
            tensor("zero", np.int8(1)),
        ],
    )
    with pytest.warns(QuantisedWeightsWarning, match="1 quantised array"):
        found = cr.from_onnx(text(made))
    np.testing.assert_array_equal(found.parameters["w"], (np.arange(6).reshape(3, 2) - 1) / 2)


def test_tensors_may_lie_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, location="net.bin", size_threshold=0)
    np.testing.assert_array_equal(cr.from_onnx(path)(X), cr.from_onnx(text(mlp()))(X))
    assert cr.from_onnx(str(path)).graph["logits"].origin.short() == "<net.onnx>:3"
    with pytest.raises(DataFileError, match="lies in another file"):
        cr.from_onnx(path.read_bytes())
    for location in ("../other", str(path), "no.bin", ""):
        wrong = onnx.load(path, load_external_data=False)
        for one in wrong.graph.initializer[0].external_data:
            if one.key == "location":
                one.value = location if location != str(path) else "/etc/hostname"
        path.write_bytes(text(wrong))
        with pytest.raises(DataFileError, match="which is no file beside the model"):
            cr.from_onnx(path)


def test_inputs_that_must_be_known_can_be_fixed() -> None:
    made = model(
        [node("Reshape", "x shape", "y")],
        [value("x", [2, 3]), value("shape", [1], 7)],
        [value("y", None)],
    )
    with pytest.raises(UnsupportedError) as caught:
        cr.from_onnx(text(made))
    assert (
        "its shape must be known when the file is read, but is computed from the input shape"
        in (str(caught.value))
    )
    assert "cr.from_onnx(path, values={'shape': ...})" in str(caught.value)
    assert cr.from_onnx(text(made), values={"shape": np.array([6])}).graph["y"].shape == (6,)


def test_a_call_with_wrong_inputs_is_explained(net: cr.Model) -> None:
    for call in (lambda: net(), lambda: net(X, x=X), lambda: net(z=X)):
        with pytest.raises(InputError, match="net takes x, got"):
            call()
    with pytest.raises(InputError, match="parameters are arrays by name, got ndarray"):
        net(X, X)
    with pytest.raises(
        InputError, match=r"x is float64\[5, 3\], and the file <model> is for float"
    ):
        net(X.astype(np.float64))


def test_a_file_of_the_users_that_hides_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "onnx.py").write_text("")
    for name in [one for one in sys.modules if one.partition(".")[0] == "onnx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"Python found .*onnx\.py instead") as caught:
        cr.from_onnx(b"")
    assert caught.value.hint == "give that file another name"


def test_the_package_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'chainrule\[onnx\]'"):
        from chainrule.exchange.package import onnx_package

        onnx_package("cr.from_onnx")
