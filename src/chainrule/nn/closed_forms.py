"""Gradients of layers and losses in closed form, as textbooks write them, for equations.

Each is a function of the gradient `g` of the result, the result `out`, and the arguments `call` by
name (see `Textbook`).  Nothing computes with them: they are read, and tests evaluate what is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.frontend.composite import composite
from chainrule.graph.dtypes import finfo
from chainrule.numpy.of_one_primitive import sigmoid

Gradients = Mapping[str, Callable[[Any, Any, Any], Any]]


def _softmax(g: Any, out: Any, call: Any) -> Any:
    return out * (g - np.sum(g * out, axis=call.get("axis", -1), keepdims=True))


def _log_softmax(g: Any, out: Any, call: Any) -> Any:
    from chainrule.nn.activations import softmax

    axis = call.get("axis", -1)
    return g - softmax(call["x"], axis) * np.sum(g, axis=axis, keepdims=True)


def _logsumexp(g: Any, out: Any, call: Any) -> Any:
    from chainrule.nn.activations import softmax

    axis = call.get("axis", -1)
    if not isinstance(axis, int):
        return None
    g = g if call.get("keepdims") else np.expand_dims(g, axis)
    return g * softmax(call["x"], axis)


def _cross_entropy(g: Any, out: Any, call: Any) -> Any:
    from chainrule.nn.activations import softmax
    from chainrule.nn.one_hot import one_hot

    logits, labels, reduction = call["logits"], call["labels"], call.get("reduction", "mean")
    options = ("weight", "ignore_index", "label_smoothing")
    if any(call.get(one) is not None for one in options) or reduction == "none":
        return None
    difference = softmax(logits) - one_hot(labels, logits.shape[-1], logits.dtype)
    return g * difference if reduction == "sum" else g * (difference / np.size(labels))


def _softplus(g: Any, out: Any, call: Any) -> Any:
    return g * sigmoid(call["x"])


def _of_logits(g: Any, out: Any, call: Any) -> Any:
    logits, targets, reduction = call["logits"], call["targets"], call.get("reduction", "mean")
    options = ("weight", "pos_weight")
    if any(call.get(one) is not None for one in options) or reduction == "none":
        return None
    difference = sigmoid(logits) - targets
    return g * difference if reduction == "sum" else g * (difference / difference.size)


def _squared_error(sign: int) -> Callable[[Any, Any, Any], Any]:
    def gradient(g: Any, out: Any, call: Any) -> Any:
        prediction, target = call["prediction"], call["target"]
        if np.shape(prediction) != np.shape(target):
            return None
        difference = prediction - target if sign > 0 else target - prediction
        is_mean = call.get("reduction", "mean") == "mean"
        return g * (2 * difference / difference.size if is_mean else 2 * difference)

    return gradient


def _normalised(x: Any, axis: Any, eps: Any) -> tuple[Any, Any]:
    """The normalised array, and what it was divided by."""
    spread = np.sqrt(np.var(x, axis=axis, keepdims=True) + eps)
    return (x - np.mean(x, axis=axis, keepdims=True)) / spread, spread


def _layer_norm(g: Any, out: Any, call: Any) -> Any:
    axis = call.get("axis", -1)
    normal, spread = _normalised(call["x"], axis, call.get("eps", 1e-5))
    weight = call.get("weight")
    inner = g if weight is None else g * weight
    along = np.mean(inner * normal, axis=axis, keepdims=True)
    return (inner - np.mean(inner, axis=axis, keepdims=True) - normal * along) / spread


def _layer_weight(g: Any, out: Any, call: Any) -> Any:
    normal, _ = _normalised(call["x"], call.get("axis", -1), call.get("eps", 1e-5))
    return _summed(g * normal, call["weight"])


def _rms_norm(g: Any, out: Any, call: Any) -> Any:
    normal, root = _by_root(call)
    inner = g if call.get("weight") is None else g * call["weight"]
    along = np.mean(inner * normal, axis=call.get("axis", -1), keepdims=True)
    return (inner - normal * along) / root


def _rms_weight(g: Any, out: Any, call: Any) -> Any:
    return _summed(g * _by_root(call)[0], call["weight"])


def _by_root(call: Any) -> tuple[Any, Any]:
    """x by its root of the mean square, and that."""
    x, eps = call["x"], call.get("eps")
    eps = float(finfo(x.dtype).eps) if eps is None else eps
    root = np.sqrt(np.mean(x * x, axis=call.get("axis", -1), keepdims=True) + eps)
    return x / root, root


def _added(name: str) -> Callable[[Any, Any, Any], Any]:
    """Of what is added to the result."""
    return lambda g, out, call: _summed(g, call[name])


def _summed(g: Any, like: Any) -> Any:
    """The sum over the leading axes, over which `like` was repeated; None for other axes."""
    leading = g.ndim - like.ndim
    if g.shape[leading:] != like.shape:
        return None
    return np.sum(g, axis=tuple(range(leading))) if leading else g


def _attention(by: str) -> Callable[[Any, Any, Any], Any]:
    def gradient(g: Any, out: Any, call: Any) -> Any:
        from chainrule.nn.activations import softmax
        from chainrule.nn.attention import masked, scale_of

        query, key, value = (call[name] for name in ("query", "key", "value"))
        leading = {np.shape(one)[:-2] for one in (query, key, value)}
        with_others = call.get("dropout") is not None or call.get("attn_mask") is not None
        if with_others or len(leading) > 1:  # with a mask, a query may see no key
            return None
        scale = scale_of(query, call.get("scale"))
        scores = query @ np.swapaxes(key, -1, -2) * scale
        P = softmax(masked(scores, None, call.get("is_causal", False)))
        if by == "value":
            return np.swapaxes(P, -1, -2) @ g
        dP = g @ np.swapaxes(value, -1, -2)
        dS = P * (dP - np.sum(dP * P, axis=-1, keepdims=True)) * scale
        return dS @ key if by == "query" else np.swapaxes(dS, -1, -2) @ query

    return gradient


def _windows(call: Any) -> dict[str, tuple[int, ...]] | None:
    """The options of a convolution by axis; None where they are words, or x has no batch."""
    count = call["weight"].ndim - 2
    if call["x"].ndim != count + 2:
        return None
    usual = {"stride": 1, "padding": 0, "dilation": 1}
    found: dict[str, tuple[int, ...]] = {}
    for name, default in usual.items():
        value = call.get(name, default)
        several = value if isinstance(value, (tuple, list)) else (value,) * count
        if not all(isinstance(one, int) for one in several):
            return None
        found[name] = tuple(several)
    return found


def _convolution(g: Any, out: Any, call: Any) -> Any:
    """The transposed convolution of g, longer by what no window covers."""
    from chainrule.nn import transposed_convolution

    options, weight = _windows(call), call["weight"]
    if options is None:
        return None
    left: list[Any] = []
    for at, size in enumerate(call["x"].shape[2:]):
        step, margin = options["stride"][at], options["padding"][at]
        width = options["dilation"][at] * (weight.shape[at + 2] - 1)
        if step == 1:
            left.append(0)
        elif isinstance(size, int) and isinstance(width, int):
            left.append((size + 2 * margin - width - 1) % step)
        else:
            return None
    function = getattr(transposed_convolution, f"conv_transpose{len(left)}d")
    more = {"output_padding": tuple(left)} if any(left) else {}
    return function(g, weight, groups=call.get("groups", 1), **_said(options), **more)


def _said(options: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The options that are not the usual ones, as one number where they are one."""
    usual = {"stride": 1, "padding": 0, "dilation": 1}
    numbers = {key: one[0] if len({*one}) == 1 else one for key, one in options.items()}
    return {key: value for key, value in numbers.items() if value != usual[key]}


