"""A graph with bodies: its text, its sizes, its bytes, and what transforms make of it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_layouts import STRIDES
from loops import cell, close, sequence, unrolled, weights

import chainrule as cr
from chainrule import float64
from chainrule.control import CONTROL
from chainrule.control.cond_node import cond
from chainrule.errors import UnsupportedError
from chainrule.explain.memory.report import memory_of_graph
from chainrule.graph.graph import Graph
from chainrule.testing import simulate
from chainrule.testing.samples import cases, sample_arrays, sample_graph

sys.path.append(str(Path(__file__).parents[1] / "explain"))
from numpy_memory import peak_and_result  # type: ignore[import-not-found]


def objective(x: float64["n 2"], W: float64["3 3"], U: float64["2 3"], b: float64["3"]) -> Any:
    h = np.zeros(3)
    last, hs = cr.scan(cell(W, U, b), h, x)
    J = np.sum(hs**2) + np.sum(last)
    return J


TEXT = """graph objective(x: float64[n, 2], W: float64[3, 3], U: float64[2, 3], b: float64[3])
  h: float64[3] = constant[value=sha256:9d908ecfb6b256de]()
  %0: float64[3*n + 3] = scan[body=step, carries=1, constants=3, dtype=float64, length=n, reverse=False](U, W, b, h, x)
    body step(U: float64[2, 3], W: float64[3, 3], b: float64[3], h: float64[3], x: float64[2])
      %0: float64[3] = matmul(x, U)
      %1: float64[3] = matmul(h, W)
      %2: float64[3] = add(%0, %1)
      z: float64[3] = add(%2, b)
      h_1: float64[3] = tanh(z)
      return h_1, y = h_1
  last: float64[3] = slice[shape=(3,), start=(0,), step=(1,)](%0)
  %1: float64[3*n] = slice[shape=(3*n,), start=(3,), step=(1,)](%0)
  hs: float64[n, 3] = reshape[shape=(n, 3)](%1)
  %2: float64[n, 3] = integer_power[exponent=2](hs)
  %3: float64[] = sum[axes=(0, 1)](%2)
  %4: float64[] = sum[axes=(0,)](last)
  J: float64[] = add(%3, %4)
  return J"""  # noqa: E501


def test_the_text_form_shows_the_body_below_its_node() -> None:
    assert str(cr.trace(objective)) == TEXT


def test_the_number_of_nodes_does_not_depend_on_the_length() -> None:
    counts = set()
    for length in (2, 10_000):
        W, U, b = weights()
        graph = cr.trace(objective, np.ones((length, 2)), W, U, b)
        graph = cr.backward(graph, wrt=("W", "U", "b"))
        counts.add((len(graph), total_of(graph)))
    assert len(counts) == 1


def total_of(graph: Graph) -> int:
    """Nodes, and those in bodies."""
    inner = [
        value.graph for node in graph.nodes for _, value in node.params if hasattr(value, "graph")
    ]
    return len(graph) + sum(map(total_of, inner))


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_one_graph_serves_every_length(n: int, executor: str) -> None:
    W, U, b = weights()
    graph = cr.backward(cr.trace(objective), wrt=("x", "W", "U", "b"))
    x = sequence(n)
    run = graph.run(x=x, W=W, U=U, b=b, executor=executor)

    def python(x: Any, W: Any, U: Any, b: Any) -> Any:
        last, hs = unrolled(cell(W, U, b), np.zeros(3), x)
        return np.sum(hs**2) + np.sum(last)

    gradients = cr.grad(python, range(4))(x, W, U, b)
    for name, expected in zip(("x", "W", "U", "b"), gradients, strict=True):
        assert close(run[f"dJ/d{name}"], expected)
    bound = graph.bind(n=n)
    assert close(bound.run(x=x, W=W, U=U, b=b)["dJ/dW"], run["dJ/dW"])


def examples() -> dict[str, Any]:
    W, U, b = weights()
    x = sequence(9)

    def mixed(x: Any, W: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            h, count, total = state
            z = np.tanh(W @ h) * np.sum(row)
            h = cr.cond(count < 4, lambda z: np.sin(z) + h, lambda z: z, z)
            return (h, count + 1, total + np.sum(np.outer(h, h))), (z, count)

        (h, count, total), (zs, counts) = cr.scan(step, (np.ones(3), np.int64(0), 0.0), x)
        J = np.sum(zs**2) + total + np.sum(h)
        return J, count, counts

    def until(x: Any, W: Any) -> Any:
        return cr.while_loop(
            lambda s: s[0] < 5, lambda s: (s[0] + 1, np.tanh(W @ s[1])), (0, x[0, 0] * W[0])
        )

    given = {"x": x, "W": W}
    mixed_graph = cr.trace(mixed, **given)
    return {
        "objective": (cr.trace(objective, x=x), {**given, "U": U, "b": b}),
        "gradient": (
            cr.backward(cr.trace(objective, x=x), wrt=("W", "x")),
            {**given, "U": U, "b": b},
        ),
        "mixed": (mixed_graph, given),
        "mixed gradient": (cr.backward(mixed_graph, of="J", wrt=("W", "x")), given),
        "while": (cr.trace(until, **given), given),
    }


EXAMPLES = examples()
EVERY_EXAMPLE = pytest.mark.parametrize("name", EXAMPLES)


@EVERY_EXAMPLE
@pytest.mark.parametrize("keep", ["outputs", "named"])
def test_a_run_takes_what_its_report_says(name: str, keep: str) -> None:
    graph, given = EXAMPLES[name]
    report = memory_of_graph(graph, {}, keep=keep, executor="reference")
    simulate(report.main.usage.schedule)
    graph.run(given, keep=keep)  # where a program of a body is made for the first time
    peak, _ = peak_and_result(lambda: graph.run(given, keep=keep))
    arrays = sum(item.type.nbytes for item in report.main.graph.inputs)
    constants = report.main.usage.given_nbytes - arrays
    given_nbytes = sum(one.nbytes for one in given.values())
    assert peak == report.main.peak_nbytes - given_nbytes - constants


@pytest.mark.parametrize(
    ("primitive", "sample"), [pytest.param(*case[1:], id=case[0]) for case in cases(CONTROL)]
)
def test_the_scratch_of_a_primitive_is_what_it_takes(primitive: Any, sample: Any) -> None:
    arrays = sample_arrays(sample)
    node = sample_graph(primitive, sample, arrays)["out"]
    for layout in STRIDES.values():
        operands = [layout(one) for one in arrays]

        def evaluate(operands: Any = operands) -> Any:
            return primitive.evaluate(np, *operands, **dict(sample.params))

        evaluate()
        peak, result = peak_and_result(evaluate)
        wanted = result.nbytes + primitive.scratch(node, *operands)
        empty = sum(not one.size for one in (*arrays, result))  # NumPy takes a byte for each
        assert peak <= wanted + 2 * empty
        if primitive is not cond:  # it may take the branch that needs less
            assert wanted - empty <= peak


@EVERY_EXAMPLE
def test_executors_agree(name: str) -> None:
    graph, given = EXAMPLES[name]
    reference, native = (graph.run(given, executor=one) for one in ("reference", "native"))
    for key in reference:
        assert close(native[key], reference[key])


@EVERY_EXAMPLE
def test_transforms_keep_the_values(name: str) -> None:
    graph, given = EXAMPLES[name]
    before = graph.run(given)
    for transform in (cr.simplify, cr.deduplicate, cr.prune):
        after = transform(graph)
        run = after.run(given)
        for key, _ in graph.outputs:
            assert close(run[key], before[key])
        assert transform(after) is after or len(transform(after)) == len(after)


def test_the_memory_of_a_backward_pass_grows_by_the_carries() -> None:
    peaks = []
    for n in (1000, 2000):
        graph = cr.backward(cr.trace(objective), wrt="W")
        report = graph.memory(n=n, executor="reference")
        peaks.append(report.main.peak_nbytes)
    # x (2 numbers an iteration); hs, its cotangent (raveled, joined, sliced) and the states
    # before iterations
    assert (peaks[1] - peaks[0]) / 1000 / 8 <= 2 + 5 * 3


def test_simplify_and_deduplicate_see_through_bodies() -> None:
    def program(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return (np.sin(x) * 1.0 + np.sin(x)) * c, None

        return cr.scan(step, 1.0, xs)[0]

    graph = cr.trace(program, np.ones(3))
    smaller = cr.deduplicate(cr.simplify(graph))
    counts = [total_of(one) - len(one) for one in (graph, cr.simplify(graph), smaller)]
    assert counts[0] > counts[1] > counts[2]
    xs = np.array([0.1, 0.2, 0.3])
    assert close(smaller.run(xs=xs).outputs, graph.run(xs=xs).outputs)


def test_strict_accepts_a_loop() -> None:
    W, U, b = weights()
    graph = cr.trace(objective, np.ones((9, 2)), W, U, b)
    given = {"x": np.ones((9, 2)), "W": W, "U": U, "b": b}
    found = graph.compile(strict=True, executor="native")(**given)
    assert close(found, graph.run(**given).outputs)


def test_strict_refuses_a_loop_with_what_has_no_kernel_by_name_and_line() -> None:
    def sorted_rows(x):
        return cr.scan(lambda s, row: (np.sort(s + row), None), np.zeros(3), x)[0]

    graph = cr.trace(sorted_rows, np.ones((9, 3)))
    with pytest.raises(UnsupportedError) as refused:
        graph.compile(strict=True, executor="native")
    assert "scan[body=" in str(refused.value)
    assert "cr.scan(lambda s, row" in str(refused.value)


def test_threads_share_a_compiled_body() -> None:
    W, U, b = weights()
    function = cr.trace(objective, np.ones((200, 2)), W, U, b).compile(executor="native")
    sequences = [sequence(200, seed) for seed in range(4)]
    expected = [function(x=x, W=W, U=U, b=b) for x in sequences]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            got = pool.map(lambda x: function(x=x, W=W, U=U, b=b), sequences)
            assert [one.tobytes() for one in got] == [one.tobytes() for one in expected]
