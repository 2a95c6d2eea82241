"""What else would help where a training step needs more than its budget: each way is planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from chainrule.errors import MemoryLimitError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.explain.memory.refusal import smaller_size, with_ways_out
from chainrule.explain.memory.report import REFERENCE_SIZE, MemoryReport, memory_of_step
from chainrule.graph.bytes_text import in_bytes
from chainrule.train.optimizers.optimizers import sgd
from chainrule.train.step.update import with_update
from chainrule.train.step.ways_to_fit import parts_that_fit

if TYPE_CHECKING:
    from chainrule.train.step.micro_memory import MicroBatchMemory
    from chainrule.train.step.step import TrainingStep

COMPILED = 2  # smaller sizes, where each takes seconds
BUDGETS = 5  # tried for parts of a batch: of the update, of a part, of all together


def advised(
    error: MemoryLimitError, step: TrainingStep, given: Mapping[str, int], options: Any
) -> MemoryLimitError:
    """The refusal of a step at these sizes, with the ways that fit: a smaller batch; parts of the
    batch and another optimizer, where nothing has to be compiled to know.  `options` are those of
    `memory_of_step`."""
    sizes = {name: given.get(name, REFERENCE_SIZE) for name in step.graph.sizes}

    def report(sizes: Mapping[str, int]) -> MemoryReport:
        return memory_of_step(step, sizes, **options)

    if executor_of(options["executor"] or step.executor).traits.compiles_to_count:
        size = smaller_size(error, report, sizes, COMPILED)
        return with_ways_out(error, [f"{step.graph.sizes[0]} = {size:,} fits"] if size else [])
    ways, size = [], smaller_size(error, report, sizes)
    if size:
        ways.append(f"{step.graph.sizes[0]} = {size:,} fits")
    if {part.name for part in step.persistent}.issuperset(step.parameters):  # else it is one part
        least = sizes[step.graph.sizes[0]] / size if size else math.inf
        fitting = parts_that_fit(step, sizes, options["executor"], least)
        ways += [f"step.micro_batched({count}) fits" for count, _ in islice(fitting, 1)]
        ways += _with_sgd(step, sizes, options)
    return with_ways_out(error, ways)


def advised_of_parts(
    error: MemoryLimitError,
    count: int,
    executor: str,
    report: Callable[[str], MicroBatchMemory],
) -> MemoryLimitError:
    """The refusal of a step on parts of a batch, whose `report` is that by an executor, with a
    budget that is enough for the parts and the update together: it is planned, where nothing has
    to be compiled to know."""
    budget, enough, last = error.budget_nbytes or 0, 0, error
    for _ in range(0 if executor_of(executor).traits.compiles_to_count else BUDGETS):
        try:
            enough = report(executor_with(executor, memory=last.needed_nbytes)).needed_nbytes
            report(executor_with(executor, memory=enough))  # where less is left, others are planned
            break
        except MemoryLimitError as refused:
            enough, last = 0, refused
    _, _, parts = last.what.replace("of these", "of one part", 1).partition("\n")
    least = f" need at least {enough:,} bytes ({in_bytes(enough)})" if enough else " need more"
    found = MemoryLimitError(
        f"{count} parts of a batch and the update{least}, also where values are computed again, "
        f"and memory is {budget:,} ({in_bytes(budget)})\n{parts}".rstrip(),
        hint=f"memory={enough} is enough" if enough else "more memory, or more parts",
    )
    found.needed_nbytes, found.budget_nbytes = enough or last.needed_nbytes, budget
    return found


def _with_sgd(step: TrainingStep, sizes: Mapping[str, int], options: Any) -> Iterator[str]:
    """Plain gradient descent, where the optimizer has arrays of its own."""
    if all(part.array is None for part in step.persistent):
        return
    following = {part.name: part.next_name for part in step.persistent if part.is_carried}
    update = with_update(step.differentiated, step.objective, step.parameters, sgd(0.1), following)
    other = replace(
        step,
        graph=update.graph,
        optimizer=sgd(0.1),
        persistent=update.persistent,
        scalars=update.scalars,
    )
    try:
        memory_of_step(other, sizes, **options)
    except MemoryLimitError:
        return
    yield "cr.sgd as the optimizer, which has no arrays of its own, fits"
