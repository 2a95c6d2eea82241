"""The calls of the wide random programs: how each draws its options for the arrays it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr

Random = np.random.Generator


def _axis(random: Random, x: Any, several: bool = True) -> Any:
    if not x.ndim and not several:
        raise ValueError("a number has no axes")
    choices: list[Any] = [None, *range(-x.ndim, x.ndim)] if several else [*range(-x.ndim, x.ndim)]
    if several and x.ndim > 1:
        choices += [(0, -1), (0, 1), ()]
    return choices[random.integers(len(choices))] if choices else -1


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, x: Any) -> Callable[..., Any]:
        axis, keepdims = _axis(random, x), bool(random.integers(2))
        return lambda x: function(x, axis=axis, keepdims=keepdims)

    return draw


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, *arrays: Any) -> Callable[..., Any]:
        axis = _axis(random, arrays[0], several=False)
        return lambda *arrays: function(*arrays, axis=axis)

    return draw


def _just(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda random, *arrays: lambda *arrays: function(*arrays, *args, **kwargs)


def _one_of(*draws: Callable[..., Any]) -> Callable[..., Any]:
    return lambda random, *arrays: draws[random.integers(len(draws))](random, *arrays)


def _reshaped(random: Random, x: Any) -> Callable[..., Any]:
    shape = [(-1,), (1, *x.shape), x.shape[::-1], (*x.shape, 1), (-1, 1)][random.integers(5)]
    return lambda x: np.reshape(x, shape)


def _indexed(random: Random, x: Any) -> Callable[..., Any]:
    index = [
        (..., None),
        (slice(None, None, -1),),
        (..., slice(0, 1)),
        (-1,),
        (..., 0),
        ([0, -1, 0],),
        (np.array([[0], [-1]]),),
        (slice(1, None),),
        (None, ..., -1),
        (..., slice(None, None, 2)),
    ][random.integers(10)]
    return lambda x: x[index]


@dataclass(frozen=True)
class Cast:
    """To another dtype; a program in float64 leaves those of floating point away."""

    dtype: str

    def __call__(self, x: Any) -> Any:
        return x.astype(self.dtype)


def _cast(random: Random, x: Any) -> Callable[..., Any]:
    dtype = ["float32", "float64", "float64", "int64", "bool", "float16"][random.integers(6)]
    return Cast(dtype)


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, *arrays: Any) -> Callable[..., Any]:
        reduction = ["mean", "sum", "none"][random.integers(3)]
        return lambda *arrays: function(*arrays, reduction=reduction)

    return draw


def _labelled(random: Random, x: Any) -> Callable[..., Any]:
    labels = random.integers(0, max(1, x.shape[-1]), x.shape[:-1])
    smoothing = [None, 0.1][random.integers(2)]
    reduction = ["mean", "sum", "none"][random.integers(3)]
    return lambda x: cr.cross_entropy(x, labels, reduction, label_smoothing=smoothing)


def _convolved(random: Random, x: Any) -> Callable[..., Any]:
    function, sizes = (cr.conv2d, (2, 2)) if x.ndim == 4 else (cr.conv1d, (2,))
    weight = random.normal(size=(3, x.shape[1], *sizes)).astype(x.dtype)
    stride, padding = random.integers(1, 3), random.integers(0, 2)
    return lambda x: function(x, weight, stride=int(stride), padding=int(padding))


def _convolving(random: Random, x: Any, y: Any) -> Callable[..., Any]:
    function = cr.conv2d if x.ndim == 4 else cr.conv1d
    return lambda x, y: function(x, y[: 2 if x.ndim == 4 else None, : x.shape[1]], padding=1)


def _pooled(random: Random, x: Any) -> Callable[..., Any]:
    two, one = (cr.max_pool2d, cr.avg_pool2d), (cr.max_pool1d, cr.avg_pool1d)
    function = (two if x.ndim == 4 else one)[random.integers(2)]
    stride, padding = int(random.integers(1, 3)), int(random.integers(2))
    return lambda x: function(x, 2, stride=stride, padding=padding)


UNARY = [
    *map(_just, (np.sin, np.cos, np.tanh, np.exp, np.negative, np.abs, np.square, np.arctan)),
    *map(_just, (np.sign, np.floor, np.rint, np.isfinite, np.logical_not, np.expm1, np.arcsinh)),
    *map(_just, (cr.relu, cr.softplus, cr.gelu, cr.sigmoid, cr.silu, cr.elu, cr.erf)),
    *map(_just, (cr.leaky_relu, cr.log_sigmoid, np.sinc, np.log, np.reciprocal)),
    *map(_just, (np.nan_to_num, np.signbit, np.diff, np.ravel, np.transpose, np.squeeze)),
    *map(_just, (np.diag, np.trace, np.tril, np.atleast_2d, np.linalg.norm)),
    _just(lambda x: x * 2 + 1),
    _just(lambda x: 1 / (x * x + 1)),
    _just(lambda x: x**2),
    _just(lambda x: 2.5 - x),
    _just(lambda x: x // 2),
    _just(lambda x: x % 3),
    _just(lambda x: np.clip(x, -1.0, 1.0)),
    _just(lambda x: np.sqrt(np.abs(x) + 0.5)),
    _just(lambda x: np.cbrt(np.abs(x) + 0.5)),
    _just(lambda x: np.log1p(np.abs(x))),
    _just(lambda x: np.pad(x, 1)),
    _just(lambda x: np.repeat(x, 2)),
    _just(lambda x: np.tile(x, 2)),
    _just(lambda x: x @ x.T),
    _just(lambda x: np.where(x > 0, x, x * x)),
    _just(lambda x: np.einsum("...i,...i->...", x, x)),
    _just(lambda x: np.tensordot(x, x, 0) if x.size < 10 else x),
    *map(_reduction, [*[np.sum, np.mean, np.max, np.min, np.prod, np.var, np.std] * 2]),
    *map(_reduction, (np.any, np.all, np.median, np.ptp, np.count_nonzero, cr.logsumexp)),
    *map(_along, (np.cumsum, np.cumprod, np.sort, np.argmax, np.flip, np.expand_dims)),
    _along(lambda x, axis: np.argsort(x, axis, stable=True)),
    *map(_along, (cr.softmax, cr.log_softmax, cr.layer_norm, cr.rms_norm)),
    _just(np.roll, 1),
    *[_reshaped, _indexed, _cast] * 3,
    *[_labelled, _convolved, _pooled] * 4,
    *[_just(cr.instance_norm), _just(cr.group_norm, 2)] * 2,
]
BINARY = [
    *map(_just, (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)),
    *map(_just, (np.logaddexp, np.greater, np.equal, np.fmin)),
    *map(_just, (np.fmod, np.floor_divide, np.remainder, np.copysign, np.logical_and)),
    *map(_just, (np.matmul, np.dot, np.outer, np.inner, np.vdot, np.kron, np.heaviside)),
    _just(lambda x, y: np.where(x > 0, x, y)),
    _just(lambda x, y: np.arctan2(x, np.abs(y) + 0.5)),
    _just(lambda x, y: np.power(np.abs(x) + 0.5, y)),
    _just(lambda x, y: np.hypot(x, np.abs(y) + 0.5)),
    _just(lambda x, y: np.where(y > x, y * 2, 1.0)),
    _just(lambda x, y: np.broadcast_arrays(x, y)[1]),
    *[_along(lambda *xs, axis: np.concatenate(xs, axis))] * 3,
    _along(lambda *xs, axis: np.stack(xs, axis)),
    _just(lambda x, y: x[np.abs(y).astype(np.int64) % x.shape[0]]),
    _just(lambda x, y: np.take(x, y.astype(np.int64), mode="wrap")),
    _just(lambda x, y: cr.linear(x, y.T)),
    _just(lambda x, y: cr.layer_norm(x, y)),
    _just(lambda x, y: cr.layer_norm(x, y, y)),
    _just(lambda x, y: cr.rms_norm(x, y)),
    _just(lambda x, y: cr.scaled_dot_product_attention(x, y, y)),
    _just(lambda x, y: cr.scaled_dot_product_attention(x, y, x, is_causal=True)),
    *map(_loss, (cr.squared_error, cr.absolute_error, cr.huber)),
    _loss(lambda x, y, reduction: cr.binary_cross_entropy_with_logits(x, y > 0, None, reduction)),
    _loss(lambda x, y, reduction: cr.kl_divergence(cr.log_softmax(x), cr.softmax(y), reduction)),
    *[_convolving] * 3,
]
