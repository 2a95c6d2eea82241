"""Plants faults: copies a primitive with one part wrong, to see a check fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import stop_gradient
from chainrule.primitives.movement import broadcast_to, reshape, slice_
from chainrule.primitives.primitive import (
    Derivative,
    Explicit,
    Flat,
    Fold,
    Joint,
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

# Faults of derivatives: each changes the rule of one argument --------------------------------


def _with_rule(
    derivative: Derivative, index: int, count: int, change: Callable[[Rule | None], Rule]
) -> Derivative:
    """The derivative with the rule of one argument changed, in both modes where both are written
    out.  A Flat derivative has the rule None for each of its `count` arguments."""

    def changed(rules: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*rules[:index], change(rules[index]), *rules[index + 1 :])

    match derivative:
        case Partials(rules):
            return replace(derivative, partials=changed(rules))
        case Linear(rules):
            return replace(derivative, transposes=changed(rules))
        case Multilinear(rules):
            return replace(derivative, transposes=changed(rules))
        case Explicit(tangents, cotangents):
            return Explicit(changed(tangents), changed(cotangents))
        case Joint():
            return _with_joint_rule(derivative, index, change)
        case Flat():
            return Partials(changed((None,) * count))


def _with_joint_rule(derivative: Joint, index: int, change: Callable[[Rule | None], Rule]) -> Joint:
    """Changed is what the one argument adds to the tangent, and its cotangent."""

    def tangent(dxs: tuple[Any, ...], *others: Any) -> Any:
        alone = tuple(dx if i == index else None for i, dx in enumerate(dxs))
        rest = tuple(None if i == index else dx for i, dx in enumerate(dxs))
        part = None if dxs[index] is None else derivative.tangent(alone, *others)
        total = None if all(dx is None for dx in rest) else derivative.tangent(rest, *others)
        if part is None:
            return total
        part = change(lambda: part)()
        return part if total is None else total + part

    def cotangents(g: Any, out: Any, active: tuple[int, ...], *inputs: Any) -> tuple[Any, ...]:
        found = tuple(derivative.cotangents(g, out, active, *inputs))
        if index not in active or found[index] is None:
            return found
        return (*found[:index], change(lambda: found[index])(), *found[index + 1 :])

    return Joint(tangent, cotangents)


def rules_of(derivative: Derivative) -> tuple[Rule | None, ...]:
    """The rule of each argument (in reverse mode, where both are written out); none of a joint."""
    match derivative:
        case Partials(rules) | Linear(rules) | Multilinear(rules) | Explicit(_, rules):
            return rules
    return ()


def _changed(primitive: Primitive, argument: int, change: Callable[[Any], Any]) -> Primitive | None:
    """The primitive with `change` applied to what the rule of the argument returns."""
    rules = rules_of(primitive.derivative)
    if isinstance(primitive.derivative, Joint):
        rules = (primitive.derivative.cotangents,) * len(primitive.inputs)
    if argument >= len(rules) or rules[argument] is None:
        return None

    def wrong(rule: Rule | None) -> Rule:
        assert rule is not None
        return lambda *args: change(rule(*args))

    derivative = _with_rule(primitive.derivative, argument, len(primitive.inputs), wrong)
    return replace(primitive, derivative=derivative)


def _scaled(primitive: Primitive, argument: int) -> Primitive | None:
    return _changed(primitive, argument, lambda value: value * SCALE)


def _shifted(primitive: Primitive, argument: int) -> Primitive | None:
    if not isinstance(primitive.derivative, Flat):
        return _changed(primitive, argument, lambda value: value + SHIFT)
    if argument >= len(primitive.inputs):
        return None

    def constant(rule: Rule | None) -> Rule:
        return lambda out, *inputs: full_like(out, SHIFT)

    derivative = _with_rule(primitive.derivative, argument, len(primitive.inputs), constant)
    return replace(primitive, derivative=derivative)


def _negated(primitive: Primitive, argument: int) -> Primitive | None:
    return _changed(primitive, argument, lambda value: -value)


def _missing(primitive: Primitive, argument: int) -> Primitive | None:
    return _changed(primitive, argument, lambda value: full_like(value, 0))


def _detached(primitive: Primitive, argument: int) -> Primitive | None:
    return _changed(primitive, argument, lambda value: stop_gradient(value))


def _one_mode(primitive: Primitive, argument: int) -> Primitive | None:
    """Reverse mode is scaled, forward mode stays right; partials serve both modes."""
    wrong = _scaled(primitive, argument)
    if wrong is None or isinstance(primitive.derivative, Partials):
        return None
    if isinstance(primitive.derivative, Joint):
        assert isinstance(wrong.derivative, Joint)
        derivative = Joint(primitive.derivative.tangent, wrong.derivative.cotangents)
        return replace(primitive, derivative=derivative)
    if isinstance(primitive.derivative, Explicit):
        assert isinstance(wrong.derivative, Explicit)
        derivative = Explicit(primitive.derivative.tangents, wrong.derivative.cotangents)
        return replace(primitive, derivative=derivative)
    return wrong


# Faults of the other parts --------------------------------------------------------------------


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


def _unbatched(primitive: Primitive) -> Primitive | None:
    """The batching rule answers for the first example only."""
    right_rule = primitive.batch
    if right_rule is None:
        return None

    def batch(size: Any, inputs: Any, batched: Any, out: Any) -> Any:
        right = right_rule(size, inputs, batched, out)
        shape = right.type.shape
        first = (1, *shape[1:])
        one = slice_(right, start=(0,) * len(shape), step=(1,) * len(shape), shape=first)
        return broadcast_to(reshape(one, shape=shape[1:]), shape=shape)

    return replace(primitive, batch=batch)


def _negative_flops(primitive: Primitive) -> Primitive:
    return replace(primitive, flops=lambda out: -1 - primitive.flops(out))


def _fractional_flops(primitive: Primitive) -> Primitive:
    return replace(primitive, flops=lambda out: primitive.flops(out) + 0.5)  # pyrefly: ignore[bad-argument-type]


def _wrong_kernel(primitive: Primitive) -> Primitive | None:
    match primitive.kernel:
        case Map(expression) if not expression.startswith("where(") and any(
            sign in expression for sign in "<>=&|~"
        ):
            return replace(primitive, kernel=Map(f"~({expression})"))
        case Map(expression):
            return replace(primitive, kernel=Map(f"({expression}) + {SHIFT}"))
        case Fold(combine, initial) if any(sign in combine for sign in "&|"):
            return replace(primitive, kernel=Fold(f"~({combine})", initial))
        case Fold(combine, initial):
            return replace(primitive, kernel=Fold(f"({combine}) + {SHIFT}", initial))
    return None


def _unknown_function(primitive: Primitive) -> Primitive | None:
    match primitive.kernel:
        case Map(expression):
            return replace(primitive, kernel=Map(f"eval({expression})"))
        case Fold(combine, initial):
            return replace(primitive, kernel=Fold(f"eval({combine})", initial))
    return None


def _unbalanced_latex(primitive: Primitive) -> Primitive:
    return replace(primitive, latex=replace(primitive.latex, template="{{" + "f"))


def _latex_without_operand(primitive: Primitive) -> Primitive | None:
    if not primitive.inputs:
        return None
    return replace(primitive, latex=replace(primitive.latex, template="f"))


# What is wrong -> the primitive with the rule of one argument changed.
GRADIENT_FAULTS: dict[str, Callable[[Primitive, int], Primitive | None]] = {
    "scaled": _scaled,
    "shifted": _shifted,
    "negated": _negated,
    "missing": _missing,
    "detached": _detached,
    "one mode": _one_mode,
}

# What is wrong -> the primitive with another part changed; a check's name (of CHECKS) comes first.
PART_FAULTS: dict[str, Callable[[Primitive], Primitive | None]] = {
    "type: another dtype": _wrong_dtype,
    "type: another shape": _wrong_shape,
    "batching: the first example only": _unbatched,
    "flops: negative": _negative_flops,
    "flops: a fraction": _fractional_flops,
    "kernel: another value": _wrong_kernel,
    "kernel: an unknown function": _unknown_function,
    "latex: an open brace": _unbalanced_latex,
    "latex: an operand is missing": _latex_without_operand,
}

FAULTS = (*GRADIENT_FAULTS, *PART_FAULTS)


def planted_fault(primitive: Primitive, kind: str, argument: int = 0) -> Primitive:
    """A copy of the primitive with one fault; the original, and nodes made of it, stay right.

    `kind` is one of FAULTS.  Of the derivative by `argument`: "scaled" (by 1.001), "shifted" (by
    1e-3; a zero derivative gets a rule), "negated", "missing" (zero: a term of the chain rule is
    not there), "detached" (right, and its own derivative is zero: only order 2 can see it), "one
    mode" (scaled in reverse mode only).  Raises InputError where the fault has nothing to change.
    """
    if kind in GRADIENT_FAULTS:
        wrong = GRADIENT_FAULTS[kind](primitive, argument)
    elif kind in PART_FAULTS:
        wrong = PART_FAULTS[kind](primitive)
    else:
        raise InputError(f"there is no fault called {kind!r}", hint=f"one of: {', '.join(FAULTS)}")
    if wrong is None:
        raise InputError(
            f"{primitive.name} has nothing that the fault {kind!r} (argument {argument}) changes",
            hint="choose another fault or argument",
        )
    return wrong
