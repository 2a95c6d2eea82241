"""Estimates what a run takes besides its arrays; never part of the exact numbers."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.execute.budget import refuse_copies
from chainrule.execute.executor import Analysed
from chainrule.execute.executors import memory_of
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.bytes_text import in_bytes

SHOWN = 5  # values in scratch memory
OTHERS = "others"  # values that no node is known for


def overhead_of(run: RunMemory) -> dict[str, int]:
    """The estimated bytes by what they are; the numbers of the run do not hold them."""
    return dict(run.program.overhead(run.usage.large_count))


def refuse_copies_of(run: RunMemory, executor: str) -> None:
    """MemoryLimitError where the executor's budget has no room for copies of arguments: a call is
    refused, too."""
    limit, copied = memory_of(executor), run.usage.copied
    if limit is not None and copied:
        needed = run.peak_nbytes + sum(overhead_of(run).values())
        refuse_copies(run.graph, copied, needed, limit)


def compiled_of(run: RunMemory) -> dict[str, int]:
    """The bytes of the run as the executor's own compiler says, if it has one that does."""
    program = run.program
    return dict(program.compiled_nbytes()) if isinstance(program, Analysed) else {}


def compiled_values_of(run: RunMemory) -> dict[str, int]:
    """What a run has in scratch memory when that is fullest, by name, the most first, as the
    executor's own compiler has it."""
    program = run.program
    found: dict[str, int] = {}
    for node, nbytes in program.compiled_values().items() if isinstance(program, Analysed) else ():
        name = OTHERS if node is None else run.names[node]
        found[name] = found.get(name, 0) + nbytes
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def compiled_words(nbytes: Mapping[str, int], values: Mapping[str, int] | None = None) -> str:
    """What the compiler says, in one sentence."""
    parts = ", ".join(f"{what} {in_bytes(one)}" for what, one in nbytes.items())
    text = f"the executor's compiler, which plans its own memory, says: {parts}"
    largest = ", ".join(
        f"{name} {in_bytes(one)}" for name, one in [*(values or {}).items()][:SHOWN]
    )
    return text + (f"; when its scratch is fullest, most of it is {largest}" if largest else "")


def overhead_words(overhead: Mapping[str, int]) -> str:
    """What is outside the numbers, in one sentence."""
    parts = ", ".join(f"{what} {in_bytes(nbytes)}" for what, nbytes in overhead.items() if nbytes)
    if not parts:
        return "outside these numbers: Python, its libraries and the compiler are not counted"
    return (
        f"outside these numbers, estimated: {in_bytes(sum(overhead.values()))} ({parts}); "
        "Python, its libraries and the compiler are not counted"
    )
