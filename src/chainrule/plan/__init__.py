"""Order and storage: which kernels compute a graph, when, and where every value lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.plan.recomputation.recompute import Recomputation, recompute

__all__ = ["Recomputation", "recompute"]


def __getattr__(name: str) -> Any:
    """What is public, imported when it is first asked for: who compiles does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chainrule.plan.recomputation import recompute as module

    return getattr(module, name)
