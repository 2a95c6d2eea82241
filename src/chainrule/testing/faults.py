"""Planted faults: copies of a primitive with one part wrong, to see a check go red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import stop_gradient
from chainrule.primitives.primitive import (
    Derivative,
    Explicit,
    Flat,
    Fold,
    Latex,
    Linear,
    Map,
    Multilinear,
    Partials,
    Primitive,
    Rule,
)
from chainrule.primitives.sources import full_like

SCALE = 1.001
SHIFT = 1e-3

# Faults of derivatives: each changes one rule of the derivative ---------------------------------------


def _with_rules(derivative: Derivative, change: Callable[[Any], Any], count: int) -> Derivative:
    """The derivative with its first rule changed (in both modes where both are written out).

    A rule that is None, or that a Flat derivative does not have, is changed as None.
    """

    def first(rules: tuple[Any, ...]) -> tuple[Any, ...]:
        index = next((i for i, rule in enumerate(rules) if rule is not None), 0)
        return (*rules[:index], change(rules[index]), *rules[index + 1 :])

    match derivative:
        case Partials(rules):
            return Partials(first(rules))
        case Linear(rules):
            return replace(derivative, transposes=first(rules))
        case Multilinear(rules):
            return Multilinear(first(rules))
        case Explicit(tangents, cotangents):
            return Explicit(first(tangents), first(cotangents))
        case Flat():
            return Partials(first((None,) * count))


def _result_changed(primitive: Primitive, change: Callable[[Any], Any]) -> Primitive:
    """The first rule's result changed; a rule that is zero everywhere has a result of zero."""

    def changed(rule: Rule | None) -> Rule:
        def wrong(*args: Any) -> Any:
            return change(full_like(args[0], 0) if rule is None else rule(*args))

        return wrong

    derivative = _with_rules(primitive.derivative, changed, len(primitive.inputs))
    return replace(primitive, derivative=derivative)


def _scaled(primitive: Primitive) -> Primitive:
    return _result_changed(primitive, lambda value: value * SCALE)


def _shifted(primitive: Primitive) -> Primitive:
    return _result_changed(primitive, lambda value: value + SHIFT)


def _negated(primitive: Primitive) -> Primitive:
    return _result_changed(primitive, lambda value: -value)


def _missing(primitive: Primitive) -> Primitive:
    return _result_changed(primitive, lambda value: full_like(value, 0))


def _detached(primitive: Primitive) -> Primitive:
    return _result_changed(primitive, lambda value: stop_gradient(value))


# Faults of the other parts ---------------------------------------------------------------------------


def _wrong_dtype(primitive: Primitive) -> Primitive:
    def result_type(*types: Any, **params: Any) -> Any:
        declared = primitive.result_type(*types, **params)
        other = np.float32 if declared.dtype == np.float64 else np.float64
        return array_type(np.dtype(other), declared.shape)

    return replace(primitive, result_type=result_type)


def _wrong_shape(primitive: Primitive) -> Primitive:
    def result_type(*types: Any, **params: Any) -> Any:
        declared = primitive.result_type(*types, **params)
        return array_type(declared.dtype, (*declared.shape, 1))

    return replace(primitive, result_type=result_type)


def _unbatched(primitive: Primitive) -> Primitive:
    """The batching rule answers for the first example only."""

    def batch(size: Any, inputs: Any, batched: Any, out: Any) -> Any:
        from chainrule.primitives.movement import broadcast_to, reshape, slice_

        assert primitive.batch is not None
        right = primitive.batch(size, inputs, batched, out)
        shape = right.type.shape
        first = (1, *shape[1:])
        one = slice_(right, start=(0,) * len(shape), step=(1,) * len(shape), shape=first)
        return broadcast_to(reshape(one, shape=shape[1:]), shape=shape)

    return replace(primitive, batch=batch)


def _negative_flops(primitive: Primitive) -> Primitive:
    return replace(primitive, flops=lambda out: -1 - primitive.flops(out))


def _fractional_flops(primitive: Primitive) -> Primitive:
    return replace(primitive, flops=lambda out: primitive.flops(out) + 0.5)  # type: ignore[arg-type]


def _wrong_kernel(primitive: Primitive) -> Primitive:
    match primitive.kernel:
        case Map(expression) if ">" in expression or "<" in expression or "=" in expression:
            return replace(primitive, kernel=Map(f"~({expression})"))
        case Map(expression) if "&" in expression or "|" in expression or "~" in expression:
            return replace(primitive, kernel=Map(f"~({expression})"))
        case Map(expression):
            return replace(primitive, kernel=Map(f"({expression}) + {SHIFT}"))
        case Fold(combine, initial):
            return replace(primitive, kernel=Fold(f"({combine}) + {SHIFT}", initial))
    return primitive


def _unknown_function(primitive: Primitive) -> Primitive:
    if isinstance(primitive.kernel, Map):
        return replace(primitive, kernel=Map(f"eval({primitive.kernel.expression})"))
    if isinstance(primitive.kernel, Fold):
        kernel = Fold(f"eval({primitive.kernel.combine})", primitive.kernel.initial)
        return replace(primitive, kernel=kernel)
    return primitive


def _unbalanced_latex(primitive: Primitive) -> Primitive:
    latex = primitive.latex
    template = latex.template + "{{"
    return replace(primitive, latex=Latex(template, latex.binding, latex.operands))


def _latex_without_operand(primitive: Primitive) -> Primitive:
    latex = primitive.latex
    return replace(primitive, latex=Latex("f", latex.binding, latex.operands))


GRADIENT_FAULTS: dict[str, Callable[[Primitive], Primitive]] = {
    "scaled": _scaled,  # 0.1 % too large
    "shifted": _shifted,  # 1e-3 is added: a rule that is zero no longer is
    "negated": _negated,
    "missing": _missing,  # zero: one term of the chain rule is not there
    "detached": _detached,  # right, and its own derivative is zero: only order 2 can see it
}

# What is wrong -> the primitive with this fault; the checks that find it have the name before "/".
FAULTS: dict[str, Callable[[Primitive], Primitive]] = {
    **GRADIENT_FAULTS,
    "type/dtype": _wrong_dtype,
    "type/shape": _wrong_shape,
    "batching/first": _unbatched,
    "flops/negative": _negative_flops,
    "flops/fraction": _fractional_flops,
    "kernel/value": _wrong_kernel,
    "kernel/name": _unknown_function,
    "latex/braces": _unbalanced_latex,
    "latex/operand": _latex_without_operand,
}


def planted_fault(primitive: Primitive, kind: str) -> Primitive:
    """A copy of the primitive with one fault; the original, and nodes made of it, stay right.

    `kind` is a key of FAULTS.  For the derivative: "scaled" (by 1.001), "shifted" (by 1e-3; a
    zero derivative gets a rule), "negated", "missing" (zero), "detached" (right at order 1 only).
    """
    if kind not in FAULTS:
        raise InputError(f"there is no fault called {kind!r}", hint=f"one of: {', '.join(FAULTS)}")
    return FAULTS[kind](primitive)
