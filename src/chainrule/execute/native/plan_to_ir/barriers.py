"""Who does what when several threads run a step: parts are claimed, and a barrier waits for all.

What ends at a barrier is some parts of equal standing.  Each thread that comes claims parts, one by
one, until there are none left, and goes on when all are done, whoever did them.  So a thread that
is late, asleep or never scheduled delays nothing but the part that it has claimed, and one thread
alone can do everything.
"""

from __future__ import annotations

from collections.abc import Callable

from chainrule.execute.native.plan_to_ir.emit import Code, Operand

BARRIER_NBYTES = 128  # the counters of claimed and of done parts, each in a cache line of its own
I64 = "i64"


class Barriers:
    """Writes the barriers of one function.

    `slot` gives a pointer of the context; `shared` says whether more than one thread comes: if
    there are none.  `first` numbers the barriers of the function.
    """

    def __init__(
        self, code: Code, slot: Callable[[str], Operand], shared: bool, first: int
    ) -> None:
        self.code, self.slot, self.shared = code, slot, shared
        self.count = first
        self._serial_is_open = False

    def serial(self) -> None:
        """What is written next is for whoever comes first, until `end`, `share` or `close`."""
        if self.shared and not self._serial_is_open:
            self._begin(1)
            self._serial_is_open = True

    def end(self) -> None:
        """What is written next is for all, when everything before it is done."""
        if self._serial_is_open:
            self._serial_is_open = False
            self._end(1)

    def share(self, parts: int, emit: Callable[[Operand], None]) -> None:
        """`emit(part)` for each of the parts, by whoever claims it."""
        self.end()
        part = self._begin(parts)
        emit(part)
        self._end(parts)

    def _counter(self, line: int) -> Operand:
        offset = Operand(str(self.count * BARRIER_NBYTES + line), I64)
        return self.code.address(self.slot("barriers"), offset, "i8")

    def _begin(self, parts: int) -> Operand:
        code = self.code
        claimed = self._counter(0)
        code.jump(f"claim{self.count}")
        code.label(f"claim{self.count}")
        part = code.emit(f"atomicrmw add ptr {claimed.text}, i64 1 acq_rel", I64)
        here = code.compare("icmp slt", part, Operand(str(parts), I64))
        code.branch(here, f"work{self.count}", f"done{self.count}")
        code.label(f"work{self.count}")
        return part

    def _end(self, parts: int) -> None:
        code = self.code
        code.emit(
            f"atomicrmw add ptr {self._counter(BARRIER_NBYTES // 2).text}, i64 1 acq_rel", I64
        )
        code.jump(f"claim{self.count}")
        code.label(f"done{self.count}")
        done, wait = self._counter(BARRIER_NBYTES // 2), self.slot("wait")
        code.do(f"call void {wait.text}(ptr {done.text}, i64 {parts})")
        self.count += 1
