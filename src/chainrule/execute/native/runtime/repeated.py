"""One native function called again and again by machine code: the iterations of a loop.

    i64 iterate(ptr loop, i64 count)
    void copy(ptr copies, i64 count)

`loop` is an array of words: the function and its context, and three lists, each as an address and a
length.  Before each call the first list of copies is made, after it the second one; then the
pointers in the third list move on.  A copy is (where the pointer to the source is, where that to
the destination is, bytes, how often, steps of both between two times); a move is (where the pointer
is, its step).  Returns how many calls came to their end: `count`, unless one returned something
other than 0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from chainrule.machine_code.target import Library, compile_object, host_target, load_objects

COPY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
ITERATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)

TEXT = """
declare ptr @memcpy(ptr, ptr, i64)

define void @chainrule_copy(ptr %records, i64 %count) nounwind {
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%after, %copied]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %record = getelementptr [6 x i64], ptr %records, i64 %i
  %source_at = load ptr, ptr %record
  %first = load ptr, ptr %source_at
  %into_at_at = getelementptr i64, ptr %record, i64 1
  %into_at = load ptr, ptr %into_at_at
  %into = load ptr, ptr %into_at
  %nbytes_at = getelementptr i64, ptr %record, i64 2
  %nbytes = load i64, ptr %nbytes_at
  %times_at = getelementptr i64, ptr %record, i64 3
  %times = load i64, ptr %times_at
  %step_at = getelementptr i64, ptr %record, i64 4
  %step = load i64, ptr %step_at
  %into_step_at = getelementptr i64, ptr %record, i64 5
  %into_step = load i64, ptr %into_step_at
  br label %again
again:
  %k = phi i64 [0, %one], [%k_after, %again]
  %from = phi ptr [%first, %one], [%from_after, %again]
  %to = phi ptr [%into, %one], [%to_after, %again]
  %ignored = call ptr @memcpy(ptr %to, ptr %from, i64 %nbytes)
  %from_after = getelementptr i8, ptr %from, i64 %step
  %to_after = getelementptr i8, ptr %to, i64 %into_step
  %k_after = add i64 %k, 1
  %ended = icmp sge i64 %k_after, %times
  br i1 %ended, label %copied, label %again
copied:
  %after = add i64 %i, 1
  br label %next
done:
  ret void
}

define i64 @chainrule_iterate(ptr %loop, i64 %count) nounwind {
entry:
  %function = load ptr, ptr %loop
  %context_at = getelementptr i64, ptr %loop, i64 1
  %context = load ptr, ptr %context_at
  %before_at = getelementptr i64, ptr %loop, i64 2
  %before = load ptr, ptr %before_at
  %befores_at = getelementptr i64, ptr %loop, i64 3
  %befores = load i64, ptr %befores_at
  %after_at = getelementptr i64, ptr %loop, i64 4
  %after = load ptr, ptr %after_at
  %afters_at = getelementptr i64, ptr %loop, i64 5
  %afters = load i64, ptr %afters_at
  %moves_at = getelementptr i64, ptr %loop, i64 6
  %moves = load ptr, ptr %moves_at
  %moving_at = getelementptr i64, ptr %loop, i64 7
  %moving = load i64, ptr %moving_at
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_after, %moved]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %call, label %done
call:
  call void @chainrule_copy(ptr %before, i64 %befores)
  %status = call i64 %function(ptr %context)
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %done, label %called
called:
  call void @chainrule_copy(ptr %after, i64 %afters)
  br label %move
move:
  %k = phi i64 [0, %called], [%k_after, %step]
  %further = icmp slt i64 %k, %moving
  br i1 %further, label %step, label %moved
step:
  %record = getelementptr [2 x i64], ptr %moves, i64 %k
  %cell = load ptr, ptr %record
  %by_at = getelementptr i64, ptr %record, i64 1
  %by = load i64, ptr %by_at
  %now = load ptr, ptr %cell
  %then = getelementptr i8, ptr %now, i64 %by
  store ptr %then, ptr %cell
  %k_after = add i64 %k, 1
  br label %move
moved:
  %i_after = add i64 %i, 1
  br label %next
done:
  ret i64 %i
}
"""

Copy = tuple[int, int, int, int, int, int]
Move = tuple[int, int]


class Repeated:
    """Calls of a function with a context, each after these copies, before those, and then moves."""

    def __init__(
        self,
        function: int,
        context: int,
        before: Sequence[Copy],
        after: Sequence[Copy],
        moves: Sequence[Move],
    ) -> None:
        lists = [_words(list(chain.from_iterable(one))) for one in (before, after, moves)]
        counts = len(before), len(after), len(moves)
        words = [function, context]
        for one, count in zip(lists, counts, strict=True):
            words += [ctypes.addressof(one), count]
        self._words, self._lists = _words(words), lists  # code reads them
        self._iterate = ITERATE(_runtime().address("chainrule_iterate"))

    def __call__(self, count: int) -> int:
        """Call it so often; how many calls came to their end.  Other threads go on meanwhile."""
        return self._iterate(ctypes.addressof(self._words), count)


class Copies:
    """What machine code copies at a call."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._words, self._count = _words(list(chain.from_iterable(copies))), len(copies)
        self._copy = COPY(_runtime().address("chainrule_copy"))

    def __call__(self) -> None:
        self._copy(ctypes.addressof(self._words), self._count)


def _words(words: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(words))(*words)


@lru_cache
def _runtime() -> Library:
    """The code; the cache keeps it.  Compiled at first use, in some milliseconds."""
    target = host_target()
    return load_objects([compile_object(TEXT, target, opt=1)], {})
