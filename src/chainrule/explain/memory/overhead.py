"""Estimates what a run takes besides its arrays; never part of the exact numbers."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.bytes_text import in_bytes


def overhead_of(run: RunMemory) -> dict[str, int]:
    """The estimated bytes by what they are; the numbers of the run do not hold them."""
    return dict(run.program.overhead(run.usage.large_count))


def overhead_words(overhead: Mapping[str, int]) -> str:
    """What is outside the numbers, in one sentence."""
    parts = ", ".join(f"{what} {in_bytes(nbytes)}" for what, nbytes in overhead.items() if nbytes)
    return (
        f"outside these numbers, estimated: {in_bytes(sum(overhead.values()))} ({parts}); "
        "Python, its libraries and the compiler are not counted"
    )
