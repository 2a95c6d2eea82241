"""Small ONNX models, made by the helpers of the package."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

onnx: Any = importlib.import_module("onnx")
helper: Any = importlib.import_module("onnx.helper")
numpy_helper: Any = importlib.import_module("onnx.numpy_helper")

F = onnx.TensorProto.FLOAT


def value(name: str, shape: Any, kind: int = F) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """The names are separated by blanks; `-` is an operand that is left out."""
    names = ["" if one == "-" else one for one in inputs.split(" ") if one]
    return helper.make_node(operator, names, outputs.split(), **attributes)


def model(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    tensors: list[Any] = (),  # type: ignore[assignment]
    opset: int = 18,
    **more: Any,
) -> Any:
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(tensors))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)
    made.ir_version = min(made.ir_version, 10)
    return made


def text(made: Any) -> bytes:
    return made.SerializeToString()


def mlp() -> Any:
    """Two layers with the names that PyTorch's exporter gives, and a batch without a number."""
    rng = np.random.default_rng(0)
    return model(
        [
            node(
                "Gemm",
                "x layer1.weight layer1.bias",
                "/layer1/Gemm_output_0",
                transB=1,
                name="/layer1/Gemm",
            ),
            node("Relu", "/layer1/Gemm_output_0", "/act/Relu_output_0", name="/act/Relu"),
            node("MatMul", "/act/Relu_output_0 onnx::MatMul_7", "logits", name="/head/MatMul"),
        ],
        [value("x", ["batch", 3])],
        [value("logits", ["batch", 2])],
        [
            tensor("layer1.weight", rng.normal(size=(4, 3)).astype(np.float32)),
            tensor("layer1.bias", rng.normal(size=4).astype(np.float32)),
            tensor("onnx::MatMul_7", rng.normal(size=(4, 2)).astype(np.float32)),
        ],
    )


__all__ = ["F", "helper", "mlp", "model", "node", "numpy_helper", "onnx", "tensor", "text", "value"]
