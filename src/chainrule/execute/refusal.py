"""A run refused for want of memory: what it needs, what for, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.errors import MemoryLimitError
from chainrule.execute.free_memory import SWITCH, refuse_beyond_free
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.uses import uses

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

_most: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()


def refuse_reference(graph: Graph, kept: Sequence[Node], inputs: Mapping[Node, np.ndarray]) -> None:
    """MemoryLimitError if the reference executor would allocate more than is free.

    Its storage is planned only where all values together, and what makes them, might not be.
    """
    most = _most.get(graph)
    if most is None:
        from chainrule.schedule.plain import most_nbytes  # loaded where a graph is run

        most = _most[graph] = most_nbytes(graph)

    def exactly() -> int:
        from chainrule.schedule.plain import plain_schedule
        from chainrule.schedule.usage import usage_of

        results = list(dict.fromkeys(kept))
        usage = usage_of(plain_schedule(graph, results, inputs), results, block=False)
        return usage.peak_nbytes - usage.given_nbytes

    refuse_beyond_free(most, exactly)


def explain_refusal(
    error: MemoryLimitError,
    report: Callable[..., MemoryReport],
    sizes: Mapping[str, int],
    arrays: Mapping[str, np.ndarray],
) -> NoReturn:
    """Raise the error again with the parts of the memory, and the largest size that fits.

    `report` gives the memory at sizes, for a `layout`; `arrays` are the arguments by name.
    """
    if not error.needed_nbytes:  # of NumPy's, in the middle of a run
        raise error
    if error.budget_nbytes is not None:
        report(dict(sizes))  # is refused, too, and says what would help
        raise error
    flags = {name: array.flags for name, array in arrays.items()}
    layout = {n: arrays[n] for n, one in flags.items() if not (one.c_contiguous and one.aligned)}
    made = report(dict(sizes), layout=layout)
    what, hint = uses.explain_refusal(made, error.needed_nbytes, error.free_nbytes, error.source)
    found = MemoryLimitError(what, hint=hint + SWITCH)
    found.needed_nbytes, found.free_nbytes = error.needed_nbytes, error.free_nbytes
    found.source = error.source
    raise found from None
