"""The order of works: never worse than the plain order, and as early as can be for what frees."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from namespaces import with_gradients
from programs import Program, random_programs

import chainrule as cr
from chainrule.errors import InputError, ScheduleError
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.plan import planner, reorder
from chainrule.plan.planner import Plan, plan
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

N, WIDTH = 64, 128
ACTIVATION = N * WIDTH * 4


def network(params, x, y):
    h = x
    for layer in params[:-1]:
        h = np.tanh(h @ layer["W"] + layer["b"])
    o = h @ params[-1]["W"] + params[-1]["b"]
    J = cr.cross_entropy(o, y)
    return J


def rectified(params, x, y):
    h = x
    for layer in params[:-1]:
        h = np.maximum(h @ layer["W"] + layer["b"], 0)
    o = h @ params[-1]["W"] + params[-1]["b"]
    J = cr.cross_entropy(o, y)
    return J


def examples(layers: int) -> dict[str, Any]:
    widths = [*[WIDTH] * (layers - 1), 10]
    params = [{"W": np.zeros((WIDTH, n), np.float32), "b": np.zeros(n, np.float32)} for n in widths]
    return {"params": params, "x": np.zeros((N, WIDTH), np.float32), "y": np.zeros(N, np.int64)}


def gradients(layers: int) -> Graph:
    return cr.backward(cr.trace(network, **examples(layers)), wrt=("params",))


def of_training(layers: int, optimizer: Any, objective: Any = network, plain: bool = False) -> Plan:
    step = cr.training_step(objective, ("params",), optimizer, **examples(layers))
    made = plan(step.graph, *results_of(step, step.graph), plain=plain)
    simulate(made.schedule)
    return made


@pytest.mark.sweep(3)
@pytest.mark.parametrize("layers", [2, 5, 30])
@pytest.mark.parametrize("optimizer", [cr.sgd(0.1), cr.adam(1e-3)])
def test_a_deep_network_needs_no_more_than_in_the_plain_order(layers: int, optimizer: Any) -> None:
    made = of_training(layers, optimizer)
    plain = of_training(layers, optimizer, plain=True).schedule.scratch_nbytes
    assert made.schedule.scratch_nbytes <= plain
    if layers == 30 and optimizer.name == "adam":
        assert made.schedule.scratch_nbytes < 0.6 * plain


@pytest.mark.parametrize("layers", [5, 40])
def test_a_gradient_of_parameters_is_computed_when_it_can_be(layers: int) -> None:
    """One activation for each layer is kept, and three flow."""
    graph = gradients(layers)
    made = plan(graph, kept_nodes(graph, "outputs"))
    assert simulate(made.schedule).peak_nbytes <= (layers + 2) * ACTIVATION


def returns(made: Plan) -> int:
    """How often an instruction is followed by one whose nodes stand before its own in the graph."""
    order = {node: place for place, node in enumerate(made.graph.nodes)}
    places = [max(order[node] for node in compute.nodes) for compute in made.computes]
    return sum(following < one for one, following in pairwise(places))


def test_the_plain_order_is_that_of_the_graph() -> None:
    """But for what must wait, as updates for what may fail."""
    optimizer = cr.adam(1e-3)
    assert returns(of_training(5, optimizer, plain=True)) < returns(of_training(5, optimizer))


@pytest.mark.slow
def test_the_environment_chooses_the_plain_order(monkeypatch: Any) -> None:
    def run() -> tuple[int, float]:
        arguments = examples(5)
        step = cr.training_step(network, ("params",), cr.sgd(0.1), executor="native", **arguments)
        state = step.init(params=arguments["params"])
        peak = step.memory().training.peak_nbytes
        return peak, float(step(state, x=arguments["x"], y=arguments["y"]))

    least, J = run()
    monkeypatch.setenv("CHAINRULE_ORDER", "plain")
    plain, same = run()
    assert plain > least
    assert same == J
    monkeypatch.setenv("CHAINRULE_ORDER", "quick")
    with pytest.raises(InputError, match="CHAINRULE_ORDER is 'quick'"):
        run()


@pytest.mark.parametrize("layers", [5, 40])
def test_where_activations_are_results_scratch_does_not_grow(layers: int) -> None:
    graph = gradients(layers)
    made = plan(graph, kept_nodes(graph, "named"))
    assert simulate(made.schedule).peak_nbytes <= 2 * ACTIVATION


@pytest.mark.parametrize("layers", [5, 12])
def test_an_update_follows_its_gradient(layers: int) -> None:
    """At most two gradients of matrices are there at once beside the activations."""
    made = of_training(layers, cr.adam(1e-3))
    most = (layers + 2) * ACTIVATION + WIDTH * WIDTH * 4
    assert simulate(made.schedule).peak_nbytes <= most + 4096 * layers


@pytest.mark.parametrize("objective", [network, rectified])
def test_an_update_comes_before_the_next_parameter_is_read(objective: Any) -> None:
    """So what it overwrites has just been read: the inputs of relu, too, are kept until then."""
    made = of_training(6, cr.adam(1e-3), objective)
    places = {made.graph.name_of.get(n): k for k, c in enumerate(made.computes) for n in c.nodes}
    for k in range(2, 5):
        before = places[f"dJ/dh_{k - 2}" if k > 2 else "dJ/dh"]
        assert places[f"dJ/dh_{k - 1}"] < places[f"params[{k}].W_next"] < before


@pytest.mark.slow
@random_programs(10)
def test_every_order_of_a_random_graph_is_right(program: Program, seed: int) -> None:
    graph, _ = with_gradients(program, seed)
    for keep in ("named", "outputs"):
        results = list(kept_nodes(graph, keep))
        made = plan(graph, results)
        given_nodes = list(made.schedule.given)
        plain: list[int] = []
        for works in reorder.orders(graph, made.works, made.schedule.results, {}):
            assert sorted(map(id, works)) == sorted(map(id, made.works))
            stored = planner.Storage(works, planner.Outside(given_nodes, made.schedule.results, {}))
            simulate(stored.schedule(graph))
            plain.append(stored.scratch_nbytes)
        assert made.schedule.scratch_nbytes <= plain[0]


def test_a_value_whose_own_nest_cannot_read_it_elsewhere_is_stored() -> None:
    """A slice that its nest also reads backwards, of a value that could be computed again."""

    def f(b: Any) -> Any:
        deep = np.tanh(np.tanh(b))
        return np.sum(np.reshape(np.tanh(np.reshape(deep, (3, 2))), (3, 2))[0][::-1])

    graph = cr.backward(cr.trace(f, np.ones((2, 3))), wrt=("b",))
    for keep in ("named", "outputs"):
        simulate(plan(graph, list(kept_nodes(graph, keep))).schedule)


def across(x: Any) -> Any:
    return np.reshape(x[::-1], (2, 3))


@pytest.mark.parametrize(
    "read",
    [
        lambda a, k: np.sin(across(a)),
        lambda a, k: across(a),
        lambda a, k: np.sum(across(a), axis=1),
        lambda a, k: a[across(k)],
    ],
    ids=["map", "result", "fold", "gather"],
)
def test_rows_across_those_of_a_value_that_runs_backwards_are_read_by_kernels(read: Any) -> None:
    """No index map takes (2, 3) of (3, 2) reversed; so what is reversed is stored."""

    def program(a: Any, k: Any) -> Any:
        out = read(a, k)
        J = np.sum(np.cos(out))
        return J, out

    graph = cr.backward(cr.trace(program, np.ones((3, 2)), np.ones((3, 2), np.int64)), of="J")
    made = plan(graph, list(kept_nodes(graph, "outputs")))
    simulate(made.schedule)
    assert made.foreign == []


def test_an_order_that_forgets_readers_of_a_parameter_is_seen(monkeypatch: Any) -> None:
    right = reorder._followers
    monkeypatch.setattr(reorder, "_followers", lambda works, lives, _: right(works, lives, {}))
    monkeypatch.setattr(planner, "rematerialisable", lambda *_: [])
    orders = planner.orders
    # The last order wins, whatever it needs.
    monkeypatch.setattr(planner._Planner, "_orders", lambda self, *given: last(self, *given))

    def last(self: Any, works: Any, overwrites: Any) -> Any:
        return list(orders(self.graph, works, self.results, overwrites))[-1:]

    with pytest.raises(ScheduleError):
        of_training(5, cr.sgd(0.1), rectified)
