"""Transforms graphs into graphs: derivatives, batching, rewriting."""

from chainrule.transforms.backward import backward
from chainrule.transforms.batch import batch
from chainrule.transforms.deduplicate import deduplicate
from chainrule.transforms.prune import prune
from chainrule.transforms.seeded import jvp_graph, vjp_graph
from chainrule.transforms.simplify import simplify

__all__ = [
    "backward",
    "batch",
    "deduplicate",
    "jvp_graph",
    "prune",
    "simplify",
    "vjp_graph",
]
