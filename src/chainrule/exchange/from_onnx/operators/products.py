"""ONNX's products, normalisations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.operators.elementwise import plain
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size
from chainrule.nn import normalisation
from chainrule.nn.activations import log_softmax
from chainrule.numpy.windows import padded


def gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    a = np.transpose(a) if call.get("transA", 0) else a
    b = np.transpose(b) if call.get("transB", 0) else b
    found = _scaled(a @ b, call.get("alpha", 1.0))
    return found if c is None else found + _scaled(c, call.get("beta", 1.0))


def _scaled(x: Any, factor: float) -> Any:
    if factor == 1:
        return x
    return x * (factor if dtype_kind(x.dtype) == "f" else int(factor))


def einsum(call: Call, *operands: Any) -> Any:
    return np.einsum(call.get("equation").replace(" ", ""), *operands)


def batch_normalization(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    """By the statistics that are given; in training mode by those of the batch, of which the
    running ones are moved."""
    eps = call.get("epsilon", 1e-5)
    if not call.get("training_mode", 0):
        found, *_ = normalisation.batch_norm(x, mean, var, scale, bias, eps=eps)
        return found.astype(x.dtype)
    momentum = call.get("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    batch_mean, batch_var = np.mean(x, axes), np.var(x, axes)
    found, *_ = normalisation.batch_norm(x, batch_mean, batch_var, scale, bias, eps=eps)
    return (
        found.astype(x.dtype),
        mean * momentum + batch_mean * (1 - momentum),
        var * momentum + batch_var * (1 - momentum),
    )


def instance_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    return normalisation.instance_norm(x, scale, bias, call.get("epsilon", 1e-5))


def group_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    """Before version 21 there is one scale for each group."""
    groups = call.get("num_groups")
    if call.version < 21 and scale.shape[0] != x.shape[1]:
        each = x.shape[1] // groups
        scale, bias = np.repeat(scale, each), np.repeat(bias, each)
    return normalisation.group_norm(x, groups, scale, bias, call.get("epsilon", 1e-5))


def layer_normalization(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    """Computed in float32 at least; also the mean and the inverse standard deviation."""
    axes = tuple(range(call.axis(call.get("axis", -1), x.ndim), x.ndim))
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    mean = np.mean(wide, axes, keepdims=True)
    centred = wide - mean
    inverse = 1 / np.sqrt(
        np.mean(centred * centred, axes, keepdims=True) + call.get("epsilon", 1e-5)
    )
    found = (centred * inverse).astype(x.dtype) * scale
    return (found if bias is None else found + bias), mean, inverse


def rms_normalization(call: Call, x: Any, scale: Any) -> Any:
    axes = tuple(range(call.axis(call.get("axis", -1), x.ndim), x.ndim))
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    root = np.sqrt(np.mean(wide * wide, axes, keepdims=True) + call.get("epsilon", 1e-5))
    return (wide / root).astype(x.dtype) * scale


def lp_normalization(call: Call, x: Any) -> Any:
    axis, p = call.axis(call.get("axis", -1), x.ndim), call.get("p", 2)
    size = np.sum(np.absolute(x), axis, keepdims=True)
    if p == 2:
        size = np.sqrt(np.sum(x * x, axis, keepdims=True))
    return np.where(size == 0, 0.0, x / np.where(size == 0, 1.0, size))


def mean_variance_normalization(call: Call, x: Any) -> Any:
    axes = tuple(call.get("axes", (0, 2, 3)))
    centred = x - np.mean(x, axes, keepdims=True)
    return centred / (np.sqrt(np.mean(centred * centred, axes, keepdims=True)) + 1e-9)


def lrn(call: Call, x: Any) -> Any:
    """Local response normalisation over neighbouring channels."""
    size, alpha = call.get("size"), call.get("alpha", 1e-4)
    before, channels = (size - 1) // 2, x.shape[1]
    if isinstance(channels, Size) or not 0 < size <= 1 << 12:
        call.refuse(f"over {size} of {channels} channels")
    widths = ((before, size - 1 - before), *((0, 0),) * (x.ndim - 2))
    squares = padded(x * x, widths)
    total = sum(squares[:, one : one + channels] for one in range(size))
    return x / (call.get("bias", 1.0) + alpha / size * total) ** call.get("beta", 0.75)


def _reduced(values: Any, weights: Any, reduction: str) -> Any:
    if reduction == "none":
        return values
    total = np.sum(values)
    if reduction == "sum":
        return total
    return np.mean(values) if weights is None else total / np.sum(weights)


def _at_classes(call: Call, log_probabilities: Any, labels: Any, weight: Any) -> Any:
    """-weight log p of each label's class; 0 for labels that are ignored."""
    ignored = call.get("ignore_index")
    labels = labels.astype(np.int64)
    counts = None
    if ignored is not None:
        counts = (labels != ignored).astype(log_probabilities.dtype)
        labels = np.where(labels == ignored, 0, labels)
    found = np.take_along_axis(log_probabilities, np.expand_dims(labels, 1), 1)
    found = -np.squeeze(found, 1)
    if weight is not None:
        of_class = np.take(weight, labels)
        counts = of_class if counts is None else of_class * counts
    found = found if counts is None else found * counts
    return _reduced(found, counts, call.get("reduction", "mean"))


def negative_log_likelihood(call: Call, x: Any, labels: Any, weight: Any = None) -> Any:
    return _at_classes(call, x, labels, weight)


def softmax_cross_entropy(call: Call, x: Any, labels: Any, weight: Any = None) -> Any:
    logs = log_softmax(x, 1)
    return _at_classes(call, logs, labels, weight), logs


PRODUCTS: dict[str, Callable[..., Any]] = {
    "BatchNormalization": batch_normalization,
    "Det": plain(np.linalg.det),
    "Einsum": einsum,
    "Gemm": gemm,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MatMul": plain(np.matmul),
    "MeanVarianceNormalization": mean_variance_normalization,
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "RMSNormalization": rms_normalization,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
