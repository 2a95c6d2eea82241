"""`cr.parallel`: how a step is to be split, as it is said, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.devices.job import TRANSPORT, launched
from chainrule.devices.parallel import ParallelStep
from chainrule.devices.planning.model import orders_of
from chainrule.errors import InputError
from chainrule.execute.executors import memory_of
from chainrule.tracebacks import entry
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.planning.devices import Devices

CHUNKED = "interleaved"


@entry
def parallel(
    step: TrainingStep,
    devices: Devices | None = None,
    *,
    batch: int | Mapping[str, int] | None = None,
    micro_batches: int | None = None,
    stages: int | Sequence[str] | None = None,
    replicas: int | None = None,
    schedule: str | None = None,
    recompute: bool | None = None,
    size: str | None = None,
) -> ParallelStep:
    """Splits a training step over `stages` times `replicas` ranks.

    Ranks are threads of this process; in a job of as many processes (`chainrule run -n 4 file.py`,
    `mpiexec`, `srun`), each of them is one.

    The graph of the step is cut into `stages` parts so that the one with most to do has least, or
    where you say: stages=("h1", "h2") are three, of which the first ends with h1 and the second
    with h2.  A batch is cut into `micro_batches` equal parts, as by
    `step.micro_batched`; each replica works on its share of them one after the other, stage by
    stage, in the order of `schedule`: "gpipe", "1f1b", "zb-h1" or "zb-h2", as
    `chainrule.plan.pipeline` has them.  Replicas then add their gradients, in their order, and
    each rank updates its own parameters.

    With `recompute=True` a stage that has several micro-batches under way keeps only what its
    forward pass begins with, and computes the rest again before the backward pass: fewer bytes for
    more time, and the same bits.

    With `devices`, what is left out is searched for: the quickest plan whose ranks fit into the
    memory of their devices, for a `batch` of so many rows, or of these sizes:
    `cr.parallel(step, cr.Devices.cpu(4, memory="2 GiB"), batch=256)`.  The result's `candidates`
    are the plans that were compared.  Without devices, `micro_batches` is asked for, and the others
    are 1, 1, "1f1b" and False.

    The result is called as the step is: `split(state, x=x, y=y)`.  It is
    `step.micro_batched(micro_batches)` with other sums only where there are several replicas.

    InputError for numbers that do not fit each other, NameLookupError for an unknown name,
    SizeError for a batch whose sizes are not those of the step, and MemoryLimitError where no plan
    fits: it says which value does not fit where, and what would help.
    """
    if not isinstance(step, TrainingStep):
        raise InputError(
            f"cr.parallel splits a training step, got {type(step).__name__}",
            hint="cr.training_step(objective, wrt, optimizer)",
        )
    budget = memory_of(step.executor)
    if budget is not None:
        raise InputError(
            f"the step has memory={budget}, which is a budget of one process: its ranks have none",
            hint="make the step without memory=; that of a device is the budget of each rank: "
            f"cr.parallel(step, cr.Devices.cpu(4, memory={budget}), batch=256)",
        )
    if devices is not None:
        from chainrule.devices.planning.ask import asked

        pins = micro_batches, stages, replicas, schedule, recompute
        return asked(step, devices, batch, *pins, size)
    if batch is not None or micro_batches is None:
        missing = "micro_batches" if batch is None else "devices"
        raise InputError(
            f"cr.parallel has no {missing}",
            hint="cr.parallel(step, micro_batches=8, stages=2), or "
            "cr.parallel(step, cr.Devices.cpu(4), batch=256), which searches",
        )
    return split_into(
        step.micro_batched(micro_batches, size=size),
        1 if stages is None else stages,
        1 if replicas is None else replicas,
        "1f1b" if schedule is None else schedule,
        bool(recompute),
    )


def split_into(
    parts: MicroBatchedStep,
    stages: int | Sequence[str],
    replicas: int,
    schedule: str,
    recompute: bool,
) -> ParallelStep:
    """The step on these parts of a batch, on so many ranks; raises as `parallel` does."""
    count = _count("stages", stages if isinstance(stages, int) else len(stages) + 1)
    replicas = _count("replicas", replicas)
    if parts.count % replicas:
        raise InputError(
            f"{parts.count} micro-batches cannot be shared out to {replicas} replicas",
            hint=f"micro_batches={parts.count + replicas - parts.count % replicas}",
        )
    if schedule in (CHUNKED, "search"):
        raise InputError(
            f"schedule is {schedule!r}",
            hint="one of gpipe, 1f1b, zb-h1, zb-h2: a stage has one part",
        )
    ends = None if isinstance(stages, int) else tuple(stages)
    orders = orders_of(count, parts.count // replicas, schedule)
    _refuse_other_job(count, replicas)
    return ParallelStep(parts, count, ends, replicas, schedule, orders, recompute)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is {value!r}", hint=f"{name}=2, an integer of 1 or more")
    return value


def _refuse_other_job(stages: int, replicas: int) -> None:
    """InputError on every rank of a job that has not as many as the step."""
    job = launched()
    if job is not None and job[1] != stages * replicas:
        raise InputError(
            f"the step is split over {stages * replicas} ranks ({stages} stages, {replicas} "
            f"replicas), and this job has {job[1]}",
            hint=f"chainrule run -n {stages * replicas}, or {TRANSPORT}=threads in the "
            "environment: each process then runs all ranks as threads",
        )
