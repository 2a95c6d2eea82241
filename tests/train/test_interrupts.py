"""Ctrl-C while a state is stepped: it is then after a whole number of steps, and can be used."""

from __future__ import annotations

import opcode
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import numpy as np
import pytest
from executors import BY_XLA

import chainrule as cr
from chainrule import float64

INTERRUPTIBLE = (
    *("/train/step/state.py", "/train/step/bound.py", "/train/step/step.py"),
    *("/execute/prepared.py", "/execute/plain.py"),
    *("/runtime/held.py", "/runtime/machine.py"),
    *("/execute/home.py", "/xla/calls.py"),
)


def interruptions(call: Any) -> Any:
    """Do `call` again and again, interrupted at one place after the other; yields after each.

    CPython looks for signals where a function begins, behind each call and at each jump back; here
    they come before all instructions of the functions that may be running when one does.
    """
    place = 0
    while True:
        left, came = place, False

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left, came
            if not frame.f_code.co_filename.endswith(INTERRUPTIBLE):
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and not came and _listens(frame):
                left -= 1
                if left < 0:
                    came = True
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
            raised = False
        except KeyboardInterrupt:
            raised = True
        finally:
            sys.settrace(before)
        assert raised is came, "the interrupt was swallowed"
        yield place
        if not came:
            return
        place += 1


def _listens(frame: FrameType) -> bool:
    """Whether the interpreter looks for signals before this instruction."""
    code, at = frame.f_code.co_code, frame.f_lasti
    before = at - 2
    while before >= 0 and opcode.opname[code[before]] == "CACHE":
        before -= 2
    names = [opcode.opname[code[place]] for place in (before, at) if place >= 0]
    return names[0].startswith("CALL") or names[0] == "RESUME" or names[-1] == "JUMP_BACKWARD"


def plain(W: float64[3, 3], V: float64[3, 3], x: float64[3]):
    J = np.sum(np.tanh(W @ x) ** 2) + np.sum(V**2)
    return J


def transposed(W: float64[3, 3], V: float64[3, 3], x: float64[3]):
    J = np.sum(W * W.T) + np.sum(np.tanh(V @ x) ** 2)  # dJ/dW reads W in another order
    return J


@pytest.mark.parametrize("objective", [plain, transposed])
@pytest.mark.parametrize("executor", ["native", "reference", BY_XLA])
def test_a_step_that_is_interrupted_anywhere_was_taken_or_not(objective: Any, executor: str):
    random = np.random.default_rng(0)
    given = {"W": random.normal(size=(3, 3)), "V": random.normal(size=(3, 3))}
    x = random.normal(size=3)
    step = cr.training_step(objective, wrt=("W", "V"), optimizer=cr.sgd(1e-3), executor=executor)
    expected = [step.init(**given)]
    state = step.init(**given)
    for each in (state, expected[0]):
        step(each, x=x)  # from now on the short way

    def arrays(state: Any) -> dict[str, np.ndarray]:
        return {name: state[name] for name in state.arrays}

    if executor == "native":
        assert state.latest.plain and bool(state.latest.moved) == (objective is transposed)
    whole = [arrays(expected[0])]
    tried = 0
    for _ in interruptions(lambda: step(state, x=x)):
        while len(whole) < state.steps:
            step(expected[0], x=x)
            whole.append(arrays(expected[0]))
        for name, value in arrays(state).items():  # which may wait for ever if a lock is held
            np.testing.assert_array_equal(value, whole[state.steps - 1][name])
        tried += 1
    assert tried > 20
    assert 1 < state.steps <= tried + 1


@pytest.mark.slow
def test_ctrl_c_in_a_loop_of_native_steps_leaves_a_whole_number_of_them():
    random = np.random.default_rng(0)

    def objective(W: float64[200, 200], V: float64[200, 200], x: float64[50, 200]):
        J = np.sum(np.tanh(np.tanh(x @ W) @ V) ** 2)
        return J

    given = {"W": random.normal(size=(200, 200)), "V": random.normal(size=(200, 200))}
    x = random.normal(size=(50, 200))
    step = cr.training_step(
        objective, wrt=("W", "V"), optimizer=cr.sgd(1e-4, momentum=0.9), executor="native"
    )
    state, again = step.init(**given), step.init(**given)
    step(state, x=x)
    for _ in range(10):
        timer = threading.Timer(0.02, signal.raise_signal, [signal.SIGINT])
        ends = time.monotonic() + 10
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while time.monotonic() < ends:
                step(state, x=x)
        timer.join()
    assert state.steps > 10
    for _ in range(state.steps):
        step(again, x=x)
    for name in state.arrays:
        np.testing.assert_array_equal(state[name], again[name])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_the_handler_of_a_signal_may_read_the_state_that_is_being_stepped():
    def objective(W: float64[300, 300]):
        J = np.sum(np.tanh(W @ W) ** 2)
        return J

    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(1e-4), executor="native")
    state = step.init(W=np.ones((300, 300)))
    seen: list[np.ndarray] = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(state["W"]))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        ends = time.monotonic() + 10
        while len(seen) < 5 and time.monotonic() < ends:
            step(state)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(seen) >= 5
