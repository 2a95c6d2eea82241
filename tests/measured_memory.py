"""What calls take from NumPy, from the first to the third, beside what their reports say."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy_memory import numpy_traced

from chainrule.execute.aligned import alignment_of
from chainrule.execute.native.runtime import machine, recycled
from chainrule.explain.memory.report import MemoryReport
from chainrule.graph.graph import Graph
from chainrule.schedule.records import SCRATCH

CALLS = 3
EXACT = [0] * CALLS


def peaks_of(prepare: Callable[[], Callable[[], Any]], calls: int = CALLS) -> list[int]:
    """The most bytes of arrays at once, in each of some calls: of all that is prepared and kept,
    but for what was there before.  Every call has compiled code that no other test has called."""
    machine._machines.clear()
    recycled.forget()
    found = []
    with numpy_traced(), no_collection():
        call = prepare()
        for _ in range(calls):
            tracemalloc.reset_peak()
            call()
            found.append(tracemalloc.get_traced_memory()[1])
    return found


@contextmanager
def no_collection() -> Iterator[None]:
    """No array that was there before is freed, and recycled, on the way.  To collect garbage first
    would do as well, but takes 0.3 s of a process that has run thousands of tests."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def arrays_nbytes(given: Any) -> int:
    """Of the arrays in containers, those in which elements repeat in full."""
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, (list, tuple)):
        return sum(map(arrays_nbytes, given))
    return given.nbytes if isinstance(given, np.ndarray) else 0


def constants_nbytes(report: MemoryReport) -> int:
    """Of the arrays that the program closed over."""
    inputs = sum(int(item.type.nbytes) for item in report.main.graph.inputs)
    return report.main.usage.given_nbytes - inputs


def aligned_nbytes(report: MemoryReport, *, recycled_results: bool) -> int:
    """What the native executor takes to align its block, and results that are large."""
    if report.executor != "native":
        return 0
    results = {
        life.arena: life.nbytes
        for life in report.main.usage.lives
        if life.arena.startswith("result ") and life.arena != SCRATCH
    }
    large = [nbytes for nbytes in results.values() if nbytes >= recycled.SMALLEST]
    found = alignment_of(report.main.usage.scratch_nbytes)
    found += recycled_results * sum(map(alignment_of, large))
    assert found <= report.overhead["ends of arrays"]
    return found


def error_of_runs(
    graph: Graph,
    sizes: dict[str, int],
    given: dict[str, Any],
    keep: Any,
    executor: str,
    layout: Any = None,
) -> list[int]:
    """The bytes that runs take more than their report says."""
    report = graph.memory(sizes, keep=keep, executor=executor, layout=layout)
    there = arrays_nbytes(given) + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=True)

    def prepare() -> Callable[[], Any]:
        return lambda: graph.run(given, keep=keep, executor=executor)

    return [peak - expected for peak in peaks_of(prepare)]
