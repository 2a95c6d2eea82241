"""The largest size that fits is settled by real plans; `fits` says by how much, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.execute import free_memory as module
from chainrule.execute.free_memory import FreeMemory
from chainrule.explain.memory.report import MemoryReport
from chainrule.graph.bytes_text import nbytes_of
from chainrule.machine_code.target import native_refusal

needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))


def objective(x: float32["n 12"], y: int64["n"], W1: float32["12 h"], W2: float32["h 5"]):
    hidden = np.maximum(x @ W1, 0)
    J = cr.cross_entropy(hidden @ W2, y)
    return J


def step() -> cr.TrainingStep:
    return cr.training_step(objective, ("W1", "W2"), cr.adam(1e-3), executor="native")


@pytest.mark.slow
@pytest.mark.sweep(4)
@needs_native
@pytest.mark.parametrize("nbytes", [200_000, "150 KiB", "1MB", "8GiB"])
def test_the_next_size_does_not_fit(nbytes: int | str) -> None:
    report = step().memory(h=20)
    found = report.largest("n", nbytes)
    limit = nbytes_of(nbytes)
    assert found.nbytes == report.at(n=found.size).needed_nbytes <= limit
    assert report.at(n=found.size + 1).needed_nbytes > limit
    assert step().fits(n=found.size, h=20, nbytes=nbytes)
    assert not step().fits(n=found.size + 1, h=20, nbytes=nbytes)


@pytest.mark.slow
@needs_native
def test_it_is_the_largest_of_all_sizes() -> None:
    report = step().memory(h=20)
    needs = {size: report.at(n=size).needed_nbytes for size in range(1, 25)}
    base = needs[1]
    for limit in range(base + 200, needs[24], 4500):
        fitting = [size for size, need in needs.items() if need <= limit]
        assert report.largest("n", limit).size == max(fitting)


@needs_native
def test_overhead_is_included() -> None:
    report = step().memory(n=100, h=20)
    assert report.needed_nbytes == report.main.peak_nbytes + report.overhead_nbytes
    assert report.overhead_nbytes > 0


@pytest.mark.exhaustive
@needs_native
def test_a_need_that_does_not_grow_throughout_is_searched_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def needed(report: MemoryReport) -> int:
        size = report.sizes["n"]
        return 100 * size + (5000 if size % 16 else 0)

    monkeypatch.setattr(MemoryReport, "needed_nbytes", property(needed))
    found = step().memory(h=20).largest("n", 20_000)
    assert found.size == 192 and found.nbytes == 19_200
    assert not found.is_monotone
    assert str(found).endswith("Not every larger n needs more, so one beyond may still fit.")


@needs_native
def test_the_sentence_says_what_was_planned() -> None:
    found = step().memory(h=20).largest("n", "1 MiB")
    above = [size for size in found.planned if size > found.size]
    assert str(found) == (
        f"n = {found.size:,} fits: it needs {found.nbytes:,} bytes of 1,048,576 (1 MiB); "
        f"n = {found.size + 1:,} needs {found.planned[found.size + 1]:,}. {len(found.planned)} "
        f"sizes were planned, {len(above)} of them above, up to {max(above):,}: none of these fits."
    )


@needs_native
def test_where_nothing_fits_the_smallest_need_is_said() -> None:
    report = step().memory(h=20)
    least = report.at(n=1).needed_nbytes
    with pytest.raises(MemoryLimitError) as caught:
        report.largest("n", "1KiB")
    assert f"no n fits in 1 KiB: n = 1 needs {least:,} bytes" in str(caught.value)


@needs_native
def test_only_sizes_that_the_program_allows_are_found() -> None:
    def pairs(x: float32["n 8"], w: float32[16]):
        J = np.sum(np.tanh(x.reshape(-1, 16) * w))
        return J

    graph = cr.backward(cr.trace(pairs), wrt="w")
    report = graph.memory(executor="native")
    found = report.largest("n", "1MiB")
    assert found.size % 2 == 0
    assert report.at(n=found.size).needed_nbytes <= 1 << 20
    assert report.at(n=found.size + 2).needed_nbytes > 1 << 20


@needs_native
def test_questions_without_an_answer_are_refused() -> None:
    report = step().memory(h=20)
    with pytest.raises(SizeError, match="no size called 'batch'"):
        report.largest("batch", "8GiB")
    with pytest.raises(SizeError, match="h was not given"):
        step().fits(n=3, nbytes="8GiB")

    def part(x: float32["n"], y: float32[3]):
        a = np.sum(x)
        b = y * 2
        return a, b

    with pytest.raises(InputError, match="does not depend on n"):
        cr.trace(part).memory(predict="b", executor="native").largest("n", "8GiB")


@pytest.mark.parametrize(
    ("amount", "nbytes"),
    [
        (0, 0),
        (np.int64(7), 7),
        ("1024", 1024),
        ("8GiB", 8 << 30),
        ("1.5 KiB", 1536),
        ("16 kb", 16_000),
        ("1,000 MB", 10**9),
        ("1,536.5 KiB", 1_573_376),
        (np.array(12), 12),
        ("2TiB", 2 << 40),
        ("12 B", 12),
    ],
)
def test_amounts_are_read(amount: Any, nbytes: int) -> None:
    assert nbytes_of(amount) == nbytes


WRONG = ["8 iB", "GiB", "-1", -1, True, 1.5, "8 GiB free", None, "1e9", "1,5 GiB", np.array([9, 9])]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_other_amounts_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="not an amount of memory"):
        nbytes_of(wrong)


@needs_native
def test_fits_says_how_much_is_needed_and_what_for() -> None:
    report = step().memory(n=256, h=20)
    fit = step().fits(n=256, h=20, nbytes="20KiB")
    assert not fit and fit.limit_nbytes == 20480 and fit.needed_nbytes == report.needed_nbytes
    assert fit.reason.startswith("n=256, h=20: ") and "too much (" in fit.reason
    assert "inputs 14" in fit.reason
    larger = step().fits(n=256, h=20, nbytes=report.needed_nbytes)
    assert larger and "too much" not in larger.reason
    graph = cr.backward(cr.trace(objective), wrt=("W1", "W2"))
    assert graph.fits(n=256, h=20, nbytes="1GiB", keep="named", executor="native")


@needs_native
def test_without_an_amount_the_machines_free_memory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chainrule.explain.memory.fits.free_memory", lambda: FreeMemory(1000, "pretended")
    )
    assert step().fits(n=256, h=20).limit_nbytes == 1000
    monkeypatch.setattr("chainrule.explain.memory.fits.free_memory", lambda: None)
    with pytest.raises(InputError, match="not known on this system"):
        step().fits(n=256, h=20)
    assert module.free_memory() is not None  # this test runs where native code does


def many_layers() -> tuple[Callable[..., Any], dict[str, Any]]:
    """The case of torchinfo's issue 144: one layer, used 100 times."""

    def network(x, W, b):
        h = x
        for _ in range(100):
            h = h @ W + b
        return h

    return network, {"x": float32["n", 1024], "W": float32[1024, 1024], "b": float32[1024]}


MIB, KIB = 1 << 20, 1 << 10


@needs_native
def test_a_layer_used_a_hundred_times_is_counted_a_hundred_times() -> None:
    """Activations of 40 MiB: 101 of them, a matrix of 4 MiB and a bias of 4 KiB (never run)."""
    network, types = many_layers()
    report = cr.trace(network, **types).memory(n=10240, keep="named", executor="native")
    assert (
        sum(value.nbytes for value in report.values.values()) == 101 * 40 * MIB + 4 * MIB + 4 * KIB
    )
    assert len(report.values) == 103
    formula = report.formulas.peak
    assert formula.at(n=10240) == max(
        a - b
        for a, b in zip(report.main.usage.live_nbytes, report.main.usage.workspaces, strict=True)
    )
    everything = 101 * 4 * 1024
    assert formula.at(n=2) - formula.at(n=1) >= everything


@needs_native
def test_what_is_not_kept_of_a_hundred_layers_is_freed() -> None:
    network, types = many_layers()
    report = cr.trace(network, **types).memory(n=10240, executor="native")
    values = report.main.peak_nbytes - report.main.parts["workspace"] - report.main.padding_nbytes
    assert values <= 4 * 40 * MIB + 4 * MIB + 4 * KIB
