"""A schedule is part of the graph of a step: its rate is a named value, its numbers are inputs."""

from __future__ import annotations

import numpy as np
import pytest
from updating import SCHEDULES, rate_at

import chainrule as cr
from chainrule import float32, float64
from chainrule.errors import InputError
from chainrule.primitives.arithmetic import sqrt
from chainrule.train import Optimizer, Schedule, StateArray, scaled

cosine = cr.schedules.cosine


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request, monkeypatch):
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)


def minus(w: float64[2]):
    """Its gradient is -1: gradient descent adds the learning rate."""
    J = -np.sum(w)
    return J


def step_with(schedule, of=minus):
    return cr.training_step(of, wrt="w", optimizer=cr.sgd(schedule))


def rates(schedule, steps: int, **numbers: float) -> np.ndarray:
    """The learning rates of the first steps, read off the parameter."""
    step = step_with(schedule)
    state = step.init(w=np.zeros(2))
    places = [0.0]
    for _ in range(steps):
        step(state, **numbers)
        places.append(state["w"][1])
    return np.diff(places)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_follow_the_formula(name):
    expected = [rate_at(name, 0.3, t) for t in range(100)]
    # The sum of the rates is up to 30: its roundings are 3e-15 each.
    np.testing.assert_allclose(rates(SCHEDULES[name](0.3), 100), expected, rtol=1e-12, atol=1e-14)


def test_the_rate_is_a_named_value_of_the_step():
    step = step_with(cr.schedules.step(0.5, every=2))
    state = step.init(w=np.zeros(2))
    seen = []
    for _ in range(5):
        seen.append(step.run(state, keep=["learning_rate"])["learning_rate"])
        step(state)
    np.testing.assert_allclose(seen, [0.5, 0.5, 0.05, 0.05, 0.005], rtol=1e-12)
    assert state["steps"] == state.steps == 5
    assert all(step.graph[name].origin.describe() for name in ("learning_rate", "steps_next"))


def test_the_text_of_a_step_shows_the_schedule():
    lines = str(step_with(cr.schedules.step(0.5, every=2))).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  steps_next"))
    assert [line.strip() for line in lines[start : start + 6]] == [
        "steps_next: float64[] = add(steps, %1)",
        "%2: float64[] = divide(steps, learning_rate_every)",
        "%3: int64[] = cast[dtype=int64, weak=False](%2)",
        "%4: float64[] = cast[dtype=float64, weak=False](%3)",
        "%5: float64[] = power(learning_rate_factor, %4)",
        "learning_rate: float64[] = multiply(learning_rate_base, %5)",
    ]


@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [
        (
            cosine(0.1, 50),
            cosine(0.3, 20, warmup=5, floor=0.1),
            {"base": 0.3, "steps": 20.0, "warmup": 5.0, "floor": 0.1},
        ),
        (
            cr.schedules.step(0.1, 7),
            cr.schedules.step(0.2, 3, 0.5),
            {"base": 0.2, "every": 3, "factor": 0.5},
        ),
        (
            cr.schedules.piecewise(0.1, (7, 8)),
            cr.schedules.piecewise(0.2, (3, 20), 0.5),
            {"base": 0.2, "boundary0": 3.0, "boundary1": 20.0, "factor": 0.5},
        ),
    ],
    ids=["cosine", "step", "piecewise"],
)
def test_the_numbers_of_a_schedule_are_inputs_and_change_no_graph(one, other, changes):
    hashes = {step_with(schedule).graph.structural_hash for schedule in (one, other)}
    assert len(hashes) == 1
    given = {f"learning_rate_{name}": value for name, value in changes.items()}
    assert step_with(one).scalars == {name: name for name in given}
    np.testing.assert_array_equal(rates(one, 30, **given), rates(other, 30))
    assert not np.allclose(rates(one, 30), rates(other, 30))


def test_a_number_that_is_given_once_is_not_kept():
    step = step_with(cr.schedules.step(0.5, every=2))
    state = step.init(w=np.zeros(2))
    for numbers in ({}, {"learning_rate_base": 0.25}, {"learning_rate_base": 1.0}, {}):
        step(state, **numbers)
    np.testing.assert_allclose(state["w"], 0.5 + 0.25 + 0.1 + 0.05, rtol=1e-12)


