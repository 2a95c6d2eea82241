"""What a Jacobian or Hessian takes is said before it is computed, and refused if it is too much."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
from executors import EITHER, needs_native
from finite_differences import close
from small_machine import having

import chainrule as cr
from chainrule import float32, float64
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute import free_memory as module

N = 100
X = np.linspace(-1, 1, N)


def energy(x: Any) -> Any:
    return np.sum(np.tanh(x) * x[::-1] ** 2)


def field(x: Any) -> Any:
    return np.tanh(x) * np.sum(x)


def fit(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes a machine with so many bytes free."""
    return partial(having, monkeypatch)


# Bills ------------------------------------------------------------------------------------------


def test_a_bill_says_what_a_call_takes() -> None:
    bill = cr.hessian(energy).cost(X)
    assert (bill.rows, bill.width, bill.at_once, bill.passes) == (N, N, N, 1)
    assert bill.nbytes == 8 * N * N
    assert bill.peak_nbytes >= bill.nbytes
    assert bill.flops >= N * N
    text = str(bill)
    assert text.startswith("the Hessian of energy, 100 x 100: ")
    assert f"{bill.flops:,} operations, 80,000 bytes (78.1 KiB) for the result" in text
    assert f"{bill.peak_nbytes:,} (" in text and text.endswith("at the peak")


