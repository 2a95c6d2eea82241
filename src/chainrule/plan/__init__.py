"""Order and storage: which kernels compute a graph, when, and where every value lies."""

from chainrule.plan.recomputation.recompute import Recomputation, recompute

__all__ = ["Recomputation", "recompute"]
