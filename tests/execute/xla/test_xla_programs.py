"""What programs of the executor `xla` do beside computing: loops, errors, settings, callbacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from running import by_xla

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import (
    EvaluationError,
    IndexOutOfRangeError,
    StepLimitError,
    UnsupportedError,
)
from chainrule.execute.xla import jax_here
from chainrule.execute.xla.code import code_of
from chainrule.execute.xla.xla_executor import XLA
from chainrule.execute.xla.xla_program import XlaProgram

pytestmark = pytest.mark.peers
RANDOM = np.random.default_rng(5)


def program(function: Any, **types: Any) -> XlaProgram:
    graph = cr.trace(function, **types)
    return XLA.prepare(graph, [node for _, node in graph.outputs], {})


def lowered(made: XlaProgram) -> str:
    """The program as text, before XLA optimises it."""
    arrays = [np.zeros(one.shape, one.dtype) for one in made.given]
    with jax_here.wide():
        return made.code.jitted.lower(*arrays).as_text()


def raised(function: Any, executor: str, *arguments: Any) -> Exception:
    with pytest.raises(Exception) as caught:
        cr.compile(function, executor=executor)(*arguments)
    return caught.value


def same_refusal(kind: type[Exception], function: Any, *arguments: Any) -> None:
    """Both executors raise the same, with the user's line."""
    found, wanted = (raised(function, one, *arguments) for one in ("xla", "reference"))
    assert type(found) is type(wanted) is kind
    assert str(found) == str(wanted) and __file__ in str(found)


def test_a_loop_is_compiled_once_however_long_it_is() -> None:
    def looped(x, ts):
        return cr.scan(lambda c, t: (np.tanh(c + t), c), x, ts)

    short, long = (lowered(program(looped, x=float64[3], ts=float64[n])) for n in (3, 3000))
    assert short.count("\n") == long.count("\n") and "while" in long


def test_a_scan_notes_failures_where_there_can_be_some() -> None:
    def smooth(x, ts):
        return cr.scan(lambda c, t: (np.tanh(c + t), c), x, ts)

    def powers(x, ts):  # a negative one fails, which is found while the body is traced
        return cr.scan(lambda c, t: (c**t, c), x, ts)

    def outputs(made: XlaProgram) -> tuple[Any, Any]:
        with jax_here.wide():
            return jax_here.jax_here().eval_shape(made.code.jitted, *made.code.taken)

    _, noted = outputs(program(smooth, x=float64[3], ts=float64[5]))
    assert noted == ()
    _, (noted,) = outputs(program(powers, x=int64[()], ts=int64[5]))
    assert noted.shape == () and noted.dtype == bool
    x, ts = np.array(2), np.array([1, 2, 0, 3, 1])
    xla, reference = (cr.compile(powers, executor=one)(x, ts) for one in ("xla", "reference"))
    for found, wanted in zip(xla, reference, strict=True):
        np.testing.assert_array_equal(found, wanted)
    same_refusal(EvaluationError, powers, x, np.array([1, 2, -1, 3, 1]))


