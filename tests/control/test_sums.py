"""Sums of products over the iterations of a loop are made after it, in blocks of iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_memory import peak_and_result

import chainrule as cr
from chainrule import float64
from chainrule.control.joined import joined
from chainrule.control.kept import kept
from chainrule.control.scan_node import scan
from chainrule.control.segments import shorter, ways_back
from chainrule.control.sums import (
    BLOCKS,
    LEAST_BLOCK,
    MOST_ITERATIONS,
    MOST_ROWS,
    block_of,
    bounds,
    summed,
)
from chainrule.errors import MemoryLimitError
from chainrule.execute.executors import prepare
from chainrule.execute.forms import quick_forms
from chainrule.graph.graph import Graph
from chainrule.machine_code.target import native_refusal
from chainrule.plan import planner
from chainrule.primitives.products import contract
from chainrule.schedule.records import Compute
from chainrule.testing import simulate

WIDTH, LENGTH = 32, 100
RANDOM = np.random.default_rng(5)
W, V = (RANDOM.normal(size=(WIDTH, WIDTH)) / 8 for _ in range(2))
EXECUTORS = ["reference"] if native_refusal() else ["reference", "native"]


def rows(length: int = LENGTH, n: int = 2) -> Any:
    return np.random.default_rng(length).normal(size=(length, n, WIDTH))


def recurrent(W: Any, V: Any, x: Any) -> Any:
    h, _ = cr.scan(lambda h, x: (np.tanh(h @ W + x @ V), None), x[0] / 2, x)
    return np.sum(h**2)


def backwards(W: Any, V: Any, x: Any) -> Any:
    """From the end to the beginning; each state is an output; a weight twice, once transposed."""

    def cell(h: Any, x: Any) -> Any:
        h = np.tanh(h @ W + np.sin(x @ W.T) + x * V[0])
        return h, h

    _, hs = cr.scan(cell, x[0] / 2, x, reverse=True)
    return np.sum(hs**3)


def gated(W: Any, V: Any, x: Any) -> Any:
    """Two states, of which one is not kept; a factor that no row of a loop is."""

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        z = cr.sigmoid(x + h @ W)
        c = (1 - z) * c + z * np.tanh((z * h) @ V)
        return (np.tanh(c), c), None

    (h, c), _ = cr.scan(cell, (x[0], x[1]), x)
    return np.sum(h * c)


def alone(W: Any, V: Any, x: Any) -> Any:
    """Without a batch: outer products; the loop has no way back."""
    moments, _ = cr.scan(lambda m, x: (m + np.outer(x[0], x[1] @ V), None), W, x)
    return np.sum(np.sin(moments))


def batched(W: Any, V: Any, x: Any) -> Any:
    """A matrix for each example: the sums have a batch axis, too."""

    def one(w: Any, x: Any) -> Any:
        return cr.scan(lambda h, x: (np.tanh(w * h @ V + x), None), x[0] / 2, x)[0]

    return np.sum(cr.vmap(one, in_axes=(0, 1))(np.ones(2) / 2, x) ** 2)


FUNCTIONS = [recurrent, backwards, gated, alone, batched]


def slopes(function: Callable[..., Any], x: Any) -> Graph:
    return cr.trace(cr.value_and_grad(function, (0, 1, 2)), W, V, x).bind()


def forms(graph: Graph) -> list[Graph]:
    """All forms of a graph that have its bits: quick ones, and those that keep fewer states."""
    return [*quick_forms(graph, {}), *shorter(graph, sums_after=True)]


def products(graph: Graph) -> int:
    return sum(node.primitive is contract for node in graph.nodes)


def values(graph: Graph, executor: str, *arrays: Any) -> list[np.ndarray]:
    results = [node for _, node in graph.outputs]
    given = dict(zip((item.node for item in graph.inputs), arrays, strict=True))
    found = prepare(executor, graph, results)(given)
    return [np.array(found[node]) for node in results]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_sums_are_those_of_the_loop_but_for_rounding(function: Any, executor: str) -> None:
    x = rows()
    graph = slopes(function, x)
    form = next(quick_forms(graph, {}))
    assert products(form) > products(graph) and list(form.names) == list(graph.names)
    for got, expected in zip(
        values(form, executor, W, V, x), values(graph, executor, W, V, x), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "length", [45, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (136, 600)), 160]
)
@pytest.mark.parametrize("function", [recurrent, gated])
def test_all_forms_have_the_same_bits(function: Any, length: int, executor: str) -> None:
    """Segments hold whole blocks, of which some are longer than what a tile sums at once; a loop of
    600 iterations has no blocks."""
    x = rows(length, 16 if length == 160 else 2)
    graph = slopes(function, x)
    first, *others = forms(graph)
    assert len(others) >= (2 if length < 64 else 4)
    expected = values(first, executor, W, V, x)
    for form in others:
        for one, other in zip(values(form, executor, W, V, x), expected, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.slow
def test_slopes_are_those_of_finite_differences_and_of_pytorch() -> None:
    """Order 1 and 2; what is differentiated is the user's loop, what runs has its sums outside."""
    x = rows(40, 1)

    def slope(W: Any) -> Any:
        return cr.grad(recurrent)(W, V, x)

    def central(function: Any, step: float = 1e-5) -> Any:
        return (function(W + step * direction) - function(W - step * direction)) / (2 * step)

    direction = RANDOM.normal(size=W.shape)
    first = np.sum(slope(W) * direction)
    np.testing.assert_allclose(first, central(lambda W: recurrent(W, V, x)), rtol=1e-7)
    second, expected = cr.hvp(lambda W: recurrent(W, V, x), W, direction), central(slope)
    np.testing.assert_allclose(second, expected, rtol=0, atol=1e-7 * np.max(np.abs(expected)))
    torch = pytest.importorskip("torch")
    w = torch.tensor(W, requires_grad=True)
    v, h = torch.tensor(V), torch.tensor(x[0] / 2)
    for one in torch.tensor(x):
        h = torch.tanh(h @ w + one @ v)
    (h**2).sum().backward()
    np.testing.assert_allclose(slope(W), w.grad.numpy(), rtol=0, atol=1e-12)


