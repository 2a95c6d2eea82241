"""Batch, group, instance and root-mean-square normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.frontend.composite import composite
from chainrule.frontend.errors.refusing import require_flag
from chainrule.graph.dtypes import finfo
from chainrule.graph.sizes.sizes import Size, product
from chainrule.nn import closed_forms
from chainrule.numpy.of_one_primitive import stop_gradient
from chainrule.numpy.statistics import count_along, mean, size_value, var, widened
from chainrule.numpy.windows import counts_of, refuse, show


@composite(symbol="BN", latex=r"\operatorname{BN}", gradients=closed_forms.BATCH_NORM)
def _batch_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(x - mean) / sqrt(var + eps) for each channel, times weight, plus bias."""
    scale = 1 / np.sqrt(var + eps)
    normal = (x - _channels(mean, x)) * _channels(scale, x)
    if weight is not None:
        normal = normal * _channels(weight, x)
    return normal if bias is None else normal + _channels(bias, x)


@composite()
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(y, running_mean, running_var): x (n, channels, ...) normalised for each channel, and the
    running statistics as they are afterwards (Ioffe and Szegedy, 2015).

    In training, by the mean and the variance of the batch, and the running ones move by `momentum`
    towards these (the variance with n - 1 in place of n, as PyTorch's); no derivative flows through
    them.  Else by the running ones, which come back as they are.  In training these may be None.
    """
    given = (x, running_mean, running_var, weight, bias)
    _check_channels("batch_norm", given, running_mean=running_mean, running_var=running_var)
    _check_channels("batch_norm", given, weight=weight, bias=bias)
    require_flag((x,), training, "batch_norm: training")
    if not training:
        if running_mean is None or running_var is None:
            refuse(
                given,
                "batch_norm with training=False needs running_mean and running_var",
                "pass both, or training=True, which takes the statistics of the batch",
            )
        y = _batch_norm(x, running_mean, running_var, weight, bias, eps)
        return y, running_mean, running_var
    axes = (0, *range(2, np.ndim(x)))
    count = count_along(x, axes)
    if isinstance(count, int) and count < 2:
        refuse(
            given,
            f"batch_norm: {show(x)} has {count} values for each channel, which have no variance",
            "train with larger batches, or pass training=False",
        )
    average, spread = mean(x, axis=axes), var(x, axis=axes)
    y = _batch_norm(x, average, spread, weight, bias, eps)
    unbiased = spread * (count / _less_one(count, x))
    return y, _moved(running_mean, average, momentum), _moved(running_var, unbiased, momentum)


def _less_one(count: Any, x: Any) -> Any:
    return size_value(count - 1, x) if isinstance(count, Size) else count - 1


def _moved(running: Any, now: Any, momentum: Any) -> Any:
    """The running statistic, moved towards that of the batch; as constants.  None stays None."""
    if running is None:
        return None
    return (1 - momentum) * stop_gradient(running) + momentum * stop_gradient(now)


def _channels(one: Any, x: Any) -> Any:
    """One number for each channel, to be broadcast with x."""
    return np.reshape(one, (-1, *(1,) * (np.ndim(x) - 2)))


def _check_channels(asked: str, given: tuple[Any, ...], **arrays: Any) -> None:
    x = given[0]
    if np.ndim(x) < 2:
        refuse(given, f"{asked}: {show(x)} has no axis of channels", "x is (n, channels, ...)")
    channels = np.shape(x)[1]
    for name, array in arrays.items():
        if array is not None and tuple(np.shape(array)) != (channels,):
            refuse(
                given,
                f"{asked}: {name} {show(array)} does not fit the {channels} channels of {show(x)}",
                f"{name} has one axis of {channels}: one number for each channel",
            )


@composite(symbol="GN", latex=r"\operatorname{GN}", gradients=closed_forms.GROUP_NORM)
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """x (n, channels, ...) normalised over each group of channels of each row (Wu and He, 2018),
    then times weight and plus bias for each channel."""
    given = (x, weight, bias)
    _check_channels("group_norm", given, weight=weight, bias=bias)
    channels = np.shape(x)[1]
    if isinstance(num_groups, Size):  # one for each channel
        groups: Any = num_groups
    else:
        (groups,) = counts_of(num_groups, 1, 1, "group_norm", "num_groups")
    if isinstance(channels, int) and channels % groups:
        refuse(
            given,
            f"group_norm: the {channels} channels of {show(x)} do not make {groups} groups",
            "num_groups divides the number of channels",
        )
    shape = np.shape(x)
    length = channels // groups * product(shape[2:]) if 0 in shape else -1
    wide, narrow = widened(x)
    parts = np.reshape(wide, (shape[0], groups, length))
    centred = parts - mean(parts, axis=-1, keepdims=True)
    normal = centred / np.sqrt(mean(centred * centred, axis=-1, keepdims=True) + eps)
    normal = narrow(np.reshape(normal, shape))
    if weight is not None:
        normal = normal * _channels(weight, x)
    return normal if bias is None else normal + _channels(bias, x)


@composite(symbol="IN", latex=r"\operatorname{IN}")
def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """x (n, channels, ...) normalised over each channel of each row (Ulyanov et al., 2016)."""
    _check_channels("instance_norm", (x, weight, bias), weight=weight, bias=bias)
    return group_norm(x, np.shape(x)[1], weight, bias, eps)


@composite(symbol="RMS", latex=r"\operatorname{RMS}", gradients=closed_forms.RMS_NORM)
def rms_norm(x: Any, weight: Any = None, *, axis: Any = -1, eps: float | None = None) -> Any:
    """x / sqrt(mean(x²) + eps) over `axis`, times weight (Zhang and Sennrich, 2019).

    eps is by default the smallest step above 1 in x's dtype, as PyTorch's.
    """
    if eps is None:
        eps = float(finfo(x.dtype).eps)
    wide, narrow = widened(x)
    normal = narrow(wide / np.sqrt(mean(wide * wide, axis=axis, keepdims=True) + eps))
    return normal if weight is None else normal * weight
