"""jacobian and hessian: one batched pass, right in every mode, in containers and in parts."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from executors import EITHER
from finite_differences import close, differences

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, NotDifferentiableError, ShapeError, UnsupportedError

RANDOM = np.random.default_rng(9)
MODES = pytest.mark.parametrize("mode", [None, "forward", "reverse"])
ROWS = pytest.mark.parametrize("rows", [None, 1, 2, 4, 100])
X = RANDOM.normal(size=(2, 3))
W = RANDOM.normal(size=(3, 4))
Pair = namedtuple("Pair", "W b")


def f(x: Any, W: Any) -> Any:
    return np.tanh(x @ W)


def energy(x: Any) -> Any:
    return np.sum(np.tanh(x) * x[::-1] ** 2)


def numeric(function: Any, x: np.ndarray) -> np.ndarray:
    """The Jacobian by central differences, of the shape of the value and then of x."""
    shape = np.shape(function(x))
    found = np.zeros((*shape, *np.shape(x)))
    for place in np.ndindex(*shape):
        found[place] = differences(lambda x: np.asarray(function(x))[place], x)  # noqa: B023
    return found


# Values -----------------------------------------------------------------------------------------


@pytest.mark.sweep(5)
@MODES
@ROWS
@pytest.mark.parametrize("wrt", [0, 1, "x", "W"])
def test_it_is_what_differences_say(mode: str | None, rows: int | None, wrt: Any) -> None:
    found = cr.jacobian(f, wrt, mode=mode, rows=rows)(X, W)
    by_x = wrt in (0, "x")
    expected = numeric(lambda x: f(x, W), X) if by_x else numeric(lambda W: f(X, W), W)
    assert found.shape == expected.shape and found.dtype == np.float64
    close(found, expected, 1e-8)


@EITHER
def test_on_every_executor(executor: str) -> None:
    expected = numeric(lambda x: f(x, W), X)
    for rows in (None, 3):
        close(cr.jacobian(f, rows=rows, executor=executor)(X, W), expected, 1e-8)
        hessian = cr.hessian(energy, rows=rows, executor=executor)(X[0])
        close(hessian, numeric(cr.grad(energy), X[0]), 1e-8)


def test_the_mode_is_the_one_with_fewer_passes() -> None:
    for outputs, inputs in ((3, 50), (50, 3), (4, 4)):
        graph = cr.trace(jacobian_of(outputs, inputs), float64[inputs])
        (identity,) = [node for node in graph.nodes if node.primitive.name == "equal"]
        fewer = min(outputs, inputs)
        assert identity.shape == (fewer, fewer)
        assert graph["out"].shape == (outputs, inputs)


def jacobian_of(outputs: int, inputs: int) -> Any:
    A = np.ones((outputs, inputs))
    return cr.jacobian(lambda x: np.sin(A @ x))


@pytest.mark.parametrize("function", [cr.jacfwd, cr.jacrev])
def test_the_modes_by_jaxs_names(function: Any) -> None:
    close(function(f, 1)(X, W), numeric(lambda W: f(X, W), W), 1e-8)
    names = {node.origin.transform for node in cr.trace(function(np.sin), float64[2]).nodes}
    assert "grad" in names


@MODES
@ROWS
def test_values_without_axes(mode: str | None, rows: int | None) -> None:
    close(cr.jacobian(np.sin, mode=mode, rows=rows)(0.3), np.cos(0.3))
    close(cr.jacobian(lambda x: np.sum(x**2), mode=mode, rows=rows)(X), 2 * X)
    close(cr.jacobian(lambda t: t * X, mode=mode, rows=rows)(2.0), X)


@MODES
@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("shape", [(0,), (1,), (1, 1), (2, 0)])
def test_empty_and_short_axes(mode: str | None, rows: int | None, shape: Any) -> None:
    x = RANDOM.normal(size=shape)
    found = cr.jacobian(np.sin, mode=mode, rows=rows)(x)
    assert found.shape == shape + shape
    close(found, numeric(np.sin, x), 1e-8)
    assert cr.hessian(lambda x: np.sum(x**3), rows=rows)(x).shape == shape + shape


@MODES
def test_a_result_that_does_not_depend_on_the_argument(mode: str | None) -> None:
    found = cr.jacobian(lambda x: (np.ones(2), x), mode=mode)(np.ones(3))
    assert np.array_equal(found[0], np.zeros((2, 3))) and np.array_equal(found[1], np.eye(3))


def test_dtypes_are_those_of_gradients() -> None:
    x = X.astype(np.float32)
    for mode in ("forward", "reverse"):
        for rows in (None, 2):
            found = cr.jacobian(lambda x: np.sin(x) * 2, mode=mode, rows=rows)(x)
            assert found.dtype == np.float32
    assert cr.hessian(energy)(x[0]).dtype == np.float32


# Hessians ---------------------------------------------------------------------------------------


@ROWS
def test_the_hessian(rows: int | None) -> None:
    x = RANDOM.normal(size=5)
    found = cr.hessian(energy, rows=rows)(x)
    close(found, numeric(cr.grad(energy), x), 1e-8)
    close(found, found.T)
    close(found @ np.ones(5), cr.hvp(energy, x, np.ones(5)))


def test_the_hessian_of_a_network() -> None:
    params = Pair(W=RANDOM.normal(size=(3, 2)), b=RANDOM.normal(size=2))

    def loss(params: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ params.W + params.b) ** 2)

    found = cr.hessian(loss)(params, X)
    assert type(found) is Pair and type(found.W) is Pair
    assert found.W.b.shape == (3, 2, 2) and found.b.W.shape == (2, 3, 2)
    slope = cr.grad(loss)
    close(found.W.W, numeric(lambda W: slope(Pair(W, params.b), X).W, params.W), 1e-8)
    close(found.W.b, numeric(lambda b: slope(Pair(params.W, b), X).W, params.b), 1e-8)
    close(found.b.W, np.moveaxis(found.W.b, -1, 0))
    parts = cr.hessian(loss, rows=3)(params, X)
    for one in ("W", "b"):
        for other in ("W", "b"):
            close(getattr(getattr(parts, one), other), getattr(getattr(found, one), other))


def test_several_arguments_give_a_tuple_of_tuples() -> None:
    g = lambda x, y: np.sum(x * x * y)  # noqa: E731
    x, y = RANDOM.normal(size=3), RANDOM.normal(size=3)
    ((xx, xy), (yx, yy)) = cr.hessian(g, (0, 1))(x, y)
    close(xx, np.diag(2 * y))
    close(xy, np.diag(2 * x))
    close(yx, np.diag(2 * x))
    close(yy, np.zeros((3, 3)))


def test_columns_of_a_hessian_are_not_turned_into_rows() -> None:
    graph = cr.trace(cr.hessian(lambda x: np.sum(np.sin(x))), float64[5])
    assert "transpose" not in {node.primitive.name for node in graph.nodes}


def test_it_needs_a_scalar() -> None:
    with pytest.raises(ShapeError, match="needs a floating-point scalar"):
        cr.hessian(np.sin)(X)


# Containers -------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_containers_of_outputs_hold_containers_of_inputs(
    mode: str | None, rows: int | None
) -> None:
    def g(p: Any, x: Any) -> Any:
        return {"z": x @ p["W"] + p["b"], "parts": [np.sum(p["b"]) * x, x[0]]}

    p, x = {"W": RANDOM.normal(size=(3, 2)), "b": RANDOM.normal(size=2)}, RANDOM.normal(size=3)
    found = cr.jacobian(g, ("p", "x"), mode=mode, rows=rows)(p, x)
    by_p, by_x = found["z"]
    close(by_p["b"], np.eye(2))
    close(by_p["W"], np.einsum("i,jk->jik", x, np.eye(2)))
    close(by_x, p["W"].T)
    by_p, by_x = found["parts"][0]
    close(by_p["b"], np.stack([x, x], axis=1))
    close(by_p["W"], np.zeros((3, 3, 2)))
    close(by_x, np.sum(p["b"]) * np.eye(3))
    close(found["parts"][1][1], [1, 0, 0])


def test_one_array_that_is_returned_twice() -> None:
    def g(x: Any) -> Any:
        y = np.sin(x)
        return y, y

    for mode in ("forward", "reverse"):
        first, second = cr.jacobian(g, mode=mode)(X[0])
        close(first, np.diag(np.cos(X[0])))
        close(second, first)


@pytest.mark.parametrize("rows", [None, 2])
def test_what_comes_beside_the_value(rows: int | None) -> None:
    def g(x: Any) -> Any:
        return np.sin(x), {"count": x > 0, "text": np.sum(x)}

    found, aux = cr.jacobian(g, rows=rows, has_aux=True)(X[0])
    close(found, np.diag(np.cos(X[0])))
    assert np.array_equal(aux["count"], X[0] > 0)
    found, aux = cr.hessian(lambda x: (energy(x), x * 2), rows=rows, has_aux=True)(X[0])
    close(found, cr.hessian(energy)(X[0]))
    close(aux, 2 * X[0])


def test_arguments_by_keyword_and_defaults() -> None:
    def g(x: Any, *, scale: Any = 2.0) -> Any:
        return scale * x

    for rows in (None, 2):
        close(cr.jacobian(g, rows=rows)(X[0]), 2 * np.eye(3))
        close(cr.jacobian(g, rows=rows)(X[0], scale=3.0), 3 * np.eye(3))
        close(cr.jacobian(g, "scale", rows=rows)(X[0], scale=3.0), X[0])
        close(cr.jacobian(lambda **p: p["a"] * p["b"], "a", rows=rows)(a=2.0, b=X[0]), X[0])
        close(cr.jacobian(lambda *p: p[0] * p[1], 1, rows=rows)(2.0, X[0]), 2 * np.eye(3))


# In programs ------------------------------------------------------------------------------------


def test_it_nests_with_the_other_derivatives() -> None:
    x = RANDOM.normal(size=3)
    close(cr.jacobian(cr.grad(energy))(x), cr.hessian(energy)(x))
    close(
        cr.jacobian(cr.jacobian(np.sin))(x), -np.einsum("ij,jk->ijk", np.eye(3), np.diag(np.sin(x)))
    )
    trace_of_hessian = lambda x: np.trace(cr.hessian(energy)(x))  # noqa: E731
    close(cr.grad(trace_of_hessian)(x), differences(trace_of_hessian, x), 1e-7)
    batch = RANDOM.normal(size=(4, 3))
    found = cr.vmap(cr.hessian(energy))(batch)
    close(found, np.stack([cr.hessian(energy)(one) for one in batch]))
    mapped = cr.vmap(lambda W: np.sum(f(X, W)), in_axes=1)
    close(cr.jacobian(mapped)(W), numeric(mapped, W), 1e-8)


def test_a_closed_over_traced_value() -> None:
    def outer(a: Any) -> Any:
        return np.sum(cr.jacobian(lambda y: y * a)(np.ones(3)))

    close(cr.grad(outer)(2.0), 3.0)


def test_a_graph_of_named_sizes_and_of_bounded_size() -> None:
    def program(x: Any, W: Any) -> Any:
        H = cr.hessian(lambda W: np.sum(np.tanh(x @ W) ** 2))(W)
        return H

    graph = cr.trace(program, float64["n d"], float64["d 2"])
    assert str(graph["H"].type) == "float64[d, 2, d, 2]"
    small = cr.trace(program, float64[2, 3], float64[3, 2])
    large = cr.trace(program, float64[200, 300], float64[300, 2])
    assert len(small.nodes) == len(large.nodes) == len(graph.nodes)
    x, W = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(3, 2))
    slope = cr.grad(lambda W: np.sum(np.tanh(x @ W) ** 2))
    close(graph.run(x=x, W=W)["H"], numeric(slope, W), 1e-8)
    close(cr.compile(program)(x, W), numeric(slope, W), 1e-8)


# Parts ------------------------------------------------------------------------------------------


def test_parts_are_runs_of_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.functional import row_numbers as module

    graphs: list[Any] = []
    real = module.run_graph

    def run_graph(graph: cr.Graph, *args: Any, **kwargs: Any) -> Any:
        graphs.append(graph)
        return real(graph, *args, **kwargs)

    monkeypatch.setattr(module, "run_graph", run_graph)
    x = RANDOM.normal(size=7)
    found = cr.hessian(energy, rows=3)(x)
    assert len(graphs) == 3 and len(set(map(id, graphs))) == 1
    assert max(int(node.type.size) for node in graphs[0].nodes) == 3 * 7
    close(found, numeric(cr.grad(energy), x), 1e-8)


# Errors -----------------------------------------------------------------------------------------


def test_what_cannot_be_meant() -> None:
    with pytest.raises(InputError, match="mode='backward' is no mode of differentiation"):
        cr.jacobian(f, mode="backward")
    assert cr.jacobian(np.sin, rows=np.int64(2))(X[0]).shape == (3, 3)  # type: ignore[arg-type]
    for rows in (0, -1, 2.0, True):
        with pytest.raises(InputError, match=f"rows={rows!r}: an integer of at least 1"):
            cr.jacobian(f, rows=rows)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="wrt='q' is no argument of f"):
        cr.jacobian(f, "q")(X, W)


def test_parts_are_refused_in_a_traced_program() -> None:
    inner = cr.jacobian(np.sin, rows=2)
    calls = [
        lambda: cr.trace(lambda x: inner(x), float64[3]),
        lambda: cr.grad(lambda x: np.sum(inner(x)))(X[0]),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert "rows=2 of the Jacobian of sin in a traced program" in str(caught.value)
        assert "leave rows= out in a traced program" in str(caught.value)


def test_results_and_arguments_that_are_no_floats() -> None:
    with pytest.raises(NotDifferentiableError) as caught:
        cr.jacobian(lambda x: {"a": x, "b": x > 0})(X)
    assert "value.b of <lambda> is bool[2, 3]" in str(caught.value)
    assert "has_aux=True" in str(caught.value)
    with pytest.raises(NotDifferentiableError, match="the argument x is int64"):
        cr.jacobian(lambda x: x * 2.0)(np.arange(3))


# Peers ------------------------------------------------------------------------------------------


def compare_with_jax(jax: Any) -> None:
    jnp = jax.numpy

    def g(np_: Any) -> Any:
        def function(p: Any, x: Any) -> Any:
            h = np_.tanh(x @ p["W"])
            return {"h": h, "s": (np_.sum(h * h), p["b"] * x[0])}

        return function

    p = {"W": RANDOM.normal(size=(3, 2)), "b": RANDOM.normal(size=(2, 2))}
    x = RANDOM.normal(size=3)
    for ours, theirs, several in (
        (cr.jacfwd, jax.jacfwd, (0, (0, 1))),
        (cr.jacrev, jax.jacrev, (1, (0, 1), (1,))),
    ):
        for wrt in several:
            found, expected = ours(g(np), wrt)(p, x), jax.jit(theirs(g(jnp), wrt))(p, x)
            leaves, tree = jax.tree_util.tree_flatten(found)
            other, same = jax.tree_util.tree_flatten(expected)
            assert tree == same
            for one, two in zip(leaves, other, strict=True):
                close(one, two, 1e-11)

    def scalar(np_: Any) -> Any:
        return lambda p, x: np_.sum(g(np_)(p, x)["h"] ** 3) * np_.sum(p["b"])

    found, expected = cr.hessian(scalar(np))(p, x), jax.jit(jax.hessian(scalar(jnp)))(p, x)
    for one in p:
        for two in p:
            close(found[one][two], expected[one][two], 1e-10)


@pytest.mark.peers
def test_jax_has_the_same_numbers_in_the_same_containers() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        compare_with_jax(jax)


@pytest.mark.peers
def test_torch_has_the_same_hessian() -> None:
    torch = pytest.importorskip("torch")
    x = RANDOM.normal(size=6)
    flipped = torch.autograd.functional.hessian(
        lambda x: torch.sum(torch.tanh(x) * torch.flip(x, (0,)) ** 2), torch.tensor(x)
    )
    close(cr.hessian(energy)(x), flipped.numpy(), 1e-11)