OTHERS: list[tuple[Any, np.ndarray, int, int]] = [
    (lambda m, x: m + np.sin(x).T @ x, W, 2, 2 * LEAST_BLOCK - 1),  # too short
    (lambda m, x: m + np.sin(x).T @ x, W, MOST_ROWS + 1, 40),  # many rows
    (lambda m, x: m + np.sin(x[:, :8]).T @ x[:, :8], W[:8, :8], 2, 40),  # a small sum
    (lambda m, x: m + V @ np.diag(x[0]), W, 2, 40),  # one factor is always the same
    (lambda m, x: m + np.sin(x).T @ x + m[0] / 2, W, 2, 40),  # read in the loop
    (lambda m, x: m * 2 + np.sin(x).T @ x, W, 2, 40),  # no sum
    (lambda m, x: m + (np.sin(x).T @ x) ** 2, W, 2, 40),  # not of products
]


def test_other_sums_are_made_in_the_loop() -> None:
    for adds, start, n, length in OTHERS:
        x = rows(length, n)
        graph = cr.trace(
            lambda x, adds=adds, start=start: cr.scan(lambda m, x: (adds(m, x), None), start, x)[0],
            x,
        ).bind()
        assert summed(graph, {}) is graph


def test_a_loop_that_only_adds_is_no_loop_any_more() -> None:
    x = rows(50)
    graph = cr.trace(lambda x: cr.scan(lambda m, x: (m + x.T @ x, None), W, x)[0], x).bind()
    form = summed(graph, {})
    assert not any(node.primitive is scan for node in form.nodes) and summed(form, {}) is form
    expected = W + np.einsum("tni,tnj->ij", x, x)
    np.testing.assert_allclose(values(form, "reference", x)[0], expected, rtol=1e-12)


