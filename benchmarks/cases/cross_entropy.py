"""Cross-entropy with its gradient, alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .functions import function_variants


def problem(rows: int, classes: int) -> Problem:
    random = np.random.default_rng(0)
    return Problem(
        {
            "logits": random.standard_normal((rows, classes), dtype=np.float32),
            "labels": random.integers(0, classes, rows),
        }
    )


def cross_entropy(logits, labels):
    """(value, dlogits)."""
    return cr.value_and_grad(cr.cross_entropy)(logits, labels)


def torch_cross_entropy(logits, labels):
    import torch

    L = torch.nn.functional.cross_entropy(logits, labels)
    return L, *torch.autograd.grad(L, logits)


def torch_cross_entropy_aten(logits, labels):
    import torch

    aten, one = torch.ops.aten, torch.ones((), dtype=logits.dtype)
    log_shares = aten._log_softmax(logits, 1, False)
    L, weight = aten.nll_loss_forward(log_shares, labels, None, 1, -100)
    flowing = aten.nll_loss_backward(one, log_shares, labels, None, 1, -100, weight)
    return L, aten._log_softmax_backward_data(flowing, log_shares, 1, torch.float32)


def torch_cross_entropy_grad(logits, labels):
    import torch

    value_and_grad = torch.func.grad_and_value(torch.nn.functional.cross_entropy)
    return tuple(reversed(value_and_grad(logits, labels)))


def jax_cross_entropy(logits, labels):
    import jax
    import jax.numpy as jnp

    def forward(logits: Any) -> Any:
        at_labels = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -jnp.mean(at_labels)

    return jax.value_and_grad(forward)(logits)


def jax_cross_entropy_formula(logits, labels):
    import jax
    import jax.numpy as jnp

    log_shares = jax.nn.log_softmax(logits)
    L = -jnp.mean(jnp.take_along_axis(log_shares, labels[:, None], axis=1))
    one_hot = jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype)
    return L, (jnp.exp(log_shares) - one_hot) / logits.shape[0]


def numpy_cross_entropy(logits, labels):
    rows, out = np.arange(len(labels)), np.empty_like(logits)

    def call() -> Any:
        np.subtract(logits, logits.max(axis=1, keepdims=True), out=out)
        at_labels = out[rows, labels]
        np.exp(out, out=out)
        total = out.sum(axis=1, keepdims=True)
        L = np.mean(np.log(total[:, 0]) - at_labels)
        np.multiply(out, 1 / (total * len(labels)), out=out)
        out[rows, labels] -= 1 / len(labels)
        return L, out

    return call


def case(name: str, rows: int, classes: int) -> Case:
    return Case(
        name=name,
        title=f"cross-entropy forward + backward, {rows}×{classes}",
        problem=partial(problem, rows, classes),
        variants=function_variants(
            ("L", "dlogits"),
            chainrule={"cr.value_and_grad": cross_entropy},
            torch={"autograd": torch_cross_entropy, "aten": torch_cross_entropy_aten},
            compiled={"grad": torch_cross_entropy_grad, "aten": torch_cross_entropy_aten},
            jax={"grad": jax_cross_entropy, "formula": jax_cross_entropy_formula},
            numpy={"in place": numpy_cross_entropy},
            differentiable={"autograd": ("logits",)},
        ),
    )
