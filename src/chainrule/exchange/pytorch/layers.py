"""PyTorch's layers and losses: chainrule's own, in PyTorch's order of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import dtype_of
from chainrule.nn import (
    adaptive_pooling,
    attention,
    convolution,
    normalisation,
    pooling,
    transposed_convolution,
)
from chainrule.nn.activations import log_softmax
from chainrule.nn.layers import embedding, layer_norm
from chainrule.nn.losses import cross_entropy
from chainrule.numpy.of_one_primitive import stop_gradient

_REDUCTIONS = ("none", "mean", "sum")


def _plain(value: Any) -> Any:
    """PyTorch's lists of lengths, of which one may stand for all."""
    if not isinstance(value, (list, tuple)):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def _conv(function: Any) -> Any:
    """A convolution, or a transposed one, whose lengths may be lists."""

    def call(x: Any, weight: Any, bias: Any = None, *given: Any, **options: Any) -> Any:
        named = {name: _plain(value) for name, value in options.items()}
        return function(x, weight, bias, *map(_plain, given), **named)

    return call


def _convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    axes = np.ndim(weight) - 3
    if transposed:
        more = output_padding, groups, dilation
        return _conv(_TRANSPOSED[axes])(x, weight, bias, stride, padding, *more)
    return _conv(_CONVOLUTIONS[axes])(x, weight, bias, stride, padding, dilation, groups)


_CONVOLUTIONS = (convolution.conv1d, convolution.conv2d, convolution.conv3d)
_TRANSPOSED = (
    transposed_convolution.conv_transpose1d,
    transposed_convolution.conv_transpose2d,
    transposed_convolution.conv_transpose3d,
)


def _pool(function: Any, names: tuple[str, ...]) -> Any:
    def call(x: Any, *given: Any, **options: Any) -> Any:
        options = {**dict(zip(names, given, strict=False)), **options}
        plain = {name: _plain(value) for name, value in options.items()}
        if plain.get("stride") == ():
            plain["stride"] = None
        return function(x, **plain)

    return call


_AVERAGES = (
    adaptive_pooling.adaptive_avg_pool1d,
    adaptive_pooling.adaptive_avg_pool2d,
    adaptive_pooling.adaptive_avg_pool3d,
)
_ADAPTIVE_LARGEST = (
    adaptive_pooling.adaptive_max_pool1d,
    adaptive_pooling.adaptive_max_pool2d,
    adaptive_pooling.adaptive_max_pool3d,
)
_LARGEST = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_MEAN = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")


def _adaptive(function: Any, *, places: bool = False) -> Any:
    """Adaptive pooling; with `places` also where the largest elements are, which is not known."""

    def call(x: Any, output_size: Any) -> Any:
        found = function(x, _plain(output_size))
        return (found, None) if places else found

    return call


# Normalisation ----------------------------------------------------------------------------------


