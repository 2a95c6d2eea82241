"""`check_gradients` passes what is right, finds what is wrong, and says what and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientCheckError, InputError, KinkWarning
from chainrule.primitives.arithmetic import exp, maximum, sign, sqrt, tanh
from chainrule.primitives.products import matmul
from chainrule.testing import as_function, check_gradients, check_modes_agree, planted_fault
from chainrule.testing.differences import slopes

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((4, 3))
W = GENERATOR.standard_normal((3, 2))


def network(x, params):
    return np.sum(np.tanh(x @ params["W"] + params["b"]) ** 2)


PARAMS = {"W": W, "b": np.array([0.1, -0.2])}


@dataclass
class Layer:
    weight: np.ndarray
    bias: float


def test_a_right_function_passes_up_to_order_three():
    check_gradients(network, X, PARAMS, order=3, seed=0)


def test_containers_numbers_and_integers_pass_through():
    def objective(layer, labels, scale, axis):
        logits = X @ layer.weight * scale + layer.bias
        return cr.cross_entropy(logits, labels) + np.sum(logits, axis=axis)[0]

    check_gradients(objective, Layer(W, 0.3), np.array([0, 1, 1, 0]), 2.0, 0, seed=1)


def test_several_outputs_in_a_container():
    check_gradients(lambda x: {"a": np.exp(x), "b": [x * x, x > 0]}, X, seed=0)


def test_float32_arguments_are_checked_in_float64():
    check_gradients(lambda x: np.sum(np.sin(x)), X.astype(np.float32), seed=0)


def test_empty_arrays_pass():
    check_gradients(lambda x, y: np.sum(np.exp(x)) * y, np.zeros((0, 2)), 1.5, seed=0)


def test_a_zero_gradient_is_confirmed():
    check_gradients(lambda x: np.sum(cr.softmax(x)), X, seed=0)


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e9, 1e150])
def test_every_unit_is_checked_alike(unit):
    def area(x):
        return np.sum(x * x) / unit

    check_gradients(area, X * unit, seed=0)
    wrong = as_function(planted_fault(tanh, "scaled"))
    with pytest.raises(GradientCheckError):
        check_gradients(lambda x: np.sum(wrong(x / unit)) * unit, X * unit, seed=0)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("kind", ["scaled", "shifted", "negated", "missing", "detached"])
def test_a_wrong_rule_is_found_whatever_the_size_of_the_value(kind, scale):
    wrong = as_function(planted_fault(tanh, kind))
    with pytest.raises(GradientCheckError):
        check_gradients(lambda x: np.sum(wrong(x) * scale), X, seed=0)


def test_a_zero_rule_of_a_thousandth_is_found():
    wrong = as_function(planted_fault(sign, "shifted"))
    with pytest.raises(GradientCheckError, match="not what finite differences give"):
        check_gradients(wrong, X, seed=0)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_each_mode_alone_finds_a_wrong_partial(mode):
    wrong = as_function(planted_fault(exp, "scaled"))
    with pytest.raises(GradientCheckError, match=rf"\({mode} mode, order 1\)"):
        check_gradients(wrong, X, modes=(mode,), seed=0)


def test_a_fault_deep_inside_a_network_is_found():
    wrong = as_function(planted_fault(matmul, "scaled", argument=1))

    def objective(x, w):
        return np.sum(np.tanh(wrong(x, w)) ** 2)

    with pytest.raises(GradientCheckError, match="with respect to w:"):
        check_gradients(objective, X, W, seed=0)
    check_gradients(objective, X, W, wrt="x", order=1, seed=0)
    check_gradients(objective, X, W, modes=("forward",), order=1, seed=0)


def test_the_message_names_argument_numbers_mode_order_and_seed():
    wrong = as_function(planted_fault(exp, "scaled"))

    def objective(x, params):
        return np.sum(x) + np.sum(wrong(params["W"]))

    with pytest.raises(GradientCheckError) as caught:
        check_gradients(objective, X, {"W": W}, seed=7)
    text = str(caught.value)
    assert text.startswith(
        "objective with respect to params.W: the derivative is not what finite differences give "
        "(forward mode, order 1)\n  analytic: "
    )
    analytic, numeric = (
        float(line.split()[1]) for line in text.splitlines()[1:3]
    )  # "  analytic: 1.23", "  numeric:  1.23 (± 1e-10)"
    assert analytic / numeric == pytest.approx(1.001, rel=1e-7)
    assert "  in output 0, along direction 1 of seed=7\n" in text
    assert "try: check_gradients(..., seed=7) repeats this;" in text


def test_a_second_order_message_says_derivative_of_what():
    wrong = as_function(planted_fault(tanh, "detached"))
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(wrong, X, seed=0)
    assert str(caught.value).startswith("the forward derivative of tanh with respect to")
    assert "order 2" in str(caught.value)


def test_an_element_of_an_output_is_named():
    mask = np.zeros((4, 3), bool)
    mask[2, 1] = True
    right, wrong = as_function(exp), as_function(planted_fault(exp, "scaled"))
    with pytest.raises(GradientCheckError, match=r"in output 0 at element \[2, 1\], along"):
        check_gradients(lambda x: np.where(mask, wrong(x), right(x)), X, seed=0)


def test_the_seed_drawn_is_the_one_that_repeats_the_error():
    wrong = as_function(planted_fault(exp, "scaled"))
    with pytest.raises(GradientCheckError) as first:
        check_gradients(wrong, X)
    seed = int(str(first.value).partition("seed=")[2].split()[0].rstrip(")"))
    with pytest.raises(GradientCheckError) as again:
        check_gradients(wrong, X, seed=seed)
    assert str(again.value) == str(first.value)


@pytest.mark.filterwarnings("ignore::chainrule.errors.KinkWarning")
def test_a_nan_derivative_fails():
    def objective(x):  # the slope of the root at 0 is inf, times 0
        return np.sum(x + 0 * np.sqrt(x - x))

    with pytest.raises(GradientCheckError):
        check_gradients(objective, np.array([1.0, -2.0]), seed=0)


def test_a_point_outside_the_domain_fails():
    with pytest.raises(GradientCheckError, match="finite differences cannot decide"):
        check_gradients(as_function(sqrt), np.array([-1.0, 2.0]), seed=0)


def test_a_point_at_a_kink_fails_or_has_its_convention_confirmed():
    relu = as_function(maximum)
    zero = np.array([0.0])
    with pytest.warns(KinkWarning, match="at a kink of maximum"):  # half is the mean slope
        check_gradients(lambda x: relu(x, np.zeros(1)), zero, order=1, seed=0)
    with pytest.raises(GradientCheckError):
        check_gradients(cr.stop_gradient, zero, order=1, seed=0)


def test_a_function_close_to_a_kink_is_checked_with_a_smaller_step():
    check_gradients(lambda x: np.maximum(x, 0.0), np.array([1.0, 2e-5, -3e-5]), seed=0)


def test_what_rounding_hides_is_not_called_right():
    with pytest.raises(GradientCheckError, match="finite differences cannot decide") as caught:
        check_gradients(lambda x: x + 1e11, np.asarray(1.0), order=1, seed=0)
    assert "subtract a large constant" in str(caught.value)


def test_float32_inside_is_not_called_right():
    with pytest.raises(GradientCheckError, match=r"cannot decide|not what"):
        check_gradients(lambda x: np.exp(x.astype(np.float32)), X, order=1, seed=0)


def test_modes_agree_also_where_finite_differences_do_not_apply():
    check_modes_agree(cr.stop_gradient, X, seed=0)
    check_modes_agree(as_function(maximum), np.zeros(3), np.zeros(3), seed=0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": 0}, "order is at least 1"),
        ({"modes": ("backward",)}, 'modes are "forward", "reverse" or both'),
        ({"modes": ()}, "modes are"),
        ({"wrt": "z"}, r"wrt='z' is no argument of network.*\n.*the arguments are: x, params"),
        ({"wrt": 2}, "wrt=2 is no argument"),
    ],
)
def test_unknown_options_are_explained(options, text):
    with pytest.raises(InputError, match=text):
        check_gradients(network, X, PARAMS, **options)


def test_nothing_to_differentiate_is_explained():
    with pytest.raises(InputError, match="given no floating-point argument"):
        check_gradients(lambda n: n + 1, np.arange(3))
    with pytest.raises(InputError, match="returns no floating-point value"):
        check_gradients(lambda x: x > 0, X)


def test_wrt_chooses_arguments_by_name_or_number():
    wrong = as_function(planted_fault(exp, "scaled"))

    def objective(x, y):
        return np.sum(x * x) + np.sum(wrong(y))

    check_gradients(objective, X, X, wrt="x", seed=0)
    check_gradients(objective, X, X, wrt=0, seed=0)
    for wrt in ("y", 1, -1, ["x", "y"]):
        with pytest.raises(GradientCheckError):
            check_gradients(objective, X, X, wrt=wrt, seed=0)


@pytest.mark.parametrize(
    ("function", "derivative"),
    [(np.exp, np.exp), (np.sin, np.cos), (lambda x: x**5, lambda x: 5 * x**4)],
)
def test_the_bound_of_a_finite_difference_holds(function, derivative):
    x = np.linspace(0.1, 3, 50)
    [slope] = slopes(lambda point: [function(point[0])], [x], [np.ones(50)], 0.0)
    assert np.all(np.abs(slope.value - derivative(x)) <= slope.error)
    assert np.all(slope.error <= 1e-6 * np.abs(derivative(x)) + 1e-8)
