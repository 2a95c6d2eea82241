"""Exports a memory report as JSON data, in the schema `chainrule.memory/1` (docs/memory.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.explain.memory.run_memory import RunMemory

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.memory.value import Value

SCHEMA = "chainrule.memory/1"


def data(report: MemoryReport) -> dict[str, Any]:
    """The report in dicts, lists, strings and numbers alone."""
    return {
        "schema": SCHEMA,
        "graph": report.graph.name,
        "sizes": dict(report.sizes),
        "assumed": list(report.assumed),
        "executor": report.executor,
        "keep": report.keep if isinstance(report.keep, str) else list(report.keep),
        "predict": list(report.predict),
        "overhead": dict(report.overhead),
        "compiled": dict(report.compiled),
        "compiled_values": dict(report.compiled_values),
        "training": None if report.training is None else _run(report.training),
        "prediction": _run(report.prediction),
        "values": [_value(report, value) for value in report.values.values()],
    }


def _run(run: RunMemory) -> dict[str, Any]:
    return {
        "peak_nbytes": run.peak_nbytes,
        "peak_instruction": run.peak_instruction,
        "instructions": run.usage.count,
        "parts": dict(run.parts),
        "alive_at_peak": dict(run.alive_at_peak),
        "timeline": [
            {
                "instruction": moment.number,
                "writes": list(moment.writes),
                "nbytes": dict(moment.nbytes),
                "unused_nbytes": moment.unused_nbytes,
            }
            for moment in run.timeline
        ],
    }


def _value(report: MemoryReport, value: Value) -> dict[str, Any]:
    type_ = report.main.graph[value.name].type
    return {
        "name": value.name,
        "dtype": str(type_.dtype),
        "shape": [int(size) for size in type_.shape],
        "nbytes": value.nbytes,
        "kind": str(value.kind),
        "stored": value.stored,
        "in_place": value.in_place,
        "made_at": value.made_at,
        "last_needed_at": value.last_needed_at,
        "kept_because": value.kept_because,
        "again_at": list(value.again_at),
        "view_of": value.view_of,
    }
