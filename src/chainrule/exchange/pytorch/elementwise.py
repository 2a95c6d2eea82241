"""PyTorch's elementwise operators, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import dtype_of
from chainrule.frontend.composite import composite
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.nn.activations import gelu, relu, softplus
from chainrule.nn.linear_units import elu, leaky_relu, log_sigmoid, silu
from chainrule.numpy import special
from chainrule.numpy.of_one_primitive import erf, sigmoid, stop_gradient
from chainrule.primitives.special.special import polygamma


def _scaled(x: Any, factor: Any) -> Any:
    return x if isinstance(factor, (int, float)) and factor == 1 else factor * x


def _add(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    return np.add(x, _scaled(other, alpha))


def _sub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return np.subtract(x, _scaled(other, alpha))


def _rsub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return np.subtract(other, _scaled(x, alpha))


def _div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(x, other)
    quotient = np.divide(x, other)
    return quotient if rounding_mode is None else np.trunc(quotient)


def _pow(x: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and dtype_kind(dtype_of(x)) == "f":
        exponent = float(exponent)
    return np.power(x, exponent)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, min, max)


def _where(condition: Any, x: Any = None, other: Any = None) -> Any:
    return np.where(condition, x, other)


def _nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def _lerp(x: Any, end: Any, weight: Any) -> Any:
    return x + weight * (end - x)


def _addcmul(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    return x + _scaled(y * z, value)


def _addcdiv(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    return x + _scaled(y / z, value)


def _xlog1py(x: Any, y: Any) -> Any:
    is_zero = (x == 0) & ~np.isnan(y)
    return np.where(is_zero, 0.0, x * np.log1p(np.where(is_zero, 0.0, y)))


def _xlogy(x: Any, y: Any) -> Any:
    return special.xlogy(x, y)


def _logit(x: Any, eps: float | None = None) -> Any:
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def _mvlgamma(x: Any, p: int) -> Any:
    """SciPy's multigammaln: DLMF 35.3.4."""
    terms = [special.gammaln(x - i / 2) for i in range(p)]
    return p * (p - 1) / 4 * math.log(math.pi) + sum(terms)


def _i0(x: Any) -> Any:
    return np.exp(np.abs(x)) * special.i0e(x)


def _i1(x: Any) -> Any:
    return np.exp(np.abs(x)) * special.i1e(x)


def _erfinv(x: Any) -> Any:
    from scipy.special import erfinv

    return erfinv(x)


@composite()
def _polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma."""
    if n == 0:
        return special.digamma(x)
    if not isinstance(x, Traced):
        return polygamma.evaluate(np, np.asarray(x), order=n)
    return Traced(x.program.build(polygamma, x.node, order=n), x.program)


def _round(x: Any, *, decimals: int = 0) -> Any:
    return np.round(x, decimals)


# Activations ---------------------------------------------------------------------------------


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return gelu(x, approximate)


def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    scaled = _scaled(x, beta)
    return np.where(scaled > threshold, x, softplus(scaled) / beta)


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    return _scaled(elu(_scaled(x, input_scale), alpha), scale)


def _celu(x: Any, alpha: Any = 1.0) -> Any:
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)


def _selu(x: Any) -> Any:
    """Klambauer et al., 2017, equation 2, whose constants solve its fixed point."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def _hardtanh(x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """np.clip with slope 0 at the ends, too, as PyTorch's."""
    inside = (x > min_val) & (x < max_val)
    return np.where(inside, x, np.clip(stop_gradient(x), min_val, max_val))


def _hardswish(x: Any) -> Any:
    return x * np.clip(x + 3, 0, 6) / 6


def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    return np.where(x > threshold, x, value)


def _hardshrink(x: Any, lambd: Any = 0.5) -> Any:
    return np.where((x >= -lambd) & (x <= lambd), 0, x)


def _softshrink(x: Any, lambd: Any = 0.5) -> Any:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0))


def _prelu(x: Any, weight: Any) -> Any:
    shape = [1] * max(np.ndim(x), 1)
    if np.size(weight) != 1:
        shape[1] = -1
    return np.where(x > 0, x, x * np.reshape(weight, shape if np.ndim(x) else ()))


def _glu(x: Any, dim: int = -1) -> Any:
    value, gate = np.split(x, 2, axis=dim)
    return value * sigmoid(gate)


def _leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    return leaky_relu(x, negative_slope)


_SAME = (
    "arctan2 ceil copysign cos cosh deg2rad exp exp2 expm1 floor fmax fmin fmod floor_divide "
    "heaviside hypot isfinite isinf isnan isneginf isposinf log log10 log1p log2 logaddexp "
    "logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum rad2deg "
    "reciprocal remainder sign signbit sin sinc sinh sqrt square tan tanh trunc bitwise_and "
    "bitwise_not bitwise_or bitwise_xor"
).split()

# Operands of these are of the dtype of the result; what NumPy would promote otherwise is cast.
PROMOTED: dict[str, Any] = {
    **{name: getattr(np, name) for name in _SAME if hasattr(np, name)},
    "abs": np.absolute,
    "angle": np.angle,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "bitwise_not": np.invert,
    "neg": np.negative,
    "mul": np.multiply,
    "sgn": np.sign,
    "fix": np.trunc,
    "positive": np.positive,
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "div": _div,
    "pow": _pow,
    "round": _round,
    "clamp": _clamp,
    "nan_to_num": _nan_to_num,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frac": lambda x: x - np.trunc(x),
    "lerp": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "xlogy": _xlogy,
    "special_xlogy": _xlogy,
    "special_xlog1py": _xlog1py,
    "erf": lambda x: erf(x),
    "erfc": lambda x: special.erfc(x),
    "erfinv": _erfinv,
    "special_erfcx": lambda x: special.erfcx(x),
    "special_ndtr": lambda x: special.ndtr(x),
    "special_log_ndtr": lambda x: special.log_ndtr(x),
    "special_ndtri": lambda x: math.sqrt(2) * _erfinv(2 * x - 1),
    "special_entr": lambda x: special.entr(x),
    "lgamma": lambda x: special.gammaln(x),
    "polygamma": _polygamma,
    "digamma": lambda x: special.digamma(x),
    "mvlgamma": _mvlgamma,
    "logit": _logit,
    "i0": _i0,
    "special_i0e": lambda x: special.i0e(x),
    "special_i1": _i1,
    "special_i1e": lambda x: special.i1e(x),
    "special_modified_bessel_i0": _i0,
    "special_modified_bessel_i1": _i1,
    "sigmoid": lambda x: sigmoid(x),
    "relu": lambda x: relu(x),
    "gelu": _gelu,
    "softplus": _softplus,
    "silu": lambda x: silu(x),
    "elu": _elu,
    "celu": _celu,
    "selu": _selu,
    "leaky_relu": _leaky_relu,
    "log_sigmoid": lambda x: log_sigmoid(x),
    "hardtanh": _hardtanh,
    "relu6": lambda x: _hardtanh(x, 0, 6),
    "hardsigmoid": lambda x: _hardtanh(x + 3, 0, 6) / 6,
    "hardswish": _hardswish,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "threshold": _threshold,
    "hardshrink": _hardshrink,
    "softshrink": _softshrink,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "glu": _glu,
}

# Comparisons, and what takes operands of several kinds.
ELEMENTWISE: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": _where,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "__lshift__": np.left_shift,
    "__rshift__": np.right_shift,
}
