"""State of an objective that is not trained: taken, returned, and there in the next step."""

import numpy as np
import pytest
from normalised import STATE, beginning, network, rows, step
from trainings import EXECUTORS

import chainrule as cr
from chainrule import float64, int64, uint32
from chainrule.explain.report.data import report_data


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request):
    return request.param


def by_numpy(arrays, batch):
    """What follows the state of `network`, from the definition."""
    z = batch["x"] @ arrays["W"]
    count = len(z)
    mean, var = z.mean(0), z.var(0, ddof=1)
    moved = {"mean": 0.9 * arrays["mean"] + 0.1 * mean, "var": 0.9 * arrays["var"] + 0.1 * var}
    return {**moved, "seen": arrays["seen"] + count}


def test_each_step_takes_what_the_one_before_left(executor):
    one = step(executor)
    state = one.init(beginning())
    for count in (8, 8, 5):
        batch = rows(count)
        wanted = by_numpy(state, batch)
        one(state, batch)
        for name, array in wanted.items():
            np.testing.assert_allclose(state[name], array, 1e-13, err_msg=name)
    assert state["seen"] == 21 and state["seen"].dtype == np.int64
    assert [*state] == ["W", "w", *STATE, "W_velocity", "w_velocity"]
    assert one.carried == STATE and [*state.carried] == [*STATE]
    assert [*state.parameters] == ["W", "w"] and [*state.weights] == ["W", "w", *STATE]


def test_no_gradient_flows_into_it():
    """Parameters move as with the statistics of a constant."""
    one, other = (step("reference", cr.sgd(0.1)) for _ in range(2))
    state, moved = one.init(beginning()), other.init({**beginning(), "mean": np.full(4, 7.0)})
    one(state, rows(8)), other(moved, rows(8))
    np.testing.assert_array_equal(state["W"], moved["W"])
    assert "dJ/dmean" not in one.graph


def test_it_is_named_and_shown_as_the_parameters_are():
    one = step("reference")
    outputs = [name for name, _ in one.graph.outputs]
    assert outputs[:6] == ["J", "W_next", "w_next", "mean_next", "var_next", "seen_next"]
    update = str(one.equations()).partition("\nUpdate\n")[2].splitlines()
    assert (
        update[0].split(maxsplit=1)[1]
        == "mean_next = 0.9 stop(mean) + 0.1 stop(mean_{axis 0}(z)) ∈ ℝ⁴"
    )
    shown = one.draw().mermaid().replace("#95;", "_")
    assert "mean_next" in shown and "seen_next" in shown
    run = one.run(one.init(beginning()), rows(8), keep="named")
    assert run["seen_next"] == 8


def test_memory_has_it_by_name_and_to_the_byte(executor):
    one = step(executor)
    report = one.memory(n=64)
    values = report.values
    assert {name: values[name].nbytes for name in STATE} == {"mean": 32, "var": 32, "seen": 8}
    assert {str(values[name].kind) for name in STATE} == {"carried state"}
    assert report.training.parts["carried state"] == 72
    assert "is state that the objective carries" in report.why("mean")
    if executor == "native":  # updated where they lie, as parameters are
        following = ("W_next", "mean_next", "var_next", "seen_next")
        assert [name for name in following if not values[name].in_place] == []
    alone = cr.training_step(
        lambda x, w: np.mean((x @ w) ** 2), "w", cr.sgd(1), x=float64["n 3"], w=float64[3]
    )
    assert "carried state" not in str(alone.memory(n=4))


