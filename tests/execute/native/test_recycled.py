"""The memory of results: never overwritten while anything refers to it, used again afterwards."""

from __future__ import annotations

import ctypes
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.native.runtime import recycled

SHAPE = (100, 100)  # 80 kB of float64: large enough
FLOAT = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Any:
    recycled.forget()
    yield
    recycled.forget()


@pytest.fixture(scope="module")
def filled() -> Callable[[float], np.ndarray]:
    """A compiled function of a number, whose result is full of it."""
    ones = np.ones(SHAPE)
    return cr.compile(lambda c: ones * c, executor="native")


def by_torch(array: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(array)


def of_a_subclass(array: np.ndarray) -> Any:
    class Named(np.ndarray):
        pass

    return array.view(Named)


class Interface:
    """Shows an array by NumPy's interface alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


# Ways to hold on to a result, after the result itself is gone; each can be read by np.asarray.
HOLDS: dict[str, Callable[[Any], Any]] = {
    "the result": lambda x: x,
    "a row": lambda x: x[3],
    "an element, as an array": lambda x: x[3, 4:5],
    "the transpose": lambda x: x.T,
    "a view of a view": lambda x: x[::2].T[1:],
    "other bytes": lambda x: x.view(np.int8).view(np.float64),
    "a subclass": of_a_subclass,
    "a broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=0),
    "a memoryview": lambda x: memoryview(x),
    "a cast memoryview": lambda x: memoryview(x).cast("B").cast("d"),
    "from the buffer": lambda x: np.frombuffer(x, np.float64),
    "from a memoryview": lambda x: np.asarray(memoryview(x)),
    "by DLPack": lambda x: np.from_dlpack(x),
    "by the array interface": lambda x: np.asarray(Interface(x)),
    "a flat iterator": lambda x: x.flat,
    "an iterator": lambda x: np.nditer(x).operands[0],
    "of torch": by_torch,
    "a view by torch": lambda x: by_torch(x)[2:].T,
    "numpy of torch": lambda x: by_torch(x).numpy(),
    "by ctypes": lambda x: np.ctypeslib.as_array((ctypes.c_double * 9).from_buffer(x)),
    "a pickle's buffer": lambda x: pickle.PickleBuffer(x),
}


def shown(held: Any) -> np.ndarray:
    if isinstance(held, pickle.PickleBuffer):
        held = np.frombuffer(held.raw(), np.float64)
    return np.asarray(held)


@pytest.mark.parametrize("way", HOLDS)
def test_what_is_held_is_never_overwritten(way: str, filled: Callable[[float], np.ndarray]):
    held = [HOLDS[way](filled(float(k))) for k in range(4)]
    for k in range(20):
        filled(100.0 + k)
    for k, one in enumerate(held):
        values = shown(one)
        assert values.size and np.all(values == k)


@pytest.mark.parametrize("way", HOLDS)
def test_what_was_held_and_let_go_is_used_again(way: str, filled: Callable[[float], np.ndarray]):
    HOLDS[way](filled(1.0))
    gc.collect(1)  # what was just made; all that there is takes far longer
    places = {filled(float(k)).__array_interface__["data"][0] for k in range(10)}
    assert len(places) == 1


def test_results_that_are_held_are_all_different(filled: Callable[[float], np.ndarray]):
    held = [filled(float(k)) for k in range(100)]
    for k, one in enumerate(held):
        assert np.all(one == k)
        assert one.flags.writeable and one.flags.c_contiguous and one.flags.aligned
        one[...] = -k
    assert all(np.all(one == -k) for k, one in enumerate(held))


def test_several_results_of_one_call_are_different_memory(filled: Any):
    ones = np.ones(SHAPE)
    f = cr.compile(lambda c: tuple(ones * (c + k) for k in range(6)), executor="native")
    for _ in range(3):
        for k, one in enumerate(f(1.0)):
            assert np.all(one == 1 + k)


CHANGES: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": lambda x: x.setflags(write=False),
    "its values": lambda x: x.fill(np.nan),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_result_that_was_changed_does_no_harm(change: str, filled: Any):
    for k in range(5):
        one = filled(float(k))
        assert one.shape == SHAPE and one.flags.writeable and np.all(one == k)
        CHANGES[change](one)
        del one


def test_memory_is_given_out_again_and_at_most_so_much_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
):
    nbytes = 100 * 100 * 8
    monkeypatch.setattr(recycled, "MOST", 10 * nbytes)
    held = [recycled.kind_of(SHAPE, FLOAT).empty()[0] for _ in range(30)]
    assert recycled._results.nbytes == 10 * nbytes
    recycled.kind_of((200, 100), FLOAT).empty()[0]
    assert recycled._results.nbytes <= 10 * nbytes
    places = {one.__array_interface__["data"][0] for one in held}
    assert len(places) == 30
    del held
    again = [recycled.kind_of(SHAPE, FLOAT).empty()[0] for _ in range(5)]
    assert {one.__array_interface__["data"][0] for one in again} <= places
    recycled.kind_of((2000, 100), FLOAT).empty()[0]  # more than all that may be remembered
    assert recycled._results.nbytes <= 10 * nbytes
    recycled.forget()
    assert recycled._results.nbytes == 0


def test_who_keeps_many_results_does_not_wait_for_all_to_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    counted = []
    monkeypatch.setattr(
        recycled, "_counted", lambda e, _by=recycled._counted: counted.append(1) or _by(e)
    )
    held = []
    for _ in range(200):
        counted.clear()
        held.append(recycled.kind_of(SHAPE, FLOAT).empty()[0])
        assert len(counted) <= recycled.TRIES


def test_large_results_begin_with_a_page():
    for shape in ((8192,), (100, 100), (3, 5001), (131073,)):
        kept = [recycled.kind_of(shape, FLOAT).empty() for _ in range(3)]
        assert all(array.__array_interface__["data"][0] == address for array, address in kept)
        assert all(address % 4096 == 0 for _, address in kept)


def test_threads_that_hold_and_let_go_never_share_memory():
    clashes: list[int] = []

    def work(who: int) -> None:
        random = np.random.default_rng(who)
        held: list[np.ndarray] = []
        for k in range(2000):
            one = recycled.kind_of(SHAPE, FLOAT).empty()[0]
            one[0, :2] = who, k
            held.append(one)
            if len(held) > 3:
                one = held.pop(int(random.integers(len(held))))
                if one[0, 0] != who:
                    clashes.append(k)
        if any(one[0, 0] != who for one in held) or len({one[0, 1] for one in held}) != len(held):
            clashes.append(-1)

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(old)
    assert not clashes


def test_a_result_that_is_being_made_is_not_free(monkeypatch: pytest.MonkeyPatch):
    # another thread, or a signal's handler, asks right after the entry was remembered
    kind = recycled.kind_of((1 << 17,), np.dtype("f4"))
    asked: list[np.ndarray] = []

    class Known(OrderedDict):
        is_quiet = True

        def move_to_end(self, key: Any, last: bool = True) -> None:
            super().move_to_end(key, last)
            if self.is_quiet:
                self.is_quiet = False
                asked.append(kind.empty()[0])

    results = recycled._Results()
    results.known = Known()
    monkeypatch.setattr(recycled, "_results", results)
    made = kind.empty()[0]
    assert asked and not np.shares_memory(made, asked[0])


def test_what_only_a_weak_reference_knows_is_not_written_over():
    recycled.forget()
    f = cr.compile(lambda x: x * 2, executor="native")
    known = weakref.WeakValueDictionary[float, np.ndarray]()

    def doubled(number: float) -> np.ndarray:
        found = known.get(number)
        if found is None:
            found = known[number] = f(np.full(1 << 15, number))
        return found

    assert [doubled(number)[0] for number in (1.0, 2.0, 1.0, 2.0)] == [2, 4, 2, 4]


def test_the_handler_of_a_signal_gets_memory_of_its_own():
    """One that comes between looking whether memory is used and giving it out."""
    mine: list[np.ndarray] = []
    taken: list[np.ndarray] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != recycled.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            sys.settrace(None)
            taken.append(recycled.kind_of(SHAPE, FLOAT).empty()[0])
            sys.settrace(trace)
        return trace

    recycled.kind_of(SHAPE, FLOAT).empty()[0]
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        mine.append(recycled.kind_of(SHAPE, FLOAT).empty()[0])
    finally:
        sys.settrace(before)
    places = {one.__array_interface__["data"][0] for one in [*mine, *taken]}
    assert len(taken) > 20 and len(places) == len(taken) + 1


@pytest.mark.slow
def test_results_that_live_to_the_end_of_the_process_do_no_harm():
    program = """
import builtins, sys
import numpy as np, chainrule as cr
f = cr.compile(lambda x: x * 2, executor="native")
builtins.kept = f(np.ones((300, 300)))
class Late:
    def __del__(self):
        assert builtins.kept[0, 0] == 2
        print("late")
sys.kept = Late()
sys.cycle = [f(np.ones((300, 300)))]
sys.cycle.append(sys.cycle)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
