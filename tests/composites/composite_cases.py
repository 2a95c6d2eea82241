"""Calls of every composite, and the same for autograd and PyTorch, as expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import autograd.numpy as anp
import autograd.scipy.special as special
import numpy as np

import chainrule as cr

RANDOM = np.random.default_rng(23)


@dataclass(frozen=True)
class Case:
    """One call of a composite, and the same for autograd and PyTorch (None: they lack it)."""

    of: Any
    name: str
    call: Callable[..., Any]
    autograd: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    shapes: tuple[tuple[int, ...], ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    text: str = ""  # of the call, without the shapes

    def arguments(self) -> list[np.ndarray]:
        return [np.asarray(RANDOM.uniform(*self.domain, shape)) for shape in self.shapes]


CASES: list[Case] = []


def case(
    of: Any, text: str, by_autograd: str | None, by_torch: str | None, *shapes: Any, **more: Any
) -> None:
    """Add one case for each of `shapes` (of x, or of x, y, ...); the calls are expressions."""

    def torch_call(*args: Any) -> Any:
        import torch

        scope = {"torch": torch, "F": torch.nn.functional}
        return eval(by_torch or "", scope, dict(zip("xyz", args, strict=False)))

    def call_in(expression: str, **scope: Any) -> Callable[..., Any]:
        return lambda *args: eval(expression, scope, dict(zip("xyz", args, strict=False)))

    for shape in shapes:
        several = shape and isinstance(shape[0], tuple)
        CASES.append(
            Case(
                of,
                f"{text} {shape}",
                call_in(text, cr=cr, np=np),
                call_in(by_autograd, np=anp, special=special) if by_autograd else None,
                torch_call if by_torch else None,
                shape if several else (shape,),
                text=text,
                **more,
            )
        )


ANY: tuple[Any, ...] = ((), (3,), (2, 3), (2, 1, 3))
FULL: tuple[Any, ...] = ((3,), (2, 3), (2, 1, 4))
lse = "special.logsumexp(x, axis=-1, keepdims=True)"
centred = "(x - np.mean(x, -1, keepdims=True))"
ln = f"{centred} / np.sqrt(np.mean({centred}**2, -1, keepdims=True) + 1e-5)"
gelu_tanh = "0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))"

case(cr.mean, "cr.mean(x)", "np.mean(x)", "torch.mean(x)", *ANY)
case(cr.mean, "cr.mean(x, axis=-1)", "np.mean(x, -1)", "torch.mean(x, -1)", *FULL)
case(
    cr.mean,
    "cr.mean(x, axis=(0, 2), keepdims=True)",
    "np.mean(x, (0, 2), keepdims=True)",
    None,
    (2, 2, 3),
)
case(cr.var, "cr.var(x)", "np.var(x)", "torch.var(x, correction=0)", (3,), (2, 3))
case(cr.var, "cr.var(x, axis=0, ddof=1)", "np.var(x, 0, ddof=1)", "torch.var(x, 0)", (3, 2), (3,))
case(cr.std, "cr.std(x)", "np.std(x)", "torch.std(x, correction=0)", (3,), (2, 3))
case(
    cr.std,
    "cr.std(x, axis=1, ddof=1)",
    "np.std(x, 1, ddof=1)",
    "torch.std(x, 1)",
    (2, 3),
    (2, 3, 1),
)
case(cr.norm, "cr.norm(x)", "np.sqrt(np.sum(x**2))", "torch.linalg.norm(x)", (3,), (2, 3), (1,))
case(
    cr.norm,
    "cr.norm(x, axis=-1)",
    "np.sqrt(np.sum(x**2, -1))",
    "torch.linalg.norm(x, dim=-1)",
    (2, 3),
)
case(cr.norm, "cr.norm(x, 1)", "np.sum(np.abs(x))", "torch.linalg.norm(x, 1)", (3,))
case(cr.norm, "cr.norm(x, np.inf)", "np.max(np.abs(x))", "torch.linalg.norm(x, float('inf'))", (3,))
case(cr.norm, "cr.norm(x, 'fro')", "np.sqrt(np.sum(x**2))", "torch.linalg.norm(x)", (2, 3))
case(cr.softmax, "cr.softmax(x)", f"np.exp(x - {lse})", "torch.softmax(x, -1)", *FULL)
case(cr.softmax, "cr.softmax(x, axis=0)", None, "torch.softmax(x, 0)", *FULL)
case(cr.log_softmax, "cr.log_softmax(x)", f"x - {lse}", "torch.log_softmax(x, -1)", *FULL)
case(cr.log_softmax, "cr.log_softmax(x, 0)", None, "torch.log_softmax(x, 0)", *FULL)
case(cr.logsumexp, "cr.logsumexp(x)", "special.logsumexp(x, -1)", "torch.logsumexp(x, -1)", *FULL)
case(cr.logsumexp, "cr.logsumexp(x, axis=None)", "special.logsumexp(x)", None, *FULL)
case(
    cr.logsumexp,
    "cr.logsumexp(x, (0, 1), keepdims=True)",
    None,
    "torch.logsumexp(x, (0, 1), True)",
    (2, 3, 2),
)
case(
    cr.cross_entropy,
    "cr.cross_entropy(x, np.array([2, 0]))",
    f"-np.mean((x - {lse})[np.array([0, 1]), np.array([2, 0])])",
    "F.cross_entropy(x, torch.tensor([2, 0]))",
    (2, 3),
)
case(cr.cross_entropy, "cr.cross_entropy(x, 1)", None, "F.cross_entropy(x, torch.tensor(1))", (3,))
case(
    cr.cross_entropy,
    "cr.cross_entropy(x, np.array([[1, 0, 1], [0, 0, 1]]), 'none')",
    None,
    "F.cross_entropy(x.movedim(-1, 1), torch.tensor([[1, 0, 1], [0, 0, 1]]), reduction='none')",
    (2, 3, 2),
)
case(
    cr.cross_entropy,
    "cr.cross_entropy(x, np.array([0, 0, 0]), reduction='sum')",
    None,
    "F.cross_entropy(x, torch.tensor([0, 0, 0]), reduction='sum')",
    (3, 1),
    (3, 5),
)
case(
    cr.squared_error,
    "cr.squared_error(x, y)",
    "np.mean((x - y)**2)",
    "F.mse_loss(x, y)",
    ((2, 3), (2, 3)),
    ((), ()),
)
case(
    cr.squared_error,
    "cr.squared_error(x, y, 'sum')",
    "np.sum((x - y)**2)",
    "F.mse_loss(x, y, reduction='sum')",
    ((3,), (3,)),
)
case(
    cr.squared_error,
    "cr.squared_error(x, y, 'none')",
    "(x - y)**2",
    "F.mse_loss(x, y, reduction='none')",
    ((3,), (3,)),
)
case(cr.relu, "cr.relu(x)", "np.maximum(x, 0.0)", "torch.relu(x)", *ANY)
case(cr.gelu, "cr.gelu(x)", "x * 0.5 * (1 + special.erf(x / 2**0.5))", "F.gelu(x)", *ANY)
case(cr.gelu, "cr.gelu(x, approximate='tanh')", gelu_tanh, "F.gelu(x, approximate='tanh')", *ANY)
case(cr.sigmoid, "cr.sigmoid(x)", "1 / (1 + np.exp(-x))", "torch.sigmoid(x)", *ANY)
case(cr.softplus, "cr.softplus(x)", "np.log(1 + np.exp(x))", "torch.log1p(torch.exp(x))", *ANY)
case(cr.erf, "cr.erf(x)", "special.erf(x)", "torch.erf(x)", *ANY)
case(cr.layer_norm, "cr.layer_norm(x)", ln, "F.layer_norm(x, x.shape[-1:])", *FULL)
case(
    cr.layer_norm,
    "cr.layer_norm(x, y, z)",
    f"{ln} * y + z",
    "F.layer_norm(x, x.shape[-1:], y, z)",
    ((2, 4), (4,), (4,)),
    ((2, 1, 3), (3,), (3,)),
)
case(cr.layer_norm, "cr.layer_norm(x, axis=(0, 1))", None, "F.layer_norm(x, x.shape)", (2, 3))
case(
    cr.linear,
    "cr.linear(x, y)",
    "x @ y",
    "x @ y",
    ((2, 3), (3, 4)),
    ((3,), (3, 2)),
    ((2, 2, 3), (3, 1)),
)
case(cr.linear, "cr.linear(x, y, z)", "x @ y + z", "x @ y + z", ((2, 3), (3, 4), (4,)))
case(
    cr.embedding,
    "cr.embedding(x, np.array([[2, 0], [2, 1]]))",
    "x[np.array([[2, 0], [2, 1]])]",
    "F.embedding(torch.tensor([[2, 0], [2, 1]]), x)",
    (3, 2),
    (4, 1),
)
case(cr.embedding, "cr.embedding(x, np.array(1))", "x[1]", "x[1]", (3, 2))
case(cr.stop_gradient, "x * cr.stop_gradient(x)", None, "x * x.detach()", *ANY)

case(np.mean, "np.mean(x, axis=0)", "np.mean(x, 0)", "torch.mean(x, 0)", (2, 3))
case(np.var, "np.var(x, axis=0)", "np.var(x, 0)", "torch.var(x, 0, correction=0)", (2, 3))
case(np.std, "np.std(x)", "np.std(x)", "torch.std(x, correction=0)", (2, 3))
case(np.linalg.norm, "np.linalg.norm(x)", "np.linalg.norm(x)", "torch.linalg.norm(x)", (3,), (2, 3))
case(np.clip, "np.clip(x, -1, 0.5)", "np.clip(x, -1, 0.5)", "torch.clamp(x, -1, 0.5)", *ANY)
case(np.clip, "np.clip(x, None, y)", "np.minimum(x, y)", "torch.clamp(x, None, y)", ((2, 3), (3,)))
for shapes in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((), (3,)), ((2, 3), (4, 3, 2))):
    case(np.dot, "np.dot(x, y)", "np.dot(x, y)", None, shapes)
case(
    np.tensordot,
    "np.tensordot(x, y)",
    "np.tensordot(x, y)",
    "torch.tensordot(x, y)",
    ((4, 2, 3), (2, 3, 5)),
)
case(
    np.tensordot,
    "np.tensordot(x, y, 0)",
    "np.tensordot(x, y, 0)",
    "torch.tensordot(x, y, 0)",
    ((2,), (3,)),
)
case(
    np.tensordot,
    "np.tensordot(x, y, ([2, 0], [0, -1]))",
    None,
    "torch.tensordot(x, y, ([2, 0], [0, 2]))",
    ((4, 2, 3), (3, 5, 4)),
)
case(
    np.tensordot,
    "np.tensordot(x, y, (1, 0))",
    None,
    "torch.tensordot(x, y, ([1], [0]))",
    ((2, 3), (3, 2)),
)
case(
    np.inner,
    "np.inner(x, y)",
    "np.inner(x, y)",
    "torch.inner(x, y)",
    ((3,), (3,)),
    ((2, 3), (4, 3)),
    ((), (2,)),
)
case(np.outer, "np.outer(x, y)", "np.outer(x, y)", "torch.outer(x, y)", ((2,), (3,)))
case(np.outer, "np.outer(x, y)", None, "torch.outer(x.reshape(-1), y.reshape(-1))", ((2, 2), ()))
case(np.vdot, "np.vdot(x, y)", "np.sum(x * y)", "torch.sum(x * y)", ((2, 3), (2, 3)))
case(
    np.take,
    "np.take(x, np.array([0, 5, 0]))",
    None,
    "torch.take(x, torch.tensor([0, 5, 0]))",
    (2, 3),
)
case(
    np.take,
    "np.take(x, np.array([1, 1]), axis=-1)",
    "x[:, np.array([1, 1])]",
    "x[:, [1, 1]]",
    (2, 3),
)
case(np.split, "np.split(x, 2)[1]", "np.split(x, 2)[1]", "x[2:]", (4, 2), (4,))
case(
    np.split, "np.split(x, [1, 3], axis=-1)[1]", "np.split(x, [1, 3], -1)[1]", "x[..., 1:3]", (2, 4)
)
case(
    np.logaddexp,
    "np.logaddexp(x, y)",
    "np.logaddexp(x, y)",
    "torch.logaddexp(x, y)",
    ((2, 3), (3,)),
    ((), ()),
)
case(np.square, "np.square(x)", "np.square(x)", "torch.square(x)", *ANY)
case(np.reciprocal, "np.reciprocal(x)", "1 / x", "torch.reciprocal(x)", *ANY, domain=(0.5, 2))
case(np.log2, "np.log2(x)", "np.log2(x)", "torch.log2(x)", *ANY, domain=(0.3, 2))
case(np.log10, "np.log10(x)", "np.log10(x)", "torch.log10(x)", *ANY, domain=(0.3, 2))
case(np.exp2, "np.exp2(x)", "np.exp2(x)", "torch.exp2(x)", *ANY)
case(
    np.hstack,
    "np.hstack([x, y])",
    "np.concatenate([x, y], -1)",
    "torch.hstack([x, y])",
    ((2, 1), (2, 3)),
    ((2,), (3,)),
)
case(np.vstack, "np.vstack([x, y])", None, "torch.vstack([x, y])", ((3,), (2, 3)), ((3,), (3,)))