def _kernel(g: Any, out: Any, call: Any) -> Any:
    """The sum over examples and positions of what each window of x has to do with g there."""
    from chainrule.numpy.windows import padded, windows

    options = _windows(call)
    if options is None or call.get("groups", 1) != 1:
        return None
    x, count = call["x"], len(options["stride"])
    size = call["weight"].shape[2:]
    if not all(isinstance(one, int) for one in size):
        return None
    whole = padded(x, tuple((one, one) for one in options["padding"]))
    seen = windows(whole, size, options["stride"], options["dilation"], "equations")
    places, inside = "ijk"[:count], "uvw"[:count]
    return np.einsum(f"no{places},nc{places}{inside}->oc{inside}", g, seen)


def _channels(g: Any, out: Any, call: Any) -> Any:
    return np.sum(g, axis=(0, *range(2, g.ndim))) if g.ndim == call["weight"].ndim else None


@composite(symbol="mean poolᵀ", latex=r"\operatorname{meanpool}^{\top}")
def _mean_pool_transposed(x: Any, kernel_size: Any) -> Any:
    """Each element shared equally by the window that it is the mean of."""
    sizes = _several(kernel_size, x.ndim - 2)
    n, channels, *lengths = x.shape
    wide = [one for pair in zip(lengths, sizes, strict=True) for one in pair]
    spread = np.broadcast_to(_beside_windows(x), (n, channels, *wide))
    whole = tuple(length * size for length, size in zip(lengths, sizes, strict=True))
    return np.reshape(spread, (n, channels, *whole)) / math.prod(sizes)


@composite(symbol="max poolᵀ", latex=r"\operatorname{maxpool}^{\top}")
def _max_pool_transposed(g: Any, x: Any, kernel_size: Any) -> Any:
    """Each element given to the largest element of its window of x, or shared by the largest."""
    sizes = _several(kernel_size, x.ndim - 2)
    n, channels, *lengths = g.shape
    wide = [one for pair in zip(lengths, sizes, strict=True) for one in pair]
    seen = np.reshape(x, (n, channels, *wide))
    axes = tuple(range(3, seen.ndim, 2))
    is_largest = seen == np.max(seen, axis=axes, keepdims=True)
    count = np.sum(is_largest, axis=axes, keepdims=True)
    return np.reshape(np.where(is_largest, _beside_windows(g) / count, 0), x.shape)


