"""A function that catches an error of tracing takes the branch of every run, or is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import SizeError, UnsupportedError

# What raises ValueError (or IndexError) for some sizes of x: (n, 3) and y: (m, 3) and not for
# others, or for none.
BY_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "broadcasting": lambda x, y: x[:, 0] * np.ones(2),
    "broadcasting on the left": lambda x, y: np.ones(2) + x[:, 0],
    "two names": lambda x, y: x + y,
    "where": lambda x, y: np.where(x[:, 0] > 0, y[:, 0], 0),
    "broadcast_to": lambda x, y: np.broadcast_to(x[:, 0], (3, 2)),
    "broadcast_to a name": lambda x, y: np.broadcast_to(np.ones((2, 3)) + 0 * x[:1], y.shape),
    "matmul": lambda x, y: x.T @ np.ones((2, 2)),
    "matmul of names": lambda x, y: x.T @ y,
    "matmul in stacks": lambda x, y: x[:, :, None] @ np.ones((2, 1, 1)),
    "dot": lambda x, y: np.dot(x[:, 0], y[:, 0]),
    "inner": lambda x, y: np.inner(x.T, y.T),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=((0,), (0,))),
    "einsum": lambda x, y: np.einsum("ij,ij->j", x, y),
    "einsum of a diagonal": lambda x, y: np.einsum("ii->i", x),
    "vdot": lambda x, y: np.vdot(x, y),
    "concatenate": lambda x, y: np.concatenate([x, np.ones((2, 1))], axis=1),
    "concatenate names": lambda x, y: np.concatenate([x, y], axis=1),
    "stack": lambda x, y: np.stack([x, y]),
    "column_stack": lambda x, y: np.column_stack([x, y]),
    "hstack": lambda x, y: np.hstack([x, y]),
    "reshape": lambda x, y: np.reshape(x, (2, 3)),
    "reshape in two": lambda x, y: np.reshape(x, (2, -1)),
    "reshape to another name": lambda x, y: np.reshape(x, y.shape),
    "squeeze": lambda x, y: np.squeeze(x, 0),
    "a mask": lambda x, y: x[np.array([True, False])],
    "an index": lambda x, y: x[3],
    "an index from the end": lambda x, y: x[-2],
    "split": lambda x, y: np.split(x, 2)[0],
    "split at places": lambda x, y: np.split(x, [1, 2])[1] * np.ones((1, 1)),
    "solve": lambda x, y: np.linalg.solve(np.eye(3) + 0 * x[0], x[:, 0]),
    "inv": lambda x, y: np.linalg.inv(x + np.tri(3)[:1]),
    "det": lambda x, y: np.linalg.det(x),
    "cross_entropy": lambda x, y: cr.cross_entropy(x, np.array([0, 1])),
    "at": lambda x, y: x.at[:2].set(y) if hasattr(x, "at") else cr.at(x)[:2].set(y),
    "take_along_axis": lambda x, y: np.take_along_axis(x, np.zeros((2, 1), int), 1),
    "cross": lambda x, y: np.cross(x.T, y.T),
    "convolve": lambda x, y: np.convolve(x[:, 0], y[:, 0], "valid")[:1],
    "unpacking": lambda x, y: [a + b for a, b in [x]],
}  # fmt: skip
ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "array_equal": lambda x, y: np.array_equal(x, y),
    "array_equal to numbers": lambda x, y: np.array_equal(x, np.ones((2, 3))),
    "array_equiv": lambda x, y: np.array_equiv(x, y),
    "array_equiv to numbers": lambda x, y: np.array_equiv(x[:, 0], np.ones(2)),
}


def catching(attempt: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def program(x: float64["n 3"], y: float64["m 3"]) -> Any:
        try:
            attempt(x, y)
        except (ValueError, IndexError):
            return np.sum(x) - 100
        return np.sum(x)

    return program


def suppressing(attempt: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def program(x: float64["n 3"], y: float64["m 3"]) -> Any:
        found = np.sum(x) - 100
        with contextlib.suppress(ValueError, IndexError):
            attempt(x, y)
            found = np.sum(x)
        return found

    return program


def given(n: int, m: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n + 10 * m)
    return {"x": rng.uniform(1, 2, (n, 3)), "y": rng.uniform(1, 2, (m, 3))}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("how", [catching, suppressing])
@pytest.mark.parametrize("name", BY_SIZES)
def test_a_caught_error_about_sizes_holds_for_every_run(name: str, how: Any) -> None:
    program = how(BY_SIZES[name])
    try:
        graph = cr.trace(program)
    except cr.errors.ChainruleError as error:
        assert "test_caught_errors.py" in error.where
        assert error.hint
        return
    compiled = graph.compile()
    agreed = 0
    for n in range(1, 5):
        for m in range(1, 5):
            arrays = given(n, m)
            expected = program(**arrays)
            try:
                assert graph.run(**arrays).outputs == expected, (n, m)
            except SizeError as error:
                assert "test_caught_errors.py" in error.where
                with pytest.raises(SizeError):
                    compiled(**arrays)
                assert cr.trace(program, **arrays).run(**arrays).outputs == expected
            else:
                assert compiled(**arrays) == expected
                agreed += 1
    assert agreed


@pytest.mark.parametrize("name", ASKED)
def test_whether_arrays_are_equal_depends_on_sizes_that_a_condition_states(name: str) -> None:
    graph = cr.trace(lambda x, y: ASKED[name](x, y) * np.sum(x), x=float64["n 3"], y=float64["m 3"])
    refused = 0
    for n, m in [(1, 1), (2, 2), (2, 3), (1, 3), (4, 4)]:
        x = np.ones((n, 3))
        y = np.ones((m, 3))
        try:
            got = graph.run(x=x, y=y).outputs
        except SizeError:
            refused += 1
        else:
            assert got == ASKED[name](x, y) * np.sum(x)
    assert 0 < refused < 5


LIMITS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda x: float(np.sum(x)),
    "a truth": lambda x: bool(np.sum(x) > 0),
    "an element": lambda x: x[0, 0].item(),
    "an array": lambda x: np.asarray(x, dtype=np.float32),
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "a size compared": lambda x: x.shape[0] < 2,
    "a size as a number": lambda x: int(x.shape[0]),
    "a size as a key": lambda x: {2: 1}.get(x.shape[0]),
    "a length": lambda x: len(x),
    "rows": lambda x: list(x),
    "a function": lambda x: np.unique(x),
    "another file's": lambda x: np.linalg.eigvals(x[:3]),
    "an element of numbers": lambda x: np.ones(3)[x.shape[0]],
    "bytes": lambda x: bytes(x.shape[0]),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_function_that_catches_a_limit_of_tracing_is_refused(name: str) -> None:
    def program(x: float64["n 3"]) -> Any:
        try:
            LIMITS[name](x)
        except (TypeError, ValueError, IndexError):
            return np.sum(x) - 100
        return np.sum(x)

    with pytest.raises(cr.errors.ChainruleError) as caught:
        cr.trace(program)
    assert isinstance(caught.value, UnsupportedError)
    assert "catches an error of tracing and goes on" in caught.value.what
    assert "test_caught_errors.py" in caught.value.where
    assert "except cr.errors." in caught.value.hint


def test_a_function_that_names_the_error_of_tracing_means_its_other_branch() -> None:
    def by_size(x: float64["n 3"]) -> Any:
        try:
            rows = int(x.shape[0])
        except cr.errors.UndecidableSize:
            rows = x.shape[0]
        with contextlib.suppress(cr.errors.DataDependentError):
            print(float(np.sum(x)))
        return np.sum(x) / rows

    x = np.arange(6.0).reshape(2, 3)
    assert cr.trace(by_size).run(x=x).outputs == 7.5


def test_errors_that_numpy_raises_for_known_sizes_are_caught_as_ever() -> None:
    def program(x: float64["4 3"]) -> Any:
        try:
            return np.sum(x @ x)
        except ValueError:
            pass
        try:
            return x[7]
        except IndexError:
            return np.sum(x)

    x = np.ones((4, 3))
    assert cr.trace(program).conditions == ()
    assert cr.trace(program).run(x=x).outputs == program(x)


def test_hasattr_and_getattr_ask_without_a_refusal() -> None:
    def program(x: float64["n 3"]) -> Any:
        assert not hasattr(x, "sort")
        return np.sum(x) if getattr(x, "tofile", None) is None else x

    assert cr.trace(program).run(x=np.ones((2, 3))).outputs == 6
