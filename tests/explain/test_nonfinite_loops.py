"""What `nonfinite` says of a NaN or an inf within a loop or a choice."""

import warnings

import numpy as np
import pytest
from nonfinite_truths import Truth, branch, check, of

import chainrule as cr
from chainrule import float64
from chainrule.explain.nonfinite import nonfinite_step

X = np.array([1.0, 2.0, 0.5, 3.0, 0.25])


def logs(x):
    def cell(total, p):
        h = np.log(p)
        return total + h, h

    return cr.scan(cell, 0.0, x)[0]


def reversed_logs(x):
    def cell(total, p):
        h = np.log(p)
        return total + h, None

    return cr.scan(cell, 0.0, x, reverse=True)[0]


def roots(x):
    def cell(total, p):
        d = np.sqrt(p)
        return total + d, d

    return cr.scan(cell, 0.0, x)[0]


def counted(x):
    def shrink(i, a):
        below = a - i
        return np.sqrt(below) + i

    return np.sum(cr.fori_loop(0, 5, shrink, x))


def growing(x):
    def grow(v):
        squared = v * v
        return squared

    return np.sum(cr.while_loop(lambda v: v[0] < np.inf, grow, x))


def chosen(x):
    def logarithm(y):
        h = np.log(y)
        return np.sum(h)

    return cr.cond(np.sum(x) > 0, logarithm, np.sum, x)


def not_chosen(x):
    def line(y):
        return np.sum(y)

    def reciprocal(y):
        r = 1.0 / y
        return np.sum(r)

    return cr.cond(np.sum(x) > 100, line, reciprocal, x)


def nested(x):
    def outer(i, a):
        def inner(j, b):
            q = np.log(b - i * j)
            return b + 0 * q

        return cr.fori_loop(0, 3, inner, a)

    return np.sum(cr.fori_loop(0, 4, outer, x))


def choosing_in_a_loop(x):
    def root(r):
        d = np.sqrt(r - 0.5)
        return d

    def step(total, r):
        return total + cr.cond(r > 0, root, lambda r: r * 2, r), None

    return cr.scan(step, 0.0, x)[0]


def at(place, value):
    x = X.copy()
    x[place] = value
    return x


