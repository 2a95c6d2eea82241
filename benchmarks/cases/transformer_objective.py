"""A pre-norm causal transformer that predicts the next token, as a user of chainrule writes it.

params = initial_parameters(vocabulary=256, length=64, width=128, depth=2)
tokens, targets = random_tokens(vocabulary=256, length=64, batch=16)
step = cr.training_step(objective, wrt="params", optimizer=cr.adamw(1e-3),
                        params=params, tokens=tokens, targets=targets)
"""

from __future__ import annotations

import numpy as np

import chainrule as cr


def objective(params, tokens, targets, heads=4):
    """The mean cross-entropy of `targets` (batch, length), integers, given `tokens` like them."""
    x = cr.embedding(params["tokens"], tokens) + params["positions"]
    for block in params["blocks"]:
        x = x + attention(normalised(x, block["attention_norm"]), block["attention"], heads)
        x = x + feed_forward(normalised(x, block["feed_forward_norm"]), block["feed_forward"])
    logits = normalised(x, params["norm"]) @ params["Whead"]
    J = cr.cross_entropy(logits, targets)
    return J


def normalised(x, norm):
    return cr.layer_norm(x, norm["weight"], norm["bias"])


def attention(x, weights, heads):
    """Each position attends to itself and to those before it; x is (batch, length, width)."""
    batch, length, width = x.shape
    size = width // heads
    parts = np.split(x @ weights["Wqkv"], 3, axis=-1)
    q, k, v = (part.reshape(batch, length, heads, size).swapaxes(1, 2) for part in parts)
    causal = np.tril(np.ones((length, length), bool))
    scores = np.where(causal, q @ k.swapaxes(-1, -2) / size**0.5, -np.inf)
    mixed = cr.softmax(scores) @ v
    return mixed.swapaxes(1, 2).reshape(batch, length, width) @ weights["Wout"]


def feed_forward(x, weights):
    hidden = cr.gelu(x @ weights["Win"] + weights["bin"], approximate="tanh")
    return hidden @ weights["Wout"] + weights["bout"]


def initial_parameters(vocabulary: int, length: int, width: int, depth: int, seed: int = 0) -> dict:
    """Float32 arrays: normal matrices of deviation 0.02, norms of weight 1 and bias 0."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.float32(0.02) * random.standard_normal((rows, columns), dtype=np.float32)

    def norm() -> dict[str, np.ndarray]:
        return {"weight": np.ones(width, np.float32), "bias": np.zeros(width, np.float32)}

    def block() -> dict:
        return {
            "attention_norm": norm(),
            "attention": {"Wqkv": matrix(width, 3 * width), "Wout": matrix(width, width)},
            "feed_forward_norm": norm(),
            "feed_forward": {
                "Win": matrix(width, 4 * width),
                "bin": np.zeros(4 * width, np.float32),
                "Wout": matrix(4 * width, width),
                "bout": np.zeros(width, np.float32),
            },
        }

    return {
        "tokens": matrix(vocabulary, width),
        "positions": matrix(length, width),
        "blocks": [block() for _ in range(depth)],
        "norm": norm(),
        "Whead": matrix(width, vocabulary),
    }


def random_tokens(
    vocabulary: int, length: int, batch: int, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, targets), int64 of shape (batch, length): each target is the next token."""
    text = np.random.default_rng(seed).integers(0, vocabulary, (batch, length + 1))
    return text[:, :-1].copy(), text[:, 1:].copy()
