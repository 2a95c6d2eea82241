"""What a run needs in all, and the refusal of one that cannot be done within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from chainrule.errors import MemoryLimitError
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.words import names_of
from chainrule.schedule.records import Compute
from chainrule.schedule.usage import Usage

SHOWN = 5  # values at the peak


@dataclass(frozen=True)
class Needs:
    """The bytes of a run: those of its arrays by `usage`, and the estimated ones beside them."""

    usage: Usage
    overhead: Mapping[str, int]

    @property
    def nbytes(self) -> int:
        """All of them, as a memory report counts them."""
        return self.usage.peak_nbytes + sum(self.overhead.values())


def refuse_beyond_budget(least: Needs, memory_nbytes: int) -> NoReturn:
    """MemoryLimitError: a run that needs the least that was found needs more than the budget."""
    usage, graph = least.usage, least.usage.schedule.graph
    names, number = names_of(graph), usage.peak_instruction
    computes = [one for one in usage.schedule.instructions if isinstance(one, Compute)]
    made = ", ".join(names[node] for node in computes[number - 1].nodes) if number else ""
    lines = [
        f"a run of {graph.name} needs at least {least.nbytes:,} bytes ({in_bytes(least.nbytes)}), "
        f"also where values are computed again, and memory is {memory_nbytes:,} "
        f"({in_bytes(memory_nbytes)})",
        f"  of these, {least.nbytes - usage.peak_nbytes:,} bytes are beside arrays; the largest "
        f"arrays at the peak{f', while {made} is computed' if made else ''}:",
    ]
    alive = [one for one in usage.alive_at(number) if not one.in_place]
    alive.sort(key=lambda one: (-one.nbytes, names[one.node]))
    width = max((len(names[one.node]) for one in alive[:SHOWN]), default=0)
    lines += [f"    {names[one.node]:{width}}  {one.nbytes:>19,}" for one in alive[:SHOWN]]
    error = MemoryLimitError(
        "\n".join(lines),
        hint=f"memory={least.nbytes} is enough",
    )
    error.needed_nbytes, error.budget_nbytes = least.nbytes, memory_nbytes
    raise error
