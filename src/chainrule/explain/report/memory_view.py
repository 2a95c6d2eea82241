"""The memory report as a page shows it: the largest values as bars, all others summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from chainrule.control.wording import in_words
from chainrule.explain.memory.blocks import block_of
from chainrule.explain.memory.report import MemoryReport
from chainrule.explain.memory.run_memory import WORKSPACE, RunMemory
from chainrule.explain.memory.words import expression
from chainrule.explain.nonfinite.phrases import UNNAMED, phrase
from chainrule.explain.reading.statements import Reading
from chainrule.explain.report.plain import text
from chainrule.explain.report.spans import step_at
from chainrule.explain.report.steps import Steps
from chainrule.graph.body import holds_bodies
from chainrule.graph.node import Node
from chainrule.primitives.sources import constant
from chainrule.schedule.usage import Life

MOST_LIVES = 200


def memory_data(
    report: MemoryReport,
    reading: Reading,
    ids: Mapping[Node, int],
    steps: Steps,
) -> dict[str, Any]:
    """The `memory` of a page; `reading` is of the graph of the report's main run."""
    run = report.main
    usage = run.usage
    own = [life for life in usage.lives if not life.in_place and life.nbytes]
    places = sorted(range(len(own)), key=lambda at: (-own[at].nbytes, at))
    shown = set(places[:MOST_LIVES])
    changes: dict[str, list[int]] = {}
    lives: list[dict[str, Any]] = []
    for at, life in enumerate(own):
        kind = str(run.kinds[life.node])
        if at in shown:
            lives.append(
                {
                    **_name(run, reading, life.node, ids),
                    "kind": kind,
                    "nbytes": life.nbytes,
                    "first": life.first,
                    "last": life.last,
                    "step": _making_step(steps, life),
                }
            )
            continue
        change = changes.setdefault(kind, [0] * (usage.count + 2))
        change[life.first] += life.nbytes
        change[life.last + 1] -= life.nbytes
    rest = {kind: list(accumulate(change))[:-1] for kind, change in changes.items()}
    if any(usage.workspaces):
        rest[WORKSPACE] = list(usage.workspaces)
    lives.sort(key=lambda one: (one["first"], -one["nbytes"]))
    return {
        "executor": report.executor,
        "keep": report.keep if isinstance(report.keep, str) else list(report.keep),
        "peak_nbytes": run.peak_nbytes,
        "peak_instruction": run.peak_instruction,
        "peak_step": _peak_step(steps.data, run.peak_instruction),
        "unit": "instruction",
        "count": usage.count,
        "parts": {kind: nbytes for kind, nbytes in run.parts.items() if nbytes},
        "lives": lives,
        "rest": rest,
        "live": list(usage.live_nbytes),
        "prediction_peak_nbytes": report.prediction.peak_nbytes,
    }


def _name(run: RunMemory, reading: Reading, node: Node, ids: Mapping[Node, int]) -> dict[str, Any]:
    """The value, or what an unnamed one is and in which named value; of a loop, what lies in it."""
    found: dict[str, Any] = {"value": ids.get(node), "inside": None, "parts": ""}
    if node in ids:
        name = reading.graph.name_of.get(node) or reading.sources[node]
        return {**found, "label": text(name)}
    statement, block = reading.statement_of.get(node), block_of(run, node)
    found["inside"] = None if statement is None else ids.get(statement.value)
    if block is not None:
        return {**found, "label": text(block.title), "parts": text(block.parts)}
    if node.primitive is constant:
        told = phrase(node, {})
        unnamed = "a constant without a name"
        return {**found, "label": unnamed if told == UNNAMED else f"{told}, a constant"}
    label = f"{expression(reading.graph, node)}, {part_of(reading, node)}"
    return {**found, "label": text(label)}


def part_of(reading: Reading, node: Node) -> str:
    """What a value without a name is called: `a part of scores`, `the loop over cell`."""
    if holds_bodies(node):
        return in_words(node)
    statement = reading.statement_of.get(node)
    return "a value without a name" if statement is None else f"a part of {statement.name}"


def _making_step(steps: Steps, life: Life) -> int | None:
    """The step that makes it; None for what is there before the first."""
    if not steps.data or not life.first:
        return None
    return steps.timing.when(life.first, life.node) - 1


def _peak_step(steps: Sequence[Mapping[str, Any]], instruction: int) -> int | None:
    """The step during which most bytes are live; None where that is before the first."""
    if not steps or not instruction:
        return None
    return step_at([one["instruction"] for one in steps], instruction)
