"""What the reference executor takes from NumPy is what its report says, to the byte."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from tracemalloc import get_traced_memory
from typing import Any

import numpy as np
import pytest
from array_layouts import layouts
from every_sample import for_every_sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from namespaces import traced
from numpy_memory import numpy_traced, peak_and_result, peak_nbytes
from programs import Program, programs

import chainrule as cr
from chainrule.errors import IndexOutOfRangeError
from chainrule.execute import reference
from chainrule.explain.memory.report import MemoryReport, memory_of_graph, memory_of_step
from chainrule.graph.graph import Graph
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Fold, Map, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.primitives.special.special import polygamma
from chainrule.testing import simulate
from chainrule.testing.samples import graph_of, sample_arrays

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")
OPTIMIZERS = {
    "sgd": cr.sgd(0.1),
    "momentum": cr.sgd(0.1, momentum=0.9),
    "adam": cr.adam(1e-3),
}
PATH = Path(__file__).parents[2] / "benchmarks" / "cases" / "transformer_objective.py"
DTYPES = ("float32", "float64")


def mlp(x: Any, y: Any, params: Any) -> Any:
    h = x
    for W, b in params[:-1]:
        h = np.maximum(h @ W + b, 0)
    W, b = params[-1]
    J = cr.cross_entropy(h @ W + b, y)
    return J


def error_of_step(objective: Any, optimizer: Any, params: Any, **batch: np.ndarray) -> int:
    """The bytes that a step takes more than its report says."""
    types: dict[str, Any] = {"params": params, **batch}
    step = cr.training_step(objective, "params", optimizer, executor="reference", **types)
    state = step.init(params=params)
    report = memory_of_step(step, {})
    assert report.training is not None
    simulate(report.training.usage.schedule)
    there = sum(array.nbytes for array in (*batch.values(), *state.arrays.values()))
    there += report.training.usage.given_nbytes - sum(
        item.type.nbytes for item in report.training.graph.inputs
    )  # constants
    return peak_nbytes(lambda: step(state, batch)) - (report.training.peak_nbytes - there)


def error_of_mlp(layers: int, n: int, dtype: str, optimizer: str) -> int:
    width = 16 if n == 4096 else 24
    random = np.random.default_rng(0)
    x = random.normal(size=(n, width)).astype(dtype)
    matrices = random.normal(size=(layers, width, width)).astype(dtype)
    params = [(W, np.zeros(width, dtype)) for W in matrices]
    y = random.integers(0, width, n)
    return error_of_step(mlp, OPTIMIZERS[optimizer], params, x=x, y=y)


def mlps(layers: tuple[int, ...], batches: tuple[int, ...]) -> Iterator[Any]:
    return (
        (depth, n, dtype, optimizer)
        for depth in layers
        for n in batches
        for dtype in DTYPES
        for optimizer in OPTIMIZERS
    )


MLPS = (
    *mlps((1, 2), (1, 3, 256)),
    (10, 256, "float32", "adam"),
    (10, 1, "float64", "momentum"),
    (100, 3, "float32", "sgd"),
    (2, 4096, "float32", "momentum"),
    pytest.param(100, 4096, "float64", "adam", marks=pytest.mark.slow),
)


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("layers", "n", "dtype", "optimizer"), MLPS)
def test_a_step_of_an_mlp_takes_what_its_report_says(
    layers: int, n: int, dtype: str, optimizer: str
) -> None:
    assert error_of_mlp(layers, n, dtype, optimizer) == 0


def blocks(x: Any, y: Any, params: Any) -> Any:
    """Something of everything: normalised, gated, attended, with an unused parameter."""
    W, weight, bias, _ = params
    h = cr.layer_norm(x @ W, weight, bias)
    g = cr.gelu(h) + cr.gelu(h, approximate="tanh") * cr.sigmoid(h) + h**3
    a = cr.softmax(g @ g.T) @ h
    t = np.reshape(a.T, (-1,)) * np.reshape(h.T + h.T, (-1,))
    e = np.einsum("ij,kj->ki", a, h)
    J = cr.cross_entropy(a @ W + h, y) + np.mean(t) + np.max(e) + np.mean(np.log1p(np.exp(h)))
    return J


@pytest.mark.sweep(5)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 64])
def test_a_step_of_composites_takes_what_its_report_says(
    n: int, dtype: str, optimizer: str
) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 8)).astype(dtype)
    params = [
        random.normal(size=(8, 8)).astype(dtype),
        np.ones(8, dtype),
        np.zeros(8, dtype),
        np.ones((50, 50), dtype),
    ]
    y = random.integers(0, 8, n)
    assert error_of_step(blocks, OPTIMIZERS[optimizer], params, x=x, y=y) == 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("depth", "width", "batch"), [(1, 16, 1), (2, 32, 3)])
def test_a_step_of_a_transformer_takes_what_its_report_says(
    optimizer: str, depth: int, width: int, batch: int
) -> None:
    case = runpy.run_path(str(PATH))
    params = case["initial_parameters"](vocabulary=20, length=12, width=width, depth=depth)
    tokens, targets = case["random_tokens"](vocabulary=20, length=12, batch=batch)
    error = error_of_step(
        case["objective"], OPTIMIZERS[optimizer], params, tokens=tokens, targets=targets
    )
    assert error == 0


# Any graph ---------------------------------------------------------------------------------------


def error_of_run(graph: Graph, arguments: dict[str, Any], keep: Any) -> int:
    """The bytes that a run takes more than its report says."""
    report = memory_of_graph(graph, {}, keep=keep, executor="reference")
    simulate(report.main.usage.schedule)
    peak, run = peak_and_result(lambda: graph.run(arguments, keep=keep, executor="reference"))
    assert set(run) >= {name for name, _ in graph.outputs}
    arrays = sum(x.nbytes for x in arguments.values() if isinstance(x, np.ndarray))
    return peak - (report.main.peak_nbytes - arrays - constants(report))


def constants(report: MemoryReport) -> int:
    inputs = sum(item.type.nbytes for item in report.main.graph.inputs)
    return report.main.usage.given_nbytes - inputs


def check(program: Program, seed: int) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.trace(program.function(traced), **arguments)
    for one in (graph, cr.backward(graph, wrt=program.parameters)):
        for keep in ("outputs", "named"):
            # NumPy takes a byte for an array of no elements; one that is kept may be copied
            empty = sum(not node.type.size for node in one.nodes)
            assert 0 <= error_of_run(one, arguments, keep) <= 2 * empty


def calm(count: int, *, repeatable: bool) -> Any:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=repeatable,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )


@pytest.mark.slow
@calm(15, repeatable=True)
@given(programs(empty=False), st.integers(0, 2**32 - 1))
def test_a_random_program_takes_what_its_report_says(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.exhaustive
@calm(50, repeatable=False)
@given(programs(axes=(1, 1, 2, 5, 8, 17), empty=False), st.integers(0, 2**32 - 1))
def test_many_random_programs_take_what_their_reports_say(program: Program, seed: int) -> None:
    check(program, seed)


@calm(10, repeatable=True)
@given(programs(axes=(0, 1, 2, 3)), st.integers(0, 2**32 - 1))
def test_empty_arrays_take_a_byte_or_two(program: Program, seed: int) -> None:
    check(program, seed)


def test_results_that_are_given_or_views_are_copies() -> None:
    table = np.arange(600.0).reshape(20, 30)

    def program(x: Any) -> Any:
        t = (x + table).T
        flat = np.reshape(t, (-1,))
        ones = np.zeros((40, 50)) + 1
        return x, t, flat[::2], ones, t

    graph = cr.trace(program, x=np.ones((20, 30)))
    assert error_of_run(graph, {"x": np.ones((20, 30))}, "outputs") == 0
    assert error_of_run(graph, {"x": np.ones((20, 30))}, "named") == 0


def test_a_number_takes_an_array_of_its_own() -> None:
    graph = cr.trace(lambda x, k: x * k, x=np.ones(3, np.float32), k=2.0)
    assert error_of_run(graph, {"x": np.ones(3, np.float32), "k": 3.0}, "outputs") == 0


# One primitive -----------------------------------------------------------------------------------


ANY_SHAPE = (Map, Fold)  # kernels whose parameters do not tell the shapes


def is_full(primitive: Primitive, sample: Sample) -> bool:
    return all(0 not in shape for shape in sample.shapes)


@pytest.mark.sweep(7)
@pytest.mark.parametrize(
    "primitive", [one for one in PRIMITIVES if one.inputs], ids=lambda one: one.name
)
def test_the_scratch_of_a_primitive_is_what_it_declares(primitive: Primitive) -> None:
    def check_sample(primitive: Primitive, sample: Sample) -> None:
        """As it is, and 7 times as long."""
        for dtype in ("float16", *DTYPES):
            check_scratch(primitive, sample, 1, dtype)
            if isinstance(primitive.kernel, ANY_SHAPE) and any(sample.shapes):
                check_scratch(primitive, sample, 7, dtype)

    for_every_sample(primitive, check_sample, is_full)


def check_scratch(primitive: Primitive, sample: Sample, times: int, dtype: str) -> None:
    arrays = [np.tile(one, (times,) * one.ndim) for one in sample_arrays(sample, dtype=dtype)]
    out = graph_of(primitive, [type_of(one) for one in arrays], dict(sample.params))["out"]
    for operands in zip(*map(layouts, arrays), strict=False):

        def evaluate(operands: Any = operands) -> np.ndarray:
            with np.errstate(all="ignore"):
                return np.asarray(primitive.evaluate(np, *operands, **dict(sample.params)))

        try:
            peak, result = peak_and_result(evaluate)
        except np.linalg.LinAlgError:
            continue  # one number repeated is a singular matrix
        own = not any(result is one or np.may_share_memory(result, one) for one in operands)
        assert result.dtype == out.dtype
        declared = own * result.nbytes + primitive.scratch(out, *operands)
        assert peak == declared, (dtype, times, [one.strides for one in operands])


@pytest.mark.parametrize("order", range(1, 9))
def test_the_scratch_of_polygamma_is_that_of_its_order(order: int) -> None:
    for count in (1, 2, 3, 5, 9, 3000):
        x = np.linspace(-1.9, 3, count)
        out = graph_of(polygamma, [type_of(x)], {"order": order})["out"]
        peak = peak_nbytes(lambda x=x: polygamma.evaluate(np, x, order=order))
        assert peak == x.nbytes + polygamma.scratch(out, x)


# The check can fail, and a failure holds nothing --------------------------------------------------


def test_an_array_held_too_long_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []

    def holding(*arguments: Any) -> Any:
        held.append(apply(*arguments))
        return held[-1]

    apply = reference.apply
    monkeypatch.setattr(reference, "apply", holding)
    assert error_of_mlp(2, 3, "float32", "sgd") > 0


def test_an_exception_that_is_kept_keeps_only_the_operands_of_what_failed() -> None:
    def program(x: Any, i: Any) -> Any:
        h = np.exp(x)
        s = np.tanh(h)
        return h, s[i]

    x, i = np.ones(1000), np.array([5000])
    graph = cr.trace(program, x=x, i=i)
    caught: list[BaseException] = []

    def fail() -> None:
        try:
            graph.run(x=x, i=i, executor="reference")
        except IndexOutOfRangeError as error:
            caught.append(error)

    with numpy_traced():
        fail()
        now = get_traced_memory()[0]
    assert caught
    assert now <= x.nbytes + 100  # s; not h
