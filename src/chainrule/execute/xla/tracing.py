"""Evaluates a graph on traced arrays of JAX, node by node: `jax.jit` compiles what this does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.execute.xla import exchanges, functions, loops
from chainrule.execute.xla.convolutions import convolved
from chainrule.execute.xla.foreign import Foreign, is_foreign
from chainrule.execute.xla.jax_here import jax_here
from chainrule.execute.xla.parts import InParts, evaluate
from chainrule.execute.xla.products import as_it_lies
from chainrule.execute.xla.text_of_program import scope_of
from chainrule.graph.body import Body
from chainrule.graph.dtypes import FLOAT32, dtype_kind, is_bfloat16
from chainrule.graph.node import Node
from chainrule.plan.checks import Check, checks_of
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import Contract, Library, Move
from chainrule.primitives.sources import iota

WIDE = np.dtype(np.float64)
SMALL = 4096  # elements that are copied sooner than a further loop begins


class Space:
    """JAX's NumPy with loops, choices, and exchanges between devices: the array namespace in which
    primitives are evaluated.

    `checked` holds before anything is computed; XLA is told the `numbers` of nodes.  The body of a
    loop may be computed `in_parts`.  The space
    notes what else may go wrong, in `failed`: a traced boolean, or False where nothing can.
    Programs give that as one more result, since compiled code cannot raise.  An iteration has a
    space of its own, whose `failed` the loop carries.
    """

    def __init__(
        self,
        foreign: Foreign,
        checked: Iterable[Check] = (),
        numbers: Mapping[Node, int] | None = None,
        in_parts: InParts | None = None,
    ) -> None:
        self.foreign, self.numbers, self.in_parts = foreign, numbers or {}, in_parts
        self.failed: Any = False
        self._checked = set(checked)
        self._reads = Counter[Node]()
        self._doubtful: list[Any] = []
        self.__name__ = "jax.numpy"

    def __getattr__(self, name: str) -> Any:
        found = getattr(jax_here().numpy, name)
        setattr(self, name, found)
        return found

    def fail(self, where: Any) -> None:
        """Note that the run failed if this boolean holds."""
        self.failed = where if self.failed is False else self.failed | where

    def evaluate(self, nodes: Iterable[Node], values: dict[Node, Any]) -> None:
        """Add the values of the nodes, which are in topological order, to those that are there."""
        nodes = list(nodes)
        self._reads = Counter(parent for node in nodes for parent in node.inputs)
        for node in nodes:
            if node not in values:
                operands = [values[one] for one in node.inputs]
                if node in self.numbers:
                    with jax_here().named_scope(scope_of(self.numbers[node])):
                        values[node] = self._value(node, operands, values)
                else:
                    values[node] = self._value(node, operands, values)
        self._doubt()

    def body(self, body: Body, arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Whether a body failed on these arrays, False if it cannot, and its outputs."""
        inner = Space(self.foreign, numbers=self.numbers, in_parts=self.in_parts)
        graph = body.graph
        values = {item.node: one for item, one in zip(graph.inputs, arrays, strict=True)}
        if self.in_parts is not None and self.in_parts.body is body:
            evaluate(inner, self.in_parts.parts, values)
        else:
            inner.evaluate(graph.nodes, values)
        return inner.failed, [values[node] for _, node in graph.outputs]

    exp2, sinh, cosh = functions.exp2, functions.sinh, functions.cosh
    log1p, arctanh, power = functions.log1p, functions.arctanh, functions.power
    floor_divide, remainder = functions.floor_divide, functions.remainder
    sign = functions.sign
    scan, cond = loops.scan, loops.cond
    while_loop, unwind = loops.while_loop, loops.unwind
    all_reduce, all_gather = exchanges.all_reduce, exchanges.all_gather
    reduce_scatter, own_part = exchanges.reduce_scatter, exchanges.own_part

    def _value(self, node: Node, operands: list[Any], values: dict[Node, Any]) -> Any:
        checks = checks_of([node])
        for check in checks:
            self._require(check, values[check.indices])
        if is_foreign(node):
            return strong(self.foreign.call(node, operands), node.dtype)
        kernel = node.primitive.kernel
        is_lapack = isinstance(kernel, Library) and kernel.lapack
        if isinstance(kernel, Library) and (kernel.lapack or kernel.wide):
            dtype = WIDE if is_lapack or has_quick_doubles() else FLOAT32
            operands = [_no_narrower(one, dtype) for one in operands]
        is_product = isinstance(kernel, Contract) and has_narrow_products()
        narrow = [_narrow(one, values) for one in node.inputs if is_product]
        if narrow and all(one is not None for one in narrow):
            evaluate: Any = node.primitive.evaluate
            value = evaluate.__wrapped__(NARROW, *narrow, **dict(node.params))
            return strong(value, node.dtype)
        value = convolved(node, values, self._reads)
        if value is None:
            indices = {check.indices for check in checks}
            operands = [
                _wide_index(one) if parent in indices else one
                for parent, one in zip(node.inputs, operands, strict=True)
            ]
            operands = as_it_lies(node, operands, values)
            value = node.primitive.evaluate(self, *operands, **dict(node.params))
        if is_lapack:
            self._doubtful.append(value)
        return strong(value, node.dtype)

    def _require(self, check: Check, index: Any) -> None:
        """Fail where an index is out of range, unless that was looked at, or cannot be."""
        if check in self._checked or not index.size or _is_position(check):
            return
        self._checked.add(check)
        self.fail(((index < check.low) | (index > check.high)).any())

    def _doubt(self) -> None:
        """Fail where a routine of linear algebra gave what is not finite: NumPy may have refused
        its matrix.  One look at all small results: each look is a loop of its own."""
        floats = [one for one in self._doubtful if dtype_kind(one.dtype) == "f" and one.size]
        self._doubtful = []
        finite = [self.isfinite(one).ravel() for one in floats]
        small = [one for one in finite if one.size <= SMALL]
        looks = [one for one in finite if one.size > SMALL]
        for look in [*looks, self.concatenate(small)] if small else looks:
            self.fail(~look.all())


