"""The memory of one call of compiled code at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from chainrule.execute.aligned import address_of, block
from chainrule.execute.native.artifact import Artifact, slot_count
from chainrule.execute.native.plan_to_ir.barriers import BARRIER_NBYTES
from chainrule.execute.native.plan_to_ir.driver import RUNTIME
from chainrule.execute.native.plan_to_ir.python_turns import STATE
from chainrule.plan.loops.nest import FAILED_NBYTES
from chainrule.schedule.records import ALIGNMENT


def see_signals() -> None:
    """Nothing: what Python does first in any function."""


FUNCTIONS = [
    ctypes.cast(one, ctypes.c_void_p).value
    for one in (
        ctypes.pythonapi.PyEval_SaveThread,
        ctypes.pythonapi.PyEval_RestoreThread,
        ctypes.pythonapi.PyObject_CallNoArgs,
        ctypes.pythonapi.Py_DecRef,
    )
]


class Context:
    """The memory of one call at a time: pointers, scratch arena, flags.

    `scratch` are aligned bytes for the arena, of the caller's; else it is allocated.
    """

    def __init__(
        self, artifact: Artifact, fixed: Mapping[str, int], scratch: np.ndarray | None = None
    ) -> None:
        self.slots = (ctypes.c_void_p * slot_count(artifact))()
        self.address = ctypes.addressof(self.slots)
        if scratch is None:
            scratch = block(artifact.scratch_nbytes)
        self.slots[0] = address_of(scratch)
        self.scratch = scratch
        # flags and counters: part of the code, and so no arrays of a run
        self.failed = _zeros(FAILED_NBYTES * max(artifact.threads, 1))
        self.finished = ctypes.c_int64(0)  # parts that ran to their end, of all calls so far
        self.barriers = _zeros(artifact.barrier_count * BARRIER_NBYTES + ALIGNMENT)
        self.python = (ctypes.c_void_p * len(STATE))(None, *FUNCTIONS, id(see_signals))
        fixed = {
            **fixed,
            "python": ctypes.addressof(self.python),
            "failed": address_of(self.failed),
            "finished": ctypes.addressof(self.finished),
            "barriers": address_of(self.barriers),
        }
        self.process: object = None
        for name, value in fixed.items():
            self.slots[RUNTIME.index(name)] = value


def _zeros(nbytes: int) -> np.ndarray:
    """Bytes in memory of Python's."""
    return np.frombuffer(bytearray(nbytes), np.uint8)
