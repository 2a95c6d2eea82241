"""The written function gives the reference executor's values, bit for bit."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from namespaces import traced, with_gradients
from programs import Program, programs
from sources import check

import chainrule as cr
from chainrule import float64
from chainrule.graph.graph import Graph
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Given, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import sample_arrays
from chainrule.testing.samples import graph_of
from chainrule.transforms.backward import gradient_name

sys.path.append(str(Path(__file__).parents[1] / "composites"))
CASES = importlib.import_module("composite_cases").CASES
for more in ("elementwise_cases", "neural_cases", "reduction_cases"):
    importlib.import_module(more)  # which adds its cases
CALLS_OF = {id(case.of): [one for one in CASES if one.of is case.of] for case in CASES}

SEEDS = st.integers(0, 2**32 - 1)
N, M = cr.sizes("n m")
ENV = {"n": 3, "m": 2}


def few(count: int) -> Any:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=count < 60,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )


def check_orders(graph: Graph, arguments: dict[str, Any], names: tuple[str, ...]) -> None:
    """The gradients' function, and that of the derivative of one of them."""
    first = cr.backward(graph, wrt=names)
    check(first, arguments)
    check(first, arguments, delete=True, comments=False)
    of = gradient_name(graph.outputs[0][0], names[0])
    second = cr.backward(first, wrt=names, of=of, seed="direction")
    check(second, {**arguments, "direction": np.ones(graph[names[0]].shape) * 0.7})


def check_program(program: Program, seed: int) -> None:
    _, arguments = with_gradients(program, seed)
    check_orders(cr.trace(program.function(traced), **arguments), arguments, program.parameters)


def test_the_error_function_keeps_the_order_of_its_operand() -> None:
    def J(b: Any) -> Any:
        u = cr.erf(np.tanh(np.einsum("i,j->ji", b, b * b)))
        J = np.sum(np.sin(u))
        return J

    for seed in range(10):  # a sum in another order has another last bit in some
        b = np.random.default_rng(seed).normal(size=7)
        check(cr.trace(J, b), {"b": b})


@pytest.mark.slow
@few(10)
@given(programs(), SEEDS)
def test_random_programs_and_their_derivatives(program: Program, seed: int) -> None:
    check_program(program, seed)


@pytest.mark.exhaustive
@few(60)
@given(programs(), SEEDS)
def test_many_random_programs_and_their_derivatives(program: Program, seed: int) -> None:
    check_program(program, seed)


@few(8)
@given(programs(), SEEDS)
def test_every_value_of_random_programs(program: Program, seed: int) -> None:
    _, arguments = with_gradients(program, seed)
    check(cr.trace(program.function(traced, every=True), **arguments), arguments)


@few(8)
@given(programs(axes=(N, M, N, M, 1, 2, 3), env=ENV), SEEDS)
def test_random_programs_with_named_sizes(program: Program, seed: int) -> None:
    types = {
        name: 0.5 if name in program.scalars else float64[shape]
        for name, shape in zip(program.parameters, program.shapes, strict=True)
    }
    arguments = dict(zip(program.parameters, program.arguments(seed, ENV), strict=True))
    graph = cr.trace(program.function(traced), **types)
    check(cr.backward(graph, wrt=program.parameters), arguments)


# The registry ------------------------------------------------------------------------------------

COMPUTED = [one for one in PRIMITIVES if not isinstance(one.kernel, Given)]
EVERY_PRIMITIVE = pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)
DTYPES = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")


def check_primitive(primitive: Primitive, sample: Sample, arrays: list[np.ndarray]) -> bool:
    """Check it on the arrays; False where it is none of their dtype (the front end casts them)."""
    params = dict(sample.params)
    try:
        graph = graph_of(primitive, [type_of(x) for x in arrays], params)
        with np.errstate(all="ignore"):
            value = np.asarray(primitive.evaluate(np, *arrays, **params))
    except np.linalg.LinAlgError:
        return True  # LAPACK refuses the matrix, and so would the source
    except (TypeError, ValueError, OverflowError):
        return False
    if value.dtype != graph["out"].dtype:
        return False
    check(graph, {item.name: x for item, x in zip(graph.inputs, arrays, strict=True)})
    return True


@EVERY_PRIMITIVE
def test_every_primitive_in_float64(primitive: Primitive) -> None:
    check_samples(primitive, ("float64",))


@pytest.mark.slow
@pytest.mark.sweep(7)
@EVERY_PRIMITIVE
def test_every_primitive_with_every_sample_and_dtype(primitive: Primitive) -> None:
    check_samples(primitive, DTYPES)


def check_samples(primitive: Primitive, dtypes: Iterable[str]) -> None:
    checked = 0
    for sample, dtype in itertools.product(primitive.samples, dtypes):
        arrays = [np.abs(x) if dtype == "uint8" else x for x in sample_arrays(sample, 3)]
        arrays = [x.astype(dtype) if x.dtype.kind == "f" else x for x in arrays]
        checked += check_primitive(primitive, sample, arrays)
    assert checked >= len(primitive.samples)


@pytest.mark.sweep(11)
@EVERY_PRIMITIVE
def test_every_primitive_of_exceptional_values(primitive: Primitive) -> None:
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 6e4, 1e-7]
    for sample, dtype in itertools.product(primitive.samples, ("float32", "float16")):
        arrays = sample_arrays(sample, 3, dtype)
        for place, x in enumerate(arrays):
            if x.dtype.kind == "f":
                arrays[place] = np.resize(np.roll(special, -4 * place), x.shape).astype(dtype)
        assert check_primitive(primitive, sample, arrays)


def call_of(case: Any) -> str:
    """Its expression: the name without the shapes."""
    return case.name.removesuffix(f" {case.shapes}").removesuffix(f" {case.shapes[0]}")


@pytest.mark.sweep(23)
@pytest.mark.parametrize("calls", CALLS_OF.values(), ids=lambda calls: calls[0].name)
def test_every_composite_and_its_derivatives(calls: list[Any]) -> None:
    """Of several shapes of one call, the last: the most axes."""
    for case in {call_of(case): case for case in calls}.values():
        arguments = dict(zip("xyz", case.arguments(), strict=False))
        names = ", ".join(arguments)
        scope: dict[str, Any] = {"call": case.call, "np": np}
        text = f"def total({names}):\n    out = call({names})\n    return np.sum(np.sin(out))"
        exec(text, scope)
        check_orders(cr.trace(scope["total"], **arguments), arguments, tuple(arguments))
