"""Activations and normalisations with PyTorch's signatures."""

from __future__ import annotations

import numpy as np
from opinfo_elementwise import softmax

import chainrule as cr


def glu(x, dim=-1):
    value, gate = np.split(x, 2, axis=dim)
    return value * cr.sigmoid(gate)


def prelu(x, weight):
    shape = [1] * max(np.ndim(x), 1)
    if np.size(weight) > 1:
        shape[1] = -1
    return np.where(x > 0, x, x * np.reshape(weight, shape if np.ndim(x) else ()))


def celu(x, alpha=1.0):
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)


def selu(x):
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * cr.elu(x, alpha)


def hardtanh(x, min_val=-1.0, max_val=1.0):
    inside = (x > min_val) & (x < max_val)
    return np.where(inside, x, np.clip(cr.stop_gradient(x), min_val, max_val))


def threshold(x, limit, value):
    return np.where(x > limit, x, value)


def hardshrink(x, lambd=0.5):
    return np.where((x >= -lambd) & (x <= lambd), 0, x)


def softshrink(x, lambd=0.5):
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0))


def softmin(x, dim=None, dtype=None):
    return softmax(-x, dim, dtype)


def normalize(x, p=2.0, dim=1, eps=1e-12):
    one = np.reshape(x, (1,)) if np.ndim(x) == 0 else x
    length = np.linalg.vector_norm(one, ord=p, axis=dim, keepdims=True)
    return np.reshape(one / np.maximum(length, eps), np.shape(x))


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    before, after = size // 2, (size - 1) // 2
    pads = [(0, 0)] * np.ndim(x)
    pads[1] = (before, after)
    squares = np.pad(x * x, pads)
    total = sum(squares[:, i : i + np.shape(x)[1]] for i in range(size))
    return x / (k + alpha * total / size) ** beta


def native_layer_norm(x, shape, weight, bias, eps):
    axes = tuple(range(-len(shape), 0))
    mean = np.mean(x, axes, keepdims=True)
    rate = 1 / np.sqrt(np.mean((x - mean) ** 2, axes, keepdims=True) + eps)
    found = (x - mean) * rate
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def native_group_norm(x, weight, bias, rows, channels, size, groups, eps):
    grouped = np.reshape(x, (rows, groups, channels // groups * size))
    mean = np.mean(grouped, -1)
    rate = 1 / np.sqrt(np.mean((grouped - mean[..., None]) ** 2, -1) + eps)
    found = np.reshape((grouped - mean[..., None]) * rate[..., None], np.shape(x))
    shape = (channels, *(1,) * (np.ndim(x) - 2))
    found = found if weight is None else found * np.reshape(weight, shape)
    found = found if bias is None else found + np.reshape(bias, shape)
    return found


def safe_softmax(x, dim, dtype=None):
    nothing = np.all(x == -np.inf, axis=dim, keepdims=True)
    return np.where(nothing, 0.0, cr.softmax(np.where(nothing, 0.0, x), dim))


def softmax_backward(g, out, dim, dtype):
    return out * (g - np.sum(g * out, axis=dim if np.ndim(g) else None, keepdims=True))


def renorm(x, p, dim, maxnorm):
    axes = tuple(a for a in range(np.ndim(x)) if a != dim % np.ndim(x))
    rows = np.reshape(np.moveaxis(x, dim, 0), (np.shape(x)[dim], -1))
    length = np.linalg.vector_norm(rows, ord=p, axis=1)
    factor = np.where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)
    return x * np.expand_dims(factor, axes)


TABLE = {
    f"nn.functional.{name}": value
    for name, value in {
        "glu": glu,
        "prelu": prelu,
        "celu": celu,
        "selu": selu,
        "hardtanh": hardtanh,
        "relu6": lambda x: hardtanh(x, 0.0, 6.0),
        "hardsigmoid": lambda x: hardtanh(x + 3, 0.0, 6.0) / 6,
        "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
        "mish": lambda x: x * np.tanh(cr.softplus(x)),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "tanhshrink": lambda x: x - np.tanh(x),
        "threshold": threshold,
        "hardshrink": hardshrink,
        "softshrink": softshrink,
        "softmin": softmin,
        "normalize": normalize,
        "local_response_norm": local_response_norm,
        "rrelu": lambda x, lower=1 / 8, upper=1 / 3, training=False: cr.leaky_relu(
            x, (lower + upper) / 2
        ),
    }.items()
} | {
    "native_layer_norm": native_layer_norm,
    "native_group_norm": native_group_norm,
    "_softmax_backward_data": softmax_backward,
    "torch.ops.aten._safe_softmax.default": safe_softmax,
    "native_dropout_backward": lambda g, mask, scale: g * mask * scale,
    "renorm": renorm,
}
