"""What a select leaves out reaches no derivative, though a factor there is NaN or infinite."""

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

import chainrule as cr

INF, NAN = np.inf, np.nan
X = np.array([-1.5, -1.0, -0.0, 0.0, 0.5, 2.0])


# Each is f(library, x, keep): keep(condition, x) is x, and for the referee the double where that
# people write elsewhere: 0.5 where the condition does not hold.


def other_side(m, x, keep):
    y = keep(x > 0, x)
    return m.where(x <= 0, x * x, m.log1p(y) / y)


def chain(m, x, keep):
    y = keep(x > 0, x)
    return m.where(x > 0, m.tanh(m.log(y) * m.sqrt(y) + x), x * x)


def two_selects(m, x, keep):
    return m.where(x > 1, 1.0, m.where(x > 0, m.log(keep(x > 0, x)), x))


def broadcast(m, x, keep):
    y = m.log(keep(x > 0, x))[:, None] * m.array([1.0, 2.0])
    return m.where((x > 0)[:, None], y, 0.0)


def reshaped(m, x, keep):
    y = m.reshape(m.log(keep(x > 0, x)), (2, 3))
    return m.where((x > 0).reshape(2, 3), y, 0.0)


def masked_rows(m, x, keep):
    """Rows whose sum is not positive have no logarithm; a mean over the others."""
    total = m.sum(m.reshape(x, (3, 2)), axis=1)
    right = total > 0.1
    return m.sum(m.where(right, m.log(keep(right, total)), 0.0)) / m.sum(right)


def length_or_zero(m, x, keep):
    """x over its length, and 0 for x = 0: the condition ends in a sum over all elements."""
    squares = m.sum(x * x) * 0
    quotient = x * x / m.sqrt(keep(squares != 0, squares))
    return m.sum(m.where(squares == 0, 0.0, quotient)) + m.sum(x)


TRAPS = {
    "log": lambda m, x, keep: m.where(x > 0, m.log(keep(x > 0, x)), 0.0),
    "sqrt": lambda m, x, keep: m.where(x > 0, m.sqrt(keep(x > 0, x)), x**3),
    "reciprocal": lambda m, x, keep: m.where(x == 0, 0.0, 1 / keep(x != 0, x)),
    "power": lambda m, x, keep: m.where(x > 0, keep(x > 0, x) ** 1.5, 0.0),
    "overflow": lambda m, x, keep: m.where(x > 1, x, m.exp(900 * keep(x <= 1, x) - 800)),
    "arcsin": lambda m, x, keep: m.where(abs(x) < 1, m.arcsin(keep(abs(x) < 1, x)), x),
    "part": lambda m, x, keep: m.where(x[2:] > 0, m.log(keep(x > 0, x))[2:], 0.0),
    "other side": other_side,
    "chain": chain,
    "two selects": two_selects,
    "broadcast": broadcast,
    "reshaped": reshaped,
    "masked rows": masked_rows,
    "length or zero": length_or_zero,
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("name", TRAPS)
def test_derivatives_are_those_of_the_double_where(name, executor):
    def safe(x):
        return anp.sum(TRAPS[name](anp, x, lambda right, y: anp.where(right, y, 0.5)))

    def f(x):
        return np.sum(TRAPS[name](np, x, lambda right, y: y))

    slope, bend = autograd.grad(safe), autograd.hessian(safe)
    with np.errstate(all="ignore"):
        graph = cr.backward(cr.trace(f, X), wrt="x")
        found = graph.run(x=X, executor=executor)
        assert np.isfinite(found["dout/dx"]).all()
        np.testing.assert_allclose(found["dout/dx"], slope(X), rtol=1e-12, atol=1e-14)
        for hessian in (cr.hessian(f), cr.jacrev(cr.grad(f)), cr.jacfwd(cr.jacfwd(f))):
            np.testing.assert_allclose(hessian(X), bend(X), rtol=1e-11, atol=1e-13)
        v = np.linspace(1, 2, len(X))
        tangent = cr.jvp(f, (X,), (v,))[1]
        np.testing.assert_allclose(tangent, slope(X) @ v, rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda x: np.maximum(np.log(x * x), -5), [-2, 0, 1]),
        (lambda x: np.minimum(-np.log(x * x), 5), [2, 0, -1]),
        (lambda x: np.clip(np.log(x * x), -5, 5), [-2, 0, 1]),
        (lambda x: cr.relu(np.log(x * x) + 2), [-2, 0, 1]),
        (lambda x: np.select([x > 0, x < 0], [np.log(x), np.log(-x)], 0), [-1, 0, 0.5]),
        (lambda x: np.piecewise(x, [x != 0], [lambda x: 1 / x, 0.0]), [-1, 0, -0.25]),
        (lambda x: np.nan_to_num(np.log(x * x)), [-2, 0, 1]),
        (lambda x: np.fmax(np.log(x), 0), [0, 0, 0.5]),
        (lambda x: np.choose([0, 2, 1], [x, np.log(x), 2 * x]), [1, 2, 0.5]),
        (lambda x: np.choose([2, 0, 1], [np.log(2 + x), np.sqrt(x), x]), [1, 0.5, 0.5 / 2**0.5]),
    ],
)  # fmt: skip
def test_other_functions_that_select(f, slope):
    x = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(cr.grad(lambda x: np.sum(f(x)))(x), slope)
        np.testing.assert_allclose(cr.jvp(f, (x,), (np.ones(3),))[1], slope)


