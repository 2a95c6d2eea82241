"""`primitive`: an opaque function is an operation like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import chainrule as cr
from chainrule.errors import ChainruleError, EvaluationError, InputError, NotDifferentiableError
from chainrule.testing import check_gradients, check_primitive, planted_fault

X = np.linspace(0.5, 3.0, 4)


def of_order(n: int) -> Any:
    """The polygamma function of order n, whose derivative is that of order n + 1."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        return special.polygamma(n, x).astype(x.dtype)

    return cr.primitive(
        evaluate,
        name=f"polygamma_{n}",
        partials=(lambda out, x: of_order(n + 1)(x)),
        domain=(0.5, 3.0),
    )


gammaln = cr.primitive(
    special.gammaln,
    partials=lambda out, x: of_order(0)(x),
    latex=r"\ln\Gamma({x})",
    domain=(0.5, 3.0),
    flops=30,
)


def solve_linear(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of a x = b."""
    return np.linalg.solve(a, b)


solve = cr.primitive(
    solve_linear,
    result_type=lambda a, b: b,
    vjp=lambda g, out, a, b: (lambda w: (-w[:, None] * out, w))(solve(a.T, g)),
    jvp=lambda tangents, out, a, b: solve(a, tangents[1] - tangents[0] @ out),
    shapes=((3, 3), (3,)),
)
A = np.array([[3.0, 0.5, 0.1], [0.2, 2.0, 0.3], [0.4, 0.1, 4.0]])
B = np.array([1.0, 2.0, -1.0])


def read_table(table: np.ndarray, place: np.ndarray) -> np.ndarray:
    return np.interp(place, np.arange(len(table)), table)


def test_an_elementwise_function_passes_every_check_of_a_primitive() -> None:
    check_primitive(gammaln)
    with pytest.raises(AssertionError):
        check_primitive(planted_fault(gammaln, "scaled"))


def test_rules_of_both_modes_pass_every_check_of_gradients() -> None:
    check_gradients(solve, A, B)
    check_gradients(lambda a, b: solve(a, b) ** 2 * solve(a, 2 * b), A, B)


def test_on_numbers_it_computes() -> None:
    assert np.array_equal(gammaln(X), special.gammaln(X))
    assert gammaln(3) == special.gammaln(3.0)
    assert gammaln(X.astype(np.float32)).dtype == np.float32
    assert np.array_equal(solve(A, B), np.linalg.solve(A, B))


def test_inputs_are_promoted_and_broadcast_as_those_of_a_ufunc() -> None:
    xlogy = cr.primitive(
        special.xlogy, partials=(lambda out, x, y: np.log(y), lambda out, x, y: x / y)
    )
    low = X.astype(np.float32)
    graph = cr.trace(lambda x, y: xlogy(x, y), np.arange(4), low[:, None])
    (out,) = [node for _, node in graph.outputs]
    assert (out.type.shape, out.type.dtype) == ((4, 4), special.xlogy(np.arange(4), low).dtype)
    assert np.allclose(
        graph.run(x=np.arange(4), y=low[:, None])["out"], special.xlogy(np.arange(4), low[:, None])
    )
    assert cr.trace(lambda x: xlogy(x, 2.0), low)["out"].dtype == np.float32
    check_gradients(xlogy, X, X[:, None] + 1)


def objective(x: cr.float64["n"], scale: float = 2.0) -> Any:  # type: ignore[name-defined]
    h = gammaln(scale * x)
    L = np.mean(h * h)
    return L


def test_it_has_names_text_equations_flops_and_a_picture() -> None:
    graph = cr.backward(cr.trace(objective))
    assert "h: float64[n] = gammaln[call=gammaln, shape=(n,)](" in str(graph)
    assert "h = lnGamma(scale x)" in str(graph.equations("h"))
    assert r"\ln \Gamma (" in graph.equations("h").latex()
    assert "<svg" in graph.draw().svg()
    node = graph["h"]
    assert str(node.primitive.flops(node)) == "30*n"
    assert "from scipy.special import gammaln as function" in graph.bind(n=3).python()
    assert "h " in str(graph.memory(n=1000))


def test_every_executor_runs_it() -> None:
    graph = cr.backward(cr.trace(objective))
    expected = 2 * special.gammaln(2 * X) * special.digamma(2 * X) * 2 / 4
    for executor in ("reference", "native"):
        assert np.allclose(graph.run(x=X, executor=executor)["dL/dx"], expected, rtol=1e-12)
    assert np.allclose(graph.compile()(x=X)[1], expected, rtol=1e-12)


def test_two_operations_of_one_name_do_not_meet_in_the_cache() -> None:
    """Compiled code is found by the structural hash."""
    results = []
    for factor in (2.0, 3.0):
        op = cr.primitive(lambda x, f=factor: x * f, name="scaled_by", inputs=("x",))
        results.append(cr.compile(lambda x, op=op: op(x) + 1)(X))
    assert np.array_equal(results[0], 2 * X + 1)
    assert np.array_equal(results[1], 3 * X + 1)


def test_keyword_arguments_are_static() -> None:
    scaled = cr.primitive(
        lambda x, *, by: x * by,
        name="scaled",
        partials=lambda out, x, *, by: by + 0 * x,
    )
    check_gradients(lambda x: scaled(x, by=2.5) * scaled(x, by=3), X)
    graph = cr.trace(lambda x: scaled(x, by=2.5) + scaled(x, by=3), X)
    assert "scaled[call=scaled(by=2.5)" in str(graph) and "scaled[call=scaled(by=3)" in str(graph)
    with pytest.raises(InputError, match="has to be hashable"):
        scaled(X, by=[1])


calls: list[tuple[int, ...]] = []


def seen(x: np.ndarray) -> np.ndarray:
    calls.append(x.shape)
    return np.sin(x)


@pytest.mark.parametrize(
    ("batch", "shapes"), [("loop", [(4,)] * 3), ("pointwise", [(3, 4)]), (seen, [(3, 4)])]
)
def test_a_batch_is_looped_over_or_handed_over(batch: Any, shapes: Any) -> None:
    op = cr.primitive(seen, partials=lambda out, x: np.cos(x), batch=batch)
    points = np.arange(12.0).reshape(3, 4)
    function = cr.vmap(lambda x: op(x))
    calls.clear()
    assert np.allclose(function(points), np.sin(points))
    assert calls == shapes
    grads = cr.vmap(cr.grad(lambda x: np.sum(op(x) ** 2)))(points)
    assert np.allclose(grads, 2 * np.sin(points) * np.cos(points))


def test_a_batch_where_one_input_is_shared() -> None:
    columns = np.arange(6.0).reshape(2, 3)
    one = cr.grad(lambda a, b: np.sum(solve(a, b) ** 2), wrt=(0, 1))
    found = cr.vmap(lambda b: one(A, b))(columns)
    for got, expected in zip(found, zip(*[one(A, b) for b in columns], strict=True), strict=True):
        assert np.allclose(got, np.stack(expected), rtol=1e-12, atol=0)


def test_a_training_step_uses_it() -> None:
    table = cr.primitive(
        read_table,
        result_type=lambda table, place: place,
        vjp=lambda g, out, table, place: (
            None,
            g * (np.take(table, place.astype(np.int64) + 1) - np.take(table, place.astype(int))),
        ),
    )
    values = np.arange(8.0) ** 2

    def loss(x: cr.float64["n"], w: cr.float64[""]) -> Any:  # type: ignore[valid-type]
        return np.sum(table(values, w * x))

    step = cr.training_step(cr.trace(loss), wrt=("w",), optimizer=cr.sgd(0.01))
    state = step.init({"w": np.array(1.25)})
    step(state, x=np.array([1.0, 2.0]))
    assert np.isclose(state.parameters["w"], 1.25 - 0.01 * (1 * 3 + 2 * 5))


def op_with(**options: Any) -> Any:
    def sinh_like(x: np.ndarray) -> np.ndarray:
        return np.sinh(x)

    return cr.primitive(options.pop("evaluate", sinh_like), **options)


def grad_of(op: Any) -> Any:
    return cr.grad(lambda x: np.sum(op(x)))(X)


REFUSED: dict[str, tuple[Any, type[ChainruleError], str]] = {
    "no rule": (
        lambda: grad_of(op_with()),
        NotDifferentiableError,
        "the operation sinh_like has no derivative rule for reverse mode",
    ),
    "a rule for the other mode": (
        lambda: cr.jvp(op_with(vjp=lambda g, out, x: g), X, X),
        NotDifferentiableError,
        "no derivative rule for forward mode; it has one for the other mode alone",
    ),
    "two cotangents": (
        lambda: grad_of(op_with(vjp=lambda g, out, x: (g, g))),
        InputError,
        "the vjp rule of sinh_like returned 2; a tuple of 1 is needed",
    ),
    "a cotangent of another shape": (
        lambda: grad_of(op_with(vjp=lambda g, out, x: (g[:2],))),
        cr.errors.ShapeError,
        "the cotangent of input 0 of sinh_like has the shape [2], but [4] is needed",
    ),
    "a partial of another dtype": (
        lambda: grad_of(op_with(partials=lambda out, x: x.astype(np.float32))),
        cr.errors.DTypeError,
        "a partial derivative of sinh_like is float32[4], and float64[4] is needed",
    ),
    "another shape than declared": (
        lambda: cr.compile(op_with(evaluate=lambda x: x[1:], name="shorter"))(X),
        EvaluationError,
        "shorter of float64[4] returned float64[3], and float64[4] is declared",
    ),
    "another dtype than declared": (
        lambda: cr.trace(
            lambda x: op_with(evaluate=lambda x: x.astype(np.float32), name="narrow")(x), X
        ).run(x=X),
        EvaluationError,
        "narrow of float64[4] returned float32[4], and float64[4] is declared",
    ),
    "no array": (
        lambda: cr.trace(lambda x: op_with(evaluate=lambda x: None, name="nothing")(x), X).run(x=X),
        EvaluationError,
        "nothing of float64[4] returned a NoneType",
    ),
    "too few partials": (
        lambda: op_with(partials=()),
        InputError,
        "sinh_like has 1 inputs (x) and 0 partials",
    ),
    "partials of what is not elementwise": (
        lambda: op_with(partials=lambda out, x: x, result_type=lambda x: x),
        InputError,
        "sinh_like has partials, which are for elementwise functions",
    ),
    "two rules for one thing": (
        lambda: op_with(partials=lambda out, x: x, vjp=lambda g, out, x: g),
        InputError,
        "sinh_like has partials and another rule for the same derivative",
    ),
    "a name that is taken": (
        lambda: op_with(name="input"),
        InputError,
        "a primitive cannot be called 'input', which is a name that the library needs",
    ),
    "a lambda": (
        lambda: cr.primitive(lambda x: x),
        InputError,
        "a primitive of a lambda has no name",
    ),
    "an unknown way of batching": (
        lambda: op_with(batch="map"),
        InputError,
        'batch=\'map\' of sinh_like is neither "loop" nor "pointwise" nor a function',
    ),
    "too many arrays": (lambda: op_with()(X, X), InputError, "sinh_like takes 1 arrays (x), got 2"),
    "a result type that is none": (
        lambda: cr.trace(op_with(result_type=lambda x: 3), X),
        cr.errors.TypeSpecError,
        "the result_type of sinh_like returned 3",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_explained(name: str) -> None:
    run, kind, text = REFUSED[name]
    with pytest.raises(kind) as caught:
        run()
    assert text in str(caught.value)
    assert "try: " in str(caught.value)


def test_partials_none_is_a_constant() -> None:
    rounded = cr.primitive(np.rint, name="rounded", partials=None, inputs=("x",))
    flat = cr.primitive(np.rint, name="rounded", partials=(None,), inputs=("x",))
    with pytest.raises(NotDifferentiableError):
        grad_of(rounded)
    assert grad_of(flat).tolist() == [0.0] * 4
