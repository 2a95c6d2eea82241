"""Several modules become the same objects on one thread and on many; a wrong one is told."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

import pytest
from executors import needs_native

from chainrule.machine_code import compiling as compiling_module
from chainrule.machine_code import target as module
from chainrule.machine_code.compiling import Compiling
from chainrule.machine_code.target import compile_object, host_target, load_objects

pytestmark = needs_native

ADDING = "define i64 @add{k}(i64 %x) {{\n %y = add i64 %x, {k}\n ret i64 %y\n}}"
LAST = """
declare i64 @add3(i64)
define i64 @last(i64 %x) {
  %y = call i64 @add3(i64 %x)
  ret i64 %y
}
"""
LONG_TO_LONG = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def compiled(threads: int, count: int = 12) -> tuple[bytes, ...]:
    with Compiling(host_target(), threads) as compiling:
        for k in range(count):
            compiling.add(ADDING.format(k=k))
        compiling.add(LAST)
        return compiling.objects()


def test_objects_are_the_same_on_any_number_of_threads_and_call_each_other() -> None:
    alone = compiled(1)
    assert alone == compiled(2) == compiled(5)
    assert alone[3] == compile_object(ADDING.format(k=3), host_target())
    library = load_objects(alone, {})
    assert LONG_TO_LONG(library.address("last"))(4) == 7


def test_the_longest_text_that_waits_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def object_of(text: str, *_: Any) -> bytes:
        begun.append(len(text))
        return text.encode()

    monkeypatch.setattr(compiling_module, "object_of", object_of)
    with Compiling(host_target(), 1) as compiling:
        for text in ("three", "a", "at"):
            compiling.add(text)
        assert compiling.objects() == (b"three", b"a", b"at")
    assert begun == [5, 2, 1]


def test_threads_of_python_take_turns_more_often_only_meanwhile() -> None:
    before = sys.getswitchinterval()
    with Compiling(host_target(), 2):
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


def test_each_thread_generates_code_without_the_lock_of_the_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emit, here = module._emit(), threading.Barrier(2, timeout=30)
    assert emit is not None, "this llvmlite keeps it elsewhere: threads wait for each other"

    def met(*arguments: Any) -> Any:
        here.wait()  # both threads are here at the same time, or this fails
        return emit(*arguments)

    monkeypatch.setattr(module, "_emit", lambda: met)
    assert len(compiled(2, count=1)) == 2


def test_without_that_function_the_binding_makes_the_same_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = compiled(2)
    monkeypatch.setattr(module, "_emit", lambda: None)
    assert compiled(2) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_wrong_text_is_told_and_no_thread_goes_on(threads: int) -> None:
    before = threading.active_count()
    with (
        pytest.raises(AssertionError, match="chainrule generated text that LLVM refuses"),
        Compiling(host_target(), threads) as compiling,
    ):
        compiling.add("define i64 @f() {\n  ret i64 %nothing\n}")
        compiling.objects()
    assert threading.active_count() == before


def test_who_stops_writing_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), Compiling(host_target(), 2) as compiling:
        for k in range(50):
            compiling.add(ADDING.format(k=k))
        raise KeyboardInterrupt
    assert threading.active_count() == before
