"""A named size that a traced function compares is decided by proof, or becomes a condition."""

import functools
import math
import statistics
import warnings
from collections import Counter

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import SizeError, SizeTextWarning, UndecidableSize

closed_over = cr.size("n")


def about_closed_over(_):
    return closed_over == 2


def by_match(n):
    match (n, 3):
        case (2, _):
            return True
    return False


# (what a program asks of x.shape[0], what the condition says of it)
COMPARISONS = [
    (lambda n: n == 2, "n - 2"),
    (lambda n: n != 2, "n - 2"),
    (lambda n: 2 == n, "n - 2"),
    (lambda n: n == 2.0, "n - 2"),
    (lambda n: n == np.int64(2), "n - 2"),
    (lambda n: np.int64(2) == n, "n - 2"),
    (lambda n: np.equal(n, 2), "n - 2"),
    (lambda n: np.not_equal(2, n), "n - 2"),
    (lambda n: np.array_equal((n, 3), (2, 3)), "n - 2"),
    (lambda n: bool(np.any(np.array((n, 3)) == 2)), "n - 2"),
    (lambda n: (n, 3) == (2, 3), "n - 2"),
    (lambda n: [n] == [2], "n - 2"),
    (lambda n: n in (2, 8), "n - 2"),
    (lambda n: 2 in (n, 8), "n - 2"),
    (lambda n: (n, 1).index(n) == (2, n).index(n), "n - 2"),
    (lambda n: [n, n].count(2) > 0, "n - 2"),
    (lambda n: bool(n - 2), "n - 2"),
    (lambda n: not n % 2, "n%2"),
    (lambda n: n % 2 == 0, "n%2"),
    (lambda n: n // 2 == 1, "n//2 - 1"),
    (lambda n: n * n == 4, "n*n - 4"),
    (lambda n: math.prod((n, 3)) == 6, "3*n - 6"),
    (lambda n: sum((n, 3)) == 5, "n - 2"),
    (by_match, "n - 2"),
    (about_closed_over, "n - 2"),
    (lambda n: functools.reduce(lambda a, b: a or b == 2, (n, 3), False), "n - 2"),
]


def program_of(ask):
    def program(x: float64["n 3"]):
        return np.sum(x * x) if ask(x.shape[0]) else np.sum(x)

    return program


@pytest.mark.parametrize(("ask", "expression"), COMPARISONS)
def test_a_comparison_holds_for_every_number_that_a_run_may_have(ask, expression):
    graph = cr.trace(program_of(ask))
    assert {str(one.expression) for one in graph.conditions} <= {expression, "n - 8"}
    compiled = graph.compile()
    refused = 0
    for n in range(1, 7):
        x = np.arange(3.0 * n).reshape(n, 3)
        holds = n == 2 if ask is about_closed_over else ask(n)
        expected = np.sum(x * x) if holds else np.sum(x)
        try:
            assert graph.run(x=x).outputs == expected
        except SizeError:
            refused += 1
            with pytest.raises(SizeError):
                compiled(x=x)
            with pytest.raises(SizeError):
                graph.bind(n=n)
            with pytest.raises(SizeError):
                graph.cost(n=n)
            if ask is not about_closed_over:  # else what the message proposes:
                assert cr.trace(program_of(ask), x=x).run(x=x).outputs == expected
        else:
            assert compiled(x=x) == expected
    assert 1 <= refused <= 3


PROVED = [
    lambda n: n == 0,
    lambda n: n + 1 == 1,
    lambda n: n == n + 2,
    lambda n: n == 2.5,
    lambda n: n == math.inf,
    lambda n: n == math.nan,
    lambda n: n == "2",
    lambda n: n is None,
    lambda n: 2 * n % 2 == 1,
    lambda n: n < 0.5,
    lambda n: n > math.inf,
    lambda n: not n,
]


@pytest.mark.parametrize("ask", PROVED)
def test_what_is_proved_needs_no_condition(ask):
    graph = cr.trace(program_of(ask))
    assert graph.conditions == ()
    assert graph.run(x=np.full((2, 3), 4.0)).outputs == 24


REFUSED = [
    (lambda n: n < 2, "whether n < 2"),
    (lambda n: n >= 2.5, "whether n >= 2.5"),
    (lambda n: max(n, 3) == 3, "whether n < 3"),
    (lambda n: sorted((n, 3)) == [2, 3], "whether n > 3"),
    (lambda n: statistics.median((n, 3, 5)) == 3, "whether n > 3"),
    (lambda n: len({n, 2}) == 1, "the size n is a key of a dict or an element of a set"),
    (lambda n: {2: True}.get(n, False), "the size n is a key of a dict or an element of a set"),
    (lambda n: n in {2, 3}, "the size n is a key of a dict or an element of a set"),
    (lambda n: Counter((n, 2))[2] == 2, "the size n is a key of a dict or an element of a set"),
    (functools.lru_cache(lambda n: n), "the size n is a key of a dict or an element of a set"),
    (hash, "the size n is a key of a dict or an element of a set"),
    (lambda n: math.sqrt(n) > 2, "float of n"),
    (lambda n: math.gcd(n, 2) == 2, "the size n is not known while tracing"),
    (lambda n: int(n) == 2, "the size n is not known while tracing"),
    (lambda n: list(range(n)) == [0, 1], "the size n is not known while tracing"),
    (lambda n: cr.size("k") == 2, "whether k == 2"),
]


@pytest.mark.parametrize(("ask", "what"), REFUSED)
def test_what_cannot_become_a_condition_is_refused_with_the_line(ask, what):
    with pytest.raises(UndecidableSize) as caught:
        cr.trace(program_of(ask))
    assert str(caught.value).startswith(what)
    assert "test_compared_sizes.py" in caught.value.where


def test_the_message_says_how_the_other_branch_is_traced():
    def k(x: float64["n 3"], y: float64["m"], parts={"W": float64["3"]}):  # noqa: B006
        if x.shape[0] == y.shape[0]:
            return np.sum(x @ parts["W"] * y)
        return np.sum(x @ parts["W"]) * np.sum(y)

    x, y, parts = np.ones((2, 3)), np.ones(2), {"W": np.ones(3)}
    with pytest.raises(SizeError) as caught:
        cr.trace(k).run(x=x, y=y, parts=parts)
    assert caught.value.what == "while tracing, n == m was taken as False; not so for n=2, m=2"
    assert "if x.shape[0] == y.shape[0]:" in caught.value.where
    assert caught.value.hint == (
        "trace it for these sizes: cr.trace(k, x=x, y=y) with the arrays themselves,\n"
        "or write 2 for m and 2 for n in the types of x, y"
    )
    assert cr.trace(k, x=x, y=y).run(x=x, y=y, parts=parts).outputs == k(x, y, parts)
    written = cr.trace(k, x=float64["2 3"], y=float64["2"])
    assert written.run(x=x, y=y, parts=parts).outputs == k(x, y, parts)


def branching(x: float64["n 3"], W: float64["3"]):
    z = x @ W
    J = np.sum(z) if x.shape[0] == 2 else np.sum(z * z)
    return J


TWO, FOUR, W = np.ones((2, 3)), np.ones((4, 3)), np.ones(3)
x_type, W_type = float64["n 3"], float64["3"]


def steps(step, *, x):
    return step(step.init(W=W), x=x)


DOORS = {
    "a gradient": lambda g, x: cr.backward(g, wrt="W").run(x=x, W=W),
    "a training step": lambda g, x: steps(cr.training_step(g, "W", cr.sgd(0.1)), x=x),
    "micro-batches": lambda g, x: steps(
        cr.training_step(g, "W", cr.sgd(0.1)).micro_batched(2), x=np.concatenate([x, x])
    ),
    "a trainer": lambda g, x: cr.Trainer(
        branching, {"W": W}, cr.sgd(0.1), {"x": x}, batch_size=len(x), progress=False
    ).fit(1),
    "prediction": lambda g, x: cr.predict(branching, {"W": W}, {"x": x}, "z"),
    "evaluation": lambda g, x: cr.evaluate(branching, {"W": W}, {"x": x}),
    "a plan": lambda g, x: g.compile().plan(n=len(x)),
    "memory": lambda g, x: g.memory(n=len(x)),
    "fits": lambda g, x: g.fits(n=len(x), nbytes="1GiB"),
    "a search of NaN": lambda g, x: g.nonfinite(x=x, W=W),
    "partial binding": lambda g, x: g.bind(n=len(x)),
    "a gradient in a program": lambda g, x: cr.trace(
        lambda x, W: cr.grad(branching, wrt="W")(x, W), x=x_type, W=W_type
    ).run(x=x, W=W),
    "a batch": lambda g, x: cr.trace(
        lambda x, W: cr.vmap(lambda w: branching(x, w))(W), x=x_type, W=float64["m 3"]
    ).run(x=x, W=np.ones((5, 3))),
    "a loop": lambda g, x: cr.trace(
        lambda x, W: cr.fori_loop(0, 3, lambda i, c: c + branching(x, W), 0.0), x=x_type, W=W_type
    ).run(x=x, W=W),
    "a branch": lambda g, x: cr.trace(
        lambda x, W: cr.cond(np.sum(x) > 0, branching, lambda x, W: 1.0, x, W), x=x_type, W=W_type
    ).run(x=x, W=W),
    "a derivative of numbers in a program": lambda g, x: cr.trace(
        lambda x: np.sum(x) * cr.grad(lambda w: w * (3 if len(np.shape(x)) == 9 or x.shape[0] == 2
                                                      else 4))(1.0), x=x_type
    ).run(x=x),
    "np.squeeze": lambda g, x: cr.trace(np.squeeze, float64["k 3"]).run(a=x[: len(x) - 1]),
    "np.cov": lambda g, x: cr.trace(np.cov, float64["k 3"]).run(m=x[: len(x) - 1]),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_conditions_are_checked_wherever_sizes_become_known(door):
    graph = cr.trace(branching)
    DOORS[door](graph, FOUR)
    with pytest.raises(SizeError, match=r"was taken as False|keeps axis 0, which is not 1"):
        DOORS[door](graph, TWO)


def test_the_largest_size_is_one_that_the_program_allows():
    def k(x: float64["n 64"]):
        return np.sum(x) if x.shape[0] in (30, 31) else np.sum(np.tanh(x) * x)

    without = cr.trace(lambda x: np.sum(np.tanh(x) * x), float64["n 64"]).memory(n=4)
    limit = without.at(n=31).needed_nbytes
    assert without.largest("n", limit).size == 31
    assert cr.trace(k).memory(n=4).largest("n", limit).size == 29


def test_a_condition_stands_in_the_text_and_in_the_source():
    graph = cr.trace(branching)
    assert "  require n - 2 != 0\n" in str(graph)
    space: dict = {}
    exec(graph.python(), space)
    assert space["branching"](FOUR, W) == graph.run(x=FOUR, W=W).outputs
    with pytest.raises(ValueError, match="n == 2 was taken as False"):
        space["branching"](TWO, W)


def test_sizes_are_compared_as_polynomials_outside_of_a_program():
    n, m = cr.sizes("n m")
    assert n != 2
    assert n != m
    assert {n: 1}[n + 0] == 1
    assert cr.trace(branching)["z"].type == float64["n"]


def test_a_rule_of_a_derivative_cannot_decide_by_a_size():
    @cr.custom_derivative
    def scaled(x):
        return 2 * x

    @scaled.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return scaled(x), dx * (2 if x.shape[0] == 3 else 5)

    graph = cr.trace(lambda x: np.sum(scaled(x)), float64["n"])
    with pytest.raises(UndecidableSize, match="whether n == 3"):
        cr.backward(graph, wrt="x")
    step = cr.backward(graph.bind(n=3), wrt="x")
    assert np.array_equal(step.run(x=np.ones(3))["dout/dx"], [2, 2, 2])


@pytest.mark.parametrize(
    "use",
    [
        lambda n: f"{n}" == "2",
        lambda n: {"2": 1}.get(str(n)),
        lambda n: "2" in repr((n, 3)),
        lambda n: "{} rows".format(n),  # noqa: UP032
        lambda n: f"{n}" in ("2", "3"),
    ],
)
def test_a_program_that_goes_on_with_the_text_of_a_size_is_warned(use):
    with pytest.warns(SizeTextWarning, match="the text of the size n is made while tracing"):
        cr.trace(program_of(use))


def test_text_that_is_printed_or_raised_is_no_reason_to_warn(capsys):
    def program(x: float64["n 3"]):
        print(f"{x.shape[0]} rows of {x.shape[1]}", x.shape)
        assert x.shape[1] == 3, f"not {x.shape}"
        if x.shape[1] == 4:
            raise ValueError(f"{x.shape[0]}")
        return np.sum(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.trace(program)
    assert capsys.readouterr().out == "n rows of 3 (n, 3)\n"
