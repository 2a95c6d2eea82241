"""ONNX's activation functions, softmax and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.operators.elementwise import plain
from chainrule.graph.dtypes import dtype_kind
from chainrule.nn import activations, linear_units
from chainrule.nn.one_hot import one_hot
from chainrule.numpy.of_one_primitive import sigmoid


def leaky_relu(call: Call, x: Any) -> Any:
    return linear_units.leaky_relu(x, call.get("alpha", 0.01))


def prelu(call: Call, x: Any, slope: Any) -> Any:
    return np.where(x < 0, x * slope, x)


def elu(call: Call, x: Any) -> Any:
    return linear_units.elu(x, call.get("alpha", 1.0))


def selu(call: Call, x: Any) -> Any:
    alpha, gamma = call.get("alpha", 1.6732632423543772), call.get("gamma", 1.0507009873554805)
    return gamma * linear_units.elu(x, alpha)


def celu(call: Call, x: Any) -> Any:
    alpha = call.get("alpha", 1.0)
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)


def hard_sigmoid(call: Call, x: Any) -> Any:
    return np.clip(call.get("alpha", 0.2) * x + call.get("beta", 0.5), 0.0, 1.0)


def hard_swish(call: Call, x: Any) -> Any:
    return x * np.clip(x / 6 + 0.5, 0.0, 1.0)


def swish(call: Call, x: Any) -> Any:
    alpha = call.get("alpha", 1.0)
    return linear_units.silu(x) if alpha == 1 else x * sigmoid(alpha * x)


def gelu(call: Call, x: Any) -> Any:
    return activations.gelu(x, call.get("approximate", "none"))


def mish(call: Call, x: Any) -> Any:
    return x * np.tanh(activations.softplus(x))


def thresholded_relu(call: Call, x: Any) -> Any:
    return np.where(x > call.get("alpha", 1.0), x, 0.0)


def shrink(call: Call, x: Any) -> Any:
    bias, width = call.get("bias", 0.0), call.get("lambd", 0.5)
    if dtype_kind(x.dtype) != "f":
        bias = int(bias)
    low, high = x + bias, x - bias
    zero = np.zeros_like(x)
    return np.where(x < -width, low, np.where(x > width, high, zero)).astype(x.dtype)


def along(function: Callable[..., Any]) -> Callable[..., Any]:
    """Before version 13 all axes from the given one on are one, by default the second."""

    def operator(call: Call, x: Any) -> Any:
        if call.version >= 13:
            return function(x, call.axis(call.get("axis", -1), x.ndim))
        axis = call.get("axis", 1)
        axis = axis if axis == x.ndim else call.axis(axis, x.ndim)
        rows = math.prod(x.shape[:axis])
        return np.reshape(function(np.reshape(x, (rows, -1)), 1), x.shape)

    return operator


def _hardmax(x: Any, axis: int) -> Any:
    first = one_hot(np.argmax(x, axis), x.shape[axis])
    return np.moveaxis(first, -1, axis).astype(x.dtype)


def dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """The identity, with a mask of ones: an imported model is one for prediction."""
    if training is not None and call.integer(training, "training_mode"):
        drops = 0.5 if ratio is None else call.one_float(ratio, "ratio")
        if drops:
            call.refuse(
                "training_mode is on, whose random numbers the file does not say",
                "export the model for evaluation; cr.dropout drops with keys",
            )
    return x, np.ones_like(x, dtype=np.bool_)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Celu": celu,
    "Dropout": dropout,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Hardmax": along(_hardmax),
    "LeakyRelu": leaky_relu,
    "LogSoftmax": along(activations.log_softmax),
    "Mish": mish,
    "PRelu": prelu,
    "Relu": plain(activations.relu),
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": plain(sigmoid),
    "Softmax": along(activations.softmax),
    "Softplus": plain(activations.softplus),
    "Softsign": plain(lambda x: x / (1 + np.absolute(x))),
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
}
