"""How a step is entered: one native function that Python calls, and that calls the step.

    i64 step_enter(ptr context)

It takes BLAS's own threads away for as long as products run, clears the counters of the barriers,
and calls the step: alone, or in the threads of the pool.  What ran to its end is counted, because
Python may raise (Ctrl-C) before it looks at what the function returns.  Python calls it without
giving its lock back where loops take it now and then (`python_turns`): it is given back here.
"""

from __future__ import annotations

from collections.abc import Callable

from chainrule.execute.native.plan_to_ir.barriers import BARRIER_NBYTES
from chainrule.execute.native.plan_to_ir.emit import AT_LEVEL_0, Code, Module, Operand
from chainrule.execute.native.plan_to_ir.python_turns import release, take

I64, I32, PTR = "i64", "i32", "ptr"
CONTEXT = Operand("%context", PTR)
Slot = Callable[[str], Operand]


def emit_enter(
    module: Module,
    name: str,
    slots: dict[str, int],
    *,
    barriers: int,
    threads: int,
    quiet: bool,
    asks: bool,
    attributes: str,
) -> None:
    """Write `name`_enter for the step called `name`.

    `slots` says where the pointers of the context are; `barriers` is how many counters there are;
    with one of `threads` the step is called directly; `quiet` if products are large enough for
    BLAS to use threads of its own; `asks` if Python has turns in its loops.
    """
    code = Code(module)

    def slot(which: str) -> Operand:
        place = code.address(CONTEXT, Operand(str(slots[which]), I64), PTR)
        return code.load(place, PTR, 8)

    if asks:
        release(code, slot("python"))
    if quiet:
        _quieten(code, slot)
    if threads > 1:
        counters = slot("barriers")
        nbytes = barriers * BARRIER_NBYTES
        module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        code.do(f"call void @llvm.memset.p0.i64(ptr {counters.text}, i8 0, i64 {nbytes}, i1 false)")
        run, pool = slot("run"), slot("pool")
        status = code.emit(
            f"call i64 {run.text}(ptr {pool.text}, ptr @{name}, ptr %context, i64 {threads})", I64
        )
    else:
        status = code.emit(f"call i64 @{name}(ptr %context, i64 0, i64 1)", I64)
    if quiet:
        _restore(code, slot)
    finished = slot("finished")
    success = code.compare("icmp eq", status, Operand("0", I64))
    success = code.convert("zext", success, I64)
    code.store(code.binary("add", code.load(finished, I64, 8), success), finished, 8)
    if asks:
        take(code, slot("python"))
    code.do(f"ret i64 {status.text}")
    code.function(f"{name}_enter", [CONTEXT], I64, f"{attributes} {AT_LEVEL_0}")


def _quieten(code: Code, slot: Slot) -> None:
    """One thread for BLAS: the first call that comes notes how many it had."""
    state = slot("blas_state")

    def first() -> None:
        had = code.emit(f"call i32 {slot('blas_get').text}()", I32)
        code.store(had, code.address(state, Operand("1", I64), I64))
        code.do(f"call void {slot('blas_set').text}(i32 1)")

    _counted(code, state, "add", "0", first)


def _restore(code: Code, slot: Slot) -> None:
    """The last call that goes gives BLAS its threads back."""
    state = slot("blas_state")

    def last() -> None:
        had = code.load(code.address(state, Operand("1", I64), I64), I32)
        code.do(f"call void {slot('blas_set').text}(i32 {had.text})")

    _counted(code, state, "sub", "1", last)


def _counted(
    code: Code, state: Operand, operation: str, edge: str, at_edge: Callable[[], None]
) -> None:
    """Count the calls under a lock of its own, and do what is to be done at the edge.

    Without it a call that comes while the last one goes would note that BLAS has one thread.
    """
    number = code.fresh()
    lock = code.address(state, Operand("2", I64), I64)
    code.jump(f"try{number}")
    code.label(f"try{number}")
    pair = code.emit(f"cmpxchg ptr {lock.text}, i64 0, i64 1 acquire monotonic", "{ i64, i1 }")
    got = code.emit(f"extractvalue {pair.type} {pair.text}, 1", "i1")
    code.branch(got, f"locked{number}", f"try{number}")
    code.label(f"locked{number}")
    calls = code.load(state, I64, 8)
    code.store(code.binary(operation, calls, Operand("1", I64)), state, 8)
    code.branch(code.compare("icmp eq", calls, Operand(edge, I64)), f"edge{number}", f"go{number}")
    code.label(f"edge{number}")
    at_edge()
    code.jump(f"go{number}")
    code.label(f"go{number}")
    code.do(f"store atomic i64 0, ptr {lock.text} release, align 8")
