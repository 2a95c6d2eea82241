"""Prints a split step: its ranks, what each stage computes, and how the work is shared out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from math import fsum
from typing import TYPE_CHECKING

from chainrule.devices.instructions import Run
from chainrule.devices.one_program import is_one_program
from chainrule.devices.reports.memory import memory_of
from chainrule.devices.reports.timeline import timeline_of
from chainrule.devices.reports.timeline_text import duration
from chainrule.devices.splitting import Split, node_seconds, split_of
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.columns import in_columns
from chainrule.graph.words import printable
from chainrule.train.step.micro_memory import sizes_of_parts

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep

ROWS = 32  # of a part of the batch, where nobody says how many
REFERENCE_SIZE = 256  # of another named size
MOST_NAMES, WIDTH = 8, 60
MOST_RANKS = 4  # of a stage that are listed


def sizes_or_latest(step: ParallelStep, given: Mapping[str, int]) -> tuple[dict[str, int], str]:
    """The sizes that are given; else those of the latest step; else some, and words that say so."""
    names = step.parts.whole.graph.sizes
    if given or not names:
        return dict(given), ""
    latest = step.latest
    if latest is not None:
        return dict(latest.sizes), ""
    guess = dict.fromkeys(names, REFERENCE_SIZE) | {step.parts.size: ROWS * step.parts.count}
    return guess, " (assumed)"


def split_shown(step: ParallelStep, sizes: Mapping[str, int], assumed: str, call: str) -> Split:
    """The split at these sizes, for a call of this name; one that is only assumed does not become
    the latest."""
    if not assumed:
        return step.at(sizes, call)
    return split_of(step, sizes_of_parts(step.parts, sizes, f"split.{call}")[0])


def summary(step: ParallelStep) -> str:
    """The split at the sizes of the latest step, or at some."""
    sizes, assumed = sizes_or_latest(step, {})
    split = split_shown(step, sizes, assumed, "split_at")
    memory = memory_of(step, split, sizes)
    timeline = timeline_of(step, split, sizes, None)
    numbers = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    shares = _shares(step, split)
    rows = [("stage", "ranks", "work", "parameters", "bytes", "what it computes")]
    idle = split.idle
    for stage in range(step.stages):
        if stage in idle:
            continue
        ranks = step.grid.of_stage(stage)
        shown = [str(one) for one in ranks]
        if len(ranks) > MOST_RANKS:
            shown = [*shown[:2], "...", shown[-1]]
        most = max(memory.ranks[one].peak_nbytes for one in ranks)
        names = textwrap.shorten(", ".join(_names(split, stage)), WIDTH, placeholder=" ...")
        share = f"{100 * shares[stage]:.0f} %"
        owned = ", ".join(_owned(step, split, stage)) or "-"
        owned = textwrap.shorten(owned, WIDTH // 2, placeholder=" ...")
        rows.append((str(stage), " ".join(shown), share, owned, in_bytes(most), names or "-"))
    plural = "s" if step.ranks > 1 else ""
    ways = f" x {step.ways} ways" if step.ways > 1 else ""
    lines = [
        f"{printable(step.parts.whole.graph.name)} on {step.ranks} rank{plural}: "
        f"{step.stages} stage{'s' if step.stages > 1 else ''} x {step.replicas} "
        f"replica{'s' if step.replicas > 1 else ''}{ways}, {step.parts.count} "
        f"micro-batch{'es' if step.parts.count > 1 else ''}, "
        f"{step.order}{', recomputing' if step.recompute else ''}"
        f"{', optimizer sharded' if step.shard_optimizer else ''}",
        f"  {numbers or 'all sizes fixed'}{assumed}, executor {step.parts.whole.executor}: "
        f"{duration(timeline.seconds)} predicted, {100 * timeline.bubble:.1f} % bubble",
        *(["  taken as one program on all ranks"] if is_one_program(step) else []),
        "",
        *in_columns(rows, (2, 4)),
    ]
    if idle:
        lines.append(f"{len(idle)} stages have nothing to compute")
    return "\n".join(lines)


def work_of_stages(split: Split) -> list[float]:
    """The predicted seconds of what each stage does in a step, its update left out."""
    each = [fsum(node_seconds(code).values()) for code in split.compiled]
    return [
        fsum(
            each[one.piece]
            for one in program.instructions
            if isinstance(one, Run) and one.micro_batch is not None
        )
        for stage in range(split.lying.grid.stages)
        for program in [split.programs[split.lying.grid.rank(0, stage, 0)]]
    ]


def _shares(step: ParallelStep, split: Split) -> list[float]:
    work = work_of_stages(split)
    return [one / (sum(work) or 1.0) for one in work]


def _owned(step: ParallelStep, split: Split, stage: int) -> list[str]:
    """The parameters of a stage, and along which axis each is split."""
    stage_with = step.grid.stage_with
    place = {split.name_of.get(node): stage_with(at) for node, at in split.placed.owner.items()}
    cuts = {
        name: f" (axis {', '.join(str(axis) for _, axis in found)})"
        for name, found in split.lying.cuts.items()
    }
    return [
        printable(name) + cuts.get(name, "")
        for name in step.parts.whole.parameters
        if place.get(name) == stage
    ]


def _names(split: Split, stage: int) -> list[str]:
    """The user's names of what a stage computes in the forward pass."""
    return [
        printable(split.name_of[node])
        for node, at in split.placed.forward.items()
        if split.lying.grid.stage_with(at) == stage and node in split.name_of
    ]
