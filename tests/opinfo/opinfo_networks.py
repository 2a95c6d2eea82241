"""Functions of neural networks with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

import chainrule as cr


def conv(name):
    """A convolution, whose options PyTorch takes in lists, too."""

    def plain(value):
        return tuple(value) if isinstance(value, (list, tuple)) else value

    def call(x, weight, *args, **options):
        given = {key: plain(value) for key, value in options.items()}
        return getattr(cr, name)(x, weight, *map(plain, args), **given)

    return call


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(-len(shape), 0))
    centred = x - np.mean(x, axes, keepdims=True)
    if len(shape) == 1:
        return cr.layer_norm(x, weight, bias, eps=eps)
    normal = centred / np.sqrt(np.mean(centred**2, axes, keepdims=True) + eps)
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias


def cross_entropy(logits, labels, reduction="mean"):
    return cr.cross_entropy(np.moveaxis(logits, 1, -1), labels, reduction)


def linear_cross_entropy(x, weight, labels, bias=None, reduction="mean", **options):
    outer = np.shape(weight)[:-1]
    logits = x @ np.reshape(weight, (-1, np.shape(weight)[-1])).T
    logits = np.reshape(logits, (*np.shape(x)[:-1], *outer))
    classes = len(np.shape(x)) - 1
    return cr.cross_entropy(np.moveaxis(logits, classes, -1), labels, reduction)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
    return cr.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=options.get("scale")
    )


def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    found = cr.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    return found[0] if isinstance(found, tuple) else found


def weighted(function):
    def loss(prediction, target, weight=None, reduction="mean", **options):
        values = function(prediction, target, reduction="none", **options)
        values = values if weight is None else values * weight
        return {"mean": np.mean, "sum": np.sum, "none": lambda v: v}[reduction](values)

    return loss


def embedding(table, indices, **options):
    return cr.embedding(table, indices)


def linear(x, weight, bias=None):
    return cr.linear(x, weight.T, bias)


def pool(name):
    """Pooling with arguments by position, as PyTorch's functions take them."""
    names = "kernel_size stride padding ceil_mode count_include_pad divisor_override".split()

    def call(x, *args, **options):
        options = {**dict(zip(names, args, strict=False)), **options}
        plain = {key: _lengths(value) for key, value in options.items()}
        plain.pop("return_indices", None)
        plain["stride"] = plain.get("stride") or None
        return getattr(cr, name)(x, **plain)

    return call


def _lengths(value):
    """PyTorch takes one integer for all axes in a tuple, too."""
    if not isinstance(value, (list, tuple)):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    return cr.group_norm(x, groups, weight, bias, eps)


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, **options):
    return cr.instance_norm(x, weight, bias, options.get("eps", 1e-5))


def rms_norm(x, shape, weight=None, eps=None):
    return cr.rms_norm(x, weight, axis=tuple(range(-len(shape), 0)), eps=eps)


TABLE = {
    "nn.functional.binary_cross_entropy": weighted(
        lambda x, y, **options: cr.binary_cross_entropy(x, y, **options)
    ),
    "nn.functional.binary_cross_entropy_with_logits": weighted(
        lambda x, y, pos_weight=None, **options: cr.binary_cross_entropy_with_logits(
            x, y, pos_weight=pos_weight, **options
        )
    ),
    **{
        f"nn.functional.{kind}_pool{axes}d": pool(f"{kind}_pool{axes}d")
        for kind in ("avg", "max")
        for axes in (1, 2, 3)
    },
    "nn.functional.group_norm": group_norm,
    "nn.functional.instance_norm": instance_norm,
    "nn.functional.rms_norm": rms_norm,
    **{
        f"nn.functional.{kind}{axes}d": conv(f"{kind}{axes}d")
        for kind in ("conv", "conv_transpose")
        for axes in (1, 2, 3)
    },
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.linear_cross_entropy": linear_cross_entropy,
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.mse_loss": lambda x, y, reduction="mean": cr.squared_error(x, y, reduction),
    "nn.functional.huber_loss": lambda x, y, reduction="mean", delta=1.0: cr.huber(
        x, y, delta, reduction
    ),
    "nn.functional.embedding": embedding,
    "nn.functional.linear": linear,
}
