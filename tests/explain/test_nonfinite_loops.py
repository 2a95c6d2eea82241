"""What `nonfinite` says of a NaN or an inf within a loop or a choice."""

import json
import warnings

import numpy as np
import pytest

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


# function, its argument, value, line, iterations and branches, element, cause
FORWARD = {
    "scan": (
        logs,
        at(3, 0.0),
        "h",
        ["iteration 3 (of 0 to 4) of a loop over cell"],
        "p = 0",
        "log of 0",
    ),
    "a scan that goes back": (
        reversed_logs,
        at(1, -1.0),
        "h",
        ["iteration 1 (of 0 to 4) of a loop over cell"],
        "p = -1",
        "log of a number below 0",
    ),
    "fori_loop": (
        counted,
        np.array([9.0, 1e-4]),
        None,
        ["iteration 1 (of 0 to 4) of a loop over shrink"],
        "below[1] = -0.99",
        "the square root of a negative number",
    ),
    "while_loop": (
        growing,
        np.array([3.0, 2.0]),
        "squared",
        ["iteration 9 of a loop over grow"],
        "v[0] = 1.9",
        "overflow",
    ),
    "cond": (
        chosen,
        at(4, 0.0),
        "h",
        ["the branch for True (logarithm) of a cond"],
        "[4] = 0",
        "log of 0",
    ),
    "the other branch": (
        not_chosen,
        at(2, 0.0),
        "r",
        ["the branch for False (reciprocal) of a cond"],
        "[2] = 0",
        "1 / 0 is inf",
    ),
    "nested loops": (
        nested,
        np.array([3.0, 2.5]),
        "q",
        [
            "iteration 2 (of 0 to 3) of a loop over outer",
            "iteration 2 (of 0 to 2) of a loop over inner",
        ],
        "[0] = -1",
        "log of a number below 0",
    ),
    "a choice in a loop": (
        choosing_in_a_loop,
        at(3, 0.25),
        "d",
        ["iteration 3 (of 0 to 4) of a loop over step", "the branch for True (root) of a cond"],
        "= -0.25",
        "the square root of a negative number",
    ),
}


@pytest.mark.parametrize("case", FORWARD)
def test_turn_value_element_line_and_cause_are_told(case):
    function, x, value, inside, element, because = FORWARD[case]
    graphs = [cr.trace(function, x)]
    if function is not growing:  # of a while_loop there is no gradient
        graphs.append(cr.backward(graphs[0], wrt="x"))
    for graph in graphs:
        found = graph.nonfinite(x=x)
        assert found is not None
        assert found.value == value or value is None
        assert list(found.inside) == inside
        assert element in ", ".join(found.elements[0].operands)
        assert because in found.because
        assert found.phase == "the forward pass"
        shown = value or "np.sqrt(below)"
        assert shown in found.where.splitlines()[1]
        headline = str(found).splitlines()[0]
        assert ", in ".join(["the forward pass", *inside]) in headline
        assert json.loads(json.dumps(found.json()))["inside"] == inside


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
