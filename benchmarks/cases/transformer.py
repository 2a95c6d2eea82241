"""The transformer, trained with AdamW, in chainrule, PyTorch and JAX."""

from __future__ import annotations

from functools import partial

from .case import Case, Problem
from .training import adamw, training_variants
from .transformer_objective import initial_parameters, objective, random_tokens

LEARNING_RATE, WEIGHT_DECAY, HEADS = 1e-3, 1e-2, 4


def torch_objective(params, tokens, targets):
    import torch.nn.functional as F

    def normalised(x, norm):
        return F.layer_norm(x, x.shape[-1:], norm["weight"], norm["bias"])

    def attention(x, weights):
        batch, length, width = x.shape
        parts = F.linear(x, weights["Wqkv"]).split(width, dim=-1)
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(mixed.transpose(1, 2).reshape(batch, length, width), weights["Wout"])

    def feed_forward(x, weights):
        hidden = F.gelu(F.linear(x, weights["Win"], weights["bin"]), approximate="tanh")
        return F.linear(hidden, weights["Wout"], weights["bout"])

    x = F.embedding(tokens, params["tokens"]) + params["positions"]
    for block in params["blocks"]:
        x = x + attention(normalised(x, block["attention_norm"]), block["attention"])
        x = x + feed_forward(normalised(x, block["feed_forward_norm"]), block["feed_forward"])
    logits = F.linear(normalised(x, params["norm"]), params["Whead"])
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def jax_objective(params, tokens, targets, *, library_attention):
    import jax
    import jax.numpy as jnp

    def normalised(x, norm):
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
        return centred * scale * norm["weight"] + norm["bias"]

    def attention(x, weights):
        batch, length, width = x.shape
        parts = jnp.split(x @ weights["Wqkv"], 3, axis=-1)
        q, k, v = (part.reshape(batch, length, HEADS, -1) for part in parts)
        if library_attention:
            mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
            causal = jnp.tril(jnp.ones((length, length), bool))
            shares = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
            mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, v)
        return mixed.reshape(batch, length, width) @ weights["Wout"]

    def feed_forward(x, weights):
        hidden = jax.nn.gelu(x @ weights["Win"] + weights["bin"], approximate=True)
        return hidden @ weights["Wout"] + weights["bout"]

    x = params["tokens"][tokens] + params["positions"]
    for block in params["blocks"]:
        x = x + attention(normalised(x, block["attention_norm"]), block["attention"])
        x = x + feed_forward(normalised(x, block["feed_forward_norm"]), block["feed_forward"])
    logits = normalised(x, params["norm"]) @ params["Whead"]
    at_targets = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -jnp.mean(at_targets)


def problem(vocabulary: int, length: int, width: int, depth: int, batch: int) -> Problem:
    tokens, targets = random_tokens(vocabulary, length, batch)
    return Problem(
        {"tokens": tokens, "targets": targets},
        initial_parameters(vocabulary, length, width, depth),
    )


def training_case(
    name: str, vocabulary: int, length: int, width: int, depth: int, batch: int
) -> Case:
    jax_objectives = {
        "jit, attention written out": partial(jax_objective, library_attention=False),
        "jit, jax.nn.dot_product_attention": partial(jax_objective, library_attention=True),
    }
    optimizer = adamw(LEARNING_RATE, WEIGHT_DECAY)
    return Case(
        name=name,
        title=f"transformer, {depth} layers of width {width}, {batch}×{length} tokens, AdamW",
        problem=partial(problem, vocabulary, length, width, depth, batch),
        variants=training_variants(
            objective, torch_objective, jax_objectives, optimizer, linear=True
        ),
        missing={"NumPy": "no NumPy version: nobody writes its backward pass by hand"},
        trains=True,
    )
