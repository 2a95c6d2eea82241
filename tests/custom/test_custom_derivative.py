"""`custom_derivative`: a function's own rule is its derivative, in every mode, order and place."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError, DTypeError, InputError, NotDifferentiableError
from chainrule.testing import check_gradients

X = np.linspace(-1.0, 1.5, 4)
Y = np.arange(4.0) + 1


def product(x: Any, y: Any) -> Any:
    h = np.tanh(x) * y
    return h


def fwd(x: Any, y: Any) -> Any:
    t = np.tanh(x)
    return t * y, (t, y)


def bwd(residuals: Any, g: Any) -> Any:
    t, y = residuals
    return g * y * (1 - t * t), g * t


def jvp_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    t = np.tanh(x)
    return t * y, dx * y * (1 - t * t) + dy * t


def with_vjp(function: Callable[..., Any] = product) -> Any:
    f = cr.custom_derivative(function)
    f.defvjp(fwd, bwd)
    return f


def with_jvp() -> Any:
    f = cr.custom_derivative(product)
    f.defjvp(jvp_rule)
    return f


def with_both() -> Any:
    f = with_vjp()
    f.defjvp(jvp_rule)
    return f


def test_a_vjp_rule_gives_gradients_of_both_orders() -> None:
    check_gradients(with_vjp(), X, Y, modes=("reverse",))


@pytest.mark.parametrize("make", [with_jvp, with_both])
def test_a_jvp_rule_gives_both_modes_of_both_orders(make: Any) -> None:
    check_gradients(make(), X, Y)
    check_gradients(lambda x, y: np.sum(make()(x, y) ** 2 * x), X, Y)


def test_the_rule_is_the_derivative_and_not_the_functions_own() -> None:
    f = cr.custom_derivative(lambda x: x * x)
    f.defvjp(lambda x: (x * x, None), lambda _, g: (3 * g,))
    assert cr.grad(lambda x: np.sum(f(x)))(X).tolist() == [3.0] * 4


def test_a_clipped_gradient_is_clipped_after_it_was_added_up() -> None:
    clipped = cr.custom_derivative(lambda x: x)
    clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))

    def objective(x: Any) -> Any:
        h = clipped(x)
        return np.sum(h * 0.75) + np.sum(h * 0.75)

    assert cr.grad(objective)(X).tolist() == [1.0] * 4


def test_several_results_reach_the_rule_together() -> None:
    """The norm of all cotangents: a rule that saw them one by one would give another number."""
    f = cr.custom_derivative(lambda x: {"a": 2 * x, "n": np.argmax(x), "b": np.sum(x)})

    def together(_: Any, g: Any) -> Any:
        assert g["n"] is None
        return (np.sqrt(np.sum(g["a"] ** 2) + g["b"] ** 2) + 0 * g["a"],)

    f.defvjp(lambda x: (f(x), None), together)

    def objective(x: Any) -> Any:
        out = f(x)
        return np.sum(3 * out["a"]) + 4 * out["b"]

    assert np.allclose(cr.grad(objective)(X), np.sqrt(4 * 9 + 16))


def test_results_of_two_dtypes_keep_theirs() -> None:
    f = cr.custom_derivative(lambda x: (x.astype(np.float32), x * 2))
    f.defjvp(lambda p, t: (f(*p), (t[0].astype(np.float32), t[0] * 2)))

    def objective(x: Any) -> Any:
        low, high = f(x)
        return np.sum(low) + np.sum(high)

    graph = cr.trace(objective, X)
    assert (graph["low"].dtype, graph["high"].dtype) == (np.float32, np.float64)
    assert cr.grad(objective)(X).tolist() == [3.0] * 4


def test_results_have_the_callers_names() -> None:
    f = cr.custom_derivative(lambda x: (x, {"k": np.sum(x)}))
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g[0] + g[1]["k"],))
    pair = cr.custom_derivative(lambda x: (np.sin(x), np.sum(x)))
    pair.defvjp(lambda x: (pair(x), x), lambda x, g: (g[0] * np.cos(x) + g[1],))

    def objective(x: Any) -> Any:
        h, more = f(x)
        a, b = pair(h)
        return np.sum(a) + b + more["k"]

    graph = cr.trace(objective, X)
    assert {"a", "b"} <= set(graph.names) and "more" not in graph.names
    assert graph["a"].primitive.name == "reshape"


def test_functions_with_rules_call_each_other() -> None:
    inner = cr.custom_derivative(lambda x, a=2.0: a * x)
    inner.defjvp(lambda p, t: (inner(*p), p[1] * t[0] + p[0] * t[1]))
    outer = cr.custom_derivative(lambda x, a: inner(inner(x, a), a))
    outer.defvjp(
        lambda x, a: (outer(x, a), (x, a)),
        lambda r, g: (g * r[1] ** 2, np.sum(2 * r[0] * r[1] * g)),
    )
    check_gradients(lambda x, a: outer(x, a) ** 2, X, 1.5, modes=("reverse",), seed=0)
    check_gradients(lambda x: inner(inner(x, 3), x), X)
    assert cr.grad(lambda x: inner(x, 3))(np.float32(2.0)) == 3.0


def test_a_rule_may_take_gradients() -> None:
    f = cr.custom_derivative(lambda x: np.sum(np.sin(x)))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * cr.grad(lambda z: np.sum(np.sin(z)))(x),))
    check_gradients(f, X, modes=("reverse",))


def test_predicted_memory_is_what_numpy_takes() -> None:
    f = with_jvp()
    x = np.ones(100_000)
    graph = cr.trace(lambda x: f(x * 2.0, x) * 3, x)
    graph.run(x=x, keep="outputs")
    tracemalloc.start()
    graph.run(x=x, keep="outputs")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    predicted = int(graph.memory(executor="reference").main.peak_nbytes) - x.nbytes
    assert abs(peak - predicted) < 20_000


@cr.custom_derivative(static=("n",))
def power(x: Any, n: int) -> Any:
    return x**n


@power.defjvp
def _power_rule(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return power(x, n), n * x ** (n - 1) * dx


def test_static_arguments_come_first() -> None:
    check_gradients(lambda x: power(x, 3), X)
    check_gradients(lambda x: power(x, n=2) * power(x, 3), X)
    assert power(2.0, 3) == 8.0


@dataclass
class Affine:
    w: Any
    b: Any

    @cr.custom_derivative
    def __call__(self, x: Any) -> Any:
        return x * self.w + self.b


Affine.__call__.defvjp(
    lambda self, x: (self(x), (self, x)),
    lambda residuals, g: (
        Affine(g * residuals[1], 2 * g),  # 2: to be told from the derivative itself
        g * residuals[0].w,
    ),
)


def test_methods_and_containers() -> None:
    made = cr.grad(lambda p, x: np.sum(p(x)), wrt=(0, 1))(Affine(Y, X), X)
    assert np.array_equal(made[0].w, X)
    assert np.array_equal(made[0].b, [2.0] * 4)
    assert np.array_equal(made[1], Y)


def test_a_batch_is_a_loop() -> None:
    points = np.stack([X, 2 * X, X - 1])
    for f in (with_vjp(), with_jvp(), with_both()):
        one = cr.grad(lambda x, y, f=f: np.sum(f(x, y) ** 2), wrt=(0, 1))
        for got, expected in zip(
            cr.vmap(lambda x, one=one: one(x, Y))(points),
            zip(*[one(x, Y) for x in points], strict=True),
            strict=True,
        ):
            assert np.allclose(got, np.stack(expected), rtol=1e-13, atol=0)


def test_a_batch_of_a_batch() -> None:
    points = np.arange(24.0).reshape(2, 3, 4) / 10
    one = cr.grad(lambda x: np.sum(power(x, 3)))
    assert np.allclose(cr.vmap(cr.vmap(one))(points), 3 * points**2)


def test_forward_mode_without_a_rule_says_what_to_do() -> None:
    with pytest.raises(NotDifferentiableError) as caught:
        cr.jvp(lambda x: with_vjp()(x, x), X, X)
    text = str(caught.value)
    assert "product has no rule for forward mode: defvjp gives one for reverse mode alone" in text
    assert "try: give it one: product.defjvp(rule), which serves both modes" in text
    assert "test_custom_derivative.py" in text


def test_what_is_inside_need_not_be_differentiable() -> None:
    opaque = cr.primitive(np.sinh, name="inner_sinh")
    f = cr.custom_derivative(lambda x: opaque(x))
    f.defjvp(lambda p, t: (f(*p), (np.exp(p[0]) + np.exp(-p[0])) / 2 * t[0]))
    check_gradients(f, X, order=1)


def f_with(rule: Any, mode: str = "vjp") -> Any:
    def f(x: Any) -> Any:
        return x * 2

    made = cr.custom_derivative(f)
    if mode == "vjp":
        made.defvjp(lambda x: (x * 2, None), rule)
    else:
        made.defjvp(rule)
    return made


REFUSED: dict[str, tuple[Any, str, type[ChainruleError], str, str]] = {
    "two cotangents for one": (
        lambda r, g: (g, g),
        "vjp",
        InputError,
        "bwd of f returned 2; a tuple of 1 is needed: one cotangent for each argument",
        "return (...,), with None where there is nothing",
    ),
    "no tuple": (
        lambda r, g: g,
        "vjp",
        InputError,
        "bwd of f returned a Traced; a tuple of 1 is needed",
        "return (...,)",
    ),
    "another shape": (
        lambda r, g: (np.sum(g),),
        "vjp",
        cr.errors.ShapeError,
        "bwd's cotangent of x has the shape [], but [4] is needed",
        "what was broadcast is summed again",
    ),
    "another dtype": (
        lambda r, g: (g.astype(np.float32),),
        "vjp",
        DTypeError,
        "bwd's cotangent of x is float32[4], and float64[4] is needed",
        ".astype(np.float64)",
    ),
    "no float": (
        lambda r, g: (g > 0,),
        "vjp",
        DTypeError,
        "bwd's cotangent of x is bool[4], and float64[4] is needed",
        ".astype(np.float64)",
    ),
    "a tangent alone": (
        lambda p, t: t[0],
        "jvp",
        InputError,
        "the jvp rule of f returned a Traced; a tuple of 2 is needed: (out, tangent)",
        "return (..., ...)",
    ),
    "a tangent of another shape": (
        lambda p, t: (p[0], np.sum(t[0])),
        "jvp",
        cr.errors.ShapeError,
        "the tangent of f's result out has the shape [], but [4] is needed",
        "a derivative has the shape of the value",
    ),
    "a rule that is not linear": (
        lambda p, t: (p[0], t[0] * t[0]),
        "jvp",
        NotDifferentiableError,
        "the jvp rule of f is not linear in the tangents",
        "f.defvjp(fwd, bwd)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_does_not_fit_is_explained(name: str) -> None:
    rule, mode, kind, what, hint = REFUSED[name]
    with pytest.raises(kind) as caught:
        cr.grad(lambda x: np.sum(f_with(rule, mode)(x)))(X)
    assert what in str(caught.value)
    assert hint in str(caught.value)
    assert f"{__file__}:{rule.__code__.co_firstlineno}" in str(caught.value)


def test_none_is_zero() -> None:
    f = f_with(lambda r, g: (None,))
    assert cr.grad(lambda x: np.sum(f(x)))(X).tolist() == [0.0] * 4


def test_missing_parts_of_a_container_are_named() -> None:
    f = cr.custom_derivative(lambda p: p["a"] * p["b"])
    f.defvjp(lambda p: (f(p), p), lambda p, g: ({"a": g * p["b"]},))
    with pytest.raises(InputError, match=r"cotangent of p has the parts p\.a; needed: p\.a, p\.b"):
        cr.grad(lambda p: np.sum(f(p)))({"a": X, "b": Y})


def test_what_is_closed_over_is_refused() -> None:
    def objective(x: Any, w: Any) -> Any:
        @cr.custom_derivative
        def scaled(x: Any) -> Any:
            return x * (2 * w)

        scaled.defvjp(lambda x: (scaled(x), None), lambda _, g: (g,))
        return np.sum(scaled(x))

    with pytest.raises(NotDifferentiableError, match="scaled uses w, which is not among its arg"):
        cr.grad(objective)(X, Y)


def test_a_function_without_a_rule_is_refused_when_it_is_traced() -> None:
    f = cr.custom_derivative(product)
    assert np.array_equal(f(X, Y), product(X, Y))
    with pytest.raises(NotDifferentiableError, match="custom_derivative without a rule"):
        cr.trace(lambda x: f(x, x), X)


def test_unknown_static_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="static='m' is no argument of product"):
        cr.custom_derivative(product, static="m")


def step(x: cr.float64["n 4"], W: cr.float64["4 4"]) -> Any:  # type: ignore[valid-type]
    h = with_both()(x @ W, x)
    L = np.mean(h**2)
    return L


def test_it_runs_in_a_training_step_with_names_and_named_sizes() -> None:
    graph = cr.backward(cr.trace(step), wrt="W")
    assert {"h", "dL/dh", "dL/dW"} <= set(graph.names)
    assert "custom_derivative[rule=product]" in str(graph)
    x, W = np.arange(12.0).reshape(3, 4) / 12, np.arange(16.0).reshape(4, 4) / 16
    expected = cr.grad(lambda W: np.mean((np.tanh(x @ W) * x) ** 2))(W)
    for executor in ("reference", "native"):
        assert np.allclose(graph.run(x=x, W=W, executor=executor)["dL/dW"], expected)
    training = cr.training_step(cr.trace(step), wrt=("W",), optimizer=cr.sgd(0.5))
    state = training.init({"W": W})
    training(state, x=x)
    assert np.allclose(state.parameters["W"], W - 0.5 * expected)


def test_two_functions_of_one_name_have_two_hashes() -> None:
    graphs = [cr.trace(with_both(), X, Y) for _ in range(2)]
    assert str(graphs[0]) == str(graphs[1])
    assert graphs[0].structural_hash != graphs[1].structural_hash
    f = with_both()
    assert cr.trace(f, X, Y).structural_hash == cr.trace(f, X, Y).structural_hash


def test_residuals_are_not_computed_twice() -> None:
    graph = cr.backward(cr.trace(lambda x, y: np.sum(with_vjp()(x, y) ** 2), X, Y), wrt="x")
    assert sum(node.primitive.name == "tanh" for node in graph) == 1


def test_it_is_drawn_and_written() -> None:
    graph = cr.backward(cr.trace(step), wrt="W")
    assert "<svg" in graph.draw().svg()
    assert "h" in str(graph.equations())
    source = cr.trace(lambda x, y: with_vjp()(x, y), X, Y).python()
    assert "np.tanh(x)" in source
