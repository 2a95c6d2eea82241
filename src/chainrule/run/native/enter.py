"""How a step is entered: one native function that Python calls, and that calls the step.

    i64 step_enter(ptr context)

It takes BLAS's own threads away for as long as products run, clears the counters of the phases,
and calls the step: alone, or in the threads of the pool.  What ran to its end is counted, because
Python may raise (Ctrl-C) before it looks at what the function returns.
"""

from __future__ import annotations

from collections.abc import Callable

from chainrule.run.native.emit import UNOPTIMISED, Code, Module, Operand
from chainrule.run.native.phases import PHASE_NBYTES

I64, I32, PTR = "i64", "i32", "ptr"
CONTEXT = Operand("%context", PTR)
Slot = Callable[[str], Operand]


def emit_enter(
    module: Module,
    name: str,
    slots: dict[str, int],
    *,
    phases: int,
    threads: int,
    quiet: bool,
    attributes: str,
) -> None:
    """Write `name`_enter for the step called `name`.

    `slots` says where the pointers of the context are; `phases` is how many counters there are;
    with one of `threads` the step is called directly; `quiet` if products are large enough for
    BLAS to use threads of its own.
    """
    code = Code(module)

    def slot(which: str) -> Operand:
        place = code.address(CONTEXT, Operand(str(slots[which]), I64), PTR)
        return code.load(place, PTR, 8)

    before = _quieten(code, slot) if quiet else None
    if threads > 1:
        counters = slot("phases")
        nbytes = phases * PHASE_NBYTES
        module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        code.do(f"call void @llvm.memset.p0.i64(ptr {counters.text}, i8 0, i64 {nbytes}, i1 false)")
        run, pool = slot("run"), slot("pool")
        status = code.emit(
            f"call i64 {run.text}(ptr {pool.text}, ptr @{name}, ptr %context, i64 {threads})", I64
        )
    else:
        status = code.emit(f"call i64 @{name}(ptr %context, i64 0, i64 1)", I64)
    if before is not None:
        _restore(code, slot, before)
    finished = slot("finished")
    success = code.convert("zext", code.compare("icmp eq", status, Operand("0", I64)), I64)
    code.store(code.binary("add", code.load(finished, I64, 8), success), finished, 8)
    code.do(f"ret i64 {status.text}")
    code.function(f"{name}_enter", [CONTEXT], I64, f"{attributes} {UNOPTIMISED}")


def _quieten(code: Code, slot: Slot) -> Operand:
    """One thread for BLAS: the first call that comes notes how many it had."""
    state, get, put = slot("blas_state"), slot("blas_get"), slot("blas_set")
    calls = code.emit(f"atomicrmw add ptr {state.text}, i64 1 acq_rel", I64)
    noted = code.address(state, Operand("1", I64), I64)
    number = code.fresh()
    first = code.compare("icmp eq", calls, Operand("0", I64))
    code.branch(first, f"first{number}", f"quiet{number}")
    code.label(f"first{number}")
    had = code.emit(f"call i32 {get.text}()", I32)
    code.store(had, noted)
    code.do(f"call void {put.text}(i32 1)")
    code.jump(f"quiet{number}")
    code.label(f"quiet{number}")
    return noted


def _restore(code: Code, slot: Slot, noted: Operand) -> None:
    """The last call that goes gives BLAS its threads back."""
    state, put = slot("blas_state"), slot("blas_set")
    had = code.load(noted, I32)  # read before others may begin anew
    calls = code.emit(f"atomicrmw sub ptr {state.text}, i64 1 acq_rel", I64)
    number = code.fresh()
    last = code.compare("icmp eq", calls, Operand("1", I64))
    code.branch(last, f"last{number}", f"restored{number}")
    code.label(f"last{number}")
    code.do(f"call void {put.text}(i32 {had.text})")
    code.jump(f"restored{number}")
    code.label(f"restored{number}")
