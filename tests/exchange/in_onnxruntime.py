"""Runs exported graphs in onnxruntime, and compares them with the reference executor."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import onnx
import onnxruntime as runtime

import chainrule as cr

runtime.set_default_logger_severity(4)


def ran(model: bytes, given: dict[str, Any]) -> list[np.ndarray]:
    """What onnxruntime computes, or ONNX's reference where that has no kernel for a type."""
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    try:
        return runtime.InferenceSession(model).run(None, given)
    except (runtime.capi.onnxruntime_pybind11_state.NotImplemented, RuntimeError) as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
    reference: Any = importlib.import_module("onnx.reference")
    found: Any = reference.ReferenceEvaluator(onnx.load_from_string(model)).run(None, given)
    return found


def signs(node: Any, found: np.ndarray, wanted: np.ndarray) -> Any:
    """The signs of eigenvectors and of pairs of singular vectors, as each library has its own."""
    start = {"eigh": 1, "svd": 0}.get(node.primitive.name)
    if start is None or not found.size:
        return found.dtype.type(1)
    last = node.inputs[0].shape[-2] + start
    along = np.sum(found[..., start:last, :] * wanted[..., start:last, :], axis=-2, keepdims=True)
    rows = np.arange(node.shape[-2])[:, None]
    is_value = rows == (0 if start else last)
    return np.where(is_value, 1, np.sign(along)).astype(found.dtype)


def agrees(graph: cr.Graph, given: dict[str, Any], rtol: float = 2e-5, **options: Any) -> None:
    """The exported graph gives what the reference executor does."""
    wanted = graph.run(given)
    held = options.get("parameters", {})
    found = ran(graph.to_onnx(**options), {k: v for k, v in given.items() if k not in held})
    for (name, node), array in zip(graph.outputs, found, strict=True):
        one = wanted[name]
        array = array * signs(node, array, one)
        assert array.dtype == one.dtype and array.shape == one.shape, name
        largest = np.max(np.abs(one[np.isfinite(one)]), initial=0) if one.dtype.kind == "f" else 0
        atol = 1e-6 * float(largest)
        np.testing.assert_allclose(array, one, rtol=rtol, atol=atol, err_msg=name)