LOG = "log of 0"
TRUTHS = {
    "scan": Truth(
        logs, at(3, 0.0), 0, "np.log(p)", "-inf", (), (of(3, "cell", 4),), LOG,
        operands="p = 0", value="h",
    ),
    "a scan that goes back": Truth(
        reversed_logs, at(1, -1.0), 0, "np.log(p)", "NaN", (), (of(1, "cell", 4),),
        "log of a number below 0", operands="p = -1", value="h",
    ),
    "fori_loop": Truth(
        counted, [9.0, 1e-4], 0, "np.sqrt(below)", "NaN", (1,), (of(1, "shrink", 4),),
        "the square root of a negative number", operands="below[1] = -0.99",
    ),
    "while_loop": Truth(
        growing, [3.0, 2.0], 0, "v * v", "inf", (0,), (of(9, "grow"),), "overflow",
        operands="v[0] = 1.9", value="squared",
    ),
    "cond": Truth(
        chosen, at(4, 0.0), 0, "np.log(y)", "-inf", (4,), (branch(True, "logarithm"),), LOG,
        operands="[4] = 0", value="h",
    ),
    "the other branch": Truth(
        not_chosen, at(2, 0.0), 0, "1.0 / y", "inf", (2,), (branch(False, "reciprocal"),),
        "1 / 0 is inf", operands="[2] = 0", value="r",
    ),
    "nested loops": Truth(
        nested, [3.0, 2.5], 0, "np.log(b - i * j)", "NaN", (0,),
        (of(2, "outer", 3), of(2, "inner", 2)), "log of a number below 0",
        operands="[0] = -1", value="q",
    ),
    "a choice in a loop": Truth(
        choosing_in_a_loop, at(3, 0.25), 0, "np.sqrt(r - 0.5)", "NaN", (),
        (of(3, "step", 4), branch(True, "root")), "the square root of a negative number",
        operands="= -0.25", value="d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRUTHS)
def test_turn_value_element_line_and_cause_are_told(case):
    truth = TRUTHS[case]
    check(truth)
    if truth.function is not growing:  # of a while_loop there is no gradient
        check(truth._replace(order=1))


@pytest.mark.parametrize("place", range(5))
def test_the_backward_pass_tells_the_iteration_of_the_forward_loop(place):
    x = at(place, 0.0)
    found = cr.backward(cr.trace(roots, x), wrt="x").nonfinite(x=x)
    assert found.phase == "the backward pass" and found.forward_was_finite
    assert found.inside == (f"iteration {place} (of 0 to 4) of a loop over cell",)
    assert found.because == "the derivative of sqrt at 0 is inf"
    assert "d = np.sqrt(p)" in found.where
    assert "np.sqrt(p + eps)" in found.hint and "input" not in str(found)


def test_a_choice_in_a_loop_is_told_in_the_backward_pass():
    x = at(1, 0.5)
    x[2] = x[4] = 2.0
    found = cr.backward(cr.trace(choosing_in_a_loop, x), wrt="x").nonfinite(x=x)
    assert found.inside == (
        "iteration 1 (of 0 to 4) of a loop over step",
        "the branch for True (root) of a cond",
    )
    assert "d = np.sqrt(r - 0.5)" in found.where


def test_infinities_that_a_loop_carries_on_purpose_are_no_fault():
    def largest(x):
        def step(most, r):
            most = np.maximum(most, r)
            return most, np.log(most)

        most, logs = cr.scan(step, -np.inf, x)
        return most + 0 * np.sum(np.where(logs > 0, logs, 0.0))

    graph = cr.trace(largest, X)
    assert graph.nonfinite(x=X) is None
    found = graph.nonfinite(x=at(0, -1.0))  # the log of -1, chosen by no np.where, is none
    assert found is None
    assert graph.nonfinite(x=at(2, np.nan)).value == "x"


def test_a_loop_that_hands_on_a_nan_is_not_blamed():
    found = cr.trace(logs, X).nonfinite(x=at(2, np.nan))
    assert found.value == "x" and found.inside == ()


def random_places():
    random = np.random.default_rng(5)
    for _ in range(20):
        shape = random.integers(1, 6, 2)
        yield shape, tuple(int(random.integers(0, n)) for n in shape)


@pytest.mark.parametrize(("shape", "place"), [*random_places()])
def test_the_first_bad_element_is_that_of_a_loop_in_numpy(shape, place):
    x = np.ones(shape)
    x[place] = -0.5

    def total(x):
        def step(c, row):
            h = np.log(row)
            return c * 0.5 + h, h

        return np.sum(cr.scan(step, x[0] * 0, x)[0])

    found = cr.trace(total, x).nonfinite(x=x)
    assert found.inside == (f"iteration {place[0]} (of 0 to {shape[0] - 1}) of a loop over step",)
    assert found.indices == ((place[1],),)
    assert found.elements[0].operands == (f"row[{place[1]}] = -0.5",)


def squares(x: float64["n"], w: float64["n"]):
    def cell(total, pair):
        p, weight = pair
        d = np.sqrt(p * weight)
        return total + d, None

    J = cr.scan(cell, 0.0, (x, w))[0]
    return J


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_training_step_tells_it(executor):
    step = cr.training_step(squares, wrt="w", optimizer=cr.sgd(0.1), executor=executor)
    state = step.init(w=np.ones(5))
    found = nonfinite_step(step, state, {"x": at(3, 0.0)})
    assert found.inside == ("iteration 3 (of 0 to 4) of a loop over cell",)
    assert "d = np.sqrt(p * weight)" in found.where
    assert found.phase == "the backward pass"


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_the_report_of_a_training_that_diverges_tells_it(executor):
    trainer = cr.Trainer(
        squares, {"w": np.ones(5)}, cr.sgd(0.1), data=lambda epoch: [{"x": X}, {"x": at(2, -1.0)}],
        progress=False, executor=executor,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(cr.errors.NonFiniteError) as caught:
            trainer.fit(1)
    assert "in iteration 2 (of 0 to 4) of a loop over cell" in str(caught.value)
    assert "the square root of a negative number" in str(caught.value)
    assert caught.value.diagnosis.inside == ("iteration 2 (of 0 to 4) of a loop over cell",)
