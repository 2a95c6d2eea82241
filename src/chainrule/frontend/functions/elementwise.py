"""Makes dtype promotion (NEP 50) and broadcasting explicit nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, ShapeError, UnsupportedError
from chainrule.frontend.functions.accurate import REWRITTEN, accurate
from chainrule.frontend.functions.ufuncs import UFUNCS
from chainrule.frontend.naming import operand_name
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import computed_in, dtype_kind, is_bfloat16, promoted
from chainrule.graph.node import Node
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import FLOAT_SCALAR, INT_SCALAR, Shape, array_type
from chainrule.primitives import arithmetic
from chainrule.primitives.families import bool_type
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import full, size_of, size_value

_RETYPED = (full, size_value)
Operand = Node | int | float | bool

COMPLEX = "a complex number, which is not traced"
NUMBERS = "use real floating-point, integer or boolean arrays"
REAL = "complex numbers are not traced: use the real and the imaginary part as two real arrays"
CONVERT = "convert with .astype(...) first"
_BOOLEAN = frozenset({np.logical_and, np.logical_or, np.logical_not})
_DTYPES = frozenset("?bBhHiIlLqQefd")


@lru_cache(maxsize=4096)
def resolve(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype, bool] | None:
    """The dtype in which NumPy computes, for dtypes and weak Python types (float, int); whether the
    result is weak.  None where NumPy has no loop."""
    if ufunc in _BOOLEAN:
        return np.dtype(np.bool_), False
    if any(isinstance(kind, np.dtype) and is_bfloat16(kind) for kind in kinds):
        return _resolve_bfloat16(ufunc, kinds)
    weak = all(kind is int or kind is float for kind in kinds)
    asked = kinds
    if weak:
        asked = tuple(np.dtype(np.float64 if kind is float else np.int64) for kind in kinds)
    try:
        found = ufunc.resolve_dtypes((*asked, None))
    except TypeError:
        return None
    inputs = found[:-1]
    dtype = inputs[0] if len(set(inputs)) == 1 else np.result_type(*inputs)
    return (dtype, weak) if dtype.char in _DTYPES else None


def _resolve_bfloat16(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype, bool] | None:
    """As NumPy does for its own floats: a Python number widens nothing.  None with wider integers,
    for which NumPy knows no common dtype."""
    try:
        common = promoted(*[kind for kind in kinds if isinstance(kind, np.dtype)])
    except TypeError:
        return None
    wide = computed_in(common)
    found = resolve(ufunc, tuple(wide if isinstance(kind, np.dtype) else kind for kind in kinds))
    return found if found is None or found[0] != wide else (common, False)


def resolved_or_refused(
    trace: Trace, ufunc: np.ufunc, operands: Sequence[Operand], shown: str
) -> tuple[np.dtype, bool] | None:
    """As `resolve`; DTypeError where an operand is bfloat16 and nothing fits."""
    found = resolve(ufunc, tuple([kind_of(one) for one in operands]))
    nodes = [one for one in operands if isinstance(one, Node)]
    if found is None and any(is_bfloat16(one.dtype) for one in nodes):
        parts = " and ".join(trace.show(one) for one in nodes)
        raise DTypeError(
            f"{shown}: {parts} have no common dtype", where=trace.where(), hint=CONVERT
        )
    return found


def kind_of(operand: Operand) -> Any:
    """The dtype of an operand, or the Python type (int, float) of a weak one."""
    if isinstance(operand, Node):
        type_ = operand.type
        if type_.weak:
            return float if dtype_kind(type_.dtype) == "f" else int
        return type_.dtype
    if isinstance(operand, bool):
        return np.dtype(np.bool_)
    return type(operand)


def lift(trace: Trace, value: Any) -> Operand:
    """A node for traced arrays, sizes and closed-over arrays; Python numbers stay what they are."""
    node = getattr(value, "node", None)
    if node is not None and isinstance(node, Node):
        trace.own(value.program, node)
        return node
    if isinstance(value, Size):  # before other classes are asked for, of which it says what it is
        return trace.build(size_of(value, INT_SCALAR).primitive, size=value, type=INT_SCALAR)
    if isinstance(value, Node) or (
        isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
    ):
        return value
    if isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return lift_array(trace, value)
    if isinstance(value, complex):
        raise DTypeError(
            f"a traced array meets {value!r}, {COMPLEX}", where=trace.where(), hint=REAL
        )
    raise UnsupportedError(
        f"a traced array meets {_short(value)}, a {type(value).__name__}",
        where=trace.where(),
        hint="use NumPy arrays and Python numbers"
        + ("; ask for None with `is None`" if value is None else ""),
    )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def lift_array(trace: Trace, value: Any) -> Node:
    """A constant node for a NumPy array, scalar, or nested list of numbers."""
    if isinstance(value, (list, tuple)) and any(hasattr(item, "node") for item in value):
        return trace.functions[np.stack](trace, list(value))
    refuse_subclass(value, "a closed-over array", trace.where())
    array = value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value)
    if array.dtype.char not in _DTYPES and not is_bfloat16(array.dtype):
        raise DTypeError(
            f"arrays of dtype {array.dtype} cannot be traced",
            where=trace.where(),
            hint=REAL if array.dtype.kind == "c" else NUMBERS,
        )
    return trace.constant(array)


def as_node(trace: Trace, value: Any) -> Node:
    """A node for any operand; Python numbers become weak 0-d constants."""
    operand = lift(trace, value)
    return operand if isinstance(operand, Node) else scalar_node(trace, operand)


def scalar_node(trace: Trace, value: float | bool) -> Node:
    """A Python number as a 0-d constant: weak, except booleans."""
    if isinstance(value, bool):
        type_ = array_type(np.dtype(np.bool_), ())
    else:
        type_ = FLOAT_SCALAR if isinstance(value, float) else INT_SCALAR
    return trace.build(full, value=value, type=type_)


def to_dtype(trace: Trace, node: Node, dtype: np.dtype, weak: bool = False) -> Node:
    """The node in this dtype, by a cast where it differs."""
    type_ = node.type
    if type_.dtype == dtype and type_.weak == weak:
        return node
    if node.primitive in _RETYPED and node not in trace.name_of:
        params = dict(node.params)
        if "value" in params:
            params["value"] = np.asarray(params["value"], type_.dtype).astype(dtype).item()
        return trace.build(node.primitive, **{**params, "type": type_.with_dtype(dtype, weak)})
    return trace.build(cast, node, dtype=dtype, weak=weak)


def to_shape(trace: Trace, node: Node, shape: Shape) -> Node:
    """The node broadcast to this shape."""
    if node.type.shape == shape:
        return node
    if node.primitive is full:
        type_ = array_type(node.type.dtype, shape)
        return trace.build(full, value=node.param("value"), type=type_)
    return trace.build(broadcast_to, node, shape=shape)


def common_shape(trace: Trace, nodes: list[Node], shown: str) -> Shape:
    """The shape to which all broadcast: an axis of literal length 1 repeats, a named one never."""
    result: list[int | Size] = []
    for node in nodes:
        shape = node.type.shape
        if len(shape) > len(result):
            result = [*shape[: len(shape) - len(result)], *result]
        for place in range(1, len(shape) + 1):
            new, old = shape[-place], result[-place]
            if new == old or (isinstance(new, int) and new == 1):
                continue
            if isinstance(old, int) and old == 1:
                result[-place] = new
                continue
            _refuse_shapes(trace, nodes, shown, place, old, new)
    return tuple(result)


def _refuse_shapes(
    trace: Trace, nodes: list[Node], shown: str, place: int, old: Any, new: Any
) -> None:
    parts = " and ".join(trace.show(node) for node in nodes)
    hint = "axes are compared from the last one; one of the two must be equal or a literal 1"
    if isinstance(old, Size) or isinstance(new, Size):
        hint += "\na named size is never 1 and equals only itself: "
        hint += f"declare {old} and {new} as one size if they are the same"
    raise ShapeError(
        f"{shown}: the shapes of {parts} do not broadcast: axis {-place} is {old} and {new}",
        where=trace.where(),
        hint=hint,
    ).resting_on((old, new), (old, 1), (new, 1))


def elementwise(trace: Trace, ufunc: np.ufunc, values: tuple[Any, ...]) -> Node:
    """The node for a NumPy ufunc on traced arrays, arrays and Python numbers."""
    primitive = UFUNCS[ufunc]
    operands = [lift(trace, value) for value in values]
    kinds = tuple([kind_of(operand) for operand in operands])
    resolved = resolve(ufunc, kinds)
    if ufunc in REWRITTEN:
        found = accurate(trace, ufunc, operands, resolved)
        if found is not None:
            return found
    if primitive is arithmetic.power and _is_static_exponent(operands):
        return _static_power(trace, operands[0], operands[1])
    if resolved is None:
        shown = " and ".join(trace.show(o) if isinstance(o, Node) else repr(o) for o in operands)
        raise DTypeError(
            f"np.{ufunc.__name__} is not defined for {shown}",
            where=trace.where(),
            hint=CONVERT,
        )
    if primitive.result_type is bool_type and resolved[0].kind in "iu":
        for place, operand in enumerate(operands):
            if isinstance(operand, int) and not _fits(operand, resolved[0]):
                return _compared(trace, ufunc, operands[1 - place], place, operand)
    return apply(trace, primitive, ufunc.__name__, operands, *resolved)


def _compared(trace: Trace, ufunc: np.ufunc, node: Any, place: int, value: int) -> Node:
    """A comparison with a Python int beyond the dtype: the same answer for every element."""
    pair = (value, 0) if place == 0 else (0, value)  # the int is below all elements or above all
    type_ = array_type(np.dtype(np.bool_), node.type.shape)
    return trace.build(full, value=bool(ufunc(*pair)), type=type_)


def _fits(value: int, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def apply(
    trace: Trace, primitive: Primitive, shown: str, operands: list[Any], dtype: np.dtype, weak: bool
) -> Node:
    """`primitive` on operands brought to one dtype and one shape."""
    nodes = [operand for operand in operands if isinstance(operand, Node)]
    shape = nodes[0].type.shape
    for node in nodes:
        if node.type.shape != shape:
            shape = common_shape(trace, nodes, shown)
            break
    ready = []
    for operand in operands:
        if isinstance(operand, Node):
            node = to_dtype(trace, operand, dtype, weak)
            ready.append(node if node.type.shape == shape else to_shape(trace, node, shape))
        else:
            ready.append(literal(trace, operand, dtype, shape, weak))
    return trace.build(primitive, *ready)


def literal(trace: Trace, value: Any, dtype: np.dtype, shape: Shape, weak: bool) -> Node:
    if dtype.kind in "iu":
        if not _fits(value, dtype):
            raise DTypeError(
                f"the Python integer {value} does not fit {dtype}",
                where=trace.where(),
                hint="convert the array with .astype(...) to a wider dtype",
            )
        value = int(value)
    elif dtype.kind == "b":
        value = bool(value)
    else:
        value = float(np.asarray(value, dtype))
    return trace.build(full, value=value, type=array_type(dtype, shape, weak and not shape))


def _is_static_exponent(operands: list[Any]) -> bool:
    base, exponent = operands
    return (
        isinstance(exponent, int)
        and not isinstance(exponent, bool)
        and isinstance(base, Node)
        and abs(exponent) <= 1024
    )


def _static_power(trace: Trace, base: Any, exponent: Any) -> Node:
    kind = base.type.dtype.kind
    if kind in "iub" and exponent < 0:
        raise DTypeError(
            f"integers to the negative power {exponent} are not integers: {trace.show(base)}",
            where=trace.where(),
            hint="convert the base with .astype(float) first",
        )
    if kind == "b":
        square = exponent == 2  # for which NumPy's ** has a rule of its own
        base = to_dtype(trace, base, np.dtype(np.int8 if square else np.int64))
    if kind in "iu":
        literal(trace, exponent, base.type.dtype, (), False)  # refuses what does not fit
    return trace.build(arithmetic.integer_power, base, exponent=exponent)


def name_scalar(trace: Trace, value: Any, depth: int) -> Any:
    """A closed-over Python number becomes a named constant, so that equations and compiled code
    know it by name; literals stay numbers."""
    if type(value) is not float or trace.site is None:
        return value
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not trace.site.code:
        frame = frame.f_back
    found = operand_name(frame, depth) if frame is not None else None
    if found is None or found[0] not in ("closure", "global", "attribute"):
        return value
    known = trace.names.get(found[1])
    if known is not None:
        held = dict(known.params).get("value")
        if held is None or held.array.ndim:
            return value
        same = repr(float(held.array)) == repr(value)
        return known if same else value
    return trace.constant(value, found[1])