# A function that is infinitely steep where a select has put a number: what it is of x where x is
# selected (its derivative is 0 elsewhere), and where that is.
INSIDE = {
    "where": (lambda x: np.sqrt(np.where(x > 0, x, 0)), lambda x: anp.sqrt(x), X > 0),
    "maximum": (lambda x: np.sqrt(np.maximum(x, -0.5) + 0.5), lambda x: anp.sqrt(x + 0.5), X > -1),
    "minimum": (lambda x: np.log(-np.minimum(x + 1.2, 0)), lambda x: anp.log(-x - 1.2), X < -1.2),
    "clip": (
        lambda x: np.arccos(np.clip(x / 1.2, -1, 1)),
        lambda x: anp.arccos(x / 1.2),
        abs(X) < 1.2,
    ),
    "relu": (lambda x: np.log(cr.relu(x)), lambda x: anp.log(x), X > 0),
    "nan_to_num": (
        lambda x: np.nan_to_num(np.where(x > 0, x, NAN)) ** 0.5,
        lambda x: x**0.5,
        X > 0,
    ),
    "absolute": (lambda x: np.sqrt(np.abs(x)), lambda x: anp.sqrt(anp.abs(x)), X != 0),
    "select": (
        lambda x: np.select([x > 1, x > 0], [1.0, x]) ** 0.3,
        lambda x: x**0.3,
        (X > 0) & (X < 1),
    ),
    "reciprocal": (lambda x: 1 / np.maximum(x - 0.1, 0), lambda x: 1 / (x - 0.1), X > 0.1),
    "largest": (
        lambda x: np.sqrt(np.max(np.where(x > 0, x, 0).reshape(3, 2), axis=1)),
        lambda x: anp.sqrt(x),
        X == 2,
    ),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", INSIDE)
def test_a_select_inside_a_function_of_infinite_slope(name):
    f, safe, selected = INSIDE[name]
    x = X
    slope, bend = np.zeros(len(x)), np.zeros(len(x))
    slope[selected] = autograd.elementwise_grad(safe)(x[selected])
    bend[selected] = autograd.elementwise_grad(autograd.elementwise_grad(safe))(x[selected])

    def total(x):
        return np.sum(f(x))

    with np.errstate(all="ignore"):
        for executor in ("reference", "native"):
            run = cr.backward(cr.trace(total, x), wrt="x").run(x=x, executor=executor)
            np.testing.assert_allclose(run["dout/dx"], slope, rtol=1e-12)
        v = np.linspace(1, 2, len(x))
        np.testing.assert_allclose(cr.jvp(total, (x,), (v,))[1], slope @ v, rtol=1e-12)
        for hessian in (
            cr.hessian(total),
            cr.jacrev(cr.grad(total)),
            cr.jacfwd(cr.jacfwd(total)),
            cr.jacrev(cr.jacfwd(total)),
        ):
            np.testing.assert_allclose(hessian(x), np.diag(bend), rtol=1e-11)
        hvp = cr.jvp(cr.grad(total), (x,), (v,))[1]
        np.testing.assert_allclose(hvp, bend * v, rtol=1e-11)


def test_tangents_keep_their_condition_where_they_are_moved_joined_and_added():
    def f(x):
        y = np.where(x > 0, x, 0)
        both = np.concatenate([y, np.where(x > 1, 2 * x, 0)]).reshape(2, -1)[:, ::-1]
        total = np.sum(np.where(x < -1, x, 0).reshape(3, 2), axis=1)
        return np.sum(np.sqrt(both)) + np.sum(np.sqrt(-total)) + np.sum(np.sqrt(y + y * y))

    with np.errstate(all="ignore"):
        given = cr.grad(f)(X)
        assert np.isfinite(given).all()
        rows = cr.jacfwd(f)(X)
        np.testing.assert_allclose(rows, given, rtol=1e-12)


def test_an_infinite_slope_that_is_selected_is_told():
    with np.errstate(all="ignore"):
        x = np.array([-1.0, 0.0, 4.0])
        found = cr.grad(lambda x: np.sum(np.sqrt(np.maximum(x, 0))))(x)
        np.testing.assert_array_equal(found, [0, INF, 0.25])
        nan = cr.grad(lambda x: np.sum(np.log(np.maximum(x, 0)) * np.array([NAN, 1, 1])))(x)
        np.testing.assert_array_equal(nan, [0, INF, 0.25])


def test_only_slopes_that_may_be_infinite_are_selected_after_the_product():
    steady = lambda x: np.exp(np.maximum(x, 0)) / (1 + np.maximum(x, 0) ** 2)  # noqa: E731
    for f in (
        steady,
        lambda x: np.sqrt(np.maximum(x, 0) ** 2 + 1e-6),
        lambda x: np.maximum(x, 0) ** 3.0,
        lambda x: cr.layer_norm(np.maximum(x, 0)),
        lambda x: cr.log_softmax(np.maximum(x, 0)),
        lambda x: np.arctan(np.maximum(x, 0)),
    ):
        graph = cr.backward(cr.trace(lambda x, f=f: np.sum(f(x)), np.ones(3)), wrt="x")
        wheres = [node for node in graph.nodes if node.primitive.name == "where"]
        slopes = [one for one in wheres if one.inputs[0].primitive.name == "greater"]
        assert slopes and all(one.inputs[1].primitive.name == "full" for one in slopes)


def test_a_choice_under_vmap_selects():
    def f(x):
        return cr.cond(x > 0, lambda: np.log(x) * np.sqrt(x), lambda: x * x)

    x = np.array([-1.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        assert cr.grad(lambda x: np.sum(cr.vmap(f)(x)))(x).tolist() == [-2, 0, 1]
        assert cr.vmap(cr.grad(f))(x).tolist() == [-2, 0, 1]


def test_missing_labels_in_a_masked_loss():
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(4, 3)), rng.normal(size=3), np.array([1.0, NAN, 2.0, INF])

    def loss(w, x, y):
        right = np.isfinite(y)
        error = np.where(right, (x @ w - y) ** 2 * y, 0)
        return np.sum(error) / np.sum(right)

    known = np.isfinite(y)
    given = cr.grad(loss)(w, x, y)
    np.testing.assert_allclose(given, cr.grad(loss)(w, x[known], y[known]), rtol=1e-13)


def test_a_row_of_nan_that_the_mask_leaves_out():
    y = np.array([[1.0, 2.0], [NAN, INF]])

    def loss(w, y):
        each = np.sum(w * y, axis=1)
        return np.sum(np.where(np.isfinite(each), each, 0))

    assert cr.grad(loss)(np.array([1.0, 3.0]), y).tolist() == [1, 2]


@pytest.mark.parametrize("product", [np.cumprod, lambda x, axis: np.prod(x, axis)[:, None] + x])
def test_products_of_elements_of_a_row_that_the_mask_leaves_out(product):
    x = np.array([[1.0, 2.0, 0.5], [NAN, INF, 3.0]])

    def f(x):
        return np.sum(np.where(np.array([[True], [False]]), product(x, axis=1), 0))

    cut = cr.grad(lambda x: np.sum(product(x, axis=1)))
    np.testing.assert_array_equal(cr.grad(f)(x), [cut(x[:1])[0], [0, 0, 0]])
    for hessian in (cr.jacrev(cr.grad(f)), cr.jacfwd(cr.grad(f)), cr.jacfwd(cr.jacfwd(f))):
        found = hessian(x)
        np.testing.assert_allclose(found[0, :, 0], cr.jacrev(cut)(x[:1])[0, :, 0], rtol=1e-13)
        assert not found[1].any() and not found[0, :, 1].any()


def test_a_nan_that_is_selected_is_reported():
    x = np.array([-1.0, 0.0, 4.0])
    with np.errstate(all="ignore"):
        wrong = cr.grad(lambda x: np.sum(np.where(x < 1, np.sqrt(x), x)))(x)
        np.testing.assert_array_equal(wrong, [NAN, INF, 1])
        # Used outside of the select, too:
        both = cr.grad(lambda x: np.sum(np.where(x > 0, r := np.sqrt(x), 0)) + np.sum(r))(x)
        np.testing.assert_array_equal(both, [NAN, INF, 0.5])
        # A mask that multiplies is no select: its value is NaN as well.
        masked = cr.grad(lambda x: np.sum((x > 0) * np.log(x)))(x)
        assert np.isnan(masked[1])
        upstream = cr.grad(lambda x: np.sum(np.where(x > 1, x, 0) * NAN))(x)
        np.testing.assert_array_equal(upstream, [0, 0, NAN])


def test_a_condition_ends_at_a_product_of_matrices():
    x = np.array([[1.0, 2.0], [NAN, 1.0]])

    def f(w):
        each = x @ w
        return np.sum(np.where(np.isfinite(each), each, 0))

    assert np.isnan(cr.grad(f)(np.ones(2))[0])


def nodes(f, *args, wrt=None):
    return cr.backward(cr.trace(f, *args), wrt=wrt).nodes


def selects(f, *args, wrt=None):
    return [node for node in nodes(f, *args, wrt=wrt) if node.primitive.name == "where"]


def test_a_network_with_relu_has_no_further_select():
    def f(W, b, x):
        return np.sum(np.maximum(np.maximum(x @ W + b, 0) @ W, 0) ** 2)

    given = np.ones((3, 3)), np.ones(3), np.ones((2, 3))
    assert len(selects(f, *given, wrt=("W", "b"))) == 4  # two of each relu's slope
    assert not any(node.primitive.name == "logical_or" for node in nodes(f, *given, wrt=("W", "b")))

    def g(W, b, x):
        return np.sum(cr.relu(cr.relu(x @ W + b) @ W) ** 2)

    assert len(selects(g, *given, wrt=("W", "b"))) == 4  # one forward, one backward each


def test_slices_of_functions_of_bounded_slope_need_no_select():
    def f(x):
        return np.sum((np.tanh(x * 3.0) / (1 + x**2))[1:] * np.exp(x / 2.0)[1:])

    assert not selects(f, np.ones(4))


def test_numbers_are_no_reason_to_select():
    assert len(selects(lambda x: np.sum(np.where(x > 0, -2.0 * x / 3.0, x)), np.ones(3))) == 3


def test_a_quotient_below_a_relu_needs_no_select_of_its_own():
    def f(x):
        return np.sum(cr.relu(cr.layer_norm(x)))

    assert len(selects(f, np.ones((2, 3)))) == 2  # forward, and its slope
    # Here x / y may be NaN where it is left out, there 1 / y infinite.
    assert len(selects(lambda x: np.sum(np.where(x > 0, cr.layer_norm(x), 0)), np.ones(3))) == 4
    with np.errstate(all="ignore"):
        x = np.array([-1.0, -2.0, 3.0])
        found = cr.grad(lambda y: np.sum(cr.relu(x / y)))(np.array([0.0, 1.0, 2.0]))
        np.testing.assert_array_equal(found, [0, 0, -0.75])
        found = cr.grad(lambda x, y: np.sum(cr.relu(x / y)))(x, np.array([0.0, INF, 2.0]))
        np.testing.assert_array_equal(found, [0, 0, 0.5])
        left_out = np.where(np.isnan(x * NAN), 0.0, 1.0)
        found = cr.grad(lambda x: np.sum(np.where(left_out > 0, x / NAN, 0.0)))(x)
        np.testing.assert_array_equal(found, [0, 0, 0])


def test_norms_select_once_for_each_length():
    shapes = [node.shape for node in selects(lambda x: cr.norm(x, axis=1).sum(), np.ones((2, 3)))]
    assert set(shapes) == {(2,)}


def test_what_divides_by_0_is_left_out_too() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 1e3, x / 0.0, x))

    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(cr.grad(f)(np.array([1.0, 2.0])), [1.0, 1.0])


