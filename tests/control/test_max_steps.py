"""`cr.while_loop(..., max_steps=)`: all derivatives, and an error where it does not suffice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import EITHER, needs_native
from loops import close

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, StepLimitError
from chainrule.testing import check_gradients

sys.path.insert(0, str(Path(__file__).parents[1] / "explain"))
from numpy_memory import peak_and_result  # type: ignore[import-not-found]

RANDOM = np.random.default_rng(3)


def root(a: Any, max_steps: Any = 40) -> Any:
    """The square root by Newton's method: five iterations for 2."""

    def newton(x: Any) -> Any:
        return (x + a / x) / 2

    return cr.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, newton, a, max_steps=max_steps)


def settle(W: Any, b: Any, max_steps: int = 60) -> Any:
    """A fixed point of several carries, of two dtypes."""

    def step(state: Any) -> Any:
        h, _, count = state
        new = np.tanh(W @ h + b)
        return new, np.max(np.abs(new - h)), count + 1

    start = (np.zeros_like(b), np.sum(b) * 0 + 1.0, 0)
    return cr.while_loop(lambda s: s[1] > 1e-3, step, start, max_steps=max_steps)


def unrolled(W: Any, b: Any, iterations: int) -> Any:
    h = np.zeros_like(b)
    for _ in range(iterations):
        h = np.tanh(W @ h + b)
    return h


def system() -> tuple[np.ndarray, np.ndarray]:
    return RANDOM.normal(size=(3, 3)) / 4, RANDOM.normal(size=3)


@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize("max_steps", [5, 6, 7, 12, 13, 49, 50, 1000])
def test_values_and_derivatives_are_those_of_the_square_root(executor: str, max_steps: int) -> None:
    value, slope = cr.value_and_grad(root, executor=executor)(2.0, max_steps)
    assert value == pytest.approx(np.sqrt(2), rel=1e-15)
    assert slope == pytest.approx(0.5 / np.sqrt(2), rel=1e-12)
    assert cr.jvp(lambda a: root(a, max_steps), 2.0, 1.0)[1] == pytest.approx(slope, rel=1e-14)
    second = cr.grad(cr.grad(lambda a: root(a, max_steps)))(2.0)
    assert second == pytest.approx(-0.25 * 2**-1.5, rel=1e-9)


@EITHER
def test_orders_1_and_2_are_those_of_the_unrolled_loop(executor: str) -> None:
    W, b = system()
    h, _, count = settle(W, b)
    assert 3 < count < 60
    np.testing.assert_allclose(h, unrolled(W, b, int(count)), rtol=1e-15)

    def loop(W: Any, b: Any) -> Any:
        return np.sum(np.sin(settle(W, b)[0]))

    def plain(W: Any, b: Any) -> Any:
        return np.sum(np.sin(unrolled(W, b, int(count))))

    for wrt in (0, 1):
        got, wanted = (cr.grad(f, wrt=wrt, executor=executor)(W, b) for f in (loop, plain))
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15)
    got, wanted = (cr.hessian(lambda b, f=f: f(W, b))(b) for f in (loop, plain))
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)
    v = RANDOM.normal(size=3)
    got, wanted = (cr.hvp(lambda b, f=f: f(W, b), b, v) for f in (loop, plain))
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)


def test_finite_differences_agree() -> None:
    W, b = system()
    check_gradients(lambda W, b: np.sum(settle(W, b, 61)[0] ** 2), W, b, order=2)


