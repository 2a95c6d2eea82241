"""`cr.parallel`: how a step is to be split, as it is said, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.devices.carried import refuse_serial
from chainrule.devices.grid import Grid, in_words
from chainrule.devices.job import TRANSPORT, launched
from chainrule.devices.one_program import spreads
from chainrule.devices.parallel import ParallelStep
from chainrule.devices.planning.devices import count_of
from chainrule.devices.planning.model import orders_of
from chainrule.devices.planning.pins import SCHEDULES, chunks_of, refuse_no_switch, stages_said
from chainrule.errors import InputError
from chainrule.execute.executors import memory_of
from chainrule.tracebacks import entry
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.planning.devices import Devices


@entry
def parallel(
    step: TrainingStep,
    devices: Devices | int | None = None,
    *,
    batch: int | Mapping[str, int] | None = None,
    micro_batches: int | None = None,
    stages: int | Sequence[str] | None = None,
    replicas: int | None = None,
    ways: int | None = None,
    split: Mapping[str, int | None] | None = None,
    shard_optimizer: bool | None = None,
    schedule: str | None = None,
    chunks: int | None = None,
    recompute: bool | None = None,
    size: str | None = None,
) -> ParallelStep:
    """Splits a training step over `stages` times `replicas` times `ways` ranks.

    Ranks are threads of this process; in a job of as many processes (`chainrule run -n 4 file.py`,
    `mpiexec`, `srun`), each of them is one.  With an executor that can run one program on several
    devices (`xla`), the ranks of a plan of one stage are the devices of one program, in one process
    or each in one of a job; CHAINRULE_TRANSPORT=threads, or mpi, makes them exchange messages.

    The graph of the step is cut into `stages` parts so that the one with most to do has least, or
    where you say: stages=("h1", "h2") are three, of which the first ends with h1 and the second
    with h2.  A batch is cut into `micro_batches` equal parts, as by
    `step.micro_batched`; each replica works on its share of them one after the other, stage by
    stage, in the order of `schedule`: "gpipe", "1f1b", "interleaved", "zb-h1" or "zb-h2", as
    `chainrule.plan.pipeline` has them.  Replicas then add their gradients, in their order, and
    each rank updates its own parameters.

    With schedule="interleaved", each stage has `chunks` parts of the graph (default 2): of p
    stages, stage s has the parts s, s + p, and so on; names then say where these end.  Stages wait
    less, and send more messages.

    With `recompute=True` a stage that has several micro-batches under way keeps only what its
    forward pass begins with, and computes the rest again before the backward pass: fewer bytes for
    more time, and the same bits.

    With `ways`, so many ranks share each stage of a replica: parameters and the products with them
    are split along an axis, and the ranks add or gather what the next operation needs whole.
    `split` says along which axes: {"W1": 1, "W2": 0} splits the columns of W1 and the rows of W2,
    None leaves a parameter whole, and others follow where ranks need only a part of them.  Without
    it, pairs of products that need one sum are found, such as those of an MLP and of attention.

    With `shard_optimizer`, each replica has a share of the optimizer's arrays, and updates its
    share of the parameters: ZeRO stage 1.

    With `devices`, what is left out is searched for: the quickest plan whose ranks fit into the
    memory of their devices, for a `batch` of so many rows, or of these sizes:
    `cr.parallel(step, cr.Devices.cpu(4, memory="2 GiB"), batch=256)`.  A number is so many of this
    machine's: ranks of this process or of its job, or, with `xla`, JAX's devices.  The result's
    `candidates` are the plans that were compared.  Without devices, `micro_batches` is asked for,
    and the others are 1, "1f1b" and False.

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
    refuse_no_switch(recompute=recompute, shard_optimizer=shard_optimizer)
    budget = memory_of(step.executor)
    if budget is not None:
        raise InputError(
            f"the step has memory={budget}, which is a budget of one process: its ranks have none",
            hint="make the step without memory=; that of a device is the budget of each rank: "
            f"cr.parallel(step, cr.Devices.cpu(4, memory={budget}), batch=256)",
        )
    if launched() is not None and spreads(step.executor) and stages in (None, 1):
        from chainrule.devices.one_program_of_ranks import join_devices

        join_devices(step.executor)  # before anything runs there
    if devices is not None:
        from chainrule.devices.planning.ask import asked

        pins = micro_batches, stages, replicas, schedule, recompute, ways, split, shard_optimizer
        return asked(step, devices, batch, *pins, chunks, size)
    if batch is not None or micro_batches is None:
        missing = "micro_batches" if batch is None else "devices"
        raise InputError(
            f"cr.parallel has no {missing}",
            hint="cr.parallel(step, micro_batches=8, stages=2), or "
            "cr.parallel(step, cr.Devices.cpu(4), batch=256), which searches",
        )
    return split_into(
        step.micro_batched(count_of(micro_batches, "micro_batches"), size=size),
        1 if stages is None else stages,
        1 if replicas is None else replicas,
        "1f1b" if schedule is None else schedule,
        False if recompute is None else recompute,
        1 if ways is None else ways,
        split,
        False if shard_optimizer is None else shard_optimizer,
        chunks,
    )


def split_into(
    parts: MicroBatchedStep,
    stages: int | Sequence[str],
    replicas: int,
    schedule: str,
    recompute: bool,
    ways: int = 1,
    split: Mapping[str, int | None] | None = None,
    shard_optimizer: bool = False,
    chunks: int | None = None,
) -> ParallelStep:
    """The step on these parts of a batch, on so many ranks; raises as `parallel` does."""
    if schedule not in SCHEDULES:
        raise InputError(f"schedule is {schedule!r}", hint=f"one of {', '.join(SCHEDULES)}")
    chunks = chunks_of(schedule, chunks)
    count, ends = stages_said(stages, chunks)
    assert count is not None
    replicas = count_of(replicas, "replicas")
    if parts.count % replicas:
        raise InputError(
            f"{parts.count} micro-batches cannot be shared out to {replicas} replicas",
            hint=f"micro_batches={parts.count + replicas - parts.count % replicas}",
        )
    refuse_serial(parts, replicas)
    ways = count_of(ways, "ways")
    orders = orders_of(count, parts.count // replicas, schedule, chunks)
    grid = Grid(count, replicas, ways, chunks)
    refuse_without_ranks(grid, split, shard_optimizer)
    _refuse_other_job(grid)
    axes = dict(split) if isinstance(split, Mapping) else split
    parts = replace(parts, replicas=replicas)
    return ParallelStep(parts, grid, ends, axes, shard_optimizer, schedule, orders, recompute)


def _refuse_other_job(grid: Grid) -> None:
    """InputError on every rank of a job that has not as many as the step."""
    job = launched()
    if job is not None and job[1] != grid.count:
        split = in_words(grid.stages, grid.replicas, grid.ways)
        ranks = f"is split over {grid.count} ranks ({split})" if split else "has one rank"
        raise InputError(
            f"the step {ranks}, and this job has {job[1]}",
            hint=f"chainrule run -n {grid.count}, or {TRANSPORT}=threads in the "
            "environment: each process then runs all ranks as threads",
        )


def refuse_without_ranks(grid: Grid, split: Any, shard_optimizer: bool) -> None:
    """InputError where something is to be shared out to one rank."""
    if split is not None and grid.ways == 1:
        raise InputError(
            f"split={split!r} says how parameters are split, and ways=1 not over how many ranks",
            hint="ways=2",
        )
    if shard_optimizer and grid.replicas == 1:
        raise InputError(
            "shard_optimizer=True shares the optimizer's arrays out to replicas, and there is one",
            hint="replicas=2",
        )
