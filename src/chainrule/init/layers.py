"""Draws the weights with which PyTorch's layers begin, in this library's layouts.

`torch.nn.Linear` and the convolutions call `kaiming_uniform_(a=sqrt(5))`, which is a uniform
distribution between ±1 / sqrt(fan_in): that of LeCun et al. (1998, section 4.6) up to sqrt(3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.frontend.composite import composite
from chainrule.init.fans import checked_shape, fans
from chainrule.init.schemes import symmetric
from chainrule.random import fold_in, normal


@composite(module="cr.init")
def linear(key: Any, inputs: int, outputs: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    """(W, b) of a dense layer x @ W + b, with W (inputs, outputs) and b (outputs), as
    `torch.nn.Linear` begins: both uniform between ±1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(max(inputs, 1))
    W = symmetric(fold_in(key, 0), checked_shape((inputs, outputs), "linear"), bound, dtype)
    return W, symmetric(fold_in(key, 1), (outputs,), bound, dtype)


@composite(module="cr.init")
def conv(key: Any, shape: Any, dtype: Any = np.float32) -> tuple[Any, Any]:
    """(weight, bias) of a convolution, with weight (out, in / groups, *window) and bias (out), as
    `torch.nn.Conv2d` begins: both uniform between ±1 / sqrt(in / groups · window)."""
    shape = checked_shape(shape, "conv")
    if len(shape) < 3:
        raise ShapeError(
            f"init.conv: {list(shape)} is no shape of a convolution's weight",
            hint="cr.init.conv(key, (16, 3, 5, 5)): (out, in / groups, *window)",
        )
    bound = 1 / math.sqrt(max(fans(shape, "conv")[0], 1))
    weight = symmetric(fold_in(key, 0), shape, bound, dtype)
    return weight, symmetric(fold_in(key, 1), shape[:1], bound, dtype)


@composite(module="cr.init")
def embedding(key: Any, count: int, features: int, dtype: Any = np.float32) -> Any:
    """A table (count, features) of vectors, as `torch.nn.Embedding` begins: normal numbers of the
    variance 1."""
    return normal(key, checked_shape((count, features), "embedding"), dtype)


@composite(module="cr.init")
def rnn(key: Any, features: int, hidden: int, **options: Any) -> dict[str, Any]:
    """The weights of `torch.nn.RNN`; as `lstm`, with one row for each hidden unit."""
    return _recurrent(key, features, hidden, 1, **options)


@composite(module="cr.init")
def gru(key: Any, features: int, hidden: int, **options: Any) -> dict[str, Any]:
    """The weights of `torch.nn.GRU`; as `lstm`, with the rows of three gates."""
    return _recurrent(key, features, hidden, 3, **options)


@composite(module="cr.init")
def lstm(key: Any, features: int, hidden: int, **options: Any) -> dict[str, Any]:
    """The weights of a `torch.nn.LSTM` by their names there, as it begins: all of them uniform
    between ±1 / sqrt(hidden).

    weight_ih_l0 (4 hidden, features), weight_hh_l0 (4 hidden, hidden), bias_ih_l0 and bias_hh_l0
    (4 hidden), where rows are those of the gates i, f, g, o; the same of further `layers`, which
    read the hidden units of the one before, and, where `bidirectional`, of the direction from the
    end (weight_ih_l0_reverse).  Without biases if `bias` is False.
    """
    return _recurrent(key, features, hidden, 4, **options)


def _recurrent(
    key: Any,
    features: int,
    hidden: int,
    gates: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
    dtype: Any = np.float32,
) -> dict[str, Any]:
    bound = 1 / math.sqrt(max(hidden, 1))
    rows, found = gates * hidden, {}
    for layer in range(layers):
        read = features if layer == 0 else hidden * (1 + bidirectional)
        shapes = {"weight_ih": (rows, read), "weight_hh": (rows, hidden)}
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
        for end in ("", "_reverse")[: 1 + bidirectional]:
            for name, shape in shapes.items():
                own = fold_in(key, len(found))
                found[f"{name}_l{layer}{end}"] = symmetric(own, shape, bound, dtype)
    return found