def _several(size: Any, count: int) -> tuple[Any, ...]:
    return tuple(size) if isinstance(size, (tuple, list)) else (size,) * count


def _beside_windows(x: Any) -> Any:
    """With an axis of length 1 after each one that counts windows."""
    ones = [one for length in x.shape[2:] for one in (length, 1)]
    return np.reshape(x, (*x.shape[:2], *ones))


def _are_apart(g: Any, call: Any) -> bool:
    """Whether windows meet and do not overlap."""
    x, size, stride = call["x"], call["kernel_size"], call.get("stride")
    several = _several(size, g.ndim - 2)
    plain = stride is None or stride in (size, several)
    rest = ("padding", "ceil_mode", "divisor_override")
    if not plain or any(call.get(one) for one in rest) or call.get("dilation", 1) != 1:
        return False
    if x.ndim != g.ndim or x.ndim < 3:
        return False
    lengths = zip(x.shape[2:], g.shape[2:], several, strict=True)
    return all(length == n * k for length, n, k in lengths)


def _mean_pool(g: Any, out: Any, call: Any) -> Any:
    return _mean_pool_transposed(g, call["kernel_size"]) if _are_apart(g, call) else None


def _max_pool(g: Any, out: Any, call: Any) -> Any:
    return _max_pool_transposed(g, call["x"], call["kernel_size"]) if _are_apart(g, call) else None


def _by_channel(one: Any, x: Any) -> Any:
    return one if x.ndim == 2 else np.reshape(one, (-1, *(1,) * (x.ndim - 2)))


def _of_channels(g: Any) -> Any:
    """The sum over all axes but that of the channels."""
    return np.sum(g, axis=(0, *range(2, g.ndim)))


def _scaled(by: str) -> Callable[[Any, Any, Any], Any]:
    """Of (x − mean)/√(var + ε), times weight, plus bias (Ioffe and Szegedy, 2015, section 3)."""

    def gradient(g: Any, out: Any, call: Any) -> Any:
        x, weight = call["x"], call.get("weight")
        root = _by_channel(np.sqrt(call["var"] + call["eps"]), x)
        normal = (x - _by_channel(call["mean"], x)) / root
        inner = g if weight is None else g * _by_channel(weight, x)
        match by:
            case "x":
                return inner / root
            case "mean":
                return -_of_channels(inner / root)
            case "var":
                return -_of_channels(inner * normal) / (2 * (call["var"] + call["eps"]))
            case "weight":
                return _of_channels(g * normal)
            case _:
                return _of_channels(g)

    return gradient


def _group_norm(by: str) -> Callable[[Any, Any, Any], Any]:
    def gradient(g: Any, out: Any, call: Any) -> Any:
        x, weight = call["x"], call.get("weight")
        shape = (x.shape[0], call["num_groups"], -1)
        normal, spread = _normalised(np.reshape(x, shape), -1, call.get("eps", 1e-5))
        if by == "weight":
            return _of_channels(g * np.reshape(normal, x.shape))
        if by == "bias":
            return _of_channels(g)
        inner = np.reshape(g if weight is None else g * _by_channel(weight, x), shape)
        along = np.mean(inner * normal, axis=-1, keepdims=True)
        whole = inner - np.mean(inner, axis=-1, keepdims=True) - normal * along
        return np.reshape(whole / spread, x.shape)

    return gradient


SOFTMAX: Gradients = {"x": _softmax}
LOG_SOFTMAX: Gradients = {"x": _log_softmax}
LOGSUMEXP: Gradients = {"x": _logsumexp}
CROSS_ENTROPY: Gradients = {"logits": _cross_entropy}
SOFTPLUS: Gradients = {"x": _softplus}
BINARY_CROSS_ENTROPY: Gradients = {"logits": _of_logits}
SQUARED_ERROR: Gradients = {"prediction": _squared_error(1), "target": _squared_error(-1)}
LAYER_NORM: Gradients = {"x": _layer_norm, "weight": _layer_weight, "bias": _added("bias")}
RMS_NORM: Gradients = {"x": _rms_norm, "weight": _rms_weight}
CONVOLUTION: Gradients = {"x": _convolution, "weight": _kernel, "bias": _channels}
MEAN_POOL: Gradients = {"x": _mean_pool}
MAX_POOL: Gradients = {"x": _max_pool}
BATCH_NORM: Gradients = {n: _scaled(n) for n in ("x", "mean", "var", "weight", "bias")}
GROUP_NORM: Gradients = {name: _group_norm(name) for name in ("x", "weight", "bias")}
ATTENTION: Gradients = {name: _attention(name) for name in ("query", "key", "value")}