def test_a_condition_and_its_opposite_leave_nothing_out() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(np.where(x > 0, x, -x) + np.where(x > 0, 0.0, x)))

    graph = cr.backward(cr.trace(f, np.ones(3)), wrt="x")
    assert not [
        node for node in graph.nodes if node.primitive.name in ("logical_or", "logical_and")
    ]


def test_each_layer_of_a_stack_asks_its_own_select_alone():
    """Not also whether one element of the next layer's rows was selected, which most are."""

    def stack(x):
        for _ in range(4):
            x = cr.relu(cr.layer_norm(x))
        return np.sum(x)

    graph = cr.backward(cr.trace(stack, np.ones((3, 4))), wrt="x")
    asked = [n for n in graph.nodes if n.type.dtype == bool]
    assert {n.primitive.name for n in asked} == {"less_equal"} and len(asked) == 4


def test_where_both_sides_of_a_select_add_up_nothing_is_left_out():
    """softplus selects -x or x: of its second derivative the parts are those of both."""

    def f(x):
        y = np.max(x, keepdims=True)
        z = np.tanh(y)
        return np.sum(np.sin(np.tanh(y)) + np.tanh(z) + np.sin(cr.softplus(z)))

    x, h = np.array([-0.7]), 1e-5
    step = cr.backward(cr.trace(f, x), wrt="x")
    twice = cr.backward(step, wrt="x", of="dout/dx", seed="v").run(x=x, v=np.ones(1))
    slope = cr.grad(f)
    expected = (slope(x + h) - slope(x - h)) / (2 * h)
    np.testing.assert_allclose(twice["d(dout/dx)/dx"], expected, rtol=1e-8)