def test_schedules_at_their_edges():
    np.testing.assert_allclose(rates(cosine(0.5, 2), 4), [0.5, 0.25, 0, 0], atol=1e-15)
    warm = rates(cosine(0.5, 2, warmup=2, floor=0.1), 4)
    np.testing.assert_allclose(warm, [0, 0.25, 0.5, 0.1], atol=1e-15)
    np.testing.assert_allclose(rates(cosine(0.0, 1), 2), [0, 0])
    np.testing.assert_allclose(rates(cr.schedules.step(0.5, 1, 0.0), 3), [0.5, 0, 0])
    np.testing.assert_allclose(rates(cr.schedules.piecewise(0.5, [0]), 2), [0.05] * 2)


@pytest.mark.parametrize("schedule", [cosine(0.5, 3), cosine(0.5, 2, warmup=2)])
def test_no_value_on_the_way_is_nan(schedule):
    graph = step_with(schedule).graph
    for t in range(4):  # also what `where` does not choose: it would be found in a search for NaN
        given = {item.node: item.default for item in graph.inputs}
        values = given | {graph["w"]: np.zeros(2), graph["steps"]: np.array(float(t))}
        for node in graph:
            if node not in values:
                operands = [np.asarray(values[parent]) for parent in node.inputs]
                values[node] = node.primitive.evaluate(np, *operands, **dict(node.params))
            assert np.isfinite(values[node]).all(), node


def test_stages_end_where_they_should_also_late():
    step = step_with(cr.schedules.step(1.0, every=3, factor=0.5))
    for every, stage in ((3, 40), (7, 49), (1000, 50), (49, 12)):
        for t, expected in ((every * stage - 1, stage - 1), (every * stage, stage)):
            state = step.restore({"w": np.zeros(2), "steps": np.array(float(t))}, steps=t)
            step(state, learning_rate_every=every)
            assert state["w"][0] == 0.5**expected, (every, t)


def test_a_constant_schedule_is_a_number():
    assert cr.sgd(cr.schedules.constant(0.1)) == cr.sgd(0.1)


def test_a_schedule_goes_on_where_a_restored_state_was():
    step = step_with(cosine(0.3, 20, 5))
    state = step.init(w=np.zeros(2))
    for _ in range(7):
        step(state)
    restored = step.restore({**state}, steps=state.steps)
    for _ in range(10):
        step(state)
        step(restored)
    np.testing.assert_array_equal(state["w"], restored["w"])


def test_adam_and_its_schedule_count_steps_together():
    step = cr.training_step(minus, wrt="w", optimizer=cr.adam(cosine(0.1, 50)))
    assert [part.name for part in step.persistent] == ["w", "w_m", "w_v", "steps"]


def test_a_float32_parameter_moves_by_a_rate_computed_in_float64():
    def f(w: float32[2]):
        J = -np.sum(w)
        return J

    step = step_with(cosine(0.3, 20, 5), of=f)
    state = step.init(w=np.zeros(2, np.float32))
    assert step.graph["learning_rate"].dtype == np.float64
    step(state)
    step(state)
    assert state["w"].dtype == np.float32 and state["w"][0] == np.float32(0.3 / 5)


def test_names_that_the_objective_has_are_skipped():
    def f(w: float64[2], learning_rate=2.0, learning_rate_every=1.0, steps=1.0):
        J = -np.sum(w) * learning_rate * learning_rate_every * steps
        return J

    step = step_with(cr.schedules.step(0.5, every=2), of=f)
    assert step.scalars["learning_rate_every"] == "learning_rate_every_1"
    assert {"learning_rate_1", "steps_1", "steps_1_next"} <= set(step.graph.names)
    state = step.init(w=np.zeros(2))
    step(state, learning_rate=4.0, learning_rate_every_1=1.0)
    step(state, learning_rate=4.0, learning_rate_every_1=1.0)
    np.testing.assert_allclose(state["w"], 4 * 0.5 + 4 * 0.05, rtol=1e-12)


# Optimizers and schedules of one's own ---------------------------------------------------------


def own(rate, shared=(), factors=None) -> Optimizer:
    def rule(parameter, gradient, scalars, arrays):
        return parameter - scaled(scalars["rate"], gradient), {}

    return Optimizer("own", (("rate", rate),), rule, shared=shared, factors=factors)


def root(steps, scalars):
    return scalars["first"] / sqrt(steps + 1)


