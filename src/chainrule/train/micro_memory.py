"""What a step in micro-batches takes: its two graphs' reports, and the bytes held beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.errors import SizeError
from chainrule.explain.memory.report import MemoryReport, memory_of_step
from chainrule.explain.memory.words import in_bytes
from chainrule.graph.graph import Graph

if TYPE_CHECKING:
    from chainrule.train.micro_batches import MicroBatchedStep


@dataclass(frozen=True, eq=False)
class MicroBatchMemory:
    """The bytes of one step, all parts and the update.

    `accumulating` is the report of one part, `updating` that of the update.  `held_nbytes` are
    there throughout: parameters and optimizer's arrays, the sums (`sums_nbytes` of them), the whole
    batch.  `scratch_nbytes` is what runs allocate beside these: on the native executor that of a
    part and of the update, which both stay allocated; on the reference executor the larger of them.
    """

    accumulating: MemoryReport
    updating: MemoryReport
    count: int
    executor: str
    held_nbytes: int
    sums_nbytes: int
    scratch_nbytes: int

    @property
    def peak_nbytes(self) -> int:
        """The bytes allocated when most are."""
        return self.held_nbytes + self.scratch_nbytes

    def __str__(self) -> str:
        rows = {
            "held throughout": self.held_nbytes - self.sums_nbytes,
            "sums of gradients": self.sums_nbytes,
            "allocated by runs": self.scratch_nbytes,
            "peak": self.peak_nbytes,
        }
        sizes = ", ".join(f"{n} = {size}" for n, size in self.accumulating.sizes.items())
        lines = [
            f"memory of {self.accumulating.graph.name} in {self.count} parts",
            f"  each part  {sizes}",
            f"  executor   {self.executor}",
            "",
            *(f"{name:17}  {nbytes:15,}  {in_bytes(nbytes)}" for name, nbytes in rows.items()),
        ]
        return "\n".join(lines)


def memory_of_parts(
    step: MicroBatchedStep, sizes: Mapping[str, int], executor: str | None
) -> MicroBatchMemory:
    """See `MicroBatchedStep.memory`."""
    missing = [name for name in step.whole.graph.sizes if name not in sizes]
    if missing:
        raise SizeError(
            f"the memory of {step.whole.graph.name} depends on {', '.join(missing)}, which was "
            "not given",
            hint=f"step.memory({', '.join(f'{name}=...' for name in step.whole.graph.sizes)})",
        )
    part = {**sizes, step.size: step.part_of(sizes[step.size])}
    one = memory_of_step(step.accumulating, part, executor=executor)
    known = {name: sizes[name] for name in step.updating.graph.sizes}
    update = memory_of_step(step.updating, known, executor=executor)
    whole = step.whole.graph.bind(**sizes)
    sums = _nbytes(one.concrete, [summed.name for summed in step.accumulating.persistent])
    scratch = [_allocated(report) for report in (one, update)]
    return MicroBatchMemory(
        accumulating=one,
        updating=update,
        count=step.count,
        executor=one.executor,
        held_nbytes=_nbytes(whole) + sums,
        sums_nbytes=sums,
        scratch_nbytes=sum(scratch) if one.executor == "native" else max(scratch),
    )


def _allocated(report: MemoryReport) -> int:
    """The bytes at the peak of a run that were not given to it."""
    return report.main.peak_nbytes - _nbytes(report.concrete)


def _nbytes(graph: Graph, names: list[str] | None = None) -> int:
    """The bytes of the inputs of a concrete graph, or of those with these names."""
    return sum(
        int(item.type.nbytes) for item in graph.inputs if names is None or item.name in names
    )
