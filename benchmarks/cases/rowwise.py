"""Operations on rows, alone: softmax backward, layer_norm forward and backward."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .functions import function_variants
from .limits import copy_of_same_bytes

EPS = 1e-5  # of layer_norm


def softmax_problem(rows: int, columns: int) -> Problem:
    random = np.random.default_rng(0)
    y = np.exp(random.standard_normal((rows, columns), dtype=np.float32))
    y /= y.sum(axis=-1, keepdims=True)
    return Problem({"y": y, "g": random.standard_normal((rows, columns), dtype=np.float32)})


def softmax_backward(y, g):
    """Given y = softmax(x) and the cotangent g of y: that of x."""
    return y * (g - np.sum(g * y, axis=-1, keepdims=True))


def torch_softmax_backward(y, g):
    import torch

    return torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32)


def torch_softmax_formula(y, g):
    return y * (g - (g * y).sum(-1, keepdim=True))


def jax_softmax_formula(y, g):
    return y * (g - (g * y).sum(-1, keepdims=True))


def jax_softmax_pull(y, g):
    """The whole of JAX's own rule, from x; log(y) is an x with softmax(x) = y."""
    import jax
    import jax.numpy as jnp

    return jax.vjp(jax.nn.softmax, jnp.log(y))[1](g)[0]


def numpy_softmax_backward(y, g):
    product = np.empty_like(g)

    def call() -> Any:
        np.multiply(g, y, out=product)
        np.subtract(g, product.sum(axis=-1, keepdims=True), out=product)
        return np.multiply(product, y, out=product)

    return call


def softmax_case(name: str, rows: int, columns: int) -> Case:
    return Case(
        name=name,
        title=f"softmax backward, {rows}×{columns}",
        problem=partial(softmax_problem, rows, columns),
        variants=function_variants(
            ("dx",),
            chainrule={"formula": softmax_backward},
            torch={"aten": torch_softmax_backward, "formula": torch_softmax_formula},
            compiled={"formula": torch_softmax_formula, "aten": torch_softmax_backward},
            jax={"formula": jax_softmax_formula, "vjp": jax_softmax_pull},
            numpy={"in place": numpy_softmax_backward},
        ),
        yardsticks={"copying the same bytes": partial(copy_of_same_bytes, arrays_moved=3)},
    )


def layer_norm_problem(rows: int, columns: int) -> Problem:
    random = np.random.default_rng(0)
    shapes = {"x": (rows, columns), "weight": columns, "bias": columns, "g": (rows, columns)}
    return Problem(
        {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    )


def layer_norm(x, weight, bias, g):
    """(y, dx, dweight, dbias) for the cotangent g of y = layer_norm(x, weight, bias)."""
    y, pull = cr.vjp(cr.layer_norm, x, weight, bias)
    return y, *pull(g)


def torch_layer_norm(x, weight, bias, g):
    import torch

    y = torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)
    return y, *torch.autograd.grad(y, (x, weight, bias), g)


def torch_layer_norm_aten(x, weight, bias, g):
    import torch

    aten, shape = torch.ops.aten, x.shape[-1:]
    y, mean, scale = aten.native_layer_norm(x, shape, weight, bias, EPS)
    rest = aten.native_layer_norm_backward(
        g, x, shape, mean, scale, weight, bias, [True, True, True]
    )
    return y, *rest


def torch_layer_norm_pull(x, weight, bias, g):
    import torch

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)

    y, pull, *_ = torch.func.vjp(forward, x, weight, bias)
    return y, *pull(g)


def jax_layer_norm(x, weight, bias, g):
    import jax
    import jax.numpy as jnp

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + EPS) * weight + bias

    y, pull, *_ = jax.vjp(forward, x, weight, bias)
    return y, *pull(g)


def numpy_layer_norm(x, weight, bias, g):
    normal, y, dx = np.empty_like(x), np.empty_like(x), np.empty_like(x)

    def call() -> Any:
        np.subtract(x, x.mean(axis=-1, keepdims=True), out=normal)
        variance = np.einsum("ij,ij->i", normal, normal)[:, None] / x.shape[-1]
        scale = 1 / np.sqrt(variance + EPS)
        np.multiply(normal, scale, out=normal)
        np.multiply(normal, weight, out=y)
        np.add(y, bias, out=y)
        dweight, dbias = np.einsum("ij,ij->j", g, normal), g.sum(axis=0)
        np.multiply(g, weight, out=dx)
        along = np.einsum("ij,ij->i", dx, normal)[:, None] / x.shape[-1]
        np.subtract(dx, dx.mean(axis=-1, keepdims=True), out=dx)
        np.multiply(normal, along, out=normal)
        np.subtract(dx, normal, out=dx)
        np.multiply(dx, scale, out=dx)
        return y, dx, dweight, dbias

    return call


def layer_norm_case(name: str, rows: int, columns: int) -> Case:
    return Case(
        name=name,
        title=f"layer_norm forward + backward, {rows}×{columns}",
        problem=partial(layer_norm_problem, rows, columns),
        variants=function_variants(
            ("y", "dx", "dweight", "dbias"),
            chainrule={"cr.vjp": layer_norm},
            torch={"aten": torch_layer_norm_aten, "autograd": torch_layer_norm},
            compiled={"vjp": torch_layer_norm_pull, "aten": torch_layer_norm_aten},
            jax={"vjp": jax_layer_norm},
            numpy={"in place": numpy_layer_norm},
            differentiable={"autograd": ("x", "weight", "bias")},
        ),
        yardsticks={"copying the same bytes": partial(copy_of_same_bytes, arrays_moved=4)},
    )