def test_a_schedule_of_ones_own_in_an_optimizer_of_ones_own():
    step = cr.training_step(
        minus, wrt="w", optimizer=own(Schedule("root", (("first", 0.5),), root))
    )
    assert step.scalars == {"rate_first": "rate_first"}
    state = step.init(w=np.zeros(2))
    for _ in range(4):
        step(state)
    total = sum(0.5 / np.sqrt(t + 1) for t in range(4))
    np.testing.assert_allclose(state["w"], total, rtol=1e-12)
    with pytest.raises(InputError, match="rate_first of own is a finite number, got nan"):
        step(state, rate_first=np.nan)


def test_factors_of_ones_own_see_the_scheduled_number():
    def factors(scalars, shared):
        steps = 1 + shared["steps"]
        return {"half": scalars["rate"] / 2}, {"steps": steps}

    def rule(parameter, gradient, scalars, arrays):
        return parameter - scaled(scalars["half"], gradient), {}

    schedule = cr.schedules.step(0.5, every=1)
    mine = Optimizer("own", (("rate", schedule),), rule, (), (StateArray("steps"),), factors)
    step = cr.training_step(minus, wrt="w", optimizer=mine)
    state = step.init(w=np.zeros(2))
    step(state)
    step(state)
    np.testing.assert_allclose(state["w"], 0.25 + 0.025, rtol=1e-12)
    assert [part.name for part in step.persistent] == ["w", "steps"]


# What is refused -------------------------------------------------------------------------------


def test_a_rate_given_beside_a_schedule_is_explained():
    step = step_with(cosine(0.1, 50, 5))
    state = step.init(w=np.zeros(2))
    for call in (step, step.run):
        with pytest.raises(InputError) as caught:
            call(state, learning_rate=0.1)
        assert caught.value.what == (
            "learning_rate was given to a step, which computes it by its schedule "
            "cosine(base=0.1, steps=50, warmup=5, floor=0)"
        )
        assert caught.value.hint == (
            "a step takes the numbers of the schedule: step(state, ..., learning_rate_base=0.1);\n"
            "also learning_rate_steps=50, learning_rate_warmup=5, learning_rate_floor=0;\n"
            "without a schedule, as in cr.sgd(0.1), it takes learning_rate="
        )
    assert state.steps == 0


@pytest.mark.parametrize(
    ("number", "value", "what", "default"),
    [
        ("base", -1.0, "a learning rate is a finite number of at least 0", "0.1"),
        ("steps", 0.5, "steps is a finite number of at least 1", "50"),
        ("warmup", np.nan, "a warm-up is a finite number of at least 0", "5"),
        ("floor", "0.1", "a floor is a finite number of at least 0", "0"),
    ],
)
def test_a_number_that_the_schedule_refuses_is_refused_by_a_step_too(number, value, what, default):
    step = step_with(cosine(0.1, 50, 5))
    state = step.init(w=np.zeros(2))
    step(state)
    with pytest.raises(InputError) as caught:
        step(state, {f"learning_rate_{number}": value})
    assert caught.value.what == f"{what}, got {value!r}"
    assert caught.value.hint == f"step(state, ..., learning_rate_{number}={default})"
    assert state.steps == 1


def test_a_shared_array_called_steps_has_to_count_steps():
    def factors(scalars, shared):
        return {}, {"steps": shared["steps"] + 2}

    mine = own(cosine(0.1, 5), (StateArray("steps"),), factors)
    with pytest.raises(InputError) as caught:
        cr.training_step(minus, wrt="w", optimizer=mine)
    assert caught.value.what == (
        "the factors of own do not add 1 to `steps`, which a schedule takes for the number of steps"
    )
    assert "test_schedules.py" in caught.value.where
    cr.training_step(minus, wrt="w", optimizer=own(0.1, (StateArray("steps"),), factors))


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (lambda steps, s: 0.1, "the rule of mine returned a float"),
        (lambda steps, s: sqrt(steps) * np.ones(2), "the rule of mine failed: "),
        (lambda steps, s: None, "the rule of mine returned None"),
        (lambda steps, s: steps > 3, "the rule of mine failed: '>' not supported"),
    ],
)
def test_a_schedule_that_returns_no_number_is_explained(rule, what):
    with pytest.raises(InputError) as caught:
        cr.training_step(minus, wrt="w", optimizer=own(Schedule("mine", (), rule)))
    assert caught.value.what.startswith(what)
    assert "test_schedules.py" in caught.value.where and caught.value.hint
