"""The storage of the reference executor: which nodes get an array, and until when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.errors import ScheduleError
from chainrule.execute.arguments import bound_to
from chainrule.execute.reference import apply
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.schedule.plain import _Plain, plain_schedule
from chainrule.schedule.records import Compute, Free, Schedule, View
from chainrule.testing import simulate


def scheduled(function: Any, *arrays: Any) -> tuple[Graph, Schedule]:
    graph = cr.trace(function, *arrays)
    schedule = plain_schedule(graph, kept_nodes(graph, "outputs"))
    simulate(schedule)
    return graph, schedule


def names(schedule: Schedule, kind: type) -> list[str]:
    name_of = schedule.graph.name_of
    nodes = [
        one.nodes[0] if isinstance(one, Compute) else one.node
        for one in schedule.instructions
        if isinstance(one, kind)
    ]
    return [name_of.get(node, node.primitive.name) for node in nodes]


X = np.ones((4, 6))


def test_each_needed_node_gets_an_array_and_gives_it_back() -> None:
    def program(x: Any) -> Any:
        h = np.tanh(x)
        unused = np.sin(np.exp(h))  # noqa: F841
        o = h * h
        J = np.sum(o)
        return J

    _, schedule = scheduled(program, X)
    assert names(schedule, Compute) == ["h", "o", "J"]
    assert names(schedule, Free) == ["h", "o"]


def test_a_view_owns_no_bytes_and_keeps_those_of_its_base() -> None:
    def program(x: Any) -> Any:
        h = np.tanh(x)
        hT = h.T
        part = hT[::-1, 1:]
        z = np.sin(x)
        J = np.sum(part) + np.sum(z)
        return J

    _, schedule = scheduled(program, X)
    assert {"hT", "part"} <= set(names(schedule, View))
    done = [one for one in schedule.instructions if not isinstance(one, View)]
    before = done[: next(i for i, one in enumerate(done) if isinstance(one, Free))]
    assert [one.label for one in before if isinstance(one, Compute)] == ["tanh", "sin", "sum"]


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda x: np.sum(np.reshape(np.tanh(x), (24,)) * 2), False),
        (lambda x: np.sum(np.reshape(np.tanh(x).T, (24,)) * 2), True),
        (lambda x: np.sum(np.reshape(np.tanh(x.T), (24,)) * 2), True),  # tanh is transposed, too
        (lambda x: np.sum(np.reshape(np.tanh(x.T).T, (24,)) * 2), False),
        (lambda x: np.sum(np.reshape(np.tanh(x)[:, ::4], (2, 4)) * 2), True),
        (lambda x: np.sum(np.reshape(np.tanh(x)[1:], (9, 2)) * 2), False),
    ],
)
def test_a_reshape_is_a_view_where_it_is_one_for_numpy(function: Any, copies: bool) -> None:
    _, schedule = scheduled(function, X)
    assert ("reshape" in names(schedule, Compute)) is copies


def test_a_uniform_constant_takes_no_bytes() -> None:
    _, schedule = scheduled(lambda x: x + 2, X)
    assert len(names(schedule, Compute)) == 1
    assert len(schedule.given) == 1


def test_a_result_that_is_a_view_or_uniform_is_copied() -> None:
    _, schedule = scheduled(lambda x: {"xT": x.T, "ones": np.ones_like(x)}, X)
    assert set(names(schedule, Compute)) == {"out.xT", "out.ones"}
    assert not names(schedule, View) + names(schedule, Free)


def test_what_numpy_takes_meanwhile_is_workspace() -> None:
    _, schedule = scheduled(lambda x: np.argmax(x, axis=0), X)
    (compute,) = (one for one in schedule.instructions if isinstance(one, Compute))
    assert compute.workspace is not None
    assert compute.workspace.nbytes == X.nbytes  # its transpose


def test_planning_takes_no_memory_at_any_size() -> None:
    def program(x: Any, W: Any) -> Any:
        h = np.reshape(np.tanh(x @ W).T, (-1,))
        return np.sum(np.reshape(h, (-1, 4)).T * 2)

    n = 2**30  # 2**43 bytes
    graph = cr.trace(program, x=cr.float64[n, 1000], W=cr.float64[1000, 1000])
    schedule = plain_schedule(graph, kept_nodes(graph, "outputs"))
    assert schedule.scratch_nbytes > 2**43


# Random programs ---------------------------------------------------------------------------------


def graphs(program: Program, seed: int) -> Any:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.trace(program.function(traced), **arguments)
    for one in (graph, cr.backward(graph, wrt=program.parameters)):
        yield bound_to(one, arguments)


@pytest.mark.slow
@random_programs(30)
def test_outlines_lie_in_memory_as_the_arrays_do(program: Program, seed: int) -> None:
    for graph, inputs in graphs(program, seed):
        outlines = _Plain(graph, tuple(graph.nodes), {}).outlines
        values: dict[Node, np.ndarray] = dict(inputs)
        for node in graph.nodes:
            if node not in values:
                values[node] = apply(node, [values[one] for one in node.inputs], ())
            if not node.type.size:
                continue
            longer = [axis for axis, length in enumerate(node.shape) if length > 1]
            value, outline = values[node], outlines[node]
            assert outline.shape == value.shape and outline.dtype == value.dtype
            for axis in longer:
                assert outline.strides[axis] == value.strides[axis], (node, axis)


@pytest.mark.slow
@random_programs(30)
def test_the_simulator_accepts_every_schedule_and_finds_nothing_late(
    program: Program, seed: int
) -> None:
    for graph, _ in graphs(program, seed):
        for keep in ("outputs", "named"):
            found = simulate(plain_schedule(graph, kept_nodes(graph, keep)))
            assert not found.late


def test_the_simulator_refuses_a_schedule_that_frees_too_early() -> None:
    _, schedule = scheduled(lambda x: np.sum(np.tanh(x).T * 2), X)
    instructions = list(schedule.instructions)
    freed = next(i for i, one in enumerate(instructions) if isinstance(one, Free))
    instructions.insert(1, instructions.pop(freed))
    with pytest.raises(ScheduleError, match="freed"):
        simulate(
            Schedule(
                schedule.graph,
                tuple(instructions),
                schedule.given,
                schedule.results,
                scratch_nbytes=schedule.scratch_nbytes,
            )
        )