def has_narrow_products() -> bool:
    """Whether the device is one with instructions for products of bfloat16.  On a CPU (Zen 3), a
    step of an MLP takes 1.25 times as long with them as with products of float32."""
    return jax_here().default_backend() != "cpu"


def has_quick_doubles() -> bool:
    """Whether float64 takes about twice as long as float32, as on a CPU: on most GPUs, 32 times."""
    return jax_here().default_backend() == "cpu"


def _no_narrower(operand: Any, dtype: np.dtype) -> Any:
    """The operand as floats of this dtype, or of its own."""
    is_narrower = dtype_kind(operand.dtype) == "f" and operand.dtype.itemsize < dtype.itemsize
    return operand.astype(dtype) if is_narrower else operand


class _Narrow:
    """JAX's NumPy with products of bfloat16 that add up in float32, and give that."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax_here().numpy, name)

    def matmul(self, x: Any, y: Any) -> Any:
        """The product in float32."""
        return jax_here().numpy.matmul(x, y, preferred_element_type=FLOAT32)


NARROW = _Narrow()


def _narrow(node: Node, values: Mapping[Node, Any]) -> Any:
    """The bfloat16 numbers of which an operand is the float32 ones, moved as it is; else None."""
    moves = []
    while isinstance(node.primitive.kernel, Move):
        moves.append(node)
        (node,) = node.inputs
    if node.primitive is not cast or not is_bfloat16(node.inputs[0].dtype):
        return None
    value = values[node.inputs[0]] if node.dtype == FLOAT32 else None
    for move in reversed(moves) if value is not None else ():
        value = move.primitive.evaluate(NARROW, value, **dict(move.params))
    return value


def strong(value: Any, dtype: np.dtype) -> Any:
    """The value as an array of this dtype, which never gives way to another one."""
    jax = jax_here()
    array = jax.numpy.asarray(value)
    if array.dtype != dtype or getattr(array, "weak_type", False):
        return jax.lax.convert_element_type(array, dtype)
    return array


def _wide_index(index: Any) -> Any:
    """The indices in at least 32 bits: JAX counts from the end in their own dtype, in which the
    length of an axis may not be a number."""
    return index.astype("int32") if index.dtype.itemsize < 4 else index


def _is_position(check: Check) -> bool:
    """Whether the indices are positions 0, 1, ... that stay in range, however they are moved."""
    node = check.indices
    while isinstance(node.primitive.kernel, Move):
        node = node.inputs[0]
    return node.primitive is iota and check.low <= 0 and node.shape[0] - 1 <= check.high
