"""ONNX's elementwise operators: arithmetic, comparison, logic, bits, rounding, types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.custom.derivative import custom_derivative
from chainrule.errors import NotDifferentiableError
from chainrule.exchange.from_onnx.call import Call, has_sizes
from chainrule.exchange.from_onnx.types import dtype_of
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind, promoted
from chainrule.graph.node import topological
from chainrule.graph.sizes.sizes import Size, is_never_zero, maximum, minimum
from chainrule.numpy.of_one_primitive import erf, stop_gradient
from chainrule.primitives.sources import input_


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that is one function of its operands."""
    return lambda call, *operands: function(*operands)


def folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """An operator of any number of operands."""
    return lambda call, *operands: functools.reduce(function, operands)


def divide(call: Call, x: Any, y: Any) -> Any:
    """Of integers truncated toward zero; sizes, which are not negative, by floor division."""
    if has_sizes(x) or has_sizes(y):
        return x // y
    if dtype_kind(x.dtype) == "f":
        return x / y
    quotient = x // y
    if x.dtype.kind == "u":
        return quotient
    up = ((x < 0) != (y < 0)) & (quotient * y != x)
    return quotient + up.astype(x.dtype)


def modulo(call: Call, x: Any, y: Any) -> Any:
    return np.fmod(x, y) if call.get("fmod", 0) else np.mod(x, y)


def power(call: Call, x: Any, y: Any) -> Any:
    """In the base's type; a known exponent is a number, which has simpler derivatives."""
    if isinstance(y, np.ndarray) and y.size == 1 and y.ndim <= np.ndim(x):
        number = float(y.ravel()[0])
        if dtype_kind(x.dtype) == "f" or (number == int(number) and number >= 0):
            whole = number == int(number) and abs(number) < 1 << 31
            return (x ** (int(number) if whole else number)).astype(x.dtype)
    wide = promoted(x.dtype, y.dtype)
    return np.power(x.astype(wide), y.astype(wide)).astype(x.dtype)


def equal(call: Call, x: Any, y: Any) -> Any:
    """Of sizes where it is decided: equal as formulas, or never equal."""
    if has_sizes(x) or has_sizes(y):
        pairs = np.broadcast(np.asarray(x, object), np.asarray(y, object))
        found = [_same(a, b) for a, b in pairs]
        if None not in found:
            return np.array(found, bool).reshape(pairs.shape)
        x, y = call.traced(x), call.traced(y)
    return np.equal(x, y)


def _same(a: Any, b: Any) -> bool | None:
    difference = a - b
    if not isinstance(difference, Size):
        return difference == 0
    return False if is_never_zero(difference) or (isinstance(b, int) and b < 1) else None


def mean(call: Call, *operands: Any) -> Any:
    return functools.reduce(np.add, operands) / len(operands)


def extreme(of_arrays: Any, of_sizes: Any) -> Callable[..., Any]:
    """Min or Max, also of sizes."""

    def two(x: Any, y: Any) -> Any:
        if has_sizes(x) or has_sizes(y):
            return np.frompyfunc(of_sizes, 2, 1)(x, y)
        return of_arrays(x, y)

    return folded(two)


def cast(call: Call, x: Any) -> Any:
    """To another type; floats that are negative or too large for it wrap around as in NumPy."""
    return to_type(call, x, dtype_of(call, call.get("to")))


def cast_like(call: Call, x: Any, like: Any) -> Any:
    return to_type(call, x, like.dtype)


def to_type(call: Call, x: Any, dtype: np.dtype) -> Any:
    if has_sizes(x):
        return x if dtype.kind in "iu" and dtype.itemsize >= 4 else call.traced(x).astype(dtype)
    return x.astype(dtype)


def bit_shift(call: Call, x: Any, y: Any) -> Any:
    """Bits that are shifted out of the type are gone."""
    shifted = np.left_shift if call.get("direction") == "LEFT" else np.right_shift
    return shifted(x, y)


