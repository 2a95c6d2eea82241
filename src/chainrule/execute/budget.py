"""What a run needs in all, and the refusal of one that cannot be done within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from chainrule.dataclass import dataclass
from chainrule.errors import MemoryLimitError
from chainrule.execute.overhead import arrays_nbytes
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.words import names_of
from chainrule.schedule.records import Compute
from chainrule.schedule.usage import LARGE_NBYTES, Usage

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


def with_copies(needed_nbytes: int, copied: Mapping[Node, int]) -> int:
    """What a run needs that makes copies of inputs, of so many bytes each."""
    large = sum(nbytes >= LARGE_NBYTES for nbytes in copied.values())
    return needed_nbytes + sum(copied.values()) + arrays_nbytes(large)


def refuse_copies(
    graph: Graph, copied: Mapping[Node, int], needed_nbytes: int, memory_nbytes: int
) -> None:
    """MemoryLimitError where a run needs so many bytes, with the copies that it makes of these
    inputs, of so many bytes each, and has a budget of less."""
    if needed_nbytes <= memory_nbytes:
        return
    names = {item.node: item.name for item in graph.inputs}
    shown = ", ".join(f"{names[node]} ({nbytes:,})" for node, nbytes in copied.items())
    name, dtype = next((names[node], node.dtype.name) for node in copied)
    error = MemoryLimitError(
        f"a run of {graph.name} would copy arguments, which are not in C order, aligned and in "
        f"this machine's byte order: {shown}; so it needs {needed_nbytes:,} bytes "
        f"({in_bytes(needed_nbytes)}), and memory is {memory_nbytes:,} ({in_bytes(memory_nbytes)})",
        hint=f'pass np.array({name}, "{dtype}", order="C") instead (np.ascontiguousarray({name}) '
        "where only the order differs), and drop the array that it is made of",
    )
    error.needed_nbytes, error.budget_nbytes = needed_nbytes, memory_nbytes
    raise error


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
