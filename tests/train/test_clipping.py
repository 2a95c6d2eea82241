"""`clip_by_global_norm`: gradients of all parameters are scaled to a largest norm."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import float16, float32, float64
from chainrule.errors import InputError
from chainrule.train import Optimizer, scaled

clip = cr.clip_by_global_norm


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request, monkeypatch):
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)


def linear(w: float64[2], b: float64, a: float64[2], c=1.0):
    """Its gradients are a and c."""
    J = np.sum(a * w) + c * b
    return J


def step_of(optimizer, of=linear, wrt=("w", "b")):
    return cr.training_step(of, wrt=wrt, optimizer=optimizer)


def after(step, a, c=1.0, **numbers):
    """Parameters that began at 0, after one step."""
    state = step.init(w=np.zeros(2), b=np.zeros(()))
    step(state, a=np.array(a), c=c, **numbers)
    return state["w"], state["b"]


def test_the_norm_is_that_of_all_parameters_together():
    step = step_of(clip(cr.sgd(1.0), 6.5))
    state = step.init(w=np.zeros(2), b=np.zeros(()))
    run = step.run(state, a=np.array([3.0, 4.0]), c=12.0, keep=["gradient_norm", "clip_factor"])
    assert run["gradient_norm"] == pytest.approx(13, rel=1e-15)
    assert run["clip_factor"] == pytest.approx(6.5 / (13 + 1e-6), rel=1e-15)
    w, b = after(step, [3.0, 4.0], 12.0)
    np.testing.assert_allclose([*w, b], [-1.5, -2, -6], rtol=1e-6)
    assert step.graph["gradient_norm"].origin.describe()


def test_a_smaller_norm_changes_nothing():
    w, b = after(step_of(clip(cr.sgd(1.0), 13.1)), [3.0, 4.0], 12.0)
    np.testing.assert_array_equal([*w, b], [-3, -4, -12])


def test_the_largest_norm_is_an_input_and_may_follow_a_schedule():
    step = step_of(clip(cr.sgd(1.0), 1.0))
    assert step.scalars["max_norm"] == "max_norm"
    _, b = after(step, [3.0, 4.0], 12.0, max_norm=26.0)
    assert b == -12
    step = step_of(clip(cr.sgd(1.0), cr.schedules.piecewise(26.0, [1], 0.25)))
    state = step.init(w=np.zeros(2), b=np.zeros(()))
    for expected in (-12, -18):
        step(state, a=np.array([3.0, 4.0]), c=12.0)
        assert state["b"] == pytest.approx(expected, rel=1e-6)


def test_weight_decay_comes_after_clipping():
    step = step_of(clip(cr.sgd(1.0, weight_decay=0.5), 6.5))
    state = step.init(w=np.full(2, 100.0), b=np.zeros(()))
    step(state, a=np.array([3.0, 4.0]), c=12.0)
    np.testing.assert_allclose(state["w"], [100 - 50 - 1.5, 100 - 50 - 2], rtol=1e-6)


def test_a_gradient_of_zero_divides_by_no_zero():
    w, b = after(step_of(clip(cr.sgd(1.0), 0.5)), [0.0, 0.0], 0.0)
    np.testing.assert_array_equal([*w, b], [0, 0, 0])
    w, b = after(step_of(clip(cr.sgd(1.0), 0.0)), [3.0, 4.0])
    np.testing.assert_array_equal([*w, b], [0, 0, 0])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_norm_that_is_not_finite_is_no_error_as_in_pytorch():
    step = step_of(clip(cr.sgd(1.0), 0.5))
    w, b = after(step, [np.inf, 1.0], 2.0)
    assert np.isnan(w[0]) and w[1] == 0 == b
    w, b = after(step, [np.nan, 1.0], 2.0)
    assert np.isnan([*w, b]).all()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("a", [[3.0, 4.0], [0.1, 0.0], [np.inf, 1.0], [-np.inf, 0.0], [np.nan, 1]])
def test_one_step_equals_that_of_pytorch(a):
    torch = pytest.importorskip("torch")
    theirs = [torch.zeros(2, dtype=torch.float64), torch.zeros((), dtype=torch.float64)]
    theirs[0].grad, theirs[1].grad = torch.tensor(a, dtype=torch.float64), torch.ones(()).double()
    torch.nn.utils.clip_grad_norm_(theirs, 1.25)
    torch.optim.SGD(theirs, lr=1.0).step()
    w, b = after(step_of(clip(cr.sgd(1.0), 1.25)), a)
    np.testing.assert_allclose(w, theirs[0].numpy(), rtol=1e-15)
    np.testing.assert_allclose(b, theirs[1].numpy(), rtol=1e-15)


def test_a_norm_that_float32_cannot_square_is_right():
    def f(w: float32[3], a: float32[3]):
        J = np.sum(a * w)
        return J

    step = step_of(clip(cr.sgd(1.0), 1e25), f, "w")
    state = step.init(w=np.zeros(3, np.float32))
    step(state, a=np.full(3, 1e30, np.float32))
    np.testing.assert_allclose(state["w"], -1e25 / np.sqrt(3), rtol=1e-6)
    assert state["w"].dtype == np.float32


def test_float16_and_float64_parameters_are_clipped_by_one_norm():
    def f(w: float16[2], v: float64[1]):
        J = np.sum(w).astype(np.float64) * 300 + np.sum(v) * 300
        return J

    step = step_of(clip(cr.sgd(1.0), 1.0), f, ("w", "v"))
    state = step.init(w=np.zeros(2, np.float16), v=np.zeros(1))
    step(state)  # the square of 300 is no float16
    np.testing.assert_allclose(state["v"], -1 / np.sqrt(3), rtol=1e-6)
    np.testing.assert_allclose(state["w"], np.float16(-1 / np.sqrt(3)))


def test_what_the_objective_does_not_reach_has_no_part_in_the_norm():
    def f(w: float64[2], unused: float64[2]):
        J = np.sum(w) * 3
        return J

    step = step_of(clip(cr.adam(), 1.0), f, ("w", "unused"))
    state = step.init(w=np.zeros(2), unused=np.ones(2))
    run = step.run(state, keep=["gradient_norm"])
    assert run["gradient_norm"] == pytest.approx(np.sqrt(18), rel=1e-15)
    step = step_of(clip(cr.sgd(0.1), 1.0), f, "unused")
    step(step.init(unused=np.ones(2)), w=np.ones(2))
    assert "gradient_norm" not in step.graph.names


def test_the_text_of_a_step_shows_the_norm():
    lines = str(step_of(clip(cr.sgd(1.0), 0.5))).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  gradient_norm"))
    assert lines[start].split(" = ")[0].strip() == "gradient_norm: float64[]"
    assert any(line.startswith("  clip_factor: float64[] = minimum(") for line in lines)


def test_numbers_change_no_graph():
    hashes = {step_of(clip(cr.sgd(0.1), norm)).graph.structural_hash for norm in (0.5, 2.0)}
    assert len(hashes) == 1


# Optimizers of one's own -----------------------------------------------------------------------


def by_the_largest(rate=1.0, measures=None) -> Optimizer:
    """Descent by rate / the sum of squares of all gradients."""

    def measured(gradients, scalars):
        assert list(gradients) == ["w", "b"]
        total = gradients["b"] * gradients["b"]
        return {"total": total}

    def rule(parameter, gradient, scalars, arrays):
        return parameter - scaled(scalars["rate"] / scalars["total"], gradient), {}

    return Optimizer("mine", (("rate", rate),), rule, measures=measures or measured)


def test_an_optimizer_of_ones_own_measures_all_gradients():
    w, b = after(step_of(by_the_largest()), [3.0, 4.0], 2.0)
    np.testing.assert_allclose([*w, b], [-3 / 4, -4 / 4, -2 / 4])


def test_what_is_clipped_is_measured_after_clipping():
    w, b = after(step_of(clip(by_the_largest(), 6.5)), [3.0, 4.0], 12.0)
    np.testing.assert_allclose([*w, b], [-1.5 / 36, -2 / 36, -6 / 36], rtol=1e-5)


@pytest.mark.parametrize(
    ("measures", "what"),
    [
        (lambda g, s: None, "the measures of mine returned None"),
        (lambda g, s: {"total": 1.0}, "the measures of mine returned a float in place of a node"),
        (
            lambda g, s: {"total": g["w"]},
            "the measures of mine returned float64[2] as total, which is no float64[]",
        ),
        (lambda g, s: g["w"] * g["b"], "the measures of mine failed: types differ: "),
    ],
)
def test_measures_that_are_no_scalars_are_explained(measures, what):
    with pytest.raises(InputError) as caught:
        step_of(by_the_largest(measures=measures))
    assert caught.value.what.startswith(what)
    assert "test_clipping.py" in caught.value.where and caught.value.hint


def test_a_rule_that_fails_behind_clipping_is_shown_where_it_is():
    mine = Optimizer("mine", (), lambda w, g, s, a: None)
    with pytest.raises(InputError, match="the rule of mine returned None for w") as caught:
        step_of(clip(mine, 1.0))
    assert "lambda w, g, s, a: None" in caught.value.where


def test_what_cannot_be_clipped_is_explained():
    with pytest.raises(InputError, match=r"a largest norm is a finite number .*, got -1") as caught:
        clip(cr.sgd(0.1), -1)
    assert caught.value.hint == "cr.clip_by_global_norm(cr.sgd(0.1), max_norm=1.0)"
    with pytest.raises(InputError, match="clips for an optimizer, got float"):
        clip(1.0, cr.sgd(0.1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"sgd has a max_norm already: 1\.0"):
        clip(clip(cr.sgd(0.1), 1.0), 2.0)
    step = step_of(clip(cr.sgd(1.0), 0.5))
    with pytest.raises(InputError, match=r"a largest norm is .* got -0\.5") as caught:
        after(step, [3.0, 4.0], max_norm=-0.5)
    assert caught.value.hint == "step(state, ..., max_norm=0.5)"
