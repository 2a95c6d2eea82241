"""The free bytes of an arena are those that no holder fills."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.schedule.placement.gaps import Gaps
from chainrule.schedule.records import SCRATCH, Buffer
from chainrule.testing.simulator.occupancy import Occupancy


@dataclass(eq=False)
class Holder:
    buffer: Buffer


BUFFERS = st.builds(Buffer, st.just(SCRATCH), st.integers(0, 30), st.integers(0, 8))


@given(st.lists(st.tuples(BUFFERS, st.booleans())))
@settings(deadline=None, derandomize=True)
def test_a_holder_is_found_by_any_byte_that_it_fills(requests):
    occupancy, byte = Occupancy(), {}
    for buffer, leaves in requests:
        places = range(buffer.offset, buffer.end)
        holders = [byte[place] for place in places if place in byte]
        found = occupancy.overlapping(buffer)
        assert found is (holders[0] if holders else None)
        if found is None:
            holder = Holder(buffer)
            occupancy.add(holder)
            byte |= dict.fromkeys(places, holder)
        elif leaves:
            occupancy.remove(found)
            byte = {place: holder for place, holder in byte.items() if holder is not found}


@given(st.integers(0, 40), st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans())))
@settings(deadline=None, derandomize=True)
def test_gaps_are_the_bytes_that_are_not_taken(nbytes, requests):
    gaps, blocks = Gaps(nbytes), []
    for size, high, leaves in requests:
        low, end = gaps.take(size)
        assert end - low >= size
        start = end - size if high else low
        gaps.give(low, start)
        gaps.give(start + size, end)
        assert all(start + size <= other or stop <= start for other, stop in blocks)
        blocks.append((start, start + size))
        if leaves:
            gaps.give(*blocks.pop(0))
    for block in blocks:
        gaps.give(*block)
    assert gaps.take(gaps.arena_nbytes) == (0, gaps.arena_nbytes) or not gaps.arena_nbytes
