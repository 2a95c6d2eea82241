"""Loops and choices are instructions of compiled code: Python takes no part in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executing import planned

import chainrule as cr
from chainrule.errors import InputError, StepLimitError
from chainrule.execute import reference
from chainrule.execute.native.runtime import machine
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.work import parts_inside

X = np.random.default_rng(0).normal(size=(9, 3))


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, NumPy evaluates no node."""

    def refused(*_: Any) -> Any:
        raise AssertionError("NumPy evaluates a node")

    return lambda: monkeypatch.setattr(reference, "apply", refused)


def choice_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        s = cr.cond(row[0] > 0, lambda s: np.sin(s) + row, lambda s: s * row[1], s)
        return s, s

    return cr.scan(step, np.zeros(3), x)


def loop_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        inner, rows = cr.scan(lambda t, y: (t * 0.5 + y, t), s, np.outer(row, row))
        return inner, np.sum(rows)

    return cr.scan(step, x[0], x, reverse=True)


def loop_in_a_choice(x: Any) -> Any:
    def summed(x: Any) -> Any:
        return cr.scan(lambda t, row: (t + row**2, None), np.zeros(3), x)[0]

    return cr.cond(np.sum(x) > 0, summed, lambda x: x[0] * x[1], x)


def while_it_holds(x: Any) -> Any:
    def more(state: Any) -> Any:
        return (state[0] < 7) & (np.sum(state[1]) < 1e6)

    return cr.while_loop(more, lambda state: (state[0] + 1, state[1] * 2 + x), (0, x))


def bounded_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        grown = cr.while_loop(
            lambda t: np.sum(t**2) < 50, lambda t: t * 1.5 + 0.1, s + row, max_steps=30
        )
        return grown * 0.01, np.sum(grown)

    return cr.scan(step, np.zeros(3), x)


def endless_in_a_loop(x: Any) -> Any:
    """Loops without a bound, one in another, in a loop and in a branch."""

    def grow(t: Any) -> Any:
        inner = cr.while_loop(lambda u: u < 3, lambda u: u + 1, np.abs(t[0]))
        return t * 1.5 + 0.1 * inner

    def step(s: Any, row: Any) -> Any:
        grown = cr.while_loop(lambda t: np.sum(t**2) < 50, grow, s + row)
        return cr.cond(row[1] > 0, lambda: grown * 0.01, lambda: s), np.sum(grown)

    return cr.scan(step, np.zeros(3), x)


def no_iterations(x: Any) -> Any:
    return cr.scan(lambda s, row: (s + row, s), x[0], x[:0])


def one_iteration(x: Any) -> Any:
    return cr.scan(lambda s, row: (s @ s + row, s), x[0], x[:1])


def of_several_dtypes(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        count, total, low = state
        return (count + 1, total + row, np.minimum(low, row.astype(np.float32))), (count, total)

    return cr.scan(step, (np.int64(0), x[0], x[0].astype(np.float32)), x)


FLOWS = [
    *(choice_in_a_loop, loop_in_a_loop, loop_in_a_choice, while_it_holds, bounded_in_a_loop),
    *(endless_in_a_loop, no_iterations, one_iteration, of_several_dtypes),
]


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves(one)]
    return [np.asarray(value)]


