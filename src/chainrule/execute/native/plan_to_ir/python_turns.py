"""Gives Python a turn in loops that are long or have no known end, so that it sees Ctrl-C.

In each iteration such a loop asks the function `goes_on` whether it goes on: not where the run has
failed.  `left` counts down how many nanoseconds are left to the thread without Python, by what
iterations are expected to take.  Then it takes the interpreter's lock, and calls a function of
Python that does nothing: as any function does, that begins by handling signals.  If it raises, the
run has failed, and the exception is there when native code returns to Python.

Only the thread that Python called can do that.  `python` is memory of the context: STATE.
"""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import Code, Operand
from chainrule.plan.duration import most_nanoseconds, turn_nanoseconds
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.speeds import Speeds
from chainrule.plan.work import Work

PTR = "ptr"
LONG = 20_000_000  # nanoseconds in which Python has no turn
# Pointers: the state of Python's thread while others may run; the functions that give the lock
# back and take it, call a function without arguments, and drop a reference; the function.
STATE = ("thread", "release", "take", "call", "drop", "function")
GOES_ON = f"""\
define internal i1 @goes_on(ptr %failed, ptr %left, i64 %nanoseconds, ptr %python) nounwind {{
entry:
  %flag = load atomic i64, ptr %failed monotonic, align 8
  %fine = icmp eq i64 %flag, 0
  br i1 %fine, label %count, label %stop
count:
  %before = load i64, ptr %left
  %after = sub i64 %before, %nanoseconds
  store i64 %after, ptr %left
  %early = icmp sgt i64 %after, 0
  br i1 %early, label %go, label %turn
turn:
  store i64 {LONG}, ptr %left
  call void @take(ptr %python)
  %call_at = getelementptr ptr, ptr %python, i64 {STATE.index("call")}
  %call = load ptr, ptr %call_at
  %function_at = getelementptr ptr, ptr %python, i64 {STATE.index("function")}
  %function = load ptr, ptr %function_at
  %result = call ptr %call(ptr %function)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %fail, label %quiet
quiet:
  %drop_at = getelementptr ptr, ptr %python, i64 {STATE.index("drop")}
  %drop = load ptr, ptr %drop_at
  call void %drop(ptr %result)
  call void @release(ptr %python)
  br label %go
fail:
  call void @release(ptr %python)
  store atomic i64 1, ptr %failed monotonic, align 8
  br label %stop
go:
  ret i1 true
stop:
  ret i1 false
}}"""
RELEASE = f"""\
define internal void @release(ptr %python) nounwind {{
entry:
  %release_at = getelementptr ptr, ptr %python, i64 {STATE.index("release")}
  %release = load ptr, ptr %release_at
  %thread = call ptr %release()
  store ptr %thread, ptr %python
  ret void
}}"""
TAKE = f"""\
define internal void @take(ptr %python) nounwind {{
entry:
  %take_at = getelementptr ptr, ptr %python, i64 {STATE.index("take")}
  %take = load ptr, ptr %take_at
  %thread = load ptr, ptr %python
  call void %take(ptr %thread)
  ret void
}}"""


def asks(work: Work, speeds: Speeds) -> bool:
    """Whether Python has turns in it."""
    return isinstance(work, FlowWork) and most_nanoseconds(work, speeds) > LONG


def nanoseconds_of_turn(work: FlowWork, speeds: Speeds) -> int:
    """What an iteration is expected to take at most until Python has a turn."""
    return max(round(turn_nanoseconds(work, speeds, LONG)), 1)


def release(code: Code, python: Operand) -> None:
    """Let other threads of Python run."""
    _define(code)
    code.do(f"call void @release(ptr {python.text})")


def take(code: Code, python: Operand) -> None:
    """Wait for Python's lock."""
    _define(code)
    code.do(f"call void @take(ptr {python.text})")


def goes_on(
    code: Code, failed: Operand, left: Operand, nanoseconds: int, python: Operand
) -> Operand:
    """Whether a loop goes on whose iteration takes so long."""
    _define(code)
    pointers = f"ptr {failed.text}, ptr {left.text}, i64 {nanoseconds}, ptr {python.text}"
    return code.emit(f"call i1 @goes_on({pointers})", "i1")


def _define(code: Code) -> None:
    functions = code.module.functions
    functions += [one for one in (RELEASE, TAKE, GOES_ON) if one not in functions]