def _layer_norm(
    x: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    axes = tuple(range(-len(normalized_shape), 0))
    return layer_norm(x, weight, bias, axis=axes[0] if len(axes) == 1 else axes, eps=eps)


def _group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    return normalisation.group_norm(x, num_groups, weight, bias, eps)


def _native_group_norm(
    x: Any, weight: Any, bias: Any, n: Any, c: Any, size: Any, groups: int, eps: float
) -> Any:
    parts = np.reshape(x, (n, groups, c // groups * size))
    mean, rate = _moments(parts, -1, eps)
    y = normalisation.group_norm(x, groups, weight, bias, eps)
    return y, mean[..., 0], rate[..., 0]


def _native_layer_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(-len(normalized_shape), 0))
    y = _layer_norm(x, normalized_shape, weight, bias, eps)
    return y, *_moments(stop_gradient(x), axes, eps)  # whose derivative PyTorch leaves out


def _moments(x: Any, axes: Any, eps: float) -> tuple[Any, Any]:
    """The mean, and 1 / sqrt(var + eps)."""
    mean, var = np.mean(x, axes, keepdims=True), np.var(x, axes, keepdims=True)
    return mean, 1 / np.sqrt(var + eps)


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    axes = tuple(range(-len(normalized_shape), 0))
    return normalisation.rms_norm(x, weight, axis=axes, eps=eps)


def _batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """The result, the statistics of the batch (empty where they are not used), and the running
    statistics."""
    y, mean, var = normalisation.batch_norm(
        x, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if training:
        axes = (0, *range(2, np.ndim(x)))
        moments = _moments(stop_gradient(x), axes, eps)
        saved = tuple(np.reshape(one, (-1,)) for one in moments)
    else:
        saved = np.zeros(0, dtype_of(x)), np.zeros(0, dtype_of(x))
    return y, *saved, mean, var


def _batch_norm_no_stats(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm(x, weight, bias, None, None, training, momentum, eps)


def _batch_norm_no_training(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    return _batch_norm(x, weight, bias, mean, var, False, momentum, eps)


def _batch_norm_with_update(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    *saved, mean, var = _batch_norm(x, weight, bias, mean, var, True, momentum, eps)
    return *saved, np.zeros(0, np.uint8), mean, var


# Attention, embeddings, losses -------------------------------------------------------------------


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        groups = np.shape(query)[-3] // np.shape(key)[-3]
        key, value = np.repeat(key, groups, axis=-3), np.repeat(value, groups, axis=-3)
    return attention.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=scale
    )


def _embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of the table; that of padding_idx has no gradient."""
    rows = embedding(weight, indices)
    if padding_idx < 0:
        return rows
    return np.where((indices == padding_idx)[..., None], stop_gradient(rows), rows)


def _cross_entropy(
    logits: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    axis = 1 if np.ndim(logits) > 1 else 0
    if dtype_of(target).kind == "f":
        return _soft_cross_entropy(logits, target, axis, weight, reduction, label_smoothing)
    return cross_entropy(
        np.moveaxis(logits, axis, -1) if np.ndim(logits) > 2 else logits,
        target,
        _REDUCTIONS[reduction],
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing or None,
    )


def _soft_cross_entropy(
    logits: Any, target: Any, axis: int, weight: Any, reduction: int, label_smoothing: float
) -> Any:
    """Labels that are probabilities of classes."""
    classes = np.shape(logits)[axis]
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    terms = log_softmax(logits, axis) * target
    if weight is not None:
        terms = terms * np.reshape(weight, (-1, *(1,) * (np.ndim(logits) - 1 - axis)))
    losses = -np.sum(terms, axis=axis)
    if _REDUCTIONS[reduction] == "none":
        return losses
    return np.mean(losses) if _REDUCTIONS[reduction] == "mean" else np.sum(losses)


LAYERS: dict[str, Any] = {
    **{f"conv{n}d": _conv(function) for n, function in enumerate(_CONVOLUTIONS, 1)},
    **{f"conv_transpose{n}d": _conv(function) for n, function in enumerate(_TRANSPOSED, 1)},
    "convolution": _convolution,
    "max_pool1d": _pool(pooling.max_pool1d, _LARGEST),
    "max_pool2d": _pool(pooling.max_pool2d, _LARGEST),
    "max_pool2d_with_indices": lambda *given, **options: (
        _pool(pooling.max_pool2d, _LARGEST)(*given, **options),
        None,
    ),
    "avg_pool1d": _pool(pooling.avg_pool1d, _MEAN),
    "avg_pool2d": _pool(pooling.avg_pool2d, _MEAN),
    **{f"adaptive_avg_pool{n}d": _adaptive(one) for n, one in enumerate(_AVERAGES, 1)},
    **{f"_adaptive_avg_pool{n}d": _adaptive(_AVERAGES[n - 1]) for n in (2, 3)},
    **{
        f"adaptive_max_pool{n}d": _adaptive(one, places=True)
        for n, one in enumerate(_ADAPTIVE_LARGEST, 1)
    },
    "layer_norm": _layer_norm,
    "native_layer_norm": _native_layer_norm,
    "group_norm": _group_norm,
    "native_group_norm": _native_group_norm,
    "rms_norm": _rms_norm,
    "_native_batch_norm_legit_functional": _batch_norm,
    "_native_batch_norm_legit": _batch_norm_no_stats,
    "_native_batch_norm_legit_no_training": _batch_norm_no_training,
    "_batch_norm_with_update_functional": _batch_norm_with_update,
    "native_batch_norm": _batch_norm,
    "scaled_dot_product_attention": _attention,
    "embedding": _embedding,
    "cross_entropy_loss": _cross_entropy,
}
