"""Order and storage: which kernels compute a graph, when, and where every value lies."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.plan.partition.split import Split, split
    from chainrule.plan.pipelines.pipeline import Pipeline, pipeline
    from chainrule.plan.recomputation.recompute import Recomputation, recompute

__all__ = ["Pipeline", "Recomputation", "Split", "pipeline", "recompute", "split"]

# What is public, imported when it is first asked for: who compiles does not wait for it.
_MODULES = {
    "Pipeline": "chainrule.plan.pipelines.pipeline",
    "Recomputation": "chainrule.plan.recomputation.recompute",
    "Split": "chainrule.plan.partition.split",
    "pipeline": "chainrule.plan.pipelines.pipeline",
    "recompute": "chainrule.plan.recomputation.recompute",
    "split": "chainrule.plan.partition.split",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
