"""Writes the message of a refused run: what it needs, for what, and the largest size that fits."""

from __future__ import annotations

from chainrule.errors import MemoryLimitError
from chainrule.explain.memory.largest import largest
from chainrule.explain.memory.report import MemoryReport
from chainrule.graph.bytes_text import in_bytes

SHOWN = 5  # parts


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


def _beside_arguments(report: MemoryReport) -> int:
    run = report.main
    return run.peak_nbytes - run.usage.given_nbytes
