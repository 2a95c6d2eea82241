"""Random programs with their gradients have the values of the reference executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import compare, inputs_of, native
from hypothesis import assume
from namespaces import kink_distance, with_gradients
from programs import Program, random_programs

import chainrule as cr
import chainrule.plan.sharing
from chainrule.execute.run import kept_nodes

pytestmark = pytest.mark.usefixtures("every_width_in_time")

WIDE = (1, 1, 2, 5, 8, 9, 16, 17, 33)
RTOL = 1e-9


def gradient_graph(program: Program, seed: int) -> tuple[Any, Any]:
    """The program with its gradients, and the inputs' arrays."""
    assume(is_smooth(program, seed))
    return graph_and_inputs(program, seed)


def is_smooth(program: Program, seed: int) -> bool:
    """Whether no kink is near: rounding could take the other side of it."""
    return kink_distance(program, program.arguments(seed, {})) > 1e-6


def graph_and_inputs(program: Program, seed: int) -> tuple[Any, Any]:
    graph, arguments = with_gradients(program, seed)
    return graph, inputs_of(graph, arguments)


def check(program: Program, seed: int) -> None:
    compare_with_reference(*gradient_graph(program, seed), seed)


def compare_with_reference(graph: Any, inputs: Any, seed: int) -> None:
    for place, keep in enumerate(("named", "outputs")):
        threads = 1 + (seed + place) % 3
        compare(graph, inputs, kept_nodes(graph, keep), RTOL, threads=threads)


@pytest.mark.slow
@random_programs(4)
def test_values_are_the_references(program: Program, seed: int) -> None:
    check(program, seed)


def of_lines(*lines: str, shape: tuple[int, ...], results: tuple[tuple[int, ...], ...]) -> Program:
    """A program of b alone."""
    unused = ("a", "c", f"v{len(lines) - 1}")
    return Program(((), shape, ()), lines, results, unused, exact=True, scalars=())


# A largest element is looked for by its bits: who computes them again must get the same ones.
AGAIN = [
    of_lines(
        "1.0 / (b * b + 1)", f"xp.max(v0, axis={axis}, keepdims=True)", shape=x, results=(x, y)
    )
    for x, axis, y in (
        ((1, 3, 3), 0, (1, 3, 3)),
        ((3, 5), 1, (3, 1)),
        ((5, 3), 0, (1, 3)),
        ((2, 33), 1, (2, 1)),
    )
] + [
    of_lines(
        "b * b",
        "v0 + 0.1 * b",
        "xp.max(v1, axis=-1, keepdims=False)",
        shape=x,
        results=(x, x, x[:-1]),
    )
    for x in ((4, 1), (3, 7), (2, 40))
]


@pytest.mark.slow
@pytest.mark.sweep(10)
@pytest.mark.parametrize("program", AGAIN, ids=[f"{p.lines[-1]}{p.shapes[1]}" for p in AGAIN])
def test_a_value_computed_again_has_the_same_bits(program: Program) -> None:
    smooth = [seed for seed in range(4) if is_smooth(program, seed)]
    assert smooth
    for seed in smooth:
        compare_with_reference(*graph_and_inputs(program, seed), seed)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("divided_by", [0, 1])
def test_the_largest_quotient_is_found_again(axis: int, divided_by: int) -> None:
    """A nest whose rows share a divisor multiplies with its reciprocal; another one divides."""

    def f(b: Any) -> Any:
        quotients = b / (np.sum(b * b, axis=divided_by, keepdims=True) + 1)
        return np.sum(np.max(np.transpose(quotients), axis=axis) ** 2)

    for shape in ((3, 5), (64, 40)):
        b = np.random.default_rng(0).uniform(-1.5, 1.5, shape)
        graph = cr.backward(cr.trace(f, b), wrt=("b",))
        compare(graph, inputs_of(graph, {"b": b}), kept_nodes(graph, "outputs"), RTOL, threads=1)


def test_values_of_no_elements_that_are_reshaped_are_the_references() -> None:
    lines = (
        "xp.tanh(b)",
        "xp.tanh(v0)",
        "xp.tanh(v1)",
        "xp.reshape(v2, xp.shape(v2)[::-1])",
        "xp.tanh(v3)",
        "xp.reshape(v4, xp.shape(v4)[::-1])",
        "xp.sin(v5)",
        "v3 @ a",
    )
    turned = (1, 1, 0)
    results = (turned[::-1],) * 3 + (turned,) * 2 + (turned[::-1],) * 2 + ((0, 1, 0),)
    program = Program(((0, 0, 0), (0, 1, 1)), lines, results, ("v6", "v7"), True, ())
    compare_with_reference(*graph_and_inputs(program, 0), 0)