def test_blocks_are_at_most_eight_and_as_long_as_each_other_but_for_the_first() -> None:
    for length in range(2 * LEAST_BLOCK, 400):
        block = block_of(length, {})
        lengths = np.diff(bounds(length, block, {}))
        assert sum(lengths) == length and len(lengths) <= BLOCKS
        assert set(lengths[1:]) == {block} and block <= lengths[0] < 2 * block
    assert not block_of(2 * LEAST_BLOCK - 1, {}) and not block_of(MOST_ITERATIONS + 1, {})


def test_segments_are_of_whole_blocks_where_sums_are_made_after_them() -> None:
    graph = slopes(recurrent, rows(160))
    (way,) = ways_back(graph)
    assert way.block == 20
    lengths = [
        [node.param("length") for node in form.nodes if node.primitive is scan]
        for form in shorter(graph, sums_after=True)
    ]
    assert lengths and all(n in (4, 5, 6, 7, 8) or n % 20 == 0 for some in lengths for n in some)
    assert products(kept(joined(graph), {})) == 0  # until they are summed


@pytest.mark.sweep(2)
@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_budget_without_room_for_factors_adds_in_the_loop(executor: str) -> None:
    """Only there last digits differ; before, bits are those without a budget."""
    x = rows(160, 16)
    function = cr.grad(recurrent, wrt=("W", "V"))
    expected = cr.compile(function, executor=executor)(W=W, V=V, x=x)
    graph = cr.trace(function, W=W, V=V, x=x)
    needed = graph.memory(executor=executor).needed_nbytes
    with pytest.raises(MemoryLimitError) as caught:
        graph.memory(executor=executor, memory=needed - 3 * x.nbytes)
    kinds = []
    for budget in (needed - x.nbytes // 2, needed - x.nbytes, caught.value.needed_nbytes):
        assert graph.memory(executor=executor, memory=budget).needed_nbytes <= budget
        found = cr.compile(function, executor=executor, memory=budget)(W=W, V=V, x=x)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        kinds.append(np.array(found).tobytes() == np.array(expected).tobytes())
    assert kinds == [True, True, False], kinds


def test_bytes_are_those_it_takes_and_formulas_have_them() -> None:
    def J(W: float64["32 32"], x: float64["t n 32"]):
        h, _ = cr.scan(lambda h, x: (np.tanh(h @ W + x), None), x[0], x)
        return np.sum(h**2)

    graph = cr.backward(cr.trace(J), wrt="W")
    for t, n in ((100, 2), (200, 3)):
        report = graph.memory(t=t, n=n, executor="reference", keep="outputs")
        x = rows(t, n)
        for _ in range(3):
            peak, _ = peak_and_result(lambda x=x: graph.run(W=W, x=x, keep="outputs"))
        assert peak == report.main.peak_nbytes - W.nbytes - x.nbytes
        assert report.formulas.peak.at(t=t, n=n) == report.main.peak_nbytes


def test_the_schedule_before_and_after() -> None:
    """The loop gives rows (of 80 iterations, 2 × 32 numbers) in place of its sum; five products of
    blocks of 16 iterations are added where they lie."""

    def J(W: float64["32 32"], x: float64["80 2 32"]):
        h, _ = cr.scan(lambda h, x: (np.tanh(h @ W + x), None), x[0], x)
        return np.sum(h**2)

    form = kept(joined(cr.backward(cr.trace(J), wrt="W").bind()), {})
    labels = []
    for one in (form, summed(form, {})):
        results = [node for _, node in one.outputs]
        made = planner.plan(one, results, threads=1, vector_nbytes=32)
        simulate(made.schedule)
        labels.append(
            [
                (one.label, [node.type.nbytes for node in one.nodes])
                for one in made.schedule.instructions
                if isinstance(one, Compute)
            ]
        )
    before, after = ([*one] for one in labels)
    assert before[:2] == after[:2] == [("scan", [41_472]), ("integer_power sum multiply", [8, 512])]
    assert before[2:] == [("scan", [2 * 512 + 8_192]), ("reshape", [8_192])]
    assert after[2:] == [("scan", [2 * 512 + 80 * 2 * 32 * 8]), ("5 products", [8_192])]