def asked_for_too_little() -> dict[str, Callable[[], Any]]:
    W, b = system()

    def J(W: Any, b: Any) -> Any:
        J = np.sum(settle(W, b, 3)[0])
        return J

    def linear(a: Any) -> Any:  # whose gradient reads no value of the loop
        def step(x: Any) -> Any:
            return x[0] * 2, x[1] + 1

        return cr.while_loop(lambda x: x[1] < 10, step, (a, 0), max_steps=9)[0]

    graph = cr.backward(cr.trace(J, W, b), wrt="b")
    return {
        "numbers": lambda: J(W, b),
        "reference": lambda: cr.trace(J, W, b).run(W=W, b=b),
        "graph": lambda: graph.run(W=W, b=b, keep="outputs"),
        "source": lambda: written(graph)(W, b),
        "grad": lambda: cr.grad(J)(W, b),
        "grad, reference": lambda: cr.grad(J, executor="reference")(W, b),
        "gradient alone": lambda: cr.compile(lambda a: cr.grad(linear)(a))(1.0),
        "jvp": lambda: cr.jvp(lambda b: J(W, b), b, b),
        "tangent alone": lambda: cr.compile(lambda a: cr.jvp(linear, a, 1.0)[1])(1.0),
        "hvp": lambda: cr.hvp(lambda b: J(W, b), b, b),
        "hessian": lambda: cr.hessian(lambda b: J(W, b))(b),
        "vmap": lambda: cr.vmap(lambda b: J(W, b))(np.stack([b, b])),
        "gradients of a batch": lambda: cr.vmap(cr.grad(lambda b: J(W, b)))(np.stack([b, b])),
    }


def written(graph: Any) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(str(graph.python()), scope)
    return next(scope[name] for name in scope if name.startswith("J"))


@needs_native
@pytest.mark.parametrize("how", asked_for_too_little())
def test_too_few_steps_are_an_error_however_it_is_asked(how: str) -> None:
    with pytest.raises(ValueError, match=r"has not ended after max_steps=[39]") as refused:
        asked_for_too_little()[how]()
    if how != "source":
        assert isinstance(refused.value, StepLimitError)
        assert "test_max_steps.py" in refused.value.where
        assert "give a larger max_steps" in refused.value.hint


@EITHER
def test_one_step_more_is_enough_and_the_bound_itself_is(executor: str) -> None:
    def counted(x: Any, bound: int, max_steps: int) -> Any:
        return cr.while_loop(
            lambda s: s[0] < bound, lambda s: (s[0] + 1, s[1] * x), (0, 1.0), max_steps=max_steps
        )[1]

    for iterations in (0, 1, 6):
        run = cr.compile(lambda x, n=iterations: counted(x, n, n), executor=executor)
        assert run(1.5) == 1.5**iterations
        gradient = cr.grad(lambda x, n=iterations: counted(x, n, n))(1.5)
        assert gradient == pytest.approx(iterations * 1.5 ** (iterations - 1), rel=1e-14)
        with pytest.raises(StepLimitError):
            cr.compile(lambda x, n=iterations: counted(x, n + 1, n), executor=executor)(1.5)


def test_a_batch_in_which_examples_end_at_different_steps() -> None:
    a = np.array([2.0, 1e6, 3.0])
    np.testing.assert_allclose(cr.vmap(root)(a), np.sqrt(a), rtol=1e-12)
    np.testing.assert_allclose(cr.vmap(cr.grad(root))(a), 0.5 / np.sqrt(a), rtol=1e-9)
    with pytest.raises(StepLimitError):  # of one example
        cr.vmap(lambda a: root(a, 6))(a)


@EITHER
def test_a_training_step_leaves_its_state_where_steps_do_not_suffice(executor: str) -> None:
    def objective(x: float64["n"], a: float64[()]):
        J = np.mean((x * root(a, 8) - x) ** 2)
        return J

    step = cr.training_step(objective, "a", cr.sgd(0.1), executor=executor)
    state = step.init(a=2.0)
    x = np.ones(4)
    values = [step(state, x=x) for _ in range(3)]
    assert values[2] < values[0]
    bad = step.init(a=1e9)
    with pytest.raises(StepLimitError, match="newton"):
        step(bad, x=x)
    assert bad["a"] == 1e9 and bad.steps == 0


def test_the_memory_of_reverse_mode_grows_with_the_root_and_is_predicted() -> None:
    def J(x: float64["n"], max_steps: int):
        def step(s: Any) -> Any:
            return s[0] + 1, np.sin(s[1])

        J = np.sum(cr.while_loop(lambda s: s[0] < 10, step, (0, x), max_steps=max_steps)[1])
        return J

    x = np.zeros(20_000)
    peaks = {}
    for iterations in (100, 10_000):
        graph = cr.backward(cr.trace(lambda x, n=iterations: J(x, n), x), wrt="x").bind()
        given = {graph.inputs[0].name: x}
        report = graph.memory(executor="reference")
        graph.run(given, keep="outputs")
        peak, _ = peak_and_result(lambda g=graph, v=given: g.run(v, keep="outputs"))
        assert peak <= report.main.peak_nbytes <= 1.05 * peak + x.nbytes
        peaks[iterations] = peak
    assert peaks[100] < 60 * x.nbytes
    assert peaks[10_000] < 12 * peaks[100]


