"""What is wrong in an ONNX file, or not read, is said in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")

from onnx_models import helper, mlp, model, node, tensor, text, value  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.errors import (  # noqa: E402
    DataFileError,
    UnsupportedError,
)

Y = value("y", None)


def unknown() -> Any:
    nodes = [node("Foo", "x", "a"), node("Foo", "a", "b"), node("NonMaxSuppression", "b b", "y")]
    return model(nodes, [value("x", [3])], [value("y", None)])


def test_unknown_operators_are_refused_all_at_once() -> None:
    with pytest.raises(UnsupportedError) as caught:
        cr.from_onnx(text(unknown()))
    assert str(caught.value) == (
        "2 operators of <model> are not read: Foo (2 nodes, the first is number 1), "
        "NonMaxSuppression (1 node, the first is number 3)\n"
        "  try: the page docs/onnx-operators.md lists all operators, and why some are not read"
    )


def cyclic() -> Any:
    nodes = [node("Add", "x c", "a"), node("Relu", "a", "b"), node("Relu", "b", "c")]
    return model(nodes, [value("x", [3])], [value("c", [3])])


def twice() -> Any:
    nodes = [node("Relu", "x", "y"), node("Neg", "x", "y")]
    return model(nodes, [value("x", [3])], [value("y", [3])])


def lying() -> Any:
    made = mlp()
    made.graph.initializer[0].dims[0] = 1 << 60
    return made


def missing() -> Any:
    return model([node("Add", "x other", "y")], [value("x", [3])], [value("y", [3])])


def wrong_shapes() -> Any:
    tensors = [tensor("w", np.ones((4, 2), np.float32))]
    return model(
        [node("MatMul", "x w", "y", name="head")], [value("x", [2, 3])], [value("y", None)], tensors
    )


def laughs() -> Any:
    """Functions that call functions twice each: 2^30 operations of a small file."""
    made = model([], [value("x", [3])], [value("y", [3])])
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.graph.node.append(helper.make_node("F29", ["x"], ["y"], domain="own"))
    for one in range(30):
        name = f"F{one - 1}" if one else "Relu"
        domain = "own" if one else ""
        nodes = [helper.make_node(name, [a], [b], domain=domain) for a, b in ("am", "mb")]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
        made.functions.append(helper.make_function("own", f"F{one}", ["a"], ["b"], nodes, opsets))
    return made


def old() -> Any:
    return model([node("Relu", "x", "y")], [value("x", [3])], [value("y", [3])], opset=6)


def without_outputs() -> Any:
    return model([node("Relu", "x", "y")], [value("x", [3])], [])


def of_a_graph() -> Any:
    attributes = {"interleaved": old().graph}
    nodes = [node("RotaryEmbedding", "x c c", "y", **attributes)]
    return model(nodes, [value("x", [1, 2, 2, 4]), value("c", [1, 2, 2])], [Y], opset=23)


def huge() -> Any:
    shape = tensor("shape", np.array([1 << 40, 1 << 40]))
    return model([node("ConstantOfShape", "shape", "y")], [], [value("y", None)], [shape])


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (
            cyclic,
            DataFileError,
            r"the graph 'net' is cyclic: (Relu|Add) needs what (Relu|Add) makes",
        ),
        (twice, DataFileError, "the value 'y' is made twice, by Neg for the second time"),
        (lying, DataFileError, "has 48 bytes, not"),
        (missing, DataFileError, "Add reads the value 'other', which nothing makes"),
        (
            wrong_shapes,
            cr.errors.ShapeError,
            r"(?s)inner sizes differ.*<model>:1, in MatMul \(head\)",
        ),
        (laughs, DataFileError, "operations|nested"),
        (old, UnsupportedError, "the model is of operator set 6; 7 to 28 are read"),
        (without_outputs, DataFileError, "or one without outputs"),
        (of_a_graph, UnsupportedError, "RotaryEmbedding: its attribute interleaved is a graph"),
        (huge, cr.errors.ChainruleError, "(?s)ConstantOfShape|memory|bytes"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_wrong_in_a_file_is_said(
    make: Any, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainrule.exchange.from_onnx.program.MOST_CALLS", 1000)
    with pytest.raises(kind, match=said):
        cr.from_onnx(text(make()))


def test_named_dimensions_become_names_of_their_own() -> None:
    shapes = {"a": ["n+2", "lambda"], "b": ["n*2", "max"], "c": ["n+2", "3d"]}
    inputs = [value(name, shape) for name, shape in shapes.items()]
    nodes = [node("Relu", name, f"{name}1") for name in shapes]
    made = text(model(nodes, inputs, [value(f"{name}1", None) for name in shapes]))
    found = cr.from_onnx(made).inputs
    assert [str(one) for one in found.values()] == [
        "float32[n_2, n_lambda]",
        "float32[n_2_, n_max]",
        "float32[n_2, n_3d]",
    ]
    assert cr.from_onnx(made, sizes={"n*2": 4, "n_2": 7}).inputs["b"].shape[0] == 4


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x07", b"\xff" * 100])
def test_what_is_no_model_is_said(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"<net\.onnx> is no ONNX model"):
        cr.from_onnx(path)
    with pytest.raises(DataFileError, match="cannot be read: No such file"):
        cr.from_onnx(tmp_path / "other.onnx")
