"""Calls of elementwise functions and activations, and the same for autograd and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from composite_cases import ANY, case

import chainrule as cr

PAIRS: tuple[Any, ...] = (((2, 3), (3,)), ((), ()))

case(cr.silu, "cr.silu(x)", "x / (1 + np.exp(-x))", "F.silu(x)", *ANY)
case(cr.log_sigmoid, "cr.log_sigmoid(x)", "-np.log1p(np.exp(-x))", "F.logsigmoid(x)", *ANY)
case(cr.elu, "cr.elu(x)", None, "F.elu(x)", *ANY)
case(cr.elu, "cr.elu(x, 0.7)", None, "F.elu(x, 0.7)", (2, 3))
case(cr.leaky_relu, "cr.leaky_relu(x)", None, "F.leaky_relu(x)", *ANY)
case(cr.leaky_relu, "cr.leaky_relu(x, 0.2)", None, "F.leaky_relu(x, 0.2)", (2, 3))

case(
    np.logaddexp2,
    "np.logaddexp2(x, y)",
    "np.logaddexp2(x, y)",
    "torch.logaddexp2(x, y)",
    *PAIRS,
)
case(np.fmax, "np.fmax(x, y)", "np.fmax(x, y)", "torch.fmax(x, y)", *PAIRS)
case(np.fmin, "np.fmin(x, y)", "np.fmin(x, y)", "torch.fmin(x, y)", *PAIRS)
case(np.heaviside, "y * np.heaviside(x, y)", None, "y * (x > 0)", *PAIRS)
case(np.deg2rad, "np.deg2rad(x)", "np.deg2rad(x)", "torch.deg2rad(x)", *ANY)
case(np.radians, "np.radians(x)", "np.radians(x)", "torch.deg2rad(x)", *ANY)
case(np.rad2deg, "np.rad2deg(x)", "np.rad2deg(x)", None, *ANY)  # PyTorch's number has 15 digits
case(np.degrees, "np.degrees(x)", "np.degrees(x)", None, *ANY)
case(
    np.float_power,
    "np.float_power(x, y)",
    "x**y",
    "torch.float_power(x, y)",
    *PAIRS,
    domain=(0.5, 2.0),
)
case(np.sinc, "np.sinc(x)", "np.sinc(x)", "torch.sinc(x)", *ANY)
case(np.angle, "x * np.angle(x)", "x * np.angle(x)", "x * torch.angle(x)", *ANY)
case(np.conjugate, "x * np.conj(x)", "x * np.conj(x)", "x * torch.conj(x)", *ANY)
case(np.real, "x * np.real(x)", "x * np.real(x)", "x * torch.real(x)", *ANY)
case(np.imag, "x + np.imag(x)", "x + np.imag(x)", None, *ANY)
case(np.real_if_close, "x * np.real_if_close(x)", "x * np.real_if_close(x)", None, *ANY)
for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"):
    of = getattr(np, name)
    call = "np.where(np.{0}(x), x, x**2)"
    torch_call = f"torch.where(torch.{name}(x), x, x**2)"
    case(of, call.format(name), None, torch_call, *ANY)
case(
    np.logical_xor,
    "np.where(np.logical_xor(x > 0, y > 0), x, y**2)",
    None,
    "torch.where(torch.logical_xor(x > 0, y > 0), x, y**2)",
    *PAIRS,
)
case(
    np.isclose,
    "np.where(np.isclose(x, y, atol=0.5), x, y**2)",
    None,
    "torch.where(torch.isclose(x, y.broadcast_to(x.shape), atol=0.5), x, y**2)",
    *PAIRS,
)
case(np.nan_to_num, "np.nan_to_num(x)**2", "np.nan_to_num(x)**2", "torch.nan_to_num(x)**2", *ANY)
case(np.round, "x * np.round(x)", None, "x * torch.round(x)", *ANY)
case(np.around, "x * np.around(x, 1)", None, "x * torch.round(x, decimals=1)", *ANY)
case(np.fix, "x * np.fix(x)", None, "x * torch.fix(x)", *ANY)
case(np.modf, "x * np.modf(x)[0] + np.modf(x)[1]", None, "x * torch.frac(x) + torch.fix(x)", *ANY)
case(
    np.divmod,
    "np.divmod(x, y)[0] + np.divmod(x, y)[1] * x",
    None,
    "torch.floor(x / y) + torch.remainder(x, y) * x",
    *PAIRS,
)
