"""Updates do not wait for an index that was checked before; nothing changes where one is bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from executing import (
    called,
    compare,
    compare_values,
    given_array,
    inputs_of,
    native,
    planned,
)

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import IndexOutOfRangeError
from chainrule.execute import reference
from chainrule.execute.native.artifact import artifact_of
from chainrule.execute.native.runtime.launch import given_nodes
from chainrule.execute.native.runtime.machine import Machine
from chainrule.graph.node import Node
from chainrule.machine_code.target import host_target
from chainrule.plan.budget import within
from chainrule.plan.planner import Plan, plan
from chainrule.primitives.primitive import Gather
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

pytestmark = pytest.mark.usefixtures("every_width")

ROWS, WIDTH = 11, 6


def dense(h: Any, params: Any) -> Any:
    for W in params["W"]:
        h = np.tanh(h @ W)
    return h


def embedded(params: Any, f: Any, i: Any) -> Any:
    return np.mean(dense(cr.embedding(params["E"], i), params) ** 2)


def labelled(params: Any, f: Any, i: Any) -> Any:
    return cr.cross_entropy(dense(f, params) @ params["E"].T, i)


def both(params: Any, f: Any, i: Any) -> Any:
    h = dense(cr.embedding(params["E"], i) + f, params)
    return cr.cross_entropy(h @ params["E"].T, i)


def columns(params: Any, f: Any, i: Any) -> Any:
    return np.mean(dense(params["E"].T[:, i].T + f, params) ** 2)


def from_the_end(params: Any, f: Any, i: Any) -> Any:
    return np.mean(dense(params["E"][-i], params) ** 2)


def computed(params: Any, f: Any, i: Any) -> Any:
    return np.mean(dense(params["E"][(i + 1) // 2] * params["E"][i], params) ** 2)


def of_rows(params: Any, f: Any, i: Any) -> Any:
    h = dense(f, params) @ params["E"].T
    return np.mean(np.take_along_axis(h, i[:, None], axis=1) ** 2)


def set_at(params: Any, f: Any, i: Any) -> Any:
    h = f.at[i].add(params["E"][:1])
    return np.mean(dense(h, params)[i] ** 2)


def in_a_loop(params: Any, f: Any, i: Any) -> Any:
    def body(h: Any, one: Any) -> Any:
        h = np.tanh(h @ params["W"][0] + params["E"][one])
        return h, h

    _, hs = cr.scan(body, f[0] * 1, i)
    return np.mean(dense(hs, params) ** 2)


def in_numpy(params: Any, f: Any, i: Any) -> Any:
    h = params["E"].astype(np.float16)[i].astype(np.float64)
    return np.mean(dense(h, params) ** 2)


def of_floats(params: Any, f: Any, i: Any) -> Any:
    return np.mean(dense(params["E"][(i * 0.7).astype(np.int64)], params) ** 2)


def in_a_smaller_table(params: Any, f: Any, i: Any) -> Any:
    """The larger table has more rows than the smaller one, whose gradient comes last."""
    small = params["E"][:7][i // 2]
    return np.mean(dense(small, params)[:, :3] * params["E"][i // 2][:, :3])


# Whether updates come before an index is used for the last time.
EARLY = {
    embedded: True,
    labelled: False,  # it is used early in backpropagation
    both: True,
    columns: True,
    from_the_end: True,
    computed: True,
    of_rows: False,
    set_at: True,
    in_a_loop: False,
    in_numpy: False,
    of_floats: False,
    in_a_smaller_table: True,
}


class Made:
    """A training step for `ROWS` rows, planned, and its arguments."""

    def __init__(self, objective: Callable[..., Any], threads: int = 1, layers: int = 3) -> None:
        random = np.random.default_rng(0)
        W = [random.normal(size=(WIDTH, WIDTH)) for _ in range(layers)]
        params = {"E": random.normal(size=(ROWS, WIDTH)), "W": W}
        batch = {"f": float64["n", WIDTH], "i": int64["n"]}
        step = cr.training_step(objective, "params", cr.sgd(0.1), params=params, **batch)
        self.graph = step.graph.bind(n=ROWS)
        self.results, self.overwrites = results_of(step, self.graph)
        self.arguments: dict[Node, Any] = {}
        self.machines: dict[Plan, Machine] = {}
        leaves = {"params.E": params["E"], "f": random.normal(size=(ROWS, WIDTH))}
        leaves |= {f"params.W[{k}]": one for k, one in enumerate(W)}
        for item in self.graph.inputs:
            if item.name in leaves:
                self.arguments[item.node] = leaves[item.name]
            elif item.name != "i":
                self.arguments[item.node] = item.default
        self.index = next(item.node for item in self.graph.inputs if item.name == "i")
        width = host_target().vector_nbytes
        self.plan = plan(
            self.graph, self.results, self.overwrites, threads=threads, vector_nbytes=width
        )

    def inputs(self, indices: np.ndarray) -> dict[Node, Any]:
        return {**self.arguments, self.index: indices}

    def run(self, made: Plan, indices: np.ndarray) -> dict[Node, np.ndarray] | None:
        """What the code of a plan computes; `called` looks at all memory afterwards."""
        machine = self.machines.get(made)
        if machine is None:
            machine = Machine(artifact_of(made, self.overwrites, host_target()))
            self.machines[made] = machine
        inputs = self.inputs(indices)
        arrays = {node: given_array(node, inputs) for node in given_nodes(self.graph)}
        try:
            return called(machine, self.graph, arrays, self.results, made.overwrites, None)
        except IndexError:  # of what NumPy evaluates
            return None

    def check(self, made: Plan, indices: np.ndarray) -> None:
        """The plan is right, and does what the reference executor does."""
        simulate(made.schedule)
        inputs = self.inputs(indices)
        arrays = {node: np.asarray(value, node.dtype) for node, value in inputs.items()}
        got = self.run(made, indices)
        try:
            reference.evaluate(self.graph, arrays, self.results)
        except IndexOutOfRangeError:
            assert got is None
        else:
            compare_values(self.graph, inputs, self.results, got, 1e-9)


def updates_early(made: Plan) -> bool:
    """Whether something given is overwritten before an index is used for the last time."""
    computes = made.computes
    updates = [n for n, one in enumerate(computes) if {*one.nodes} & {*made.overwrites.values()}]
    uses = [
        n
        for n, one in enumerate(computes)
        if any(isinstance(node.primitive.kernel, Gather) for node in (*one.nodes, *one.inner))
    ]
    return bool(uses) and updates[0] < uses[-1]


def good() -> np.ndarray:
    return np.arange(ROWS) * 5 % ROWS


@pytest.mark.parametrize("objective", EARLY, ids=lambda one: one.__name__)
def test_an_update_does_not_wait_for_an_index_that_was_checked(objective: Any) -> None:
    made = Made(objective)
    assert len(made.plan.overwrites) == 4
    assert updates_early(made.plan) == EARLY[objective]


@pytest.mark.sweep(29)
@pytest.mark.parametrize("objective", EARLY, ids=lambda one: one.__name__)
@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_changes_where_an_index_is_out_of_range(objective: Any, threads: int) -> None:
    made = Made(objective, threads)
    assert made.run(made.plan, good()) is not None
    made.check(made.plan, good())
    for place in (0, ROWS - 1):
        for bad in (2 * ROWS, -2 * ROWS - 2, 2**62):
            indices = good()
            indices[place] = bad
            made.check(made.plan, indices)
            assert made.run(made.plan, indices) is None


@pytest.mark.slow
@pytest.mark.sweep(14)
@pytest.mark.parametrize("objective", EARLY, ids=lambda one: one.__name__)
def test_nor_does_it_within_a_budget(objective: Any) -> None:
    made = Made(objective, layers=5)
    whole = made.plan.schedule.scratch_nbytes
    for nbytes in (0, whole // 2):
        least = within(made.plan, nbytes)
        made.check(least, good())
        for place in (0, ROWS - 1):
            indices = good()
            indices[place] = 2 * ROWS
            made.check(least, indices)


@pytest.mark.slow
def test_less_is_kept_where_updates_come_early() -> None:
    """All gradients at once would be as large as the parameters."""
    made = Made(embedded, layers=40)
    gradients = 40 * WIDTH * WIDTH * 8
    assert within(made.plan, 0).schedule.scratch_nbytes < gradients


@pytest.mark.parametrize("rows, in_place", [(9, True), (8, False), (3, False)])
def test_an_index_that_is_checked_again_in_fewer_rows_may_fail(rows: int, in_place: bool) -> None:
    """What is taken of the updated array comes after the update, which must then be a copy."""

    def update(W: Any, V: Any, i: Any) -> Any:
        new = W - 0.1 * np.sum(V[i])
        return new, new[:rows][i]

    random = np.random.default_rng(1)
    W, V = random.normal(size=(9, 4)), random.normal(size=(9, 4))
    graph = cr.trace(update, W, V, np.array([0, 2, 2]))
    results = [node for _, node in graph.outputs]
    overwrites = {graph.inputs[0].node: results[0]}
    assert bool(planned(graph, results, overwrites).overwrites) == in_place
    for last in (2, 8, 9):
        inputs = inputs_of(graph, {"W": W, "V": V, "i": np.array([0, 2, last])})
        if last < rows:
            compare(graph, inputs, results, 1e-12, overwrites=overwrites)
        else:
            assert native(graph, inputs, results, overwrites) is None


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "i": lambda i: i,
    "i - 3": lambda i: i - 3,
    "i // 2": lambda i: i // 2,
    "i reversed": lambda i: i[::-1],
    "i in 32 bits": lambda i: i.astype(np.int32),
    "by floats": lambda i: (i * 0.9 + 0.5).astype(np.int64),
    "by a comparison": lambda i: np.where(i > 4, i, 1),
}


@pytest.mark.slow
@pytest.mark.sweep(58)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_with_indices_leave_everything_or_take_a_whole_step(seed: int) -> None:
    random = np.random.default_rng(seed)
    forms = [*FORMS.values()]
    layers = [
        (int(random.integers(3)), forms[random.integers(len(forms))], int(random.integers(4, ROWS)))
        for _ in range(random.integers(2, 6))
    ]

    def objective(params: Any, f: Any, i: Any) -> Any:
        h = f
        for kind, form, rows in layers:
            if kind == 0:
                h = np.tanh(h @ params["W"][rows % 3])
            elif kind == 1:
                h = h + params["E"][:rows][form(i)]
            else:
                h = h * cr.cross_entropy(h @ params["E"][:rows].T, form(i))
        return np.mean(h**2) + np.sum(params["E"]) + sum(np.sum(W) for W in params["W"])

    made = Made(objective, int(random.integers(1, 4)))
    least = within(made.plan, 0)
    for low, high in ((3, 4), (3, 5), (0, ROWS), (-4, ROWS), (-50, 50)):
        indices = random.integers(low, high, ROWS)
        made.check(made.plan, indices)
        made.check(least, indices)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("memory", [None, "least"])
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_step_that_fails_leaves_its_state_and_the_next_one_is_right(
    executor: str, memory: str | None
) -> None:
    random = np.random.default_rng(0)
    W = [random.normal(size=(WIDTH, WIDTH)) for _ in range(6)]
    params = {"E": random.normal(size=(ROWS, WIDTH)), "W": W}
    types = {"f": float64["n", WIDTH], "i": int64["n"]}
    f = random.normal(size=(ROWS, WIDTH))

    def step(**options: Any) -> Any:
        return cr.training_step(both, "params", cr.adam(0.1), params=params, **types, **options)

    whole = step(executor=executor)
    budget = [*whole.tradeoff(n=ROWS)][-1].needed_nbytes if memory else None
    tested = step(executor=executor, memory=budget)
    state, other = tested.init(params=params), whole.init(params=params)
    for place in (0, ROWS - 1):
        before = {
            name: np.array(state[name]) for name in ("params.E", "params.W[0]", "params.W[5]")
        }
        indices = good()
        indices[place] = ROWS
        with pytest.raises(IndexOutOfRangeError, match=f"index {ROWS} "):
            tested(state, f=f, i=indices)
        for name, value in before.items():
            np.testing.assert_array_equal(state[name], value)
        assert float(tested(state, f=f, i=good())) == float(whole(other, f=f, i=good()))
        for name in before:
            np.testing.assert_array_equal(state[name], other[name])
