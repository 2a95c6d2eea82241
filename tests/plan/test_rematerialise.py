"""Values that late instructions read are computed again by nests that have what they come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import float32
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan import planner
from chainrule.plan.planner import Plan, plan
from chainrule.schedule.lives import Life
from chainrule.schedule.records import Compute, Free
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

BATCH, LENGTH, WIDTH, LAYERS = 8, 16, 32, 3
ACTIVATION = BATCH * LENGTH * 4 * WIDTH * 4


def network(params: Any, x: Any, activation: Any = cr.gelu) -> Any:
    for layer in params:
        hidden = activation(cr.layer_norm(x) @ layer["Win"] + layer["bin"])
        x = x + hidden @ layer["Wout"]
    J = np.mean(x * x)
    return J


def examples(layers: int = LAYERS, shape: tuple[int, ...] = (BATCH, LENGTH)) -> dict[str, Any]:
    random = np.random.default_rng(0)

    def matrix(*sizes: int) -> np.ndarray:
        return random.standard_normal(sizes, dtype=np.float32)

    params = [
        {
            "Win": matrix(WIDTH, 4 * WIDTH),
            "bin": matrix(4 * WIDTH),
            "Wout": matrix(4 * WIDTH, WIDTH),
        }
        for _ in range(layers)
    ]
    return {"params": params, "x": matrix(*shape, WIDTH)}


def gradients(objective: Callable[..., Any] = network, **given: Any) -> Graph:
    return cr.backward(cr.trace(objective, **(given or examples())), wrt="params")


def planned(graph: Graph, keep: str = "outputs") -> Plan:
    made = plan(graph, kept_nodes(graph, keep))
    simulate(made.schedule)
    return made


def without(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Plan]) -> Plan:
    with monkeypatch.context() as patch:
        patch.setattr(planner, "rematerialisable", lambda *_: [])
        return make()


def again(made: Plan) -> dict[Node, int]:
    """The values that are written twice, with the number of the second time."""
    numbers: dict[Node, list[int]] = {}
    for number, work in enumerate(made.works):
        for node in work.writes:
            numbers.setdefault(node, []).append(number)
    return {node: found[1] for node, found in numbers.items() if len(found) > 1}


def schedule_text(made: Plan) -> str:
    """What each instruction writes, reads and frees, by name."""
    names = made.graph.name_of
    lines = []
    for one in made.schedule.instructions:
        if isinstance(one, Compute):
            written, read = (
                " ".join(names[node] for node in nodes if node in names)
                for nodes in (one.nodes, one.reads)
            )
            lines.append(f"{written} <- {read}".rstrip())
        elif isinstance(one, Free):
            lines[-1] += f"; free {names[one.node]}"
    return "\n".join(lines)


KEPT = """\
z <- x W1
h <- z
o <- h W2
dJ/do <- o
J <-
dJ/dh <- dJ/do W2
W2_next <- h dJ/do learning_rate W2; free h; free dJ/do
dJ/dz <- z dJ/dh; free dJ/dh
W1_next <- x dJ/dz learning_rate W1; free dJ/dz"""
COMPUTED_AGAIN = """\
z <- x W1
h <- z
o <- h W2; free h
dJ/do <- o
J <-
dJ/dh <- dJ/do W2
dJ/dz h <- z dJ/dh
W2_next <- h dJ/do learning_rate W2; free dJ/do; free h
W1_next <- x dJ/dz learning_rate W1; free dJ/dz"""


def test_the_schedule_before_and_after(monkeypatch: Any) -> None:
    """dJ/dz and h take the bytes of dJ/dh and z."""

    def objective(x: float32[64, 8], W1: float32[8, 32], W2: float32[32, 1]) -> Any:
        z = x @ W1
        h = np.maximum(z, 0)
        o = h @ W2
        J = np.mean(np.sin(o))
        return J

    step = cr.training_step(objective, ("W1", "W2"), cr.sgd(0.1))

    def make() -> Plan:
        return plan(step.graph, *results_of(step, step.graph))

    assert schedule_text(without(monkeypatch, make)) == KEPT
    assert schedule_text(make()) == COMPUTED_AGAIN


def test_an_activation_is_gone_between_forward_propagation_and_its_product() -> None:
    graph = gradients()
    made = planned(graph)
    lives = {life.life: life for life in simulate(made.schedule).lifetimes}
    loss = lives[Life(graph["J"])].born
    for hidden in graph.all("hidden"):
        ended = lives[Life(hidden)].ended
        assert ended is not None and ended < loss < lives[Life(hidden, 1)].born


def test_what_is_written_again_takes_the_bytes_of_what_it_was_computed_from() -> None:
    graph = gradients()
    made = planned(graph)
    second = again(made)
    assert len(second) == 2 * LAYERS - 1  # what the first layer normalises is x
    for hidden in graph.all("hidden"):
        assert hidden in dict(made.computes[second[hidden]].in_place)


def test_each_layer_keeps_one_activation_instead_of_two(monkeypatch: Any) -> None:
    def make() -> Plan:
        return planned(gradients())

    kept = without(monkeypatch, make).schedule.scratch_nbytes
    assert make().schedule.scratch_nbytes <= kept - (LAYERS - 1) * ACTIVATION


@pytest.mark.parametrize("optimizer", [cr.sgd(0.1), cr.adamw(1e-3)])
def test_a_training_step_needs_less(optimizer: Any, monkeypatch: Any) -> None:
    def make() -> Plan:
        step = cr.training_step(network, ("params",), optimizer, **examples())
        made = plan(step.graph, *results_of(step, step.graph))
        simulate(made.schedule)
        return made

    kept = without(monkeypatch, make).schedule.scratch_nbytes
    assert make().schedule.scratch_nbytes <= kept - (LAYERS - 1) * ACTIVATION


@pytest.mark.sweep(2)
@pytest.mark.parametrize("layers", [4, 8])
def test_no_value_is_written_twice_for_nothing(layers: int, monkeypatch: Any) -> None:
    """Without any of the second lives the step would need more."""

    def deep(params: Any, x: Any) -> Any:
        h = x
        for layer in params:
            h = np.maximum(h @ layer["Win"] + layer["bin"], 0) @ layer["Wout"]
        J = np.mean(h * h)
        return J

    step = cr.training_step(deep, ("params",), cr.adam(1e-3), **examples(layers, (8,)))
    given = step.graph, *results_of(step, step.graph)
    made = plan(*given)
    simulate(made.schedule)
    second = again(made)
    assert second and len(second) < layers
    right = planner.rematerialisable
    for value in second:

        def without_it(*asked: Any, value: Node = value) -> Any:
            return [one for one in right(*asked) if one.value in second and one.value is not value]

        monkeypatch.setattr(planner, "rematerialisable", without_it)
        assert plan(*given).schedule.scratch_nbytes > made.schedule.scratch_nbytes


def test_what_is_kept_anyway_is_not_written_again() -> None:
    graph = gradients()
    made = planned(graph, "named")
    assert not {*graph.all("hidden")} & again(made).keys()


def test_what_costs_more_than_an_array_written_and_read_is_kept() -> None:
    """Five sines: in the derivative there are cosines."""

    def costly(z: Any) -> Any:
        return np.sin(z) + np.sin(2 * z) + np.sin(3 * z) + np.sin(4 * z) + np.sin(5 * z)

    graph = gradients(partial(network, activation=costly), **examples())
    assert not {*graph.all("hidden")} & again(planned(graph)).keys()


def test_a_nest_that_is_not_the_last_to_read_does_not_write_again() -> None:
    """Without a gradient for x, nothing in the backward pass reads it."""

    def objective(params: Any, x: Any) -> Any:
        hidden = np.tanh(x)
        o = hidden @ params
        J = np.mean(o * o)
        return J

    given = {"params": np.ones((WIDTH, WIDTH), np.float32), "x": examples()["x"]}
    assert not again(planned(gradients(objective, **given)))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": cr.gelu,
    "rectified": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "silu": lambda z: z / (1 + np.exp(-z)),
    "compared": lambda z: np.where(np.tanh(z) == z, z, np.sin(z)),
    "turned": lambda z: np.sin(z[..., ::-1]),
    "crossed": lambda z: np.swapaxes(np.sin(np.swapaxes(z, 0, 1)), 0, 1),
}


@pytest.mark.exhaustive
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(ACTIVATIONS)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from(["outputs", "named"]),
)
def test_no_network_needs_more_than_without(
    activation: str, shape: list[int], layers: int, keep: str
) -> None:
    def objective(params: Any, x: Any) -> Any:
        J = network(params, x, ACTIVATIONS[activation] if len(shape) > 1 else np.tanh)
        return J

    graph = gradients(objective, **examples(layers, tuple(shape)))
    with pytest.MonkeyPatch.context() as patch:
        kept = without(patch, lambda: planned(graph, keep))
    assert planned(graph, keep).schedule.scratch_nbytes <= kept.schedule.scratch_nbytes


@pytest.mark.sweep(3)
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_the_numbers_are_those_of_the_reference(activation: str) -> None:
    given = examples(2, (3, 5))

    def objective(params: Any, x: Any) -> Any:
        J = network(params, x, ACTIVATIONS[activation])
        return J

    graph = gradients(objective, **given)
    right, found = (graph.run(**given, executor=one) for one in ("reference", "native"))
    for name, _ in graph.outputs:
        expected = np.asarray(right[name])
        # float32 through two layers, each sum over at most 128 terms
        tolerance = 2e-5 * np.abs(expected).max()
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=tolerance)


def test_a_product_that_is_read_before_does_not_wait() -> None:
    """The forward pass itself needs the product, so that no nest after that writes its operand."""

    def objective(params: Any, x: Any) -> Any:
        hidden = cr.gelu(x @ params[0]["Win"] + params[0]["bin"])
        weights = np.reshape(hidden, (-1, 4 * WIDTH)).T @ np.reshape(x, (-1, WIDTH))
        J = np.mean((hidden @ weights) ** 2)
        return J

    assert not again(planned(gradients(objective, **examples(1))))