def is_infinite(call: Call, x: Any) -> Any:
    found = np.isinf(x)
    if not call.get("detect_negative", 1):
        found = found & (x > 0)
    return found if call.get("detect_positive", 1) else found & (x < 0)


def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, np.ndarray) and (has_sizes(x) or has_sizes(y)):
        if not isinstance(x, Traced) and not isinstance(y, Traced):
            return np.where(condition, np.asarray(x, object), np.asarray(y, object))
    return np.where(condition, *[call.traced(v) if has_sizes(v) else v for v in (x, y)])


def clip(call: Call, x: Any, least: Any = None, most: Any = None) -> Any:
    """Bounds are attributes before version 11."""
    least = call.get("min") if least is None else least
    most = call.get("max") if most is None else most
    if least is not None:
        x = np.maximum(x, _as(x, least))
    return x if most is None else np.minimum(x, _as(x, most))


def _as(x: Any, bound: Any) -> Any:
    return np.asarray(bound, x.dtype) if isinstance(bound, (int, float)) else bound


@custom_derivative
def _of_a_rule(x: Any, sources: Any) -> Any:
    return np.positive(x)


@_of_a_rule.defjvp
def _lost(primals: Any, tangents: Any) -> Any:
    raise NotDifferentiableError(
        "the derivative of this value was a rule of the program that wrote the file, which ONNX "
        "does not hold",
        hint="use the model for prediction, or leave this part of it out of wrt",
    )


def identity(call: Call, x: Any) -> Any:
    """With the derivative that `to_onnx` notes."""
    if isinstance(x, Traced) and call.note == "stop_gradient":
        return stop_gradient(x)
    if isinstance(x, Traced) and call.note == "custom_derivative":
        inputs = [one for one in topological([x.node]) if one.primitive is input_]
        return _of_a_rule(x, [Traced(one, x.program) for one in inputs])
    return x


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Abs": plain(np.absolute),
    "Acos": plain(np.arccos),
    "Acosh": plain(np.arccosh),
    "Add": plain(np.add),
    "And": plain(np.logical_and),
    "Asin": plain(np.arcsin),
    "Asinh": plain(np.arcsinh),
    "Atan": plain(np.arctan),
    "Atanh": plain(np.arctanh),
    "BitShift": bit_shift,
    "BitwiseAnd": plain(np.bitwise_and),
    "BitwiseNot": plain(np.bitwise_not),
    "BitwiseOr": plain(np.bitwise_or),
    "BitwiseXor": plain(np.bitwise_xor),
    "Cast": cast,
    "CastLike": cast_like,
    "Ceil": plain(np.ceil),
    "Clip": clip,
    "Cos": plain(np.cos),
    "Cosh": plain(np.cosh),
    "Div": divide,
    "Equal": equal,
    "Erf": plain(erf),
    "Exp": plain(np.exp),
    "Floor": plain(np.floor),
    "Greater": plain(np.greater),
    "GreaterOrEqual": plain(np.greater_equal),
    "Identity": identity,
    "IsInf": is_infinite,
    "IsNaN": plain(np.isnan),
    "Less": plain(np.less),
    "LessOrEqual": plain(np.less_equal),
    "Log": plain(np.log),
    "Max": extreme(np.maximum, maximum),
    "Mean": mean,
    "Min": extreme(np.minimum, minimum),
    "Mod": modulo,
    "Mul": plain(np.multiply),
    "Neg": plain(np.negative),
    "Not": plain(np.logical_not),
    "Or": plain(np.logical_or),
    "Pow": power,
    "Reciprocal": plain(lambda x: 1 / x),
    "Round": plain(np.rint),
    "Sign": plain(np.sign),
    "Sin": plain(np.sin),
    "Sinh": plain(np.sinh),
    "Sqrt": plain(np.sqrt),
    "Sub": plain(np.subtract),
    "Sum": folded(np.add),
    "Tan": plain(np.tan),
    "Tanh": plain(np.tanh),
    "Where": where,
    "Xor": plain(np.logical_xor),
}