def test_loops_go_back_through_what_they_did_not_keep() -> None:
    def grown(x):
        return cr.while_loop(lambda s: np.sum(s) < 60, lambda s: s * 1.5 + 1, x, max_steps=40)

    def bent(x):
        return cr.while_loop(
            lambda s: np.sum(s) < 6, lambda s: s + 1 / (1 + s * s), x, max_steps=40
        )

    x = np.array([0.3, 0.1, 0.2])
    for function in (grown, bent):
        wanted, found = (cr.jacobian(function, executor=one)(x) for one in ("reference", "xla"))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        numeric = [(function(x + d) - function(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(wanted, np.transpose(numeric), rtol=1e-6)


def test_an_index_out_of_range_is_explained() -> None:
    def loss(o, y):
        return cr.cross_entropy(o, y)

    def looped(table, rows):
        return cr.scan(lambda c, row: (c + table[row], row), table[0], rows)[0]

    o = RANDOM.normal(size=(4, 3))
    same_refusal(IndexOutOfRangeError, loss, o, np.array([0, 2, 3, 1]))
    same_refusal(IndexOutOfRangeError, loss, o, np.array([0, 2, -1, 1]))
    many = RANDOM.normal(size=(2, 200))  # -100 as an unsigned byte is 156
    same_refusal(IndexOutOfRangeError, loss, many, np.array([0, -100], np.int8))
    same_refusal(IndexOutOfRangeError, loss, many, np.array([0, 200], np.uint8))
    same_refusal(IndexOutOfRangeError, looped, o, np.array([0, 3, 4]))
    assert cr.compile(looped, executor="xla")(o, np.array([0, -4, 3])).shape == (3,)


def test_indices_may_be_too_narrow_for_the_length_of_their_axis() -> None:
    """JAX counts in their dtype, in which 300 is no number."""

    def looked_up(table, rows):
        return np.sum(np.take(table, rows, axis=0) ** 3) + np.sum(table[rows, 1] ** 2)

    table = RANDOM.normal(size=(300, 2))
    for dtype in (np.int8, np.uint8, np.int16):
        rows = np.array([0, 5, 120, 5], dtype)
        wanted, found = (
            cr.grad(looked_up, executor=one)(table, rows) for one in ("reference", "xla")
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_a_loop_that_does_not_end_is_explained() -> None:
    def endless(x):
        return cr.while_loop(lambda s: s < 5, lambda s: s - 1, x, max_steps=7)

    same_refusal(StepLimitError, endless, np.float64(0))
    assert cr.compile(endless, executor="xla")(np.float64(6)) == 6


def test_a_matrix_that_is_singular_is_refused_as_by_numpy() -> None:
    def solved(a, b):
        return np.linalg.solve(a, b)

    for n in (2, 70):  # of large results each is looked at by itself
        same_refusal(EvaluationError, solved, np.ones((n, n)), np.ones(n))
        same_refusal(EvaluationError, solved, np.ones((n, n)), np.ones((n, n)))


def test_what_is_not_finite_before_a_routine_is_as_by_numpy() -> None:
    def solved(a, b):
        return np.linalg.solve(a, b), np.linalg.solve(a + b, b)

    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, np.nan])
    found, wanted = (cr.compile(solved, executor=one)(a, b) for one in ("xla", "reference"))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_products_with_a_transposed_matrix_read_it_as_it_lies() -> None:
    """XLA would copy it, and take long to compile that."""

    def bent(A, x, y):
        return np.sum(np.tanh(A @ x) * y) + np.sum(np.tanh(y @ A) ** 2)

    A, x, y = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=3), RANDOM.normal(size=5)
    for wrt in ("A", "x", "y"):
        found, wanted = (
            cr.hessian(bent, wrt=wrt, executor=one)(A, x, y) for one in ("xla", "reference")
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    turned = program(lambda A, y: (A.T @ y, y @ A, A @ y[:3]), A=float64[5, 3], y=float64[5])
    back = program(lambda A, x: x @ A.T, A=float64[5, 3], x=float64[3])
    for made in (turned, back):
        assert "stablehlo.transpose" not in lowered(made)
    values = by_xla(turned.graph, dict(zip(turned.given, (A, y), strict=True)), turned.computed)
    for found, wanted in zip(values.values(), (A.T @ y, y @ A, A @ y[:3]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def halved(x: Any) -> Any:
    if x[0] > 100:
        raise ValueError("too large to be halved")
    return x / 2


half = cr.primitive(halved, partials=lambda out, x: 0.5 + 0 * x, name="half")


def test_opaque_operations_are_called_back() -> None:
    def twice(x):
        return np.sum(half(np.exp(x)) * x)

    x = RANDOM.normal(size=3)
    found, wanted = (cr.grad(twice, executor=one)(x) for one in ("xla", "reference"))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    same_refusal(EvaluationError, twice, np.full(3, 9.0))
    with pytest.raises(UnsupportedError, match=r"half.* has no xla kernel, and strict=True"):
        cr.compile(twice, executor="xla", strict=True)(x)
    assert cr.compile(np.exp, executor="xla", strict=True)(x).shape == (3,)


@pytest.fixture
def strict_jax() -> Iterator[Any]:
    """JAX as a user may have set it."""
    import jax

    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield jax


def test_the_users_settings_of_jax_stay_and_do_not_matter(strict_jax: Any) -> None:
    def mixed(x, k):
        return x * k + np.arange(3) / 2

    x, k = RANDOM.normal(size=(2, 3)), np.arange(6, dtype=np.int32).reshape(2, 3)
    found = cr.compile(mixed, executor="xla")(x, k)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, mixed(x, k))
    assert strict_jax.numpy.ones(2).dtype == np.float32  # 64 bits are not the user's


def test_products_are_computed_in_full_precision() -> None:
    text = lowered(program(lambda x, w: x @ w, x=float32[2, 3], w=float32[3, 4]))
    assert "precision = [HIGHEST, HIGHEST]" in text


def test_random_bits_are_those_of_every_executor() -> None:
    def drawn(key):
        a, b = cr.random.split(key, 2)
        return cr.random.bits(a, (5,)), cr.random.uniform(b, (2, 3)), cr.random.fold_in(key, 7)

    key = cr.random.key(3)
    for one, other in zip(
        cr.compile(drawn, executor="xla")(key),
        cr.compile(drawn, executor="reference")(key),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other, strict=True)


def test_equal_graphs_share_their_code() -> None:
    def traced(name: str) -> cr.Graph:
        return cr.trace(lambda x: np.sin(x) + np.ones(3), x=float64[3]).replace(name=name)

    made = [XLA.prepare(one, [one.outputs[0][1]], {}) for one in map(traced, "ab")]
    assert made[0].code is made[1].code
    x = RANDOM.normal(size=3)
    traced("c").run(x=x, executor="xla")
    assert code_of(made[0].graph, made[0].computed) is made[0].code


def test_values_are_the_callers_own() -> None:
    def both(x):
        return {"x": x, "y": x + 1, "one": np.ones(3)}

    x = RANDOM.normal(size=3)
    before = x.copy()
    first = cr.compile(both, executor="xla")
    found = first(x)
    for value in found.values():
        value += 1
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(first(x)["one"], np.ones(3))


def test_arrays_may_lie_in_any_way() -> None:
    graph = cr.trace(lambda x: x * 2, x=float64["3 2"])
    node = graph.outputs[0][1]
    x = RANDOM.normal(size=(2, 3))
    for array in (x.T, x.astype(">f8").T, np.repeat(x.T, 2, 1)[:, ::2]):
        found = by_xla(graph, {graph.inputs[0].node: array}, [node])[node]
        np.testing.assert_array_equal(found, np.asarray(array) * 2)


def test_several_threads_may_call_at_once() -> None:
    compiled = cr.compile(lambda x, y: np.sum(np.tanh(x)[y]), executor="xla")
    x, y, wrong = RANDOM.normal(size=9), np.array([2, 3]), np.array([2, 9])
    found: list[Any] = []

    def work() -> None:
        for _ in range(5):
            found.append(compiled(x, y))
            with pytest.raises(IndexOutOfRangeError):
                compiled(x, wrong)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 15 and len(set(map(float, found))) == 1


def test_what_to_install_is_said_where_jax_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_here, "find_spec", lambda name: None)
    caches = (jax_here.refusal, jax_here.jax_here)
    for one in caches:
        one.cache_clear()
    try:
        with pytest.raises(UnsupportedError) as caught:
            cr.compile(np.sin, executor="xla")(1.0)
    finally:
        for one in caches:
            one.cache_clear()
    assert "needs JAX, which is not installed" in str(caught.value)
    assert "pip install 'chainrule[xla]'" in str(caught.value)
    assert 'executor="native" or "reference"' in str(caught.value)


def test_a_gradient_is_that_of_jax() -> None:
    """An independent referee of the whole way: JAX differentiates the same formula itself."""
    import jax

    def objective(x: float64["5 4"], y: int64["5"], w: float64["4 3"]):
        o = np.tanh(x) @ w
        return cr.cross_entropy(o, y) + np.sum(w**2)

    def written(w, x, y):
        o = jax.numpy.tanh(x) @ w
        picked = jax.nn.log_softmax(o)[jax.numpy.arange(5), y]
        return -picked.mean() + (w**2).sum()

    given = {"x": RANDOM.normal(size=(5, 4)), "y": np.array([0, 1, 2, 1, 0])}
    w = RANDOM.normal(size=(4, 3))
    found = cr.grad(objective, wrt="w", executor="xla")(**given, w=w)
    with jax.enable_x64(True):
        wanted = jax.grad(written)(w, given["x"], given["y"])
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
