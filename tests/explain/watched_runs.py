"""Every run of any program is measured where it happens, and compared with what is planned for it.

All executors' work passes through four functions: an evaluation by the reference executor, a call
of compiled code by Python or by machine code, and what prepares that.  While `watched` is on, each
notes how many bytes of arrays it took, by whomever it was called: `Graph.run`, compiled functions,
steps, `Trainer`, `cr.evaluate`, `cr.predict`, the command line.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from numpy_memory import numpy_traced

from chainrule.control.cost import COND
from chainrule.execute import reference
from chainrule.execute.aligned import alignment_of
from chainrule.execute.executor import NOWHERE
from chainrule.execute.native.runtime import held, quick, recycled
from chainrule.execute.native.runtime.arrays import copied_nbytes
from chainrule.execute.native.runtime.entry import entry
from chainrule.execute.native.runtime.launch import Launcher
from chainrule.execute.native.runtime.machine import Machine, plan_for
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.usage import usage_of


@dataclass(frozen=True)
class Measured:
    """One run: the bytes that it took and those that were planned, and what may differ.

    `is_bound`: it may take less, as another branch of a choice was taken.  `is_open`: it calls a
    user's function, whose own arrays nobody knows.  `slack_nbytes` aligns what is allocated.
    """

    name: str
    taken_nbytes: int
    planned_nbytes: int
    slack_nbytes: int = 0
    is_bound: bool = False
    is_open: bool = False

    @property
    def is_right(self) -> bool:
        """Whether it took what was planned."""
        error = self.taken_nbytes - self.planned_nbytes
        return (error >= 0 or self.is_bound) and (error <= self.slack_nbytes or self.is_open)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Measured]]:
    """Measures the runs of this thread; a run inside of another is a part of it."""
    found: list[Measured] = []
    watching = _Watch(found)
    plans: dict[tuple[Any, ...], tuple[Graph, Measured]] = {}
    evaluate, call, launch = reference.evaluate, Machine.call, Launcher.__call__

    def evaluated(
        graph: Graph,
        inputs: Any,
        keep: Any,
        traced: Any = None,
        watch: Any = None,
        turns: Any = None,
    ) -> Any:
        kept = list(dict.fromkeys(keep))

        def planned() -> Measured:
            lie = [(one.dtype, one.shape, one.strides) for one in inputs.values()]
            key = (id(graph), id(turns), *kept, *lie)
            if key not in plans:
                followed = turns.schedule if turns else plain_schedule(graph, kept, inputs)
                usage = usage_of(followed, kept, block=False)
                nbytes = usage.peak_nbytes - usage.given_nbytes
                one = _planned(f"reference: {graph.name}", graph, kept, nbytes)
                plans[key] = graph, one  # the graph stays, and so its number is its own
            return plans[key][1]

        def work() -> Any:
            return evaluate(graph, inputs, kept, traced, watch, turns)

        return work() if watch else watching.measure(work, planned)

    def launched(self: Launcher, inputs: Any, later_nbytes: int = 0, into: Any = NOWHERE) -> Any:
        def planned() -> Measured:
            schedule = plan_for(self.graph, self.results, _overwrites(self)).schedule
            copies = sum(copied_nbytes(array, node.dtype) for node, array in inputs.items())
            nbytes = self.fresh_nbytes + schedule.scratch_nbytes + schedule.allocated_nbytes
            nbytes -= sum(int(node.type.nbytes) for node in into)
            large = [alignment_of(int(x.type.nbytes)) for x in self.fresh if x not in into]
            aligned = alignment_of(schedule.scratch_nbytes) + sum(large)
            name = f"native: {self.graph.name}"
            return _planned(name, self.graph, self.results, nbytes + copies, aligned)

        def work() -> Any:
            return launch(self, inputs, later_nbytes, into)

        self.machine._free.clear()
        recycled.forget()
        return watching.measure(work, planned)

    def called(self: Machine, graph: Graph, context: Any) -> Any:
        return watching.measure(lambda: call(self, graph, context), lambda: _of_call(self, graph))

    def entered(machine: Machine, graph: Graph, *others: Any) -> Any:
        run = entry(machine, graph, *others)
        return lambda *arrays: watching.measure(
            lambda: run(*arrays), lambda: _of_call(machine, graph)
        )

    with monkeypatch.context() as patched, numpy_traced():
        patched.setattr(reference, "evaluate", evaluated)
        patched.setattr(Launcher, "__call__", launched)
        patched.setattr(Machine, "call", called)
        for module in (held, quick):
            patched.setattr(module, "entry", entered)
        yield found


class _Watch:
    """Measures what is outermost, in the thread that made it."""

    def __init__(self, found: list[Measured]) -> None:
        self.found, self.thread, self.inside = found, threading.get_ident(), False

    def measure(self, work: Callable[[], Any], planned: Callable[[], Measured]) -> Any:
        if self.inside or threading.get_ident() != self.thread:
            return work()
        self.inside = True
        gc.disable()  # what it frees was there before
        try:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            result = work()
            taken = tracemalloc.get_traced_memory()[1] - before
            if result is not False:  # else nothing has run
                self.found.append(Measured(**{**vars(planned()), "taken_nbytes": taken}))
            return result
        finally:
            gc.enable()
            self.inside = False


def _of_call(machine: Machine, graph: Graph) -> Measured:
    nodes = [part.then.result.node for part in machine.artifact.parts if part.then]
    nbytes = machine.artifact.allocated_nbytes
    results = [graph.nodes[one] for one in nodes]
    return _planned(f"native call: {graph.name}", graph, results, nbytes)


def _overwrites(launcher: Launcher) -> dict[Node, Node]:
    return {given: result for result, given in launcher.overwritten.items()}


def _planned(
    name: str, graph: Graph, results: list[Node], nbytes: int, slack_nbytes: int = 0
) -> Measured:
    nodes = list(_inside(topological(results)))
    kernels = [node.primitive.kernel for node in nodes]
    return Measured(
        name,
        0,
        nbytes,
        # NumPy takes a byte for an array of no elements
        slack_nbytes + 2 * sum(not node.type.size for node in nodes),
        is_bound=COND in kernels,
        is_open=any(getattr(kernel, "keeps", False) for kernel in kernels),
    )


def _inside(nodes: Any) -> Iterator[Node]:
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _inside(body.graph.nodes)
