"""Clusters and decoders for tests of plans on paper: types alone, no arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float32, int64

n = cr.size("n")
CLUSTER = """
[[groups]]
name = "node"
devices = 8
copies = {copies}
memory = "{memory}"
memory_bandwidth = "2 TB/s"
latency = "5 us"
bandwidth = "300 GB/s"
[groups.products]
float32 = "156 TFLOP/s"
[between]
latency = "10 us"
bandwidth = "25 GB/s"
"""


def cluster(devices: int, memory: str = "80 GB") -> cr.Devices:
    return cr.Devices.parse(CLUSTER.format(copies=devices // 8, memory=memory))


@cache
def decoder(layers: int, width: int, heads: int, length: int, words: int) -> cr.TrainingStep:
    """A decoder from types alone: layer norm before each part, attention without biases, GELU."""
    d, types = width, {}
    for number in range(layers):
        types[f"l{number}"] = {
            **{name: float32[d, d] for name in "qkvo"},
            **{name: float32[d] for name in ("g1", "b1", "g2", "b2", "c2")},
            **{"w1": float32[d, 4 * d], "c1": float32[4 * d], "w2": float32[4 * d, d]},
        }

    def objective(x: Any, y: Any, E: Any, P: Any, p: Any, U: Any) -> Any:
        def split(t: Any) -> Any:
            return np.swapaxes(t.reshape(t.shape[0], length, heads, d // heads), 1, 2)

        h = np.take(E, x, axis=0) + P
        for w in (p[f"l{number}"] for number in range(layers)):
            z = cr.layer_norm(h, w["g1"], w["b1"])
            q, k, v = (split(z @ w[name]) for name in "qkv")
            o = cr.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + np.swapaxes(o, 1, 2).reshape(x.shape[0], length, d) @ w["o"]
            z = cr.layer_norm(h, w["g2"], w["b2"])
            h = h + cr.gelu(z @ w["w1"] + w["c1"]) @ w["w2"] + w["c2"]
        J = cr.cross_entropy(h @ U, y)
        return J

    arrays = {"E": float32[words, d], "P": float32[length, d], "p": types, "U": float32[d, words]}
    return cr.training_step(
        objective,
        ("E", "P", "p", "U"),
        cr.adam(),
        executor="reference",
        x=int64[n, length],
        y=int64[n, length],
        **arrays,
    )


LARGE = (32, 4096, 32, 2048, 51200)  # 6.9e9 parameters
SMALL = (3, 32, 4, 16, 64)