def test_a_report_takes_it_with_the_parameters(tmp_path):
    one = step("reference")
    given = {**rows(8), **beginning()}
    cr.report(one, inputs=given, path=tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    data = report_data(one, given)
    kinds = {value["name"]: value["kind"] for value in data["values"]}
    assert kinds["mean"] == "state" and kinds["mean_next"] == "update"
    with pytest.raises(cr.errors.InputError, match="were not given: mean"):
        cr.report(one, inputs={name: array for name, array in given.items() if name != "mean"})


def test_a_step_in_parts_carries_it_from_part_to_part(executor):
    one = step(executor)
    parts = one.micro_batched(3)
    state, batch = parts.init(beginning()), rows(12)
    for _ in range(2):
        wanted = {**state}
        for start in (0, 4, 8):
            part = {name: array[start : start + 4] for name, array in batch.items()}
            wanted |= by_numpy(wanted, part)
        parts(state, batch)
        for name in STATE:
            np.testing.assert_allclose(state[name], wanted[name], 1e-13, err_msg=name)
    whole, alone = one.init(beginning()), one.micro_batched(1)
    other = alone.init(beginning())
    one(whole, batch), alone(other, batch)
    for name in whole:
        np.testing.assert_allclose(whole[name], other[name], 1e-13, err_msg=name)


def test_a_part_that_fails_leaves_it_as_it_was(executor):
    def J(x: float64["n 2"], i: int64["n"], w: float64[5], seen: float64[()]):
        J = np.mean(np.take(w, i)) + np.sum(x)
        return J, {"seen": seen + np.sum(x)}

    one = cr.training_step(J, "w", cr.sgd(0.1), state="seen", executor=executor)
    for taken in (one, one.micro_batched(2)):
        state = taken.init(w=np.ones(5), seen=1.0)
        with pytest.raises(cr.errors.IndexOutOfRangeError):
            taken(state, x=np.ones((4, 2)), i=np.array([0, 1, 2, 9]))
        assert state["seen"] == 1 and state.steps == 0
        taken(state, x=np.ones((4, 2)), i=np.arange(4))
        assert state["seen"] == 9


def test_arrays_that_change_places_do(executor):
    """What follows an array may be another array of the state, or of the batch, or a constant."""

    def J(w: float64[3], x: float64[3], a: float64[3], b: float64[3], c: float64[3], d: float64[3]):
        J = np.sum(w * x * a)
        return J, {"a": b, "b": a, "c": w, "d": x}

    one = cr.training_step(J, "w", cr.sgd(1.0), state=("a", "b", "c", "d"), executor=executor)
    given = {name: np.full(3, float(number)) for number, name in enumerate("abcdw", 2)}
    for taken in (
        one,
        cr.training_step(
            lambda w, x, n, a, b, c, d: J(w, x, a, b, c, d),
            "w",
            cr.sgd(1.0),
            state=("a", "b", "c", "d"),
            executor=executor,
            n=float64["n"],
            **{name: float64[3] for name in "wxabcd"},
        ).micro_batched(1),
    ):
        state = taken.init(given)
        batch = {"x": np.arange(3.0)} | ({} if taken is one else {"n": np.ones(2)})
        taken(state, batch)
        found = {name: state[name] for name in "abcd"}
        wanted = {"a": given["b"], "b": given["a"], "c": given["w"], "d": np.arange(3.0)}
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, name)
        np.testing.assert_array_equal(state["w"], given["w"] - np.arange(3.0) * given["a"])
        taken(state, batch)
        np.testing.assert_array_equal(state["a"], given["a"])


def test_the_objective_and_equal_values_can_follow(executor):
    def J(w: float64[3], last: float64[()], a: float64[3], b: float64[3], one: float64[()]):
        J = np.sum(w * w)
        both = a + w
        return J, {"last": J, "a": both, "b": both, "one": np.float64(3.0)}

    made = cr.training_step(J, "w", cr.sgd(0.5), state=("last", "a", "b", "one"), executor=executor)
    state = made.init(w=np.ones(3), last=0.0, a=np.zeros(3), b=np.zeros(3), one=1.0)
    assert made(state) == 3 == state["last"] == state["one"]
    np.testing.assert_array_equal(state["a"], np.ones(3))
    np.testing.assert_array_equal(state["b"], np.ones(3))
    assert made(state) == 0 == state["last"]


def test_containers_keys_and_defaults(executor):
    """A key that is split each step, statistics in a dict, a counter that begins at its default."""

    def J(x: float64["n"], w: float64[()], key: uint32[2], ema, count=0):
        key, own = cr.random.split(key)
        noise = cr.random.normal(own, (), dtype=np.float64)
        J = np.mean((x * w + noise) ** 2)
        ema = {"a": {"w": 0.5 * ema["a"]["w"] + 0.5 * w}}
        return J, {"key": key, "ema": ema, "count": count + 1}

    ema = {"a": {"w": np.array(2.0)}}
    made = cr.training_step(
        J,
        "w",
        cr.sgd(0.1),
        state=("key", "ema", "count"),
        executor=executor,
        ema={"a": {"w": float64[()]}},
    )
    assert made.carried == ("key", "ema.a.w", "count")
    state = made.init(w=1.0, key=cr.random.key(5), ema=ema)
    x = np.ones(4)
    key, w = cr.random.key(5), 1.0
    for number in range(3):
        key, own = cr.random.split(key)
        noise = cr.random.normal(own, (), dtype=np.float64)
        average = 0.5 * state["ema"]["a"]["w"] + 0.5 * w
        np.testing.assert_allclose(made(state, x=x), (w + noise) ** 2, 1e-13)
        np.testing.assert_array_equal(state["key"], key)
        np.testing.assert_allclose(state["ema"]["a"]["w"], average)
        w = float(state["w"])
        assert state["count"] == number + 1
    restored = made.restore({**state}, steps=state.steps)
    made(state, x=x), made(restored, x=x)
    assert all(state[name].tobytes() == restored[name].tobytes() for name in state if name != "ema")


