"""Exports a cost as JSON data, in the schema `chainrule.cost/1` (docs/second-order.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.explain.memory.polynomials import Polynomial, expression

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost, Count

SCHEMA = "chainrule.cost/1"


def data(cost: Cost) -> dict[str, Any]:
    """The cost in dicts, lists, strings and numbers alone."""
    return {
        "schema": SCHEMA,
        "graph": cost.graph.name,
        "sizes": dict(cost.sizes),
        "open": list(cost.names),
        "total": _count(cost, cost.total),
        "phases": {name: _count(cost, one) for name, one in cost.phases.items()},
        "values": [
            {
                "name": one.name,
                "type": one.type,
                "phase": str(one.phase),
                "steps": one.steps,
                **_count(cost, one),
            }
            for one in cost.values.values()
        ],
        "nodes": [
            {
                "name": one.name,
                "operation": one.operation,
                "type": one.type,
                "phase": str(one.phase),
                "value": one.value,
                **_count(cost, one),
            }
            for one in cost.nodes
        ],
    }


def _count(cost: Cost, one: Count) -> dict[str, Any]:
    return {"flops": _number(cost, one.flops), "nbytes": _number(cost, one.nbytes)}


def _number(cost: Cost, one: Polynomial) -> int | str:
    return one if isinstance(one, int) else expression(one, cost.names)
