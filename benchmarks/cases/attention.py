"""Attention alone: forward, and forward + backward, beside PyTorch's own fused attention."""

from __future__ import annotations

from functools import partial

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .functions import function_variants

NAMES = ("q", "k", "v")


def problem(length: int, heads: int, width: int) -> Problem:
    random = np.random.default_rng(0)
    shape = 1, heads, length, width
    return Problem(
        {name: random.standard_normal(shape, dtype=np.float32) for name in (*NAMES, "g")}
    )


def attention(q, k, v):
    return cr.softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v


def attention_backward(q, k, v, g):
    """(o, dq, dk, dv) for the cotangent g of o = attention(q, k, v)."""
    o, pull = cr.vjp(attention, q, k, v)
    return o, *pull(g)


def torch_fused(q, k, v, g):
    import torch

    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return o, *torch.autograd.grad(o, (q, k, v), g)


def torch_written(q, k, v, g):
    import torch

    o = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
    return o, *torch.autograd.grad(o, (q, k, v), g)


def torch_pull(q, k, v, g):
    import torch

    def forward(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v

    o, pull, *_ = torch.func.vjp(forward, q, k, v)
    return o, *pull(g)


def jax_attention(q, k, v, g):
    import jax

    def forward(q, k, v):
        swapped = [one.swapaxes(1, 2) for one in (q, k, v)]
        return jax.nn.dot_product_attention(*swapped).swapaxes(1, 2)

    o, pull, *_ = jax.vjp(forward, q, k, v)
    return o, *pull(g)


def case(name: str, length: int, heads: int = 4, width: int = 64) -> Case:
    variants = function_variants(
        ("o", "dq", "dk", "dv"),
        chainrule={"cr.vjp": attention_backward},
        torch={"scaled_dot_product_attention": torch_fused, "written out": torch_written},
        compiled={"vjp": torch_pull},
        jax={"dot_product_attention": jax_attention},
        numpy={},
        differentiable={"scaled_dot_product_attention": NAMES, "written out": NAMES},
    )
    return Case(
        name=name,
        title=f"attention forward + backward, {heads} heads of {width}, length {length:,}",
        problem=partial(problem, length, heads, width),
        variants={who: ways for who, ways in variants.items() if ways},
        missing={"NumPy": "no NumPy version: nobody writes its backward pass by hand"},
    )