def test_it_is_in_files_and_a_training_goes_on_bit_for_bit(executor, tmp_path):
    given = beginning()
    data = rows(14)

    def trainer(folder, epochs):
        made = cr.Trainer(
            network,
            given,
            cr.adam(0.01),
            data,
            state=STATE,
            batch_size=7,
            folder=folder,
            progress=False,
            executor=executor,
            validation=rows(9),
        )
        made.fit(epochs)
        return made

    whole = trainer(tmp_path / "whole", 2)
    trainer(tmp_path / "parts", 1)
    found = trainer(tmp_path / "parts", 2)
    assert all(whole.state[n].tobytes() == found.state[n].tobytes() for n in whole.state)
    assert found.state["seen"] == 2 * 14
    path = found.save_weights(tmp_path / "weights.safetensors")
    checkpoint = max((tmp_path / "parts").glob("*.safetensors"))
    for file in (path, checkpoint):
        loaded = cr.load_weights(file)
        assert [*loaded] == ["W", "w", *STATE] if file is checkpoint else set(loaded) >= set(STATE)
        score = cr.evaluate(network, loaded, rows(9), batch_size=7, executor=executor)
        other = cr.evaluate(found.step, found.state, rows(9), batch_size=7, executor=executor)
        assert score == other == found.evaluate(rows(9))
    cr.save_weights(tmp_path / "mine.safetensors", found.state.weights)
    mine = cr.load_weights(tmp_path / "mine.safetensors")
    assert all(mine[name].tobytes() == found.state[name].tobytes() for name in mine)


def test_a_trainer_in_micro_batches_carries_it(executor):
    given = {"batch_size": 8, "progress": False, "executor": executor, "state": STATE}
    made = cr.Trainer(network, beginning(), cr.sgd(0.1), rows(16), micro_batches=2, **given)
    made.fit(2)
    assert made.state["seen"] == 32
    report = made.memory()
    assert report.sums_nbytes == 8 + 8 * (3 * 4 + 4) + 72  # sums, and copies of what is carried


def test_what_spoils_a_later_part_is_found():
    """The replay of a step in parts gives each part what the one before left."""

    def J(x: float64["n"], w: float64[()], scale: float64[()]):
        J = np.mean(x * w) * scale
        return J, {"scale": scale * 1e200}

    trainer = cr.Trainer(
        J,
        {"w": 1.0, "scale": 1.0},
        cr.sgd(0.0),
        {"x": np.ones(6)},
        state="scale",
        batch_size=6,
        micro_batches=3,
        progress=False,
        executor="reference",
    )
    with pytest.raises(cr.errors.NonFiniteError) as caught:
        trainer.fit(1)
    assert caught.value.diagnosis is not None
    assert "scale" in str(caught.value) and trainer.state["scale"] == 1


@pytest.mark.slow
@pytest.mark.sweep(2)
def test_a_budget_of_memory_changes_no_bit(executor):
    """Values that are computed again see the state that the step began with."""

    def deep(x: float64["n 32"], Ws, mean: float64[32]):
        h = x
        for W in Ws:
            h = np.tanh(h @ W - mean)
        J = np.mean(h**2)
        return J, {"mean": 0.9 * mean + 0.1 * np.mean(h, axis=0)}

    def made(**options):
        types = {"state": "mean", "executor": executor, "Ws": Ws}
        return cr.training_step(deep, "Ws", cr.sgd(0.1), **types, **options)

    random = np.random.default_rng(0)
    Ws = [0.3 * random.standard_normal((32, 32)) for _ in range(8)]
    x = random.standard_normal((256, 32))
    full = made()
    needed = full.memory(n=256).needed_nbytes
    state = full.init(Ws=Ws, mean=np.zeros(32))
    parts, within = full.micro_batched(2), made(memory=needed - 60_000)
    want = [full(state, x=x) for _ in range(3)]
    mine = within.init(Ws=Ws, mean=np.zeros(32))
    assert within.memory(n=256).needed_nbytes <= needed - 60_000
    assert [within(mine, x=x) for _ in range(3)] == want
    assert all(mine[name].tobytes() == array.tobytes() for name, array in state.arrays.items())
    nbytes = parts.memory(n=256).needed_nbytes - 30_000
    tight = made(memory=nbytes).micro_batched(2)
    assert tight.memory(n=256).needed_nbytes <= nbytes
    one, other = (taken.init(Ws=Ws, mean=np.zeros(32)) for taken in (parts, tight))
    assert [parts(one, x=x) for _ in range(2)] == [tight(other, x=x) for _ in range(2)]
    assert all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in one)


def test_a_container_of_state_may_be_empty(executor):
    """As the buffers of a model that has none."""

    def empty(x: float64["n 3"], w: float64["3"], buffers):
        J = np.mean((x @ w) ** 2)
        return J, {"buffers": buffers}

    step = cr.training_step(empty, "w", cr.sgd(0.1), state="buffers", buffers={}, executor=executor)
    state = step.init(w=np.ones(3), buffers={})
    first = step(state, x=np.ones((2, 3)))
    assert step(state, x=np.ones((2, 3))) < first
    assert step.carried == () and [*state] == ["w"]
