"""Builds the parts of an opaque operation's record: type, value, rules, batch, source."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from chainrule.annotations import ElementType
from chainrule.custom.fitting import fitted, parts_of
from chainrule.custom.rules import BatchedRules, Nodes, called, rule_trace, shown, unplaced
from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import NotDifferentiableError, TypeSpecError, UnsupportedError
from chainrule.frontend.errors.types_shown import type_text
from chainrule.graph.node import Node
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type, type_of
from chainrule.primitives.families import same_type
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.python import Writing, Written
from chainrule.primitives.sources import full_like
from chainrule.tracing import definition

_SERIALS = count()


@dataclass(eq=False)
class Opaque:
    """A function on arrays that is not looked into, and all that its user said of it."""

    evaluate: Callable[..., Any]
    name: str
    result_type: Callable[..., Any] | str
    partials: tuple[Callable[..., Any] | None, ...] | None = None
    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    batch: Callable[..., Any] | str = "loop"
    serial: int = field(default_factory=lambda: next(_SERIALS))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name}#{self.serial}"

    @property
    def where(self) -> str:
        """The file and line of the function."""
        return definition(self.evaluate)

    def type_of_result(self, types: Sequence[ArrayType], params: dict[str, Any]) -> ArrayType:
        """The declared type."""
        if not callable(self.result_type):
            return same_type(*types)
        found = self.result_type(*types, **params)
        if isinstance(found, ElementType):
            return array_type(found.dtype, ())
        if isinstance(found, ArrayType):
            return array_type(found.dtype, found.shape)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], (tuple, list)):
            return array_type(np.dtype(found[0]), tuple(found[1]))
        raise TypeSpecError(
            f"the result_type of {self.name} returned {found!r}",
            where=definition(self.result_type),
            hint="return an array type: x, x.with_shape((n,)), chainrule.float64[...], or "
            "(dtype, shape)",
        )

    def value(self, arrays: Sequence[np.ndarray], params: dict[str, Any], type_: ArrayType) -> Any:
        """A copy of what the function gives, which has to be of the declared type (in any order
        of bytes): the function may give one array again and again, and write into it."""
        found = self.evaluate(*arrays, **params)
        if not isinstance(found, np.matrix):  # its numbers are all that it has
            refuse_subclass(found, f"the result of {self.name}", self.where)
        got = np.asarray(found)
        if got.dtype.newbyteorder("=") != type_.dtype or got.shape != type_.shape:
            given = ", ".join(type_text(type_of(array)) for array in arrays)
            raise ValueError(
                f"{self.name} of {given} returned {_told(found, got)}, and {type_text(type_)} is "
                f"declared (its function: {self.where or self.evaluate!r}); "
                "result_type= says what it returns"
            )
        return np.array(got, type_.dtype, order="C")


def _told(found: Any, got: np.ndarray) -> str:
    if isinstance(found, (np.ndarray, np.generic, float, int)):
        return type_text(type_of(got))
    return f"a {type(found).__name__}"


@dataclass(frozen=True)
class Plain:
    """One call of the function: its values and its rules."""

    opaque: Opaque
    params: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return str(self.opaque) + self._options

    def __repr__(self) -> str:
        return repr(self.opaque) + self._options

    @property
    def _options(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.params)
        return f"({shown})" if shown else ""

    def result_type(self, types: Sequence[ArrayType]) -> ArrayType:
        """The type of the result."""
        return self.opaque.type_of_result(types, dict(self.params))

    def evaluate(self, arrays: Sequence[np.ndarray], type_: ArrayType) -> np.ndarray:
        """The value."""
        return self.opaque.value(arrays, dict(self.params), type_)

    def rules(self) -> Plain:
        """Its rules."""
        return self

    # Rules ---------------------------------------------------------------------------------------

    def tangent(self, dxs: Nodes, out: Node, inputs: Sequence[Node]) -> Node | None:
        """By the partials, or by the jvp rule."""
        own, params = self.opaque, dict(self.params)
        with rule_trace() as trace:
            operands = [shown(trace, node) for node in (out, *inputs)]
            total: Any = None
            if own.partials is not None:
                for dx, partial in zip(dxs, own.partials, strict=True):
                    if dx is not None and partial is not None:
                        part = self._partial(partial, trace, operands, out) * shown(trace, dx)
                        total = part if total is None else total + part
            elif own.jvp is not None:
                moves = [
                    None
                    if not node.type.is_float
                    else shown(trace, full_like(node, 0) if dx is None else dx)
                    for dx, node in zip(dxs, inputs, strict=True)
                ]
                value = called(trace, functools.partial(own.jvp, tuple(moves), *operands, **params))
                what = f"the tangent of {own.name}"
                total = shown(trace, fitted(trace, value, out.type, what, own.jvp))
            else:
                raise self._refusal("forward", out)
        found = None if total is None else total.node
        unplaced([found], [out, *inputs, *[dx for dx in dxs if dx is not None]])
        return found

    def _partial(self, partial: Any, trace: Any, operands: list[Any], out: Node) -> Any:
        params = dict(self.params)
        value = called(trace, lambda: partial(*operands, **params))
        what = f"a partial derivative of {self.opaque.name}"
        return shown(trace, fitted(trace, value, out.type, what, partial))

    def cotangents(
        self, g: Node, out: Node, active: tuple[int, ...], inputs: Sequence[Node]
    ) -> Nodes:
        """By the partials, or by the vjp rule."""
        own, params = self.opaque, dict(self.params)
        with rule_trace() as trace:
            operands = [shown(trace, node) for node in (out, *inputs)]
            found: list[Node | None] = [None] * len(inputs)
            if own.partials is not None:
                for i in active:
                    partial = own.partials[i]
                    if partial is not None:
                        value = shown(trace, g) * self._partial(partial, trace, operands, out)
                        found[i] = value.node
            elif own.vjp is not None:
                rule = own.vjp
                returned = called(trace, lambda: rule(shown(trace, g), *operands, **params))
                if len(inputs) == 1 and not isinstance(returned, (tuple, list)):
                    returned = (returned,)
                what = f"the vjp rule of {own.name}"
                parts = parts_of(returned, len(inputs), what, "one cotangent for each input", rule)
                for i in active:
                    if parts[i] is not None:
                        name = f"the cotangent of input {i} of {own.name}"
                        found[i] = fitted(trace, parts[i], inputs[i].type, name, rule)
            else:
                raise self._refusal("reverse", out)
        unplaced(found, [g, out, *inputs])
        return found

    def _refusal(self, mode: str, out: Node) -> NotDifferentiableError:
        own = self.opaque
        other = {"forward": own.vjp, "reverse": own.jvp}[mode]
        has = "" if other is None else "; it has one for the other mode alone"
        rule = "jvp" if mode == "forward" else "vjp"
        return NotDifferentiableError(
            f"the operation {own.name} has no derivative rule for {mode} mode{has}",
            where=out.origin.describe() or own.where,
            hint=f"cr.primitive(..., {rule}=rule), or partials= for an elementwise function; "
            "partials=None for each input, or cr.stop_gradient, says that it is constant",
        )


@dataclass(frozen=True)
class Batch:
    """The call for a whole batch: every input and the result have a first axis more."""

    one: Plain | Batch

    def __str__(self) -> str:
        return f"batched {self.one}"

    def __repr__(self) -> str:
        return f"batched {self.one!r}"

    @property
    def opaque(self) -> Opaque:
        """The function."""
        return self.one.opaque

    def result_type(self, types: Sequence[ArrayType]) -> ArrayType:
        """The type of the result."""
        size = types[0].shape[0]
        one = self.one.result_type([type_.with_shape(type_.shape[1:]) for type_ in types])
        return array_type(one.dtype, (size, *one.shape))

    def evaluate(self, arrays: Sequence[np.ndarray], type_: ArrayType) -> np.ndarray:
        """The value: the function of each example, or what it has for a whole batch."""
        whole = self.one.opaque.batch
        if callable(whole) and isinstance(self.one, Plain):
            own = replace(self.one.opaque, evaluate=whole)
            return own.value(arrays, dict(self.one.params), type_)
        result = np.empty(type_.shape, type_.dtype)
        inner = array_type(type_.dtype, type_.shape[1:])
        for place, examples in enumerate(zip(*arrays, strict=True)):
            result[place] = self.one.evaluate([np.asarray(one) for one in examples], inner)
        return result

    def rules(self) -> BatchedRules:
        """The rules of one example, for all."""
        return BatchedRules(self.one.rules())


def evaluated(xp: Any, *arrays: Any, call: Any, shape: Any) -> Any:
    """The value of a node."""
    if xp is not np:
        raise UnsupportedError(
            f"the operation {call.opaque.name} computes with NumPy, not with {xp.__name__}",
            hint='executor="native" or "reference"',
        )
    dtype = call.result_type([type_of(array) for array in arrays]).dtype
    return call.evaluate(arrays, array_type(dtype, tuple(shape)))


def declared(*types: ArrayType, call: Any, shape: Any = None) -> ArrayType:
    """The type of a node's result."""
    return call.result_type(types)


