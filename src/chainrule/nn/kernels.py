"""From where an axis that is resized takes its elements, and with which weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.frontend.composite import trace_of
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.of_arrays import positions_of
from chainrule.numpy.statistics import size_value


@dataclass(frozen=True)
class Line:
    """An axis of `length` elements of x that becomes one of `out`; by which factor, if one was
    given that positions follow; and whether the centres of the outermost elements stay."""

    x: Any
    length: Any
    out: Any
    factor: float | None
    aligned: bool

    def numbers(self) -> Any:
        """0, 1, ..., out - 1."""
        if isinstance(self.out, Size):
            return positions_of(self._trace(), self.out)
        return np.arange(self.out)

    def step(self, dtype: Any) -> Any:
        """How far on x one goes from one element of the result to the next."""
        if self.aligned:
            if not isinstance(self.out, Size) and self.out == 1:
                return 0.0
            return self._number(self.length - 1, dtype) / self._number(self.out - 1, dtype, 1)
        if self.factor is not None:
            return float(np.asarray(1 / self.factor, dtype))
        return self._number(self.length, dtype) / self._number(self.out, dtype)

    def last(self) -> Any:
        """The place of the last element of x, as a number."""
        if isinstance(self.length, Size):
            return size_value(self.length, self.x) - 1
        return self.length - 1

    def _number(self, size: Any, dtype: Any, least: int = 0) -> Any:
        if not isinstance(size, Size):
            return np.asarray(max(size, least), dtype)[()]
        return np.maximum(size_value(size, self.x).astype(dtype), least)

    def _trace(self) -> Any:
        trace = trace_of((self.x,))
        assert trace is not None
        return trace


def nearest_places(line: Line, exact: bool) -> Any:
    """The element of x that each element of the result is: the one whose left edge is nearest, or
    whose centre is.  At a tie it is PyTorch's, which rounds places to float32."""
    dtype = _precision(line.x)
    at = (line.numbers().astype(dtype) + (0.5 if exact else 0.0)) * line.step(dtype)
    return np.minimum(np.floor(at.astype(np.float32)).astype(np.int64), line.last())


def _precision(x: Any) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def between(x: Any, axis: int, line: Line, cubic: bool) -> Any:
    """x along an axis at other places: lines between neighbours, or Keys' cubic through four of
    them (Cubic convolution interpolation, 1981, with a = -3/4); beyond its ends x is constant."""
    unmoved = line.aligned or line.factor is None or not cubic
    difference = line.out - line.length
    if unmoved and isinstance(difference, int) and difference == 0:
        return x
    dtype = _precision(x)
    numbers, step = line.numbers().astype(dtype), line.step(dtype)
    at = numbers * step if line.aligned else (numbers + 0.5) * step - 0.5
    if not cubic:
        at = np.maximum(at, 0.0)
    first = np.floor(at)
    if not cubic:
        first = np.minimum(first, line.last())
    beyond = at - first
    if cubic:
        weights = cubic_weights(beyond)
    else:
        beyond = np.clip(beyond, 0.0, 1.0)
        weights = (1 - beyond, beyond)
    begin = first.astype(np.int64) - (len(weights) // 2 - 1)
    return _weighted(x, axis, line, begin, weights)


def cubic_weights(t: Any, a: float = -0.75) -> tuple[Any, ...]:
    """The weights of four neighbours, the second of which is t before the place."""

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _weighted(x: Any, axis: int, line: Line, begin: Any, weights: Sequence[Any]) -> Any:
    """The sum over k of weights[k] times x at begin + k, along an axis."""
    rest = (1,) * (np.ndim(x) - 1 - axis)
    result = None
    for place, weight in enumerate(weights):
        where = np.clip(begin + place, 0, line.last())
        part = np.take(x, where, axis=axis) * np.reshape(weight, (-1, *rest)).astype(x.dtype)
        result = part if result is None else result + part
    return result


def antialiased(x: Any, axis: int, line: Line, cubic: bool) -> Any:
    """x along an axis, weighted by a kernel that is as wide as the step where an axis shrinks:
    a triangle, or Keys' cubic with a = -1/2, as Pillow and PyTorch have them."""
    if line.out == line.length:
        return x
    dtype = _precision(x)
    step = float(line.step(dtype))
    width = max(step, 1.0)
    centres = (np.arange(line.out) + 0.5) * step
    reach = (2 if cubic else 1) * width
    begin = np.maximum((centres - reach + 0.5).astype(np.int64), 0)
    end = np.minimum((centres + reach + 0.5).astype(np.int64), line.length)
    offsets = np.arange(np.max(end - begin))
    places = begin[:, None] + offsets
    apart = np.abs((places - centres[:, None] + 0.5) / width)
    weights = np.where(places < end[:, None], _kernel(apart, cubic), 0)
    weights = (weights / np.sum(weights, axis=1, keepdims=True)).astype(x.dtype)
    return _weighted(x, axis, line, begin, tuple(weights.T))


def _kernel(apart: np.ndarray, cubic: bool) -> np.ndarray:
    if not cubic:
        return np.maximum(1 - apart, 0)
    far, near, _, _ = cubic_weights(apart, -0.5)
    far = np.asarray(cubic_weights(apart - 1, -0.5)[0])
    return np.where(apart < 1, near, np.where(apart < 2, far, 0))
