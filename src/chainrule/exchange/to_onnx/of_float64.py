"""Functions of float64 as programs, for which onnxruntime has kernels of float32 alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.exchange.to_onnx.of_elements import erf, polynomial
from chainrule.exchange.to_onnx.of_matrices import det

NEAR, FAR = math.sqrt(2) - 1, math.sqrt(2) + 1
SERIES = [(-1) ** k / (2 * k + 1) for k in range(1, 22)]
LARGE = 1e8  # a number whose square has no digit in common with 1
HALF = 0.5


def tan(x: Any) -> Any:
    return np.sin(x) / np.cos(x)


def arctan(x: Any) -> Any:
    """The series around 0, 1 and infinity (Moshier, *Methods and Programs for Mathematical
    Functions*, 1989)."""
    size = np.abs(x)
    middle, far = size > NEAR, size > FAR
    above = np.where(far, -1.0, np.where(middle, size - 1, size))
    below = np.where(far, size, np.where(middle, size + 1, 1.0))
    ratio = above / below
    square = ratio * ratio
    share = np.where(far, math.pi / 2, np.where(middle, math.pi / 4, 0.0))
    found = share + (ratio + square * ratio * polynomial(square, SERIES))
    return np.copysign(found, x)


def arctan2(x: Any, y: Any) -> Any:
    """The angle of the point (y, x); of zeros and infinities what C has."""
    height, width = np.abs(x), np.abs(y)
    ratio = height / np.where(width == 0, 1.0, width)
    ratio = np.where((width == 0) & (height > 0), np.inf, ratio)
    same = (height == width) & (height != 0)
    angle = arctan(np.where(same, 1.0, ratio))
    angle = np.where(np.copysign(1.0, y) < 0, math.pi - angle, angle)
    return np.copysign(angle, x)


def arcsin(x: Any) -> Any:
    return arctan(x / np.sqrt((1 - x) * (1 + x)))


def arccos(x: Any) -> Any:
    return 2 * arctan(np.sqrt((1 - x) / (1 + x)))


def sinh(x: Any) -> Any:
    size = np.abs(x)
    part = np.expm1(np.minimum(size, 20))
    root = np.exp(HALF * size)
    found = np.where(size < 20, HALF * (part + part / (part + 1)), HALF * root * root)
    return np.copysign(found, x)


def cosh(x: Any) -> Any:
    root = np.exp(HALF * np.abs(x))
    return HALF * root * root + HALF / root / root


def arcsinh(x: Any) -> Any:
    size = np.abs(x)
    near = np.minimum(size, LARGE)
    part = np.log1p(near + near * near / (1 + np.sqrt(1 + near * near)))
    return np.copysign(np.where(size > LARGE, np.log(size) + math.log(2), part), x)


def arccosh(x: Any) -> Any:
    above = np.minimum(x, LARGE) - 1
    part = np.log1p(above + np.sqrt(above * (above + 2)))
    return np.where(x > LARGE, np.log(x) + math.log(2), part)


def arctanh(x: Any) -> Any:
    return np.copysign(HALF * np.log1p(2 * np.abs(x) / (1 - np.abs(x))), x)


def logit(x: Any) -> Any:
    near = np.log1p((2 * x - 1) / (1 - x))
    return np.where(np.abs(x - HALF) <= HALF / 2, near, np.log(x / (1 - x)))


_FUNCTIONS = (tan, arctan, arctan2, arcsin, arccos, sinh, cosh, arcsinh, arccosh, arctanh, logit)

OF_FLOAT64 = {one.__name__: one for one in (*_FUNCTIONS, erf, det)}
