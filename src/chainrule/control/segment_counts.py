"""Chooses how many segments a loop is run again in, and how long they are."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.plan.roles import WORTH_COMPILING

LEAST = WORTH_COMPILING  # iterations of any loop


@dataclass(frozen=True)
class Segments:
    """`count` segments of `length` iterations each, and then `rest` iterations that are kept."""

    count: int
    length: int
    rest: int

    @property
    def states(self) -> int:
        """The number of states that are kept at one time."""
        return self.count + max(self.length, self.rest)

    @property
    def again(self) -> int:
        """The number of iterations that are computed again."""
        return self.count * self.length


def segments(
    iterations: int, states: int, *, even: bool = False, block: int = 0
) -> Segments | None:
    """Those with which at most so many states are kept, and the fewest iterations done again; None
    where there are none.

    With q segments of s iterations and s kept ones, q + s states make (q + 1) s iterations.  None
    of the loops is so short that compiled code would leave it to NumPy, with other bits.  With
    `even` all iterations are in segments.  Segments, and the rest, hold whole blocks of `block`
    iterations, if there are any: in the rest is one of fewer than twice as many.
    """
    found: list[Segments] = []
    for count in range(LEAST, states - LEAST + 1):
        longest = states - count
        for length in range(block, longest + 1, block) if block else ():
            rest = iterations - count * length
            if rest == 0 or (block <= rest <= longest and not even):
                found.append(Segments(count, length, rest))
        if block:
            continue
        rest = 0 if even else min(longest, iterations - count * LEAST)
        length = -(-(iterations - rest) // count)
        rest = iterations - count * length
        if LEAST <= length <= longest and (rest == 0 or (rest >= LEAST and not even)):
            found.append(Segments(count, length, rest))
    return min(found, key=lambda one: one.again, default=None)


def least_states(iterations: int, block: int = 0) -> int:
    """The least states with which so many iterations can be gone back through in segments (of whole
    blocks); all of them where they are too few for segments."""
    numbers = range(2 * LEAST, iterations)
    return next((n for n in numbers if segments(iterations, n, block=block)), iterations)
