"""Writes the message of a refused run: what it needs, for what, and which sizes would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from chainrule.errors import MemoryLimitError, SizeError
from chainrule.execute.executor import Analysed
from chainrule.explain.memory.largest import largest
from chainrule.explain.memory.report import MemoryReport
from chainrule.graph.bytes_text import in_bytes

SHOWN = 5  # parts
TRIED = 5  # sizes
COMPILED = 6  # sizes
CAREFULLY = 0.98  # of the size that the line gives


def explained(report: MemoryReport, needed: int, free: int, source: str) -> tuple[str, str]:
    """What happened, with a table of the largest parts, and what to try."""
    run = report.main
    at = ", ".join(f"{name} = {size:,}" for name, size in report.sizes.items())
    shown = f"a run of {report.graph.name}" + (f" at {at}" if at else "")
    lines = [
        f"{shown} needs {needed:,} bytes ({in_bytes(needed)}) beside its arguments, "
        f"and {free:,} ({in_bytes(free)}) are free ({source})",
        f"  at the peak, arguments included, there are {run.peak_nbytes:,} bytes:",
    ]
    parts = sorted(run.parts.items(), key=lambda pair: -pair[1])[:SHOWN]
    width = max(len(name) for name, _ in parts)
    lines += [f"    {name:{width}}  {nbytes:>19,}" for name, nbytes in parts if nbytes]
    program = report.main.program
    if isinstance(program, Analysed) and (allocated := program.allocated_nbytes()):
        copied = max(needed - allocated, 0)
        return "\n".join(lines), _largest_compiled(report, allocated + copied, copied, free)
    return "\n".join(lines), _largest(report, free)


def _largest(report: MemoryReport, free: int) -> str:
    """The largest value of the first named size with which so many bytes are enough."""
    if not report.graph.sizes:
        return ""
    name = report.graph.sizes[0]
    try:
        found = largest(report, name, free, _beside_arguments)
    except MemoryLimitError:
        return f"no {name} fits;\n"
    return f"{name} = {found.size:,} is the largest that fits;\n"


def _largest_compiled(report: MemoryReport, needed: int, copied: int, free: int) -> str:
    """As `_largest`, as the executor's own compiler counts: what is needed is nearly a line, so few
    sizes are compiled.  Of what is needed at the sizes of the report, `copied` bytes are copies of
    arguments."""
    if not report.graph.sizes:
        return ""
    name = report.graph.sizes[0]
    asked = report.sizes[name]
    size, fits, high, beyond, guess = 0, 0, asked, needed, asked
    for _ in range(COMPILED):
        guess = size + (high - size) * (free - fits) // max(beyond - fits, 1)
        if guess <= size:
            break
        try:
            program = report.at(**{name: guess}).main.program
        except (MemoryLimitError, SizeError):
            break
        assert isinstance(program, Analysed)
        need = program.allocated_nbytes() + copied * guess // asked
        if need <= free:
            size, fits = guess, need
        else:
            high, beyond = guess, need
    if not size:
        return f"no {name} fits;\n" if high == 1 else ""
    exactly = "is the largest that fits" if size + 1 == high or guess <= size else "fits"
    return f"{name} = {size:,} {exactly}, as it is compiled;\n"


def _beside_arguments(report: MemoryReport) -> int:
    run = report.main
    return run.peak_nbytes - run.usage.given_nbytes


def with_ways_out(error: MemoryLimitError, ways: Iterable[str]) -> MemoryLimitError:
    """The refusal of a run within a budget, with what else would help."""
    found = MemoryLimitError(error.what, hint="; ".join([error.hint, *ways]))
    found.needed_nbytes, found.budget_nbytes = error.needed_nbytes, error.budget_nbytes
    return found


def smaller_size(
    error: MemoryLimitError,
    report: Callable[[Mapping[str, int]], object],
    sizes: Mapping[str, int],
    tried: int = TRIED,
) -> int:
    """The first of the sizes, so much smaller that `report` finds a run within its budget; 0 where
    none was found.

    `error` is the refusal at these sizes.  The least that is needed is taken for a line; each size
    that is `tried` is planned.
    """
    name, budget = next(iter(sizes), ""), error.budget_nbytes or 0
    refused = [(0, 0), (sizes.get(name, 0), error.needed_nbytes)]
    for _ in range(tried):
        (before, before_least), (size, least) = refused[-2:]
        slope = (before_least - least) / (before - size) if before != size else 0
        line = size - (least - budget) / slope if slope > 0 else 0
        guess = min(int(line * CAREFULLY), size * 7 // 8) if line > 0 else size // 4
        if guess < 1:
            break
        try:
            report({**sizes, name: guess})
        except MemoryLimitError as error_there:
            refused.append((guess, error_there.needed_nbytes))
        except SizeError:
            break
        else:
            return guess
    return 0
