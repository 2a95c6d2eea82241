"""Graphs run by the native executor on memory between guards; the simulator checks every plan.

Guards show what was written beside an array.  What is only read there shows where the variable
FENCES is in the environment (by the fixture `fences`): then every graph is run twice, once where
every array ends at a page that nobody may touch, and once where it begins at one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from primitive_calls import expected, graph_of_calls

import chainrule as cr
from chainrule.execute.native.artifact import artifact_of
from chainrule.execute.native.plan_to_ir.driver import program
from chainrule.execute.native.runtime.arrays import pointer_of
from chainrule.execute.native.runtime.launch import given_nodes
from chainrule.execute.native.runtime.machine import Machine
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.machine_code.target import Target, host_target
from chainrule.plan.planner import Plan, plan
from chainrule.schedule.records import ALIGNMENT
from chainrule.testing import simulate

GUARD_NBYTES = 4 * ALIGNMENT
GUARD, POISON = 0xA5, 0xFF  # bytes of POISON are NaN in every floating-point format
FENCES = "CHAINRULE_TEST_FENCES"


class Guarded:
    """`nbytes` of poison between two guards; with `array`, a copy of it in their place.

    The memory begins at a multiple of `align`, but not of more: nobody may rely on it.  A `fence`
    at its "end" or at its "begin" takes the place of the guards.
    """

    def __init__(
        self, nbytes: int, align: int, array: np.ndarray | None = None, fence: str | None = None
    ) -> None:
        if fence is None:
            self._memory = np.full(nbytes + 2 * GUARD_NBYTES + 2 * ALIGNMENT, GUARD, np.uint8)
            start = GUARD_NBYTES + -(pointer_of(self._memory) + GUARD_NBYTES) % ALIGNMENT
            start += align % ALIGNMENT
        else:
            self._memory = fenced_pages(nbytes)
            start = (len(self._memory) - nbytes) // align * align if fence == "end" else 0
        self._start, self._end = start, start + nbytes
        self.bytes = self._memory[start : self._end]
        self.bytes[:] = POISON if array is None else np.frombuffer(array.tobytes(), np.uint8)
        self.address = pointer_of(self._memory) + start

    def is_whole(self) -> bool:
        """Whether nothing was written around it."""
        before, after = self._memory[: self._start], self._memory[self._end :]
        return bool(np.all(before == GUARD) and np.all(after == GUARD))

    def array(self, node: Node) -> np.ndarray:
        """What it holds, as the value of a node."""
        return np.frombuffer(self.bytes.tobytes(), node.dtype).reshape(node.shape)


Call = tuple[Any, list[np.ndarray], dict[str, Any]]  # a primitive, its operands and params


def fenced_pages(nbytes: int) -> np.ndarray:
    """Whole pages for so many bytes, between two pages that cannot be read or written."""
    page = mmap.PAGESIZE
    count = max(-(-nbytes // page), 1)
    memory = mmap.mmap(-1, (count + 2) * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    for offset in (0, (count + 1) * page):
        assert protect(ctypes.c_void_p(first + offset), ctypes.c_size_t(page), 0) == 0
    pages = np.frombuffer(memory, np.uint8, count * page, page)
    pages[:] = GUARD
    return pages


def planned(
    graph: Graph,
    results: Iterable[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    threads: int = 1,
    target: Target | None = None,
) -> Plan:
    """A plan, in which the simulator finds no fault."""
    target = target or host_target()
    made = plan(
        graph,
        list(results),
        overwrites,
        threads=threads,
        vector_nbytes=target.vector_nbytes,
        multiplies_pairs=target.multiplies_pairs,
        blas_from=target.blas_from,
    )
    simulate(made.schedule)
    return made


def text_of(made: Plan, *, fetches: bool = True) -> str:
    """The text of all modules of a plan."""
    sent: list[str] = []
    program(made, "", lambda text, level: sent.append(text), fetches=fetches)
    return "\n".join(sent)


def given_array(node: Node, inputs: Mapping[Node, Any]) -> np.ndarray:
    """The array of an input or a constant."""
    if node in inputs:
        return np.asarray(inputs[node], node.dtype)
    return node.param("value").array


def native(
    graph: Graph,
    inputs: Mapping[Node, Any],
    keep: Iterable[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    threads: int = 1,
    target: Target | None = None,
) -> dict[Node, np.ndarray] | None:
    """The computed values of `keep`; None if an index was out of range.

    Fails where a byte outside the arrays was written, or a given array that nothing may overwrite.
    """
    return compiled(graph, keep, overwrites, threads=threads, target=target)(inputs)


def compiled(
    graph: Graph,
    keep: Iterable[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    threads: int = 1,
    target: Target | None = None,
) -> Callable[[Mapping[Node, Any]], dict[Node, np.ndarray] | None]:
    """`native` as a function of the inputs."""
    given = given_nodes(graph)
    results = [node for node in dict.fromkeys(keep) if node not in set(given)]
    overwrites = overwrites or {}
    made = planned(graph, results, overwrites, threads=threads, target=target)
    artifact = artifact_of(made, overwrites, target or host_target())
    machine = Machine(artifact)

    def call(inputs: Mapping[Node, Any]) -> dict[Node, np.ndarray] | None:
        arrays = {node: given_array(node, inputs) for node in given}
        found = [
            called(machine, graph, arrays, results, made.overwrites, fence)
            for fence in (("end", "begin") if FENCES in os.environ else (None,))
        ]
        return found[0]

    return call


def called(
    machine: Machine,
    graph: Graph,
    arrays: Mapping[Node, np.ndarray],
    results: Iterable[Node],
    overwrites: Mapping[Node, Node],
    fence: str | None,
) -> dict[Node, np.ndarray] | None:
    """One call on memory of its own, looked at afterwards."""
    context = machine.new_context()
    scratch = Guarded(machine.artifact.scratch_nbytes, ALIGNMENT, fence=fence)
    context.slots[0] = scratch.address
    places = {node: Guarded(x.nbytes, x.itemsize, x, fence) for node, x in arrays.items()}
    taken = {result: node for node, result in overwrites.items()}
    for node in results:
        if node not in taken:
            places[node] = Guarded(int(node.type.nbytes), node.dtype.itemsize, fence=fence)
    for slot, place in enumerate(places.values(), machine.first_array):
        context.slots[slot] = place.address
    done = machine.call(graph, context)
    assert scratch.is_whole()
    for node, place in places.items():
        assert place.is_whole(), node
        if node in arrays and not (done and node in overwrites):
            assert place.bytes.tobytes() == arrays[node].tobytes(), node
    return {node: places[taken.get(node, node)].array(node) for node in results} if done else None


def agree(got: Any, wanted: Any, rtol: float, what: str = "") -> None:
    """Within rtol of the largest finite element; integers, booleans, NaN and infinities equal."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted, what)
        return
    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=1.0)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * largest, err_msg=what)