def test_a_bill_of_types_runs_and_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        bill = cr.hessian(energy, executor="reference").cost(float64["1000000"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bill.nbytes == 8 * 10**12 and peak < 10**8
    assert cr.jacobian(field).cost(float32["10"]).nbytes == 400


def test_a_bill_in_parts() -> None:
    whole, parts = cr.hessian(energy).cost(X), cr.hessian(energy, rows=7).cost(X)
    assert (parts.at_once, parts.passes, parts.nbytes) == (7, 15, whole.nbytes)
    assert parts.flops > whole.flops  # the program itself runs in every part
    assert parts.nbytes < parts.peak_nbytes < whole.peak_nbytes
    assert "100 x 100, 7 rows at a time: " in str(parts)
    assert cr.hessian(energy, rows=1000).cost(X).at_once == N


def test_operations_are_those_of_a_run() -> None:
    A = np.ones((30, 20))
    bill = cr.jacobian(lambda x: A @ x, mode="reverse").cost(np.ones(20))
    forward, per_row = 2 * 30 * 20, 2 * 30 * 20
    compared = 30 * 30
    assert bill.flops == forward + 30 * per_row + compared - forward  # A @ x itself is not needed


@pytest.mark.parametrize("rows", [None, 3])
def test_the_peak_is_what_a_call_allocates(rows: int | None) -> None:
    """By reference: scratch of compiled code is not NumPy's, and its plan is tested elsewhere."""
    x = np.linspace(-1, 1, 400)
    call = cr.hessian(energy, rows=rows, executor="reference")
    expected = call.cost(x).peak_nbytes
    call(x)
    tracemalloc.start()
    try:
        kept = call(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept.nbytes == 400 * 400 * 8
    assert expected <= peak <= expected + 2 * 10**5  # the trace itself is not counted


def test_sizes_have_to_be_known() -> None:
    with pytest.raises(InputError) as caught:
        cr.hessian(energy).cost(float64["n"])
    text = str(caught.value)
    assert "the shape of the Hessian of energy is not known: n rows of n numbers" in text
    assert "types with numbers for their sizes" in text
    with pytest.raises(InputError, match="what the Hessian of fit takes depends on n"):
        cr.hessian(fit).cost(float64["4"], float64["n 4"])


# Refusals ---------------------------------------------------------------------------------------


def refused(call: Any) -> MemoryLimitError:
    with pytest.raises(MemoryLimitError) as caught:
        call()
    return caught.value


@EITHER
def test_a_hessian_that_does_not_fit_is_refused_with_rows_that_do(
    executor: str, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cr.hessian(energy, executor=executor).cost(X)
    parts = cr.hessian(energy, rows=16, executor=executor).cost(X)
    wider = cr.hessian(energy, rows=64, executor=executor).cost(X)
    assert parts.peak_nbytes < wider.peak_nbytes
    free = parts.peak_nbytes + 1000
    machine(free)

    def too_late(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("it ran")

    with monkeypatch.context() as patched:
        patched.setattr("chainrule.execute.reference.apply", too_late)
        patched.setattr("chainrule.execute.native.runtime.machine.Machine.call", too_late)
        patched.setattr("chainrule.functional.row_numbers._in_parts", too_late)
        error = refused(lambda: cr.hessian(energy, executor=executor)(X))
        in_parts = refused(lambda: cr.hessian(energy, rows=64, executor=executor)(X))
    text = str(error)
    need = f"{whole.peak_nbytes:,}"
    assert f"the Hessian of energy, 100 x 100, needs {need} bytes (" in text
    assert f"beside its arguments, and {free:,} (" in text and "are free (pretended)" in text
    assert "the result alone has 80,000 bytes (78.1 KiB), and takes " in text
    assert f"{whole.flops:,} floating-point operations" in text
    needed = f"{parts.peak_nbytes:,} bytes ("
    assert f"rows=16 makes 16 rows at a time, and needs {needed}" in text
    assert "CHAINRULE_MEMORY_CHECK=0 in the environment runs it all the same" in text
    assert (error.needed_nbytes, error.free_nbytes) == (whole.peak_nbytes, free)
    assert error.source == "pretended"
    assert "100 x 100, 64 rows at a time, needs" in str(in_parts)
    assert "rows=16 makes" in str(in_parts)
    close(cr.hessian(energy, rows=16, executor=executor)(X), by_hand())


def by_hand() -> np.ndarray:
    t, flipped = np.tanh(X), X[::-1]
    d1, d2 = 1 - t**2, -2 * t * (1 - t**2)
    found = np.diag(d2 * flipped**2 + 2 * t[::-1])
    cross = np.fliplr(np.diag(d1 * 2 * flipped))
    return found + cross + cross.T


def test_a_result_that_does_not_fit_points_to_what_needs_none(machine: Any) -> None:
    machine(79_999)
    text = str(refused(lambda: cr.hessian(energy)(X)))
    assert "cr.hvp(f, x, v) multiplies it by a vector, and never forms it" in text
    assert "rows=" not in text
    text = str(refused(lambda: cr.hessian(energy, rows=4)(X)))
    assert "cr.hvp" in text
    text = str(refused(lambda: cr.jacobian(field)(X)))
    assert "the Jacobian of field, 100 x 100, needs" in text
    assert "cr.jvp(f, x, v) and cr.vjp(f, x) multiply it by a vector" in text


@needs_native
def test_what_is_said_to_fit_does(machine: Any) -> None:
    for executor in ("reference", "native"):
        machine(cr.hessian(energy, executor=executor).cost(X).peak_nbytes)
        assert cr.hessian(energy, executor=executor)(X).shape == (N, N)
        machine(cr.jacobian(field, rows=4, executor=executor).cost(X).peak_nbytes)
        assert cr.jacobian(field, rows=4, executor=executor)(X).shape == (N, N)


def test_the_switch_runs_it_all_the_same(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1000)
    monkeypatch.setenv("CHAINRULE_MEMORY_CHECK", "0")
    close(cr.hessian(energy)(X), by_hand())


def test_a_limit_of_a_control_group_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "memory.max").write_text("50000")
    (tmp_path / "memory.current").write_text("1000")
    (found,) = module._of_groups("0::/", tmp_path)
    monkeypatch.setattr(module, "free_memory", lambda: found)
    monkeypatch.setattr(module, "WORTH_CHECKING", 1)
    text = str(refused(lambda: cr.hessian(energy)(X)))
    assert f"49,000 (47.9 KiB) are free (memory.max is 50,000 in {tmp_path}" in text