def test_everything_that_explains_a_graph_takes_it() -> None:
    graph = cr.backward(cr.trace(lambda a: root(a, 10), np.array(2.0)), wrt="a")
    assert "max_steps" in str(graph.python())
    assert "10" in str(graph.equations())
    assert graph.draw().svg().startswith("<svg")
    assert graph.cost().flops > 0


def test_numbers_of_steps_are_checked() -> None:
    wrong: Any
    for wrong in (-1, 2.5, True, "many"):
        with pytest.raises(InputError, match="is no number of iterations"):
            cr.while_loop(lambda x: x < 1, lambda x: x + 1, 0.0, max_steps=wrong)
    enough: Any = np.int64(2)
    assert close(cr.while_loop(lambda x: x < 1, lambda x: x + 1, 0.0, max_steps=enough), 1.0)


def test_an_int_argument_without_a_number_is_named_and_the_hint_is_right_when_followed() -> None:
    def scanned(x: Any, k: int) -> Any:
        return cr.scan(lambda c, _: (c * 2.0, None), x, None, length=2 * k - 3)[0]

    def bounded(x: Any, k: int) -> Any:
        return cr.while_loop(lambda v: v < 8.0, lambda v: v * 2.0, x, max_steps=k)

    def written_out(x: Any, k: int) -> Any:
        for _ in range(k):
            x = x * 2.0
        return x

    by_default = "give it a default (k: int = 3), or trace with a number: k=3 in cr.trace"
    for function, what, hint in (
        (scanned, "length: k has no value while tracing", by_default),
        (bounded, "max_steps: k has no value while tracing", by_default),
        (written_out, "an integer of k (int64[])", "cr.fori_loop(start, stop, body, value) "),
    ):
        with pytest.raises(cr.errors.ChainruleError) as refused:
            cr.trace(function, np.array(1.0))
        assert refused.value.what.startswith(what)
        assert refused.value.hint.startswith(hint)
        graph = cr.trace(function, np.array(1.0), k=3)
        assert graph.run(x=np.array(1.0), k=3).outputs == 8.0
        assert str(graph) == str(cr.trace(function, np.array(1.0), 3))
        function.__defaults__ = (3,)  # k: int = 3
        assert str(cr.trace(function, np.array(1.0))) == str(graph)

    def counter(x: Any) -> Any:
        return cr.fori_loop(0, 3, lambda i, v: v * len(range(i)), x)

    with pytest.raises(cr.errors.DataDependentError, match=r"of times that is a value$"):
        cr.trace(counter, np.array(1.0))

    def of_a_float(x: Any, k: float) -> Any:
        return cr.scan(lambda c, _: (c * 2.0, None), x, None, length=k)[0]  # type: ignore

    with pytest.raises(InputError, match="is no number of iterations"):
        cr.trace(of_a_float, np.array(1.0))


def test_the_hint_of_the_loop_without_a_bound_is_right_when_followed() -> None:
    with pytest.raises(cr.errors.NotDifferentiableError) as refused:
        cr.grad(lambda a: root(a, None))(2.0)
    assert "cr.while_loop(..., max_steps=1000) has a gradient" in refused.value.hint
    assert cr.grad(lambda a: root(a, 1000))(2.0) == pytest.approx(0.5 / np.sqrt(2), rel=1e-12)


@EITHER
def test_iterations_back_that_read_nothing_of_those_forth(executor: str) -> None:
    """Several segments of them: nothing is kept, and nothing done again."""

    def grown(x):
        return cr.while_loop(lambda s: s < 30, lambda s: s * 1.25 + 1, x, max_steps=20)

    np.testing.assert_allclose(cr.grad(grown, executor=executor)(0.25), 1.25**10, rtol=1e-14)
