"""Who does what when several threads run a step: parts are claimed, and a barrier waits for all.

What ends at a barrier is some independent parts.  Each thread that comes claims parts, one by one,
until there are none left, and goes on when all are done, whoever did them.  So a thread that is
late, asleep or never scheduled delays nothing but the part that it has claimed, and one thread
alone can do everything.

A thread claims parts of its own first: of n parts and two threads, the first half is the first
thread's, in every instruction.  So it reads most of what it wrote before, from its own cache.  Then
it claims what others have not come to, from the end (decision 0063).

In a loop a barrier comes again in later turns, and a late thread may come to one that others have
passed many turns ago.  So its counters say the turn that they count for, and only grow: they are
turn << TURN_BITS, plus what is claimed or done in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chainrule.execute.native.plan_to_ir.emit import Code, Operand

BARRIER_NBYTES = 128  # the counters of claimed and of done parts, each in a cache line of its own
TURN_BITS = 20  # enough for parts; 2^43 turns are left
I64 = "i64"
INDEX = Operand("%index", I64)  # of the thread; 0 is the one that Python called
TURNS = "%turns"  # where a thread counts the iterations of loops, of which it does some parts

MOST_OWN = 62  # parts of a barrier that comes once: a bit each; else threads take the next one


def _claiming(name: str, more: str, before: str, choice: str) -> str:
    """A function that changes a counter in a turn, by what others have left of it: it gives the
    number of a part, or `parts` where there are so many.

    `choice` makes of what is `%claimed` in the turn whether `%is_there` a part, which `%part`, and
    the `%next` of the counter, which was `%from`.
    """
    return f"""\
define internal i64 @{name}(ptr %counter, i64 %turn, i64 %parts{more}) nounwind {{
entry:
  %first = shl i64 %turn, {TURN_BITS}
{before}  br label %again
again:
  %now = load atomic i64, ptr %counter acquire, align 8
  %is_earlier = icmp slt i64 %now, %first
  %from = select i1 %is_earlier, i64 %first, i64 %now
  %claimed = sub i64 %from, %first
{choice}  br i1 %is_there, label %take, label %none
take:
  %pair = cmpxchg ptr %counter, i64 %now, i64 %next acq_rel acquire
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %mine, label %again
mine:
  ret i64 %part
none:
  ret i64 %parts
}}"""


COUNT = _claiming(  # one part more of a turn; gives the number before
    "count_in_turn",
    "",
    "",
    """\
  %part = add i64 %claimed, 0
  %is_there = icmp slt i64 %claimed, %parts
  %next = add i64 %from, 1
""",
)
CLAIM = _claiming(  # the first part that is left of the thread's own, else the last that is left
    "claim_of_own",
    ", i64 %index, i64 %count",
    """\
  %times = mul i64 %index, %parts
  %begin = udiv i64 %times, %count
  %times_next = add i64 %times, %parts
  %end = udiv i64 %times_next, %count
  %above = shl i64 -1, %begin
  %below = shl i64 1, %end
  %up_to = sub i64 %below, 1
  %own = and i64 %above, %up_to
  %power = shl i64 1, %parts
  %all = sub i64 %power, 1
""",
    # The counter has a bit for each part in place of their number.
    """\
  %taken_parts = and i64 %claimed, %all
  %free = xor i64 %taken_parts, %all
  %is_now = icmp ule i64 %claimed, %all
  %some_free = icmp ne i64 %free, 0
  %is_there = and i1 %is_now, %some_free
  %mine_free = and i64 %free, %own
  %has_own = icmp ne i64 %mine_free, 0
  %from_below = call i64 @llvm.cttz.i64(i64 %mine_free, i1 false)
  %zeros = call i64 @llvm.ctlz.i64(i64 %free, i1 false)
  %from_above = sub i64 63, %zeros
  %part = select i1 %has_own, i64 %from_below, i64 %from_above
  %bit = shl i64 1, %part
  %next = or i64 %from, %bit
