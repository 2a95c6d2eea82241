"""The error for a name that a graph does not have, with the names that are nearest."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from chainrule.errors import NameLookupError

if TYPE_CHECKING:
    from chainrule.graph.graph import Graph


def unknown_name(graph: Graph, name: str) -> NameLookupError:
    """The error for `name`, with the nearest names, and how to ask for a gradient."""
    near = difflib.get_close_matches(str(name), list(graph.names), n=3, cutoff=0.5)
    hint = f"one of: {', '.join(near or list(graph.names)[:12])}"
    if "/" in str(name) and any(grad.of for grad in graph.gradients):
        hint = (
            "ask for it where the gradient is made: "
            f"cr.backward(..., wrt=[..., {str(name).split('/d', 1)[-1].strip('()')!r}]).\n" + hint
        )
    stem = str(name).rpartition("_")[0]
    if stem in graph.assigned:
        several = graph.assigned[stem]
        hint = f"{stem} is assigned {len(several)} times: {', '.join(several)}\n" + hint
    return NameLookupError(f"the graph {graph.name} has no value called {name!r}", hint=hint)
