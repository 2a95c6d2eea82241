"""A process that trains at the largest size that is said to fit, and may have no more memory.

python limited_memory.py MIB EXECUTOR PROGRAM,PARTS,ORDER ...

Each of these is a fork, so that all is imported once; another one before compiles its code, since
memory that the compiler has given back would be used for arrays.
Address space is limited to what the process has when all is compiled and no array of the training
is there (what is outside the numbers is, as buffers of BLAS), and what the arrays need beside.  It
prints the size, what it needs and MIB in bytes; fails with a MemoryError where that was too little,
or where a size runs, too, whose arrays are said to need more: a fifth, and at least `ROOM`.  Then
all exits with 1.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from memory_programs import CHOICES, PROGRAMS, D, Program

from chainrule.execute.native.runtime import machine, recycled

STEPS = 3
OBJECTS = 2 << 20  # bytes: pools of Python's objects, ends of pages
ROOM = 2 * OBJECTS  # bytes by which a size is too large for certain


def address_space() -> int:
    """The bytes of address space that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def train(step: Any, program: Program, n: int, order: str) -> None:
    """A few steps on arrays of this size."""
    shape = [n if axis == program.n else size for axis, size in enumerate(program.shape)]
    x = np.empty(shape, np.float32, order)  # type: ignore[call-overload]
    x[...] = 0.5
    state = step.init(W=np.eye(D, dtype=np.float32))
    for _ in range(STEPS):
        J = step(state, x=x)
    assert np.isfinite(J)


def forget() -> None:
    """Keep no memory of what ran."""
    machine_memory = [one._free for one in machine._machines.values()]
    for free in machine_memory:
        free.clear()
    recycled.forget()
    gc.collect()


def arrays_nbytes(found: Any, memory: Any) -> int:
    """What the arrays need at this size, and nothing beside these."""
    return found.nbytes - memory.at(n=found.size).overhead_nbytes


def larger(memory: Any, found: Any, nbytes: int) -> int:
    """The largest size whose arrays need so many bytes; those of `found` need less."""
    size, overhead = found.size, memory.at(n=found.size).overhead_nbytes
    while (found := memory.largest("n", nbytes + overhead)).size > size:
        size, overhead = found.size, memory.at(n=found.size).overhead_nbytes
    return size


def main(name: str, executor: str, parts: int, order: str, mib: int, is_limited: bool) -> None:
    program = next(one for one in (*PROGRAMS, *CHOICES) if one.name == name)
    step: Any = program.step(executor)
    step = step.micro_batched(parts) if parts > 1 else step
    limit = mib << 20
    memory = step.memory(n=parts * 8, layout=order)
    found = memory.largest("n", limit)
    arrays = arrays_nbytes(found, memory)
    too_large = larger(memory, found, arrays + max(arrays // 5, ROOM))
    for size in (too_large, found.size):  # and all is compiled
        train(step, program, size, order)
        forget()
    if not is_limited:
        return
    there = address_space()
    resource.setrlimit(resource.RLIMIT_AS, (there + arrays + OBJECTS,) * 2)
    train(step, program, found.size, order)
    forget()
    print(found.size, found.nbytes, limit, flush=True)
    try:
        train(step, program, too_large, order)
    except MemoryError:
        return
    raise SystemExit(f"{too_large} fits, too, whose arrays need more than there is")


def is_done(case: str, executor: str, mib: int, is_limited: bool) -> bool:
    """Whether it ran in a fork of its own without an error."""
    child = os.fork()
    if not child:
        name, parts, order = case.split(",")
        status = 1
        try:
            main(name, executor, int(parts), order, mib, is_limited)
            status = 0
        except BaseException:
            print(f"{case} by {executor}:", file=sys.stderr)
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    mib, executor, *cases = sys.argv[1:]
    done = [
        is_done(case, executor, int(mib), is_limited)
        for case in cases
        for is_limited in (False, True)
    ]
    sys.exit(not all(done))
