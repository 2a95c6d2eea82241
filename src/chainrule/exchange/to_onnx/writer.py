"""A `Writer` collects the nodes of one ONNX graph, with names, constants and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.size_terms import Opaque
from chainrule.graph.sizes.sizes import Size

INT64 = np.dtype(np.int64)
FAR = 1 << 62


class Writer:
    """Nodes and constants of a graph, or of one within another (`outer`), which sees its names."""

    def __init__(self, onnx: Any, opset: int, outer: Writer | None = None) -> None:
        self.onnx, self.opset, self.outer = onnx, opset, outer
        self.nodes: list[Any] = []
        self.tensors: list[Any] = outer.tensors if outer is not None else []
        self.taken: set[str] = outer.taken if outer is not None else set()
        self.names: dict[Node, str] = {}  # those that nodes keep in the file
        self.value_of: dict[Node, str] = dict(outer.value_of) if outer is not None else {}
        self.sizes: dict[str, str] = dict(outer.sizes) if outer is not None else {}
        self._constants: dict[Any, str] = outer._constants if outer is not None else {}
        self.written: dict[Any, Any] = dict(outer.written) if outer is not None else {}

    # Names and constants -------------------------------------------------------------------

    def fresh(self, wish: str) -> str:
        """A name that nothing has yet."""
        name, count = wish, 0
        while name in self.taken:
            count += 1
            name = f"{wish}_{count}"
        self.taken.add(name)
        return name

    def constant(self, array: Any, wish: str = "constant") -> str:
        """An array of the file; the same small one is there once."""
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        name = self.fresh(wish)
        self.tensors.append(self.onnx.numpy_helper.from_array(array.copy(order="C"), name))
        if key is not None:
            self._constants[key] = name
        return name

    def emit(self, operator: str, *operands: str, wish: str = "", **attributes: Any) -> str:
        """One more node with one result; gives the name of it."""
        name = self.fresh(wish or f"_{operator}")
        self.emit_as(name, operator, *operands, **attributes)
        return name

    def emit_as(self, name: str, operator: str, *operands: str, **attributes: Any) -> None:
        """One more node whose result has this name, which nothing else has."""
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, operands, [name], name=name, **attributes))

    def several(self, operator: str, operands: Sequence[str], count: int, **more: Any) -> list[str]:
        """One more node with several results."""
        names = [self.fresh(f"_{operator}") for _ in range(count)]
        self.nodes.append(self.onnx.helper.make_node(operator, operands, names, **more))
        return names

    def kind(self, dtype: np.dtype) -> int:
        """ONNX's number of an element type."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def cast(self, value: str, dtype: np.dtype) -> str:
        return self.emit("Cast", value, to=self.kind(dtype))

    # Sizes: int64 arrays of one element ----------------------------------------------------

    def size(self, size: int | Size) -> str:
        """The value of a size, as an array of one element."""
        if not isinstance(size, Size):
            return self.constant(np.array([size], np.int64))
        known = self.written.get(size)
        if known is not None:
            return known
        total = ""
        for monomial, coefficient in size.terms:
            product = self.size(coefficient) if coefficient != 1 or not monomial else ""
            for factor in monomial:
                value = self._factor(factor)
                product = self.emit("Mul", product, value) if product else value
            total = self.emit("Add", total, product) if total else product
        self.written[size] = total
        return total

    def _factor(self, factor: str | Opaque) -> str:
        if not isinstance(factor, Opaque):
            return self.sizes[factor]
        first, *others = (self.size(one) for one in factor.arguments)
        if factor.kind in ("min", "max"):
            return self.emit(factor.kind.capitalize(), first, *others)
        rest = self.emit("Mod", first, others[0])
        if factor.kind != "//":
            return rest
        return self.emit("Div", self.emit("Sub", first, rest), others[0])

    def shape(self, sizes: Sequence[int | Size]) -> str:
        """A shape as an array of int64."""
        if all(not isinstance(one, Size) for one in sizes):
            return self.constant(np.array(sizes, np.int64).reshape(-1))
        key = tuple(sizes)
        if key not in self.written:
            self.written[key] = self.emit("Concat", *[self.size(one) for one in sizes], axis=0)
        return self.written[key]

    def positions(self, start: int | Size, step: int, count: int | Size) -> str:
        """start, start + step, ... as int64."""
        if not isinstance(start, Size) and not isinstance(count, Size):
            return self.constant(start + step * np.arange(count, dtype=np.int64))
        scalar = self.constant(np.array([], np.int64))
        length = self.emit("Reshape", self.size(count), scalar, allowzero=1)
        zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
        numbers = self.emit("Range", zero, length, one)
        if step != 1:
            numbers = self.emit("Mul", numbers, self.constant(np.int64(step)))
        if not isinstance(start, Size) and start == 0:
            return numbers
        return self.emit("Add", numbers, self.size(start))

    # Arrays --------------------------------------------------------------------------------

    def reshape(self, value: str, shape: Sequence[int | Size]) -> str:
        return self.emit("Reshape", value, self.shape(shape), allowzero=1)

    def transpose(self, value: str, permutation: Sequence[int]) -> str:
        if list(permutation) == list(range(len(permutation))):
            return value
        return self.emit("Transpose", value, perm=list(permutation))

    def zeros(self, shape: Sequence[int | Size], dtype: np.dtype) -> str:
        return self.emit("Expand", self.constant(np.zeros((), dtype)), self.shape(shape))

    def flat(self, values: Sequence[str]) -> str:
        """Arrays one after another, without axes."""
        rows = [
            self.emit("Reshape", one, self.constant(np.array([-1], np.int64))) for one in values
        ]
        return rows[0] if len(rows) == 1 else self.emit("Concat", *rows, axis=0)
