"""ONNX models in float64: every float32 tensor, type and constant of the file made wide."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_models import helper, numpy_helper, onnx

NARROW, WIDE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
_TYPES = {"to", "dtype", "output_dtype", "stash_type", "output_datatype"}


def widened(model: Any) -> Any:
    """The model with float64 wherever the file says float32, also in casts and constants.

    Where float32 rounds an intermediate value, central differences of the model see steps; this
    one has none, so its gradients can be compared with them closely.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _widen_graph(made.graph)
    for function in made.functions:
        for node in function.node:
            _widen_node(node)
    return made


def _widen_graph(graph: Any) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == NARROW:
            info.type.tensor_type.elem_type = WIDE
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        _widen_node(node)


def _widen_node(node: Any) -> None:
    for one in node.attribute:
        if one.name in _TYPES and one.i == NARROW:
            one.i = WIDE
        elif one.type == onnx.AttributeProto.TENSOR:
            _widen_tensor(one.t)
        elif one.type == onnx.AttributeProto.GRAPH:
            _widen_graph(one.g)
    if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
        value = np.asarray(helper.get_attribute_value(node.attribute[0]), np.float64)
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        zero = numpy_helper.from_array(np.zeros(1))
        node.attribute.append(helper.make_attribute("value", zero))


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type == NARROW:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
