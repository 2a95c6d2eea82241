"""Elementwise functions with PyTorch's signatures, by the names of NumPy and chainrule."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

import chainrule as cr


def add(x, y, alpha=1):
    return np.add(x, y if alpha == 1 else alpha * y)


def sub(x, y, alpha=1):
    return np.subtract(x, y if alpha == 1 else alpha * y)


def div(x, y, rounding_mode=None):
    quotient = np.divide(x, y)
    if rounding_mode is None:
        return quotient
    return np.trunc(quotient) if rounding_mode == "trunc" else np.floor_divide(x, y)


def round_(x, decimals=0):
    return np.round(x, decimals)


def clamp(x, low=None, high=None, **limits):
    return np.clip(x, limits.get("min", low), limits.get("max", high))


def gelu(x, approximate="none"):
    return cr.gelu(x, approximate)


def softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, cr.softplus(x * beta) / beta)


def as_dtype(x, dtype):
    """x in PyTorch's dtype, where one is given."""
    return x if dtype is None else x.astype(str(dtype).removeprefix("torch."))


def softmax(x, dim, dtype=None):
    x = as_dtype(x, dtype)
    return cr.softmax(x, dim) if x.ndim else np.exp(x - x)


def log_softmax(x, dim, dtype=None):
    x = as_dtype(x, dtype)
    return cr.log_softmax(x, dim) if x.ndim else x - x


def logsumexp(x, dim, keepdim=False):
    if x.ndim == 0:
        return cr.logsumexp(np.reshape(x, (1,)))
    return cr.logsumexp(x, tuple(dim) if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim)


def elu(x, alpha=1.0):
    return cr.elu(x, alpha)


def leaky_relu(x, negative_slope=0.01):
    return cr.leaky_relu(x, negative_slope)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    return np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


def pow_(x, y):
    return np.power(x, y)


def weighted_sum(x, y, z, value=1):
    return x + value * y * z


def weighted_quotient(x, y, z, value=1):
    return x + value * y / z


def lerp(x, end, weight):
    return x + weight * (end - x)


def xlog1py(x, y):
    is_zero = (x == 0) & ~np.isnan(y)
    return np.where(is_zero, 0.0, x * np.log1p(np.where(is_zero, 0.0, y)))


def bucketize(x, edges, out_int32=False, right=False):
    found = np.searchsorted(edges, x, side="right" if right else "left")
    return found.astype(np.int32) if out_int32 else found


def logit(x, eps=None):
    return cr.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def mvlgamma(x, p=1):
    terms = [cr.gammaln(x - i / 2) for i in range(p)]
    return p * (p - 1) / 4 * math.log(math.pi) + sum(terms)


def i0(x):
    return np.exp(np.abs(x)) * cr.i0e(x)


def i1(x):
    return np.exp(np.abs(x)) * cr.i1e(x)


SAME = (  # PyTorch's name, and NumPy's where it has another
    "abs acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh deg2rad exp exp2 expm1 "
    "float_power floor floor_divide fmax fmin fmod heaviside hypot isfinite isinf isnan "
    "log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor "
    "maximum minimum positive rad2deg real conj reciprocal remainder sign signbit sin sinc sinh "
    "sqrt square tan tanh true_divide trunc angle isneginf isposinf "
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor"
).split()
RENAMED = {
    "neg": np.negative,
    "mul": np.multiply,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "conj_physical": np.conj,
    "sgn": np.sign,
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "__radd__": lambda x, y: y + x,
    "__rsub__": lambda x, y: y - x,
    "__rmul__": lambda x, y: y * x,
    "__rdiv__": lambda x, y: y / x,
    "__rmod__": lambda x, y: y % x,
    "__rpow__": lambda x, y: y**x,
    "__rand__": lambda x, y: y & x,
    "__ror__": lambda x, y: y | x,
    "__rxor__": lambda x, y: y ^ x,
}
TABLE = {
    **{name: getattr(np, name) for name in SAME if hasattr(np, name)},
    **RENAMED,
    "add": add,
    "sub": sub,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "div": div,
    "pow": pow_,
    "round": round_,
    "clamp": clamp,
    "nan_to_num": nan_to_num,
    "isclose": isclose,
    "where": lambda x, condition, y: np.where(condition, x, y),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frac": lambda x: x - np.trunc(x),
    "lerp": lerp,
    "addcmul": weighted_sum,
    "addcdiv": weighted_quotient,
    "xlogy": lambda x, y: cr.xlogy(x, y),
    "special.xlog1py": xlog1py,
    "bucketize": bucketize,
    "erf": lambda x: cr.erf(x),
    "erfc": lambda x: cr.erfc(x),
    "erfinv": special.erfinv,
    "special.erfcx": lambda x: cr.erfcx(x),
    "special.ndtr": lambda x: cr.ndtr(x),
    "special.log_ndtr": lambda x: cr.log_ndtr(x),
    "special.entr": lambda x: cr.entr(x),
    "lgamma": lambda x: cr.gammaln(x),
    "digamma": lambda x: cr.digamma(x),
    "mvlgamma": mvlgamma,
    "logit": logit,
    "i0": i0,
    "special.i0e": lambda x: cr.i0e(x),
    "special.i1": i1,
    "special.i1e": lambda x: cr.i1e(x),
    "special.modified_bessel_i0": i0,
    "special.modified_bessel_i1": i1,
    "sigmoid": lambda x: cr.sigmoid(x),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "nn.functional.relu": lambda x: cr.relu(x),
    "nn.functional.gelu": gelu,
    "nn.functional.softplus": softplus,
    "nn.functional.silu": lambda x: cr.silu(x),
    "nn.functional.elu": elu,
    "nn.functional.leaky_relu": leaky_relu,
    "nn.functional.logsigmoid": lambda x: cr.log_sigmoid(x),
}
