"""Linear algebra inside compiled code: values, layouts, factors that are shared, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from executing import compare, planned

import chainrule as cr
from chainrule import float64
from chainrule.errors import EvaluationError, ScheduleError
from chainrule.execute.run import kept_nodes
from chainrule.plan.routine_work import RoutineWork
from chainrule.primitives.linalg.lu import lu
from chainrule.schedule.records import Compute
from chainrule.testing import simulate

pytestmark = pytest.mark.usefixtures("every_width", "fences")

RNG = np.random.default_rng(0)


def matrices(*shape: int) -> np.ndarray:
    """Far from singular."""
    return RNG.normal(size=shape) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])


def everything(x: Any, b: Any) -> Any:
    """Every routine, of matrices as they lie and transposed, as parts of a sum."""
    turned = np.swapaxes(x, -1, -2)
    tall = x[..., :-2]
    spread = turned @ x
    factor = np.linalg.cholesky(spread)
    solved = np.linalg.solve(x, b) + np.linalg.solve(turned, b)
    triangles = np.linalg.solve(factor, b) + np.linalg.solve(np.swapaxes(factor, -1, -2), b)
    unit = cr.solve_triangular(turned, b, lower=True, unit_diagonal=True)
    upper = cr.solve_triangular(x[..., ::-1, ::-1], b[..., ::-1])
    q, r = np.linalg.qr(tall)
    wide_q, wide_r = np.linalg.qr(np.swapaxes(tall, -1, -2))
    values, vectors = np.linalg.eigh(spread)
    left, s, right = np.linalg.svd(tall, full_matrices=False)
    alone = np.linalg.eigvalsh(spread, "U"), np.linalg.svd(turned, compute_uv=False)
    p, low, up = cr.lu(tall)
    return (
        *(factor, solved, triangles, unit, upper, q, r, wide_q, wide_r, values),
        *(np.abs(vectors), np.abs(left), s, np.abs(right), *alone, np.linalg.inv(turned)),
        *(p, low, up),
    )


@pytest.mark.parametrize(
    ("shape", "columns", "dtype", "threads"),
    [
        pytest.param((5, 4, 4), 3, "float64", 2, marks=pytest.mark.exhaustive),
        ((2, 1, 9, 9), 1, "float32", 1),
        ((33, 33), 18, "float64", 2),
    ],
)
def test_every_routine_has_the_values_of_the_reference(shape, columns, dtype, threads):
    x = matrices(*shape).astype(dtype)
    b = RNG.normal(size=(*shape[:-1], columns)).astype(dtype)
    graph = cr.trace(everything, x, b)
    keep = kept_nodes(graph, "outputs")
    assert not planned(graph, keep, threads=threads).foreign
    inputs = {item.node: value for item, value in zip(graph.inputs, (x, b), strict=True)}
    rtol = 1e-11 if dtype == "float64" else 1e-5
    compare(graph, inputs, keep, rtol, threads=threads)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_large_factor_is_made_in_blocks_that_threads_share(dtype):
    n = 293  # two whole blocks and a part
    half = RNG.normal(size=(n, n))
    x = (half @ half.T + n * np.eye(n)).astype(dtype)
    graph = cr.trace(lambda x: np.linalg.cholesky(x), x)
    keep = kept_nodes(graph, "outputs")
    made = planned(graph, keep, threads=2)
    assert [work.sharing.parts for work in made.works] == [2]
    compare(
        graph, {graph.inputs[0].node: x}, keep, 1e-13 if dtype == "float64" else 3e-7, threads=2
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_makes_all_blocks_of_a_large_factor(threads):
    """On one core, and of several threads in a loop within a loop, which one of them does."""
    half = RNG.normal(size=(257, 257))
    x, b = half @ half.T + 257 * np.eye(257), np.ones(257)

    def plain(x, b):
        return np.linalg.cholesky(x)

    def nested(x, b):
        def again(v):
            return np.linalg.cholesky(x) @ v / 1028

        def halved(v, _):
            return cr.while_loop(lambda v: np.sum(v) > 1, again, v) + b, None

        return cr.scan(halved, b, None, length=2)[0]

    for function in (plain, nested):
        graph = cr.trace(function, x, b)
        given = {one.node: {"x": x, "b": b}[one.name] for one in graph.inputs}
        compare(graph, given, kept_nodes(graph, "outputs"), 1e-12, threads=threads)


def solved_twice(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) ** 2) + np.sum(np.linalg.solve(a.T, b))


def gradient_of_solves(dtype: str) -> tuple[Any, list[Any]]:
    a, b = matrices(6, 6).astype(dtype), RNG.normal(size=(6, 2)).astype(dtype)
    return cr.backward(cr.trace(solved_twice, a, b), wrt=("a", "b")), [a, b]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_factor_serves_all_solves_with_a_matrix_or_its_transpose(dtype):
    graph, arrays = gradient_of_solves(dtype)
    keep = kept_nodes(graph, "outputs")
    works = [one for one in planned(graph, keep).works if isinstance(one, RoutineWork)]
    factors = [one.node for one in works if one.node.primitive is lu]
    assert len(factors) == 1 and factors[0].dtype == np.float64
    assert len(works) == 5  # of two solves, and of the gradient of each
    inputs = {item.node: value for item, value in zip(graph.inputs, arrays, strict=True)}
    compare(graph, inputs, keep, 1e-12 if dtype == "float64" else 1e-5)


def test_a_solve_that_reads_neither_its_matrix_nor_a_factor_is_found():
    graph, _ = gradient_of_solves("float64")
    schedule = planned(graph, kept_nodes(graph, "outputs")).schedule
    solve = next(
        one
        for one in schedule.instructions
        if isinstance(one, Compute) and any(read.primitive is lu for read in one.reads)
    )
    fewer = replace(solve, reads=tuple(one for one in solve.reads if one.primitive is not lu))
    wrong = tuple(fewer if one is solve else one for one in schedule.instructions)
    with pytest.raises(ScheduleError, match="neither reads nor computes a"):
        simulate(replace(schedule, instructions=wrong))


def test_gradients_of_factors_solve_triangles():
    """Neither inverses nor factors of what is a factor."""

    def density(x: Any, b: Any) -> Any:
        factor = np.linalg.cholesky(x)
        z = np.linalg.solve(factor, b)
        return np.sum(z * z) + np.sum(np.log(np.diagonal(factor)))

    graph = cr.backward(cr.trace(density, 9 * np.eye(4), np.ones(4)), wrt=("x", "b"))
    names = [node.primitive.name for node in graph.nodes]
    assert names.count("cholesky") == 1 and names.count("solve_triangular") == 4
    assert not {"solve", "inv", "lu"} & {*names}
    of_qr = cr.backward(cr.trace(lambda x: np.sum(np.linalg.qr(x)[0] ** 3), np.eye(3)), wrt="x")
    assert not {"solve", "inv"} & {node.primitive.name for node in of_qr.nodes}


@pytest.mark.parametrize(
    ("function", "bad", "text"),
    [
        (np.linalg.cholesky, -np.eye(3), "Matrix is not positive definite"),
        (lambda x: np.linalg.solve(x, x), np.ones((3, 3)), "Singular matrix"),
        (lambda x: cr.solve_triangular(x, x), np.zeros((3, 3)), "singular"),
        (np.linalg.inv, np.ones((3, 3)), "Singular matrix"),
    ],
)
def test_a_refused_matrix_stops_a_step_before_any_update(function, bad, text):
    def objective(x: float64["3 3"], W: float64["3 3"]) -> Any:
        found = function(x * W)
        return np.sum(found * W)

    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1), executor="native")
    state = step.init(W=np.ones((3, 3)))
    step(state, x=2 * np.eye(3) + 0.1)
    before = state["W"].copy()
    with pytest.raises(EvaluationError, match=text) as caught:
        step(state, x=bad / before)
    assert "found = function(x * W)" in str(caught.value) or "lambda x" in str(caught.value)
    np.testing.assert_array_equal(state["W"], before)
    step(state, x=2 * np.eye(3) + 0.1)  # and the next one is right again
    assert not np.array_equal(state["W"], before)


def test_rooms_are_in_the_arena_and_nothing_is_allocated():
    graph = cr.trace(lambda x: np.linalg.inv(x), matrices(8, 8))
    made = planned(graph, kept_nodes(graph, "outputs"))
    rooms = 2 * 8 * 8 * 8 + 64  # the matrix, its inverse, and the pivots in a line of their own
    assert (made.schedule.scratch_nbytes, made.schedule.allocated_nbytes) == (rooms, 0)
    assert "LAPACK dgesv" in str(made) and "reference" not in str(made)


def test_compiled_code_refuses_no_linear_algebra():
    x = matrices(4, 4)
    compiled = cr.compile(lambda x: np.linalg.solve(x, x.T), executor="native", strict=True)
    np.testing.assert_allclose(x @ compiled(x), x.T, atol=1e-12)
