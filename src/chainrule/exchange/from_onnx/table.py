"""All operators that are read, by domain and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.exchange.from_onnx.operators.activations import ACTIVATIONS
from chainrule.exchange.from_onnx.operators.control import CONTROL
from chainrule.exchange.from_onnx.operators.elementwise import ELEMENTWISE
from chainrule.exchange.from_onnx.operators.indexing import INDEXING, OF_TABLES
from chainrule.exchange.from_onnx.operators.products import PRODUCTS
from chainrule.exchange.from_onnx.operators.quantised import QUANTISED
from chainrule.exchange.from_onnx.operators.recurrent import RECURRENT
from chainrule.exchange.from_onnx.operators.reductions import REDUCTIONS
from chainrule.exchange.from_onnx.operators.resampling import RESAMPLING
from chainrule.exchange.from_onnx.operators.shapes import SHAPES
from chainrule.exchange.from_onnx.operators.signals import SIGNALS
from chainrule.exchange.from_onnx.operators.updates import UPDATES
from chainrule.exchange.from_onnx.operators.windows import WINDOWS

_STANDARD = (ACTIVATIONS, CONTROL, ELEMENTWISE, INDEXING, PRODUCTS, QUANTISED, RECURRENT)
_STANDARD += (REDUCTIONS, RESAMPLING, SHAPES, SIGNALS, WINDOWS)

TABLE: dict[tuple[str, str], Callable[..., Any]] = {
    **{("", name): function for kind in _STANDARD for name, function in kind.items()},
    **{("ai.onnx.ml", name): function for name, function in OF_TABLES.items()},
    **{("ai.onnx.preview.training", name): function for name, function in UPDATES.items()},
}

# Operators that compute with named sizes while the file is read; others get their values.
OF_SIZES = frozenset(
    "Add Cast CastLike Concat ConstantOfShape Div Equal Expand Gather Identity Max Min Mod Mul "
    "Neg Range ReduceProd ReduceSum Reshape Resize Slice Split Squeeze Sub Tile Transpose "
    "Unsqueeze Where CenterCropPad Col2Im MaxUnpool OneHot Loop If Pad Shape Size "
    "SequenceConstruct SequenceInsert SequenceAt Optional OptionalGetElement".split()
)

# Of these, operators whose operands become one array: if one is traced, sizes get their values.
TOGETHER = frozenset({*ELEMENTWISE, "Concat"})

# Operands that must be known while a file is read, so that no parameter stands there.
STATIC: dict[str, frozenset[int]] = {
    "BatchNormalization": frozenset({3, 4}),  # statistics, which are not trained
    "Clip": frozenset({1, 2}),
    "DequantizeLinear": frozenset({1}),
    "Dropout": frozenset({1}),
    "OneHot": frozenset({1, 2}),
    "Pad": frozenset({2}),
    "QLinearConv": frozenset({1, 4, 6}),
    "QLinearMatMul": frozenset({1, 4, 6}),
    "QuantizeLinear": frozenset({1}),
    "Range": frozenset({0, 1, 2}),
    "Resize": frozenset({1, 2}),
    "Upsample": frozenset({1}),
}