""",
)
COUNTS = "declare i64 @llvm.cttz.i64(i64, i1)", "declare i64 @llvm.ctlz.i64(i64, i1)"


class Barriers:
    """Writes the barriers of one function.

    `slot` gives a pointer of the context; `shared` says whether more than one thread comes: if
    there are none.  `first` numbers the barriers of the function, `entry` are the lines at its
    beginning.
    """

    def __init__(
        self,
        code: Code,
        slot: Callable[[str], Operand],
        shared: bool,
        first: int,
        entry: list[str],
    ) -> None:
        self.code, self.slot, self.shared, self.entry = code, slot, shared, entry
        self.count = first
        self._serial_is_open = self._is_for_caller = self._is_alone = False
        self._turn: Operand | None = None

    def serial(self, *, for_caller: bool = False) -> None:
        """What is written next is for whoever comes first, until `end`, `share` or `close`; or for
        the thread that Python called."""
        if self._is_alone:
            return
        if for_caller and not self._is_for_caller:
            self.end()
        if self.shared and not self._serial_is_open:
            self._is_for_caller = for_caller
            self._begin(1)
            self._serial_is_open = True

    def end(self) -> None:
        """What is written next is for all, when everything before it is done."""
        if self._serial_is_open:
            self._end(1)
            self._serial_is_open = self._is_for_caller = False

    def share(self, parts: int, emit: Callable[[Operand], None]) -> None:
        """`emit(part)` for each of the parts, by whoever claims it."""
        self.end()
        part = self._begin(parts)
        emit(part)
        self._end(parts)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What is written meanwhile belongs to a part, and the thread that claimed it does it."""
        self._is_alone = True
        yield
        self._is_alone = False

    def memory(self) -> Operand:
        """Eight bytes for what one thread has to tell all others, 0 at first."""
        found = self._counter(0)
        self.count += 1
        return found

    @property
    def turn(self) -> Operand:
        """The number of the iteration."""
        assert self._turn is not None
        return self._turn

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Around a loop."""
        self.end()
        before = self._turn
        if not any(TURNS in line for line in self.entry):
            self.entry += [f"  {TURNS} = alloca i64", f"  store i64 0, ptr {TURNS}"]
            functions = self.code.module.functions
            if COUNT not in functions:  # of another native function
                functions.append(COUNT)
        yield
        self._turn = before and self.code.load(Operand(TURNS, "ptr"), I64)

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Around what the loop does in an iteration."""
        turns = Operand(TURNS, "ptr")
        self._turn = self.code.binary("add", self.code.load(turns, I64), Operand("1", I64))
        self.code.store(self._turn, turns)
        yield
        self.end()

    def _counter(self, line: int) -> Operand:
        offset = Operand(str(self.count * BARRIER_NBYTES + line), I64)
        return self.code.address(self.slot("barriers"), offset, "i8")

    def _begin(self, parts: int) -> Operand:
        code = self.code
        claimed = self._counter(0)
        code.jump(f"claim{self.count}")
        code.label(f"claim{self.count}")
        claim = f"atomicrmw add ptr {claimed.text}, i64 1 acq_rel"
        turn = "0" if self._turn is None else self._turn.text
        if 1 < parts <= (MOST_OWN if self._turn is None else TURN_BITS):
            for line in COUNTS:
                code.module.declare(line)
            if CLAIM not in code.module.functions:
                code.module.functions.append(CLAIM)
            claim = (
                f"call i64 @claim_of_own(ptr {claimed.text}, i64 {turn}, i64 {parts}, "
                f"i64 {INDEX.text}, i64 %count)"
            )
        elif self._turn is not None:
            claim = f"call i64 @count_in_turn(ptr {claimed.text}, i64 {turn}, i64 {parts})"
        part = INDEX if self._is_for_caller else code.emit(claim, I64)
        here = code.compare("icmp slt", part, Operand(str(parts), I64))
        code.branch(here, f"work{self.count}", f"done{self.count}")
        code.label(f"work{self.count}")
        return part

    def _end(self, parts: int) -> None:
        code, turn = self.code, self._turn
        counter = self._counter(BARRIER_NBYTES // 2).text
        if turn is None:
            code.emit(f"atomicrmw add ptr {counter}, i64 1 acq_rel", I64)
        else:
            code.emit(f"call i64 @count_in_turn(ptr {counter}, i64 {turn.text}, i64 {parts})", I64)
        code.jump(f"{'done' if self._is_for_caller else 'claim'}{self.count}")
        code.label(f"done{self.count}")
        done, wait, target = self._counter(BARRIER_NBYTES // 2), self.slot("wait"), str(parts)
        if turn is not None:
            first = code.binary("shl", turn, Operand(str(TURN_BITS), I64))
            target = code.binary("add", first, Operand(str(parts), I64)).text
        code.do(f"call void {wait.text}(ptr {done.text}, i64 {target})")
        self.count += 1


def share_of(code: Code, units: int, part: Operand, parts: int) -> Operand:
    """The first unit of work of a part, of so many units in so many parts."""
    product = code.binary("mul", part, Operand(str(units), I64))
    return code.binary("udiv", product, Operand(str(parts), I64))
