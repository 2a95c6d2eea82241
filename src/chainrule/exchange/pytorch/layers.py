"""PyTorch's layers: chainrule's own, in PyTorch's order of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import dtype_of, plain
from chainrule.nn import attention, convolution, normalisation, transposed_convolution
from chainrule.nn.layers import embedding, layer_norm
from chainrule.numpy.of_one_primitive import stop_gradient


def _conv(function: Any) -> Any:
    """A convolution, or a transposed one, whose lengths may be lists."""

    def call(x: Any, weight: Any, bias: Any = None, *given: Any, **options: Any) -> Any:
        named = {name: plain(value) for name, value in options.items()}
        return function(x, weight, bias, *map(plain, given), **named)

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


# Attention, embeddings -------------------------------------------------------------------


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


LAYERS: dict[str, Any] = {
    **{f"conv{n}d": _conv(function) for n, function in enumerate(_CONVOLUTIONS, 1)},
    **{f"conv_transpose{n}d": _conv(function) for n, function in enumerate(_TRANSPOSED, 1)},
    "convolution": _convolution,
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
}
