"""Prints plans on paper: the best ones, the stages of the best, and why it is the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.devices.reports.timeline_text import duration
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.columns import in_columns
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.devices.planning.paper.planned import ParallelPlan, Plan
    from chainrule.devices.planning.paper.plans import Way


def text(plan: ParallelPlan) -> str:
    """The ten best plans, and the stages of the best."""
    sizes = ", ".join(f"{printable(name)} = {size}" for name, size in plan.sizes.items())
    layers = len(plan.chain.layers)
    found = f"{layers} layers" if layers else f"{len(plan.chain.elements)} parts"
    return "\n".join(
        [
            f"{printable(plan.name)} on {plan.devices.count} devices, {sizes}: {found}, "
            f"{plan.compared} plans, of which {plan.too_large} do not fit",
            "",
            *_ranked(plan),
            "",
            why(plan),
            "",
            *_stages(plan),
        ]
    )


def _ranked(plan: ParallelPlan) -> list[str]:
    rows = [
        (
            *("", "stages", "ways", "replicas", "micro-batches", "schedule", "optimizer"),
            *("layers", "predicted", "bytes of a device"),
        )
    ]
    for number, one in enumerate(plan.ranked, 1):
        way = one.way
        rows.append(
            (
                *(str(number), str(way.stages), str(way.ways), str(way.replicas)),
                f"{way.micro_batches} of {way.rows}",
                _order(way),
                "sharded" if way.sharded else "whole",
                "recomputed" if way.recomputed else "kept",
                duration(one.seconds),
                in_bytes(one.nbytes),
            )
        )
    return in_columns(rows, (0, 1, 2, 3, 4, 8, 9))


def _order(way: Way) -> str:
    """The schedule in the table."""
    words = [way.schedule] if way.stages > 1 else []
    words += [f"{way.chunks} chunks"] if way.chunks > 1 else []
    return ", ".join(words) or "-"


def _stages(plan: ParallelPlan) -> list[str]:
    best = plan.best
    rows = [("stage", "devices", "layers", "of a micro-batch", *best.stages[0].parts, "in all")]
    for number, one in enumerate(best.stages):
        names = plan.chain.name
        layers = [
            names(first) if first == last else f"{names(first)} to {names(last)}"
            for first, last in one.chunks
        ]
        rows.append(
            (
                str(number),
                str(best.way.ways * best.way.replicas),
                ", ".join(layers),
                duration(one.seconds),
                *map(in_bytes, one.parts.values()),
                in_bytes(one.nbytes),
            )
        )
    return in_columns(rows, (0, 1, *range(3, len(rows[0]))))


def why(plan: ParallelPlan) -> str:
    """What the best plan is, and what others would cost."""
    best, others = plan.best, plan.ranked[1:]
    words = f"The plan is {best.way.words}: {duration(best.seconds)} a step is predicted."
    if plan.too_large:
        words += f" {plan.too_large} of {plan.compared} plans do not fit."
    told: list[Plan] = []
    for name in ("stages", "ways", "replicas", "recomputed", "sharded"):
        other = next((one for one in others if _differs(one, best, name)), None)
        if other is None or other in told:
            continue
        told.append(other)
        more = 100 * (other.seconds / best.seconds - 1)
        words += f" With {other.way.words} it would take {duration(other.seconds)}, +{more:.0f} %."
    return words


def _differs(one: Plan, other: Plan, name: str) -> bool:
    return getattr(one.way, name) != getattr(other.way, name)
