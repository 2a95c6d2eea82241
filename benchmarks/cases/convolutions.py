"""Networks of convolutions: LeNet, blocks of a residual network, a depthwise-separable block.

Images are (n, channels, rows, columns).  A network is a function of its parameters, of an image and
of `ops`, which are the operations of a library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .training import sgd, training_variants

LEARNING_RATE = 0.1
CLASSES = 10
NO_NUMPY = "NumPy has no convolution"
Network = Callable[[Any, Any, Any], Any]


def lenet(ops: Any, params: Any, x: Any) -> Any:
    h = ops.max_pool(ops.relu(ops.conv(x, params["K1"])))
    return ops.max_pool(ops.relu(ops.conv(h, params["K2"])))


def residual(ops: Any, params: Any, x: Any) -> Any:
    """A block that keeps the size, and one with stride 2 and twice the channels."""

    def block(p: Any, x: Any, stride: int) -> Any:
        h = ops.relu(ops.norm(ops.conv(x, p["K1"], stride, 1), p["w1"], p["b1"]))
        h = ops.norm(ops.conv(h, p["K2"], 1, 1), p["w2"], p["b2"])
        return ops.relu(h + (ops.conv(x, p["K3"], stride) if "K3" in p else x))

    return block(params["second"], block(params["first"], x, 1), 2)


def separable(ops: Any, params: Any, x: Any) -> Any:
    """A 3×3 convolution of each channel, and one of 1×1 over channels."""
    h = ops.relu(ops.norm(ops.conv(x, params["K1"], 1, 1, x.shape[1]), params["w1"], params["b1"]))
    return ops.relu(ops.norm(ops.conv(h, params["K2"]), params["w2"], params["b2"]))


def objective(params, x, y, *, network: Network):
    def norm(x, weight, bias):
        return cr.batch_norm(x, None, None, weight, bias, training=True)[0]

    def conv(x, weight, stride=1, padding=0, groups=1):
        return cr.conv2d(x, weight, None, stride, padding, groups=groups)

    def max_pool(x):
        return cr.max_pool2d(x, 2)

    ops = SimpleNamespace(conv=conv, norm=norm, relu=cr.relu, max_pool=max_pool)
    h = network(ops, params, x)
    return cr.cross_entropy(np.reshape(h, (h.shape[0], -1)) @ params["W"], y)


def torch_objective(params, x, y, *, network: Network):
    import torch

    functions = torch.nn.functional

    def norm(x, weight, bias):
        return functions.batch_norm(x, None, None, weight, bias, training=True)

    def conv(x, weight, stride=1, padding=0, groups=1):
        return functions.conv2d(x, weight, None, stride, padding, groups=groups)

    def max_pool(x):
        return functions.max_pool2d(x, 2)

    ops = SimpleNamespace(conv=conv, norm=norm, relu=functions.relu, max_pool=max_pool)
    h = network(ops, params, x)
    return functions.cross_entropy(torch.flatten(h, 1) @ params["W"], y)


def jax_objective(params, x, y, *, network: Network):
    import jax

    def norm(x, weight, bias):
        mean = x.mean((0, 2, 3), keepdims=True)
        scale = jax.lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        return (x - mean) * scale * weight[:, None, None] + bias[:, None, None]

    def conv(x, weight, stride=1, padding=0, groups=1):
        around = [(padding, padding)] * 2
        both = (stride, stride)
        return jax.lax.conv_general_dilated(x, weight, both, around, feature_group_count=groups)

    def max_pool(x):
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, window, "VALID")

    ops = SimpleNamespace(conv=conv, norm=norm, relu=jax.nn.relu, max_pool=max_pool)
    h = network(ops, params, x)
    log_p = jax.nn.log_softmax(h.reshape(len(h), -1) @ params["W"])
    return -log_p[np.arange(len(h)), y].mean()


def problem(network: Network, n: int, channels: int, side: int) -> Problem:
    random = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        values = random.standard_normal(shape, dtype=np.float32)
        return values * np.float32((2 / np.prod(shape[1:])) ** 0.5)

    def norm(count: int, channels: int) -> dict[str, np.ndarray]:
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return {f"w{count}": ones, f"b{count}": zeros}

    params: dict[str, Any]
    x = random.standard_normal((n, channels, side, side), dtype=np.float32)
    if network is lenet:
        params, last = {"K1": weight(16, channels, 5, 5), "K2": weight(32, 16, 5, 5)}, 32
        side = ((side - 4) // 2 - 4) // 2
    elif network is residual:
        first = {"K1": weight(channels, channels, 3, 3), "K2": weight(channels, channels, 3, 3)}
        last = 2 * channels
        second = {"K1": weight(last, channels, 3, 3), "K2": weight(last, last, 3, 3)}
        second["K3"] = weight(last, channels, 1, 1)
        params = {
            "first": {**first, **norm(1, channels), **norm(2, channels)},
            "second": {**second, **norm(1, last), **norm(2, last)},
        }
        side = (side - 1) // 2 + 1
    else:
        last = 2 * channels
        params = {"K1": weight(channels, 1, 3, 3), "K2": weight(last, channels, 1, 1)}
        params |= {**norm(1, channels), **norm(2, last)}
    inputs = last * side**2
    params["W"] = random.standard_normal((inputs, CLASSES), dtype=np.float32)
    params["W"] *= np.float32(inputs**-0.5)
    return Problem({"x": x, "y": random.integers(0, CLASSES, n)}, params)


def training_case(
    name: str, title: str, network: Network, n: int, channels: int, side: int
) -> Case:
    objectives = (objective, torch_objective, jax_objective)
    ours, torch, jax = (partial(one, network=network) for one in objectives)
    return Case(
        name=name,
        title=f"{title}, {n} of {channels}×{side}×{side}",
        problem=partial(problem, network, n, channels, side),
        variants=training_variants(ours, torch, {"jit": jax}, sgd(LEARNING_RATE)),
        missing={"NumPy": NO_NUMPY},
        trains=True,
    )
