"""On paper, a step is a chain of layers, which are priced once and split as ranks split them."""

from __future__ import annotations

from typing import Any

import pytest
from paper_models import SMALL, cluster, decoder
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule.devices.grid import Grid
from chainrule.devices.parts import parts_at
from chainrule.devices.planning.costs import costs_of, in_numpy
from chainrule.devices.planning.model import orders_of
from chainrule.devices.planning.paper.chain import chain_of
from chainrule.devices.planning.paper.pricing import Price, price
from chainrule.devices.planning.paper.ways import spread
from chainrule.devices.splitting import placed_step
from chainrule.devices.tensor.choosing import choose
from chainrule.devices.tensor.collectives import SHARDS
from chainrule.devices.tensor.layouts import Layout
from chainrule.devices.tensor.spreading import spread as spread_graph
from chainrule.graph.words import names_of

# The chain ----------------------------------------------------------------------------------------


def priced(step: cr.TrainingStep, sizes: dict[str, int], ways: int = 1) -> tuple[Any, list[Price]]:
    parts = parts_at(step.micro_batched(1), sizes)
    chain = chain_of(parts, step.parameters)
    devices = cluster(8)
    link = devices.link(0, 1)
    return parts, [price(one, ways, devices.groups[0], link, {}) for one in chain.elements]


@pytest.mark.parametrize("model", sorted(MODELS))
def test_kept_values_are_those_of_a_step_that_is_split(model: str) -> None:
    step, *_ = case(model, "adamw", "reference")
    assert_kept(step, {"n": ROWS})


def test_kept_values_of_a_decoder_are_those_of_a_step_that_is_split() -> None:
    assert_kept(decoder(*SMALL), {"n": 2})


def assert_kept(step: cr.TrainingStep, sizes: dict[str, int]) -> None:
    parts, prices = priced(step, sizes)
    micro = step.micro_batched(1)
    placed = placed_step(micro, parts, Grid(1), orders_of(1, 1, "1f1b"), None, "time", "reference")
    (stage,) = costs_of(parts, placed, in_numpy(cr.Devices.cpu(1).groups[0]))
    kept = {one for e in chain_of(parts, step.parameters).elements for one in e.kept}
    assert sum(int(one.type.nbytes) for one in kept) == stage.kept_nbytes
    assert sum(one.kept_nbytes for one in prices) >= stage.kept_nbytes
    sums = sum(one.gradient_nbytes for one in prices)
    numbers = sum(not parts.summing.names[name].shape for name in step.parameters)
    assert 0 < stage.sums_nbytes - sums <= 8 + 8 * numbers  # the objective's, and theirs


def test_layers_are_found_and_priced_once() -> None:
    parts = parts_at(decoder(*SMALL).micro_batched(1), {"n": 2})
    chain = chain_of(parts, decoder(*SMALL).parameters)
    names = names_of(parts.summing)
    assert [chain.name(at) for at in range(len(chain.elements))] == [
        *("before", "layer 0", "layer 1", "layer 2", "after")
    ]
    for number in range(3):
        own = {names[one] for one in chain.elements[number + 1].parameters}
        assert {name.split(".")[1] for name in own} == {f"l{number}"} and len(own) == 12
        assert len(chain.elements[number + 1].entering) == 1
    everything = [node for one in chain.elements for node in (*one.forward, *one.backward)]
    assert len(everything) == len(set(everything))
    plan = cr.plan_parallel(decoder(*SMALL), cluster(8), batch=8, ways=1, micro_batches=8)
    assert plan.priced <= 4  # before, a layer, the last layer, after


def test_a_step_without_layers_is_a_chain_of_parts() -> None:
    step, *_ = case("network", "sgd", "reference")
    plan = cr.plan_parallel(step, cluster(8), batch=ROWS, stages=2)
    assert not plan.chain.layers and "part 0" in str(plan)
    assert plan.best.way.stages == 2


# Tensor parallelism -------------------------------------------------------------------------------