def compare(
    graph: Graph, inputs: Mapping[Node, Any], keep: Iterable[Node], rtol: float, **options: Any
) -> None:
    """Native values are the reference's."""
    keep = list(keep)
    compare_values(graph, inputs, keep, native(graph, inputs, keep, **options), rtol)


def compare_values(
    graph: Graph, inputs: Mapping[Node, Any], keep: list[Node], got: Any, rtol: float
) -> None:
    """What was got for the inputs are the reference's values."""
    wanted = expected(graph, inputs, keep)
    assert got is not None, "an index was out of range"
    for node, value in got.items():
        agree(value, wanted[node], rtol, graph.name_of.get(node, repr(node)))


def inputs_of(graph: Graph, arguments: Mapping[str, Any]) -> dict[Node, np.ndarray]:
    """The arguments by the nodes of the inputs."""
    return {one.node: np.asarray(arguments[one.name], one.type.dtype) for one in graph.inputs}


def check_bits(calls: list[Call], threads: int = 1) -> None:
    """All in one graph: the reference's values to the last bit, run after run."""
    graph, inputs = graph_of_calls(calls)
    keep = [node for _, node in graph.outputs]
    assert not planned(graph, keep, threads=threads).foreign
    wanted = expected(graph, inputs, keep)
    for _ in range(2 if threads > 1 else 1):
        got = native(graph, inputs, keep, threads=threads)
        assert got is not None
        for node in keep:
            np.testing.assert_array_equal(got[node], wanted[node], repr(node), strict=True)


def gradient_of(function: Callable[..., Any], arrays: dict[str, np.ndarray]) -> Any:
    graph = cr.backward(cr.trace(function, **arrays), wrt=tuple(arrays))
    return graph, inputs_of(graph, arrays), kept_nodes(graph, "outputs")
