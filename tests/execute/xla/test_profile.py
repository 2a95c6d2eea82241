"""A profile is read as it is: whose operations it has, of which run, and for which nodes."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, UnsupportedError

pytest.importorskip("jax")

from chainrule.execute.xla import profile
from chainrule.execute.xla.text_of_program import instructions

TEXT = """HloModule jit_updated, is_scheduled=true

%body (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0), metadata={op_name="n2/while/body/n5/add"}
  ROOT %add.1 = f32[4]{0} add(%p, %p), metadata={op_name="jit(updated)/n2/while/body/n5/add" id=3}
}

ENTRY %main (x: f32[4]) -> (f32[4], f32[4]) {
  %x = f32[4]{0} parameter(0)
  %copy.7 = f32[4]{0} copy(%x)
  %while.3 = f32[4]{0} while(%copy.7), body=%body, metadata={op_name="jit(updated)/n2/while"}
  %sums = (f32[4]{0}, f32[4]{0}) all-reduce(%while.3, %x), metadata={op_name="f/(n3/psum:n4/psum)"}
}
"""


def event(name: str, start: float, run: int = 1, module: str = "jit_updated", **stats: Any) -> Any:
    told = {"hlo_op": name, "hlo_module": module, "run_id": run, **stats}
    return SimpleNamespace(name=name, start_ns=start, duration_ns=5.0, stats=told.items())


def data_of(*planes: tuple[str, list[Any]]) -> Any:
    return SimpleNamespace(
        planes=[
            SimpleNamespace(name=name, lines=[SimpleNamespace(events=events)])
            for name, events in planes
        ]
    )


def test_instructions_tell_their_nodes_from_the_outside_in() -> None:
    nodes = {one.name: one.nodes for one in instructions(TEXT)}
    assert nodes["add.1"] == (2, 5)
    assert nodes["while.3"] == (2,)
    assert nodes["sums"] == (3,), "of what XLA has joined, the first"
    assert nodes["copy.7"] == nodes["x"] == ()


def operations(data: Any, ranks: dict[int, int]) -> list[Any]:
    nodes: Any = [f"node {number}" for number in range(6)]
    return profile.operations(data, 1.0, TEXT, nodes, ranks)


def test_operations_of_devices_are_told_in_the_order_of_time() -> None:
    """On CPUs an event names its device, on others its plane does."""
    other = event("add.1", 1.0, module="jit_other", device_ordinal=0)
    own = [
        event("sums", 70.0, device_ordinal=1),
        event("while.3", 10.0, device_ordinal=1),  # others are in it
        event("add.1", 20.0, device_ordinal=1),
        event("end: add.1", 21.0, device_ordinal=1),
        other,
    ]
    found = operations(data_of(("/host:CPU", own), ("/device:GPU:0", [event("copy.7", 3.0)])), {
        0: 4, 1: 5,
    })  # fmt: skip
    assert [(one.device, one.name, one.is_together) for one in found] == [
        (4, "copy.7", False),
        (5, "add.1", False),
        (5, "sums", True),
    ]
    assert [one.nodes for one in found] == [(), ("node 2", "node 5"), ("node 3",)]
    assert found[1].start == pytest.approx(1 + 20e-9) and found[1].end == pytest.approx(1 + 25e-9)


def test_a_profile_of_two_runs_or_without_operations_is_refused() -> None:
    two = [event("add.1", 1.0, 1, device_ordinal=0), event("add.1", 9.0, 2, device_ordinal=0)]
    with pytest.raises(InputError, match="the step was taken, and other ones ran meanwhile"):
        operations(data_of(("/host:CPU", two)), {0: 0})
    with pytest.raises(UnsupportedError, match=r"no operations of 1 of its devices \(cpu\)"):
        operations(data_of(("/host:CPU", two[:1])), {0: 0, 1: 1})


def test_a_jax_that_cannot_read_profiles_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    monkeypatch.delattr(jax.profiler, "ProfileData")
    with pytest.raises(UnsupportedError, match=rf"JAX {re.escape(jax.__version__)} cannot read"):
        profile.profiled(int)


def loop(x: float32["n 4"], W: float32["4 4"]):
    h, _ = cr.scan(lambda h, row: (np.tanh(h @ W), None), x, length=3)
    J = np.sum(h)
    return J


def test_operations_in_loops_have_the_scopes_of_both() -> None:
    """Traced under the number of the loop's node, then that of the node in its body."""
    made = cr.training_step(loop, ("W",), cr.sgd(0.1), executor="xla")
    state = made.init(W=np.eye(4, dtype=np.float32))
    made(state, x=np.ones((2, 4), np.float32))
    (bound,) = state.bound.values()
    depths = {len(one.nodes) for one in instructions(bound.call.code.text)}
    assert {1, 2} <= depths
