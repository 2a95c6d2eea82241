"""State that does not fit is refused, with advice that is right."""

import numpy as np
import pytest
from normalised import STATE, beginning, network, rows, step

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import InputError


def objective(returned, like="m: float64[2]"):
    """The step of an objective that returns this, with the state m and k."""
    scope = {"np": np, "float64": float64, "float32": float32, "int64": int64}
    exec(
        f"def f(x: float64['n 2'], w: float64[2], {like}, k: float64[()]):\n"
        f"    J = np.mean((x @ w) ** 2)\n    return {returned}",
        scope,
    )
    return lambda **options: cr.training_step(
        scope["f"], "w", cr.sgd(1), **{"state": ("m", "k"), **options}
    )


@pytest.mark.parametrize(
    ("returned", "what", "advice"),
    [
        ("J", "f returns J, and nothing that follows its state: m, k", "'m': ..., 'k': ..."),
        ("J, m, k", "f returns J, m, k, and nothing that follows", "return J, {'m': ..."),
        ("J, {'m': m}", "returns in its state nothing for k", "with\nstate=('m', 'k',)"),
        (
            "J, {'m': m, 'k': k, 'l': J}",
            "returns in its state l, which state= does not name",
            "state=('m', 'k', 'l'), or leave them out",
        ),
        (
            "J, {'m': m[:1], 'k': k}",
            r"returns float64\[1\] for its state m, which is float64\[2\]",
            "keeps its dtype and its shape",
        ),
        (
            "J, {'m': m.astype(np.float32), 'k': k}",
            r"returns float32\[2\] for its state m, which is float64\[2\]",
            ".astype(np.float64) what follows it",
        ),
        ("J, {'m': [m], 'k': k}", r"returns m\[0\] for its state m, which has m", "same container"),
        ("J, J * 2, {'m': m, 'k': k}", "f has 4 outputs", "of='J'"),
    ],
)
def test_what_is_returned_has_to_fit(returned, what, advice):
    with pytest.raises(InputError, match=what) as caught:
        objective(returned)()
    assert caught.value.where or "outputs" in what
    assert advice in caught.value.hint


def test_state_that_is_returned_and_not_declared_is_refused():
    with pytest.raises(InputError, match="f returns what follows m, k beside J, and state=") as one:
        objective("J, {'m': m, 'k': k}")(state=())
    assert "state=('m', 'k') keeps them" in one.value.hint and one.value.where
    with pytest.raises(InputError, match="returns what follows mean, var, seen beside J"):
        cr.Trainer(network, beginning(), cr.sgd(0.1), rows(4), wrt=("W", "w"))
    left = objective("J, {'m': m, 'k': k}")(state=(), of="J")
    assert left.carried == () and [*left.init(w=np.ones(2))] == ["w"]


def test_the_advice_is_right_when_followed():
    objective("J, {'m': m, 'k': k, 'l': l}", "l: float64[()], m: float64[2]")(state=("m", "k", "l"))
    objective("J, J * 2, {'m': m, 'k': k}")(of="J")
    objective("J, {'m': m.astype(np.float32).astype(np.float64), 'k': k}")()


def test_what_is_declared_has_to_fit():
    with pytest.raises(InputError, match=r"f has no argument of that name\n.*perhaps m;") as caught:
        objective("J, {'m': m, 'k': k}")(state="mm")
    assert caught.value.what.startswith("state= names 'mm'")
    message = r"mean is trained \(wrt=\), and state of network that is not"
    with pytest.raises(InputError, match=message):
        cr.training_step(network, ("W", "mean"), cr.sgd(1), state=STATE)


def test_a_graph_that_was_transformed_tells_no_state():
    graph = cr.backward(cr.trace(network), wrt="W", of="J")
    with pytest.raises(InputError, match="which no longer tells what follows its state: mean"):
        cr.training_step(graph, "W", cr.sgd(1), of="J", state="mean")
    traced = cr.trace(network)
    assert cr.training_step(traced, ("W", "w"), cr.sgd(1), state=STATE).carried == STATE


def test_state_is_no_python_number():
    def f(w: float64[2], count=0):
        J = np.sum(w * w) * (2 if count > 5 else 1)
        return J, {"count": count + 1}

    with pytest.raises(InputError, match="f uses count as a Python number") as caught:
        cr.training_step(f, "w", cr.sgd(1), state="count")
    assert "np.where" in caught.value.hint and "2 if count > 5" in caught.value.where


def test_it_is_not_given_with_a_batch_and_not_left_out_of_init():
    one = step("reference")
    with pytest.raises(InputError, match=r"step.init of network was not given: var: float64\[4\]"):
        one.init({name: x for name, x in beginning().items() if name != "var"})
    with pytest.raises(InputError, match="mean was given to a step, and lives in the state"):
        one(one.init(beginning()), rows(4), mean=np.zeros(4))
    with pytest.raises(InputError, match="state= was given beside a training step"):
        cr.Trainer(one, beginning(), data=rows(4), state=STATE)


def test_no_plan_on_paper_has_it():
    with pytest.raises(InputError, match="carries mean, var, seen, and layers on paper") as caught:
        cr.plan_parallel(step("reference"), cr.Devices.cpu(2), batch=8)
    assert "training_step(..., of='J', training=False)" in caught.value.hint


@pytest.mark.slow
def test_a_step_with_the_state_as_it_is_is_split():
    given = beginning()
    fixed = {name: given.pop(name) for name in STATE}
    frozen = cr.training_step(network, ("W", "w"), cr.sgd(0.1), of="J", training=False)
    split = cr.parallel(frozen, micro_batches=2, replicas=2)
    state, alone = split.init(given), frozen.init(given)
    np.testing.assert_allclose(
        split(state, rows(8), **fixed), frozen(alone, rows(8), **fixed), 1e-13
    )