@pytest.mark.exhaustive
@random_programs(16, repeatable=False)
def test_values_are_the_references_often(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.slow
@random_programs(3, repeatable=False, axes=WIDE)
def test_values_of_wider_arrays_are_the_references(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.slow
@pytest.mark.usefixtures("fences")
def test_nests_that_threads_share_have_the_same_values(monkeypatch: Any) -> None:
    monkeypatch.setattr(chainrule.plan.sharing, "WORTH_SHARING", 0.0)
    random_programs(3, axes=WIDE)(check)()


@pytest.mark.exhaustive
def test_nests_that_threads_share_have_the_same_values_often(monkeypatch: Any) -> None:
    monkeypatch.setattr(chainrule.plan.sharing, "WORTH_SHARING", 0.0)
    random_programs(10, repeatable=False, axes=(0, *WIDE))(check)()


@pytest.mark.slow
def test_every_run_has_the_same_bits(monkeypatch: Any) -> None:
    monkeypatch.setattr(chainrule.plan.sharing, "WORTH_SHARING", 0.0)

    def same(program: Program, seed: int) -> None:
        graph, inputs = gradient_graph(program, seed)
        keep = kept_nodes(graph, "named")
        first, *others = [native(graph, inputs, keep, threads=3) for _ in range(3)]
        assert first is not None
        for other in others:
            assert other is not None
            assert all(value.tobytes() == other[node].tobytes() for node, value in first.items())

    random_programs(4, axes=WIDE)(same)()


def test_sums_of_long_arrays_have_the_same_bits_in_every_run() -> None:
    x = np.random.default_rng(0).normal(size=(300, 1000)).astype(np.float32)
    graph = cr.trace(lambda x: (np.sum(x), np.sum(x, axis=0), np.sum(np.tanh(x), axis=1)), x)
    inputs, keep = inputs_of(graph, {"x": x}), kept_nodes(graph, "outputs")
    compare(graph, inputs, keep, 1e-4, threads=3)
    runs = [native(graph, inputs, keep, threads=3) for _ in range(5)]
    for run in runs:
        assert run is not None and runs[0] is not None
        assert all(run[node].tobytes() == runs[0][node].tobytes() for node in run)


def test_what_is_reduced_of_a_row_is_counted_once() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(4, 3, 5)), random.normal(size=4)

    def program(x: Any, y: Any) -> Any:
        z = np.reshape(np.transpose(x, (0, 2, 1)), (4, 15)) * y[:, None]
        v = np.tanh(y)
        w = np.reshape(z, (4, 5, 3)) * x.transpose((0, 2, 1))
        return z, v, np.sum(v), np.max(v * 2), w

    graph = cr.trace(program, x, y)
    compare(graph, inputs_of(graph, {"x": x, "y": y}), kept_nodes(graph, "named"), 1e-12)


def test_a_sum_over_a_part_of_the_columns_is_right() -> None:
    x = np.random.default_rng(0).normal(size=(3, 2))

    def program(x: Any) -> Any:
        y = cr.log_softmax(x, axis=1)
        z = cr.log_softmax(np.reshape(y, (-1,)))
        return np.sum(y) + np.sum(np.sin(z))

    graph = cr.backward(cr.trace(program, x))
    compare(graph, inputs_of(graph, {"x": x}), kept_nodes(graph, "named"), 1e-12)


def test_scalars_that_are_kept_scale_products() -> None:
    random = np.random.default_rng(0)
    W, x = random.normal(size=(6, 6)), random.normal(size=(5, 6))

    def program(W: Any, x: Any, rate: Any) -> Any:
        double = rate * 2
        grown = np.exp(double)
        new = W - grown * (x.T @ x) / double
        return new, double, grown

    graph = cr.trace(program, W, x, 0.3)
    inputs = inputs_of(graph, {"W": W, "x": x, "rate": 0.3})
    overwrites = {graph.inputs[0].node: graph["new"]}
    compare(graph, inputs, kept_nodes(graph, "named"), 1e-12, overwrites=overwrites)


def test_a_node_without_kernel_reads_what_is_computed_on_the_way() -> None:
    def program(x: Any) -> Any:
        y = np.tanh(np.tanh(x))
        return np.broadcast_to(y, (2,))[np.array([0, -1, 0])]

    graph = cr.trace(program, 0.5)
    compare(graph, inputs_of(graph, {"x": 0.5}), kept_nodes(graph, "outputs"), 1e-12)