@pytest.mark.parametrize("x", [X, -X, np.full((9, 3), np.nan)], ids=["some", "others", "nan"])
@pytest.mark.parametrize("function", FLOWS, ids=lambda one: one.__name__)
def test_results_are_those_of_the_reference(function: Any, x: np.ndarray, no_numpy: Any) -> None:
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    right = leaves(function(x))
    no_numpy()
    for _ in range(3):  # memory of a call is used again
        found = leaves(compiled(x=x))
        assert [one.dtype for one in found] == [one.dtype for one in right]
        for one, other in zip(found, right, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def bounded_in_a_bounded_loop(x: Any) -> Any:
    def outer(state: Any) -> Any:
        count, t = state
        grown = cr.while_loop(lambda u: np.sum(u**2) < 9, lambda u: u * 1.5 + x[0], t, max_steps=20)
        return count + 1, np.sin(grown)

    return cr.while_loop(lambda s: s[0] < 5, outer, (0, x[1]), max_steps=7)[1:]


def never_entered(x: Any) -> Any:
    return cr.while_loop(lambda t: np.sum(t**2) < 0, lambda t: np.sin(t), x, max_steps=7), x


DIFFERENTIABLE = [
    *(choice_in_a_loop, loop_in_a_loop, loop_in_a_choice, one_iteration),
    *(bounded_in_a_loop, bounded_in_a_bounded_loop, never_entered),
]


@pytest.mark.parametrize("function", DIFFERENTIABLE, ids=lambda one: one.__name__)
def test_derivatives_of_both_orders_are_those_of_the_reference(function: Any) -> None:
    def total(x: Any) -> Any:
        return sum(np.sum(np.tanh(one)) for one in function(x)[:]) + np.sum(x**2)

    for derived in (cr.grad(total), cr.hessian(total)):
        graph = cr.trace(derived, X)
        compiled, right = graph.compile(executor="native", strict=True), graph.run(x=X).outputs
        for _ in range(3):  # memory of a call is used again
            np.testing.assert_allclose(compiled(x=X), right, rtol=1e-10, atol=1e-12)


def shared(x: Any, W: Any) -> Any:
    """Iterations that several threads share, in a loop of such loops."""

    def step(s: Any, row: Any) -> Any:
        inner, _ = cr.scan(lambda t, y: (np.tanh(t @ W + y), None), s, x[:3])
        return inner + row, np.sum(inner)

    return cr.scan(step, x[0], x)


def test_threads_give_the_bits_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    given = {"x": random.normal(size=(20, 96, 128)), "W": random.normal(size=(128, 128)) * 0.1}
    graph = cr.trace(shared, **given)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(machine, "_default_threads", lambda threads=threads: threads)
        compiled = graph.compile(executor="native", strict=True)
        calls = [leaves(compiled(**given)) for _ in range(5)]
        for one in calls:
            assert [x.tobytes() for x in one] == [x.tobytes() for x in calls[0]]
        found.append(calls[0])
    for one in found:
        for x, y in zip(one, leaves(shared(**given)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10)


def settled(x: Any, W: Any) -> Any:
    """A loop that ends by a condition; threads share what is large in each iteration."""

    def step(state: Any) -> Any:
        count, h = state
        inner, _ = cr.scan(lambda t, _: (np.tanh(t @ W + x), None), h, None, length=2)
        return count + 1, cr.cond(count > 2, lambda: inner * 0.9, lambda: np.sin(inner))

    start = (0, x * 0)
    return cr.while_loop(lambda s: (s[0] < 5) & (np.sum(s[1]) < 1e9), step, start, max_steps=7)[1]


def settled_back(x: Any, W: Any) -> Any:
    return cr.grad(lambda x, W: np.mean(settled(x, W) ** 2), wrt=(0, 1))(x, W)


def one_of_two(x: Any, W: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda: np.tanh(x @ W), lambda: np.sin(x @ W) @ W)


@pytest.mark.parametrize(
    "function", [settled, settled_back, one_of_two], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_share_what_a_value_decides(
    function: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_default_threads", lambda: threads)
    random = np.random.default_rng(1)
    x, W = random.normal(size=(96, 128)), random.normal(size=(128, 128)) * 0.1
    graph = cr.trace(function, x=x, W=W)
    compiled = graph.compile(executor="native", strict=True)
    results = [node for _, node in graph.outputs]
    works = planned(graph, results, threads=threads).works
    shared = [parts_inside(one) > 1 for one in works if isinstance(one, FlowWork)]
    assert shared and all(one == (threads > 1) for one in shared)
    for sign in (1, -1):
        given = {"x": sign * x, "W": W}
        calls = [leaves(compiled(**given)) for _ in range(5)]
        right = leaves(graph.run(given, executor="reference").outputs)
        for found in calls:
            assert [one.tobytes() for one in found] == [one.tobytes() for one in calls[0]]
        for one, other in zip(calls[0], right, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_threads_leave_a_shared_loop_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    random = np.random.default_rng(1)
    x, W = random.normal(size=(96, 128)), random.normal(size=(128, 128)) * 0.1

    def endless(x: Any, W: Any) -> Any:
        def total(W: Any) -> Any:
            def step(h: Any) -> Any:
                return np.tanh(h @ W)

            return np.sum(cr.while_loop(lambda h: np.sum(h) < 1e9, step, x, max_steps=9))

        return cr.grad(total)(W)

    compiled = cr.trace(endless, x=x, W=W).compile(executor="native", strict=True)
    for _ in range(5):
        with pytest.raises(StepLimitError, match="max_steps=9"):
            compiled(x=x, W=W)
        assert not compiled(x=x + 1e9, W=W).any()


def copied_for_a_choice(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda y: y + 1, lambda y: y * 2, np.sin(x).T)


def copied_for_a_while_loop(x: Any) -> Any:
    return cr.while_loop(lambda y: np.sum(y) < 1e4, lambda y: y * 1.1 + 1, np.sin(x)[::-1])


def copied_for_a_loop(x: Any) -> Any:
    swapped = cr.scan(lambda s, _: (s[::-1], None), (np.sin(x), np.cos(x)), None, length=3)
    return swapped[0][0]


def loops_in_two_functions(x: Any) -> Any:
    """Python has turns in the loop between, so what is before and after it are two functions."""

    def step(y: Any, _: Any) -> Any:
        return np.sin(y), None

    first = cr.scan(step, x, None, length=3)[0]
    between = cr.while_loop(lambda y: y < 3, lambda y: y + 1, np.sum(first) * 0)
    return cr.scan(step, first + between, None, length=3)[0]


COPIED = [copied_for_a_choice, copied_for_a_while_loop, copied_for_a_loop]


@pytest.mark.parametrize(
    "function", [*COPIED, loops_in_two_functions], ids=lambda one: one.__name__
)
def test_threads_share_what_is_large(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).normal(size=(300, 200))
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    for given in (x, -x):
        np.testing.assert_allclose(compiled(x=given), function(given), rtol=1e-12, atol=1e-12)


def test_too_many_iterations_are_told_by_the_limit() -> None:
    def endless(x: Any) -> Any:
        return cr.while_loop(lambda s: np.all(s < 1e9), lambda s: s + 1, x, max_steps=20)

    compiled = cr.trace(endless, X).compile(executor="native", strict=True)
    with pytest.raises(StepLimitError, match="has not ended after max_steps=20 iterations"):
        compiled(x=X)
    assert leaves(compiled(x=X + 1e9))[0].shape == X.shape  # a call after it is as ever


def test_a_way_back_over_the_limit_is_refused_before_an_update() -> None:
    def objective(x: Any, W: Any) -> Any:
        grown = cr.while_loop(lambda s: np.sum(s) < 1e9, lambda s: s + W**2, x, max_steps=20)
        return np.mean(grown)

    step = cr.training_step(objective, "W", cr.sgd(1e-12), executor="native", x=X[0], W=X[1])
    state = step.init(W=X[1])
    step(state, x=X[0] + 1e9)
    before = state["W"].copy()
    with pytest.raises(StepLimitError, match="has not ended after max_steps=20 iterations") as told:
        step(state, x=X[0])
    assert __file__ in str(told.value.where)
    np.testing.assert_array_equal(state["W"], before)
    assert state.steps == 1


def test_a_loop_does_not_go_on_when_the_run_has_failed() -> None:
    """After a failure inside its condition may hold for ever."""

    def endless(x: Any) -> Any:
        def step(s: Any) -> Any:
            return cr.while_loop(lambda t: t < 8, lambda t: t * 0.5, s, max_steps=5)

        return cr.while_loop(lambda s: s < 8, step, np.sum(x))

    compiled = cr.trace(endless, X).compile(executor="native", strict=True)
    with pytest.raises(StepLimitError, match="max_steps=5"):
        compiled(x=X)


@pytest.mark.parametrize("taken", [True, False])
def test_an_index_fails_where_it_is_read_and_nowhere_else(taken: bool) -> None:
    def read(table: Any, at: Any, x: Any) -> Any:
        def step(s: Any, i: Any) -> Any:
            return cr.cond(x > 0, lambda s: s + table[i], lambda s: s - 1, s), None

        return cr.scan(step, 0.0, at)[0]

    given = {"table": np.arange(4.0), "at": np.array([1, 9, 2]), "x": 1.0 if taken else -1.0}
    compiled = cr.trace(read, **given).compile(executor="native", strict=True)
    if taken:
        with pytest.raises((InputError, IndexError), match="9") as caught:
            compiled(**given)
        assert __file__ in str(caught.value)
    else:
        assert compiled(**given) == -3.0
    assert compiled(**{**given, "at": np.array([1, 3, 2]), "x": 1.0}) == 6.0