def test_a_layer_is_split_by_columns_and_rows() -> None:
    """As Megatron-LM: two sums forward and two backward; norms and residuals are whole."""
    step = decoder(*SMALL)
    parts = parts_at(step.micro_batched(1), {"n": 2})
    layer = chain_of(parts, step.parameters).elements[2]
    found = spread(layer.forward, layer.parameters, layer.leaving, 4)
    names = names_of(parts.summing)
    axes = {names[one].rpartition(".")[2]: found.axes.get(one) for one in layer.parameters}
    columns, rows = dict.fromkeys(("q", "k", "v", "w1"), 1), dict.fromkeys(("o", "w2"), 0)
    whole = dict.fromkeys(("g1", "b1", "g2", "b2", "c1", "c2"))
    assert axes == {**columns, **rows, **whole}
    residual = 4 * 2 * 16 * 32
    assert found.forward_nbytes == found.backward_nbytes == (residual, residual)
    scores = [one for one in layer.forward if one.shape == (2, 4, 16, 16)]
    assert scores and all(found.axes[one] == 1 for one in scores if one.dtype.kind == "f")
    assert not any(one in found.axes for one in layer.forward if one.shape == (2, 16, 32, 1))


def test_the_model_splits_a_layer_as_ranks_do() -> None:
    """`devices/tensor` makes the graphs that ranks run: it splits the same parameters of a layer,
    and adds up as many bytes.  Tables of words it leaves whole, or gathers their products."""
    step = decoder(*SMALL)
    parts = parts_at(step.micro_batched(1), {"n": 2})
    graph, names = parts.summing, names_of(parts.summing)
    objective = graph.names[parts.objective]
    layers = [name for name in step.parameters if name.startswith("p.")]
    chosen = choose(graph, objective, layers, 4, None).axes
    chain = chain_of(parts, step.parameters)
    added = 0
    for at in chain.layers:
        element = chain.elements[at]
        found = spread(element.forward, element.parameters, element.leaving, 4)
        for one in element.parameters:
            if names[one].endswith("c1"):  # a bias is small: the model leaves it whole
                continue
            assert chosen[names[one]] == found.axes.get(one), names[one]
        added += sum(found.forward_nbytes) + sum(found.backward_nbytes)
    given = {graph.names[name]: Layout(axis) for name, axis in chosen.items()}
    sums = [name for name in parts.sums if name.removesuffix("_grad_sum") in chosen]
    lying = {name: Layout(chosen[name.removesuffix("_grad_sum")]) for name in sums}
    given |= {graph.names[name]: at for name, at in lying.items()}
    fixed = {graph.names[parts.sums[name]]: at for name, at in lying.items()}
    made = spread_graph(graph, 4, SHARDS, given, fixed=fixed)
    assert made.moved_nbytes == pytest.approx(2 * 3 / 4 * added, rel=0.02)


def test_tables_of_words_are_split_by_words() -> None:
    step = decoder(*SMALL)
    parts = parts_at(step.micro_batched(1), {"n": 2})
    first, *_, last = chain_of(parts, step.parameters).elements
    names = names_of(parts.summing)
    for element, name, axis in ((first, "E", 0), (last, "U", 1)):
        found = spread(element.forward, element.parameters, element.leaving, 4)
        assert {names[one]: at for one, at in found.axes.items() if one in element.parameters} == {
            name: axis
        }
        assert element.leaving not in found.axes


def test_what_cannot_be_split_evenly_stays_whole() -> None:
    step = decoder(*SMALL)
    parts = parts_at(step.micro_batched(1), {"n": 2})
    layer = chain_of(parts, step.parameters).elements[2]
    found = spread(layer.forward, layer.parameters, layer.leaving, 3)
    assert not found.axes and not found.shared and found.forward_nbytes == ()
    eight = spread(layer.forward, layer.parameters, layer.leaving, 8)  # and there are four heads
    names = names_of(parts.summing)
    split = {names[one].rpartition(".")[2] for one in layer.parameters if one in eight.axes}
    assert {"w1", "w2"} <= split
    assert all(one.shape[axis] % 8 == 0 for one, axis in eight.axes.items())