def tangent_of(dxs: Nodes, out: Node, *inputs: Node) -> Node | None:
    """Forward mode of a node."""
    return out.param("call").rules().tangent(dxs, out, inputs)


def cotangents_of(g: Node, out: Node, active: tuple[int, ...], *inputs: Node) -> Nodes:
    """Reverse mode of a node."""
    return out.param("call").rules().cotangents(g, out, active, inputs)


def batched(size: int | Size, inputs: tuple[Node, ...], has: tuple[bool, ...], out: Node) -> Any:
    """The node for a whole batch."""
    every = [
        node if own else add_batch_axis(node, size) for node, own in zip(inputs, has, strict=True)
    ]
    call, shape = out.param("call"), (size, *out.type.shape)
    own = call.opaque
    pointwise = own.batch == "pointwise"
    return out.primitive(*every, call=call if pointwise else Batch(call), shape=shape)


def is_flat(opaque: Opaque) -> bool:
    """Whether its user said that the derivative is zero."""
    return opaque.partials is not None and not any(opaque.partials)


def written(opaque: Opaque, inputs: Sequence[str]) -> Callable[..., Written]:
    """How a call is written as source: the function is imported where that can be."""

    def write(out: Node, writing: Writing, *operands: Written) -> Written:
        params = [f", {key}={value!r}" for key, value in out.param("call").params]
        name = writing.helper(source_of(opaque, inputs))
        return Written(f"{name}({', '.join(one.text for one in operands)}{''.join(params)})")

    return write


def source_of(opaque: Opaque, inputs: Sequence[str]) -> str:
    """A function of source that calls the opaque one."""
    head = f"\ndef {opaque.name}({', '.join(inputs)}, **options):\n"
    place = _importable(opaque.evaluate)
    if place is None:
        return (
            f'{head}    """An operation of the program\'s own; its source is not known."""\n'
            f'    raise NotImplementedError("put the function {opaque.name} here")\n'
        )
    module, name = place
    return (
        f'{head}    """By {module}."""\n    from {module} import {name} as function\n\n'
        f"    return np.asarray(function({', '.join(inputs)}, **options))\n"
    )


def _importable(function: Any) -> tuple[str, str] | None:
    """The module and the name under which this very function is found."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    for place in (module, "scipy.special") if module is None else (module,):
        if place in (None, "__main__") or place not in sys.modules:
            continue
        if getattr(importlib.import_module(place), name, None) is function:
            return place, name
    return None
