"""Nothing beside an array is written or read, and the checks for that see planted faults."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from executing import Guarded, compare, inputs_of, native

import chainrule as cr
from chainrule.errors import ScheduleError
from chainrule.execute.native.plan_to_ir import emit_instances, nest_code
from chainrule.execute.native.plan_to_ir.emit import Operand
from chainrule.execute.run import kept_nodes
from chainrule.plan import storage
from chainrule.schedule.placement.place import Placement


def small_graph() -> tuple[Any, Any, Any]:
    x = np.random.default_rng(0).normal(size=(7, 19))
    graph = cr.backward(cr.trace(lambda x: np.sum(cr.layer_norm(np.tanh(x @ x.T)) ** 3), x))
    return graph, inputs_of(graph, {"x": x}), kept_nodes(graph, "named")


@pytest.mark.parametrize("place", [-1, 8 * 5])
def test_a_byte_beside_the_array_is_seen(place: int) -> None:
    memory = Guarded(8 * 5, 8)
    assert memory.is_whole()
    memory._memory[memory._start + place] ^= 1
    assert not memory.is_whole()


def test_the_small_graph_is_right_without_a_fault() -> None:
    compare(*small_graph(), rtol=1e-11)


def test_an_offset_that_is_off_by_one_is_seen(monkeypatch: Any) -> None:
    right = emit_instances.affine

    def wrong(code: Any, place: Any, indices: Any) -> Operand:
        return right(code, (place[0] + 1, *place[1:]), indices)

    monkeypatch.setattr(emit_instances, "affine", wrong)
    with pytest.raises(AssertionError):
        native(*small_graph())


def test_a_row_too_many_is_seen(monkeypatch: Any) -> None:
    right = nest_code.NestCode.emit

    def wrong(self: Any, name: str, attributes: str = "") -> None:
        self.head.end = self.code.binary("add", self.head.end, Operand("1", "i64"))
        right(self, name, attributes)

    monkeypatch.setattr(nest_code.NestCode, "emit", wrong)
    with pytest.raises(AssertionError):
        native(*small_graph())


def test_values_in_the_same_bytes_are_seen(monkeypatch: Any) -> None:
    right = storage._placed

    def wrong(requests: Any, seconds: float) -> Placement:
        found = right(requests, seconds)
        return replace(found, offsets=(0,) * len(found.offsets))

    monkeypatch.setattr(storage, "_placed", wrong)
    with pytest.raises(ScheduleError):
        graph, inputs, _ = small_graph()
        native(graph, inputs, kept_nodes(graph, "outputs"))


@pytest.mark.parametrize(("fence", "place"), [("end", 40), ("begin", -1)])
def test_a_byte_beside_the_array_cannot_be_read_behind_a_fence(fence: str, place: int) -> None:
    child = os.fork()
    if not child:
        faulthandler.disable()  # it is meant to crash
        ctypes.string_at(Guarded(40, 8, fence=fence).address + place, 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV


def test_poison_shows_what_was_never_written() -> None:
    graph, _, _ = small_graph()
    node = graph.outputs[0][1]
    assert np.isnan(Guarded(8, 8).array(node))
