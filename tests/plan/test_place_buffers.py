"""Plain buffers are placed in the smallest arena, aligned as they ask, and wrong ones are told."""

import csv
import importlib.util
import io
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.errors import InputError
from chainrule.schedule.placement.blocks import Block, unit_of

SIZES, ALIGNMENTS = (0, 1, 2, 3, 5, 8, 12, 16), (1, 1, 2, 3, 4, 6, 8)


@st.composite
def buffers(draw, most=5):
    found = []
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(-2, 3))
        stop = start + draw(st.integers(1, 4))
        nbytes, alignment = draw(st.sampled_from(SIZES)), draw(st.sampled_from(ALIGNMENTS))
        found.append((start, stop, nbytes, alignment))
    return found


def up(offset, alignment):
    return offset + -offset % alignment


def smallest(wanted):
    """Some order, each buffer at the lowest aligned offset that is free, gives the smallest arena:
    one in which no buffer can be moved down."""
    best = None
    for order in permutations([buffer for buffer in wanted if buffer[2]]):
        placed = []
        for start, stop, nbytes, alignment in order:
            beside = [
                (low, low + one[2]) for low, one in placed if one[0] < stop and start < one[1]
            ]
            tried = sorted({0, *(up(end, alignment) for _, end in beside)})
            fits = (o for o in tried if all(o + nbytes <= a or b <= o for a, b in beside))
            placed.append((next(fits), (start, stop, nbytes)))
        reached = max((low + one[2] for low, one in placed), default=0)
        best = reached if best is None else min(best, reached)
    return best


def check(wanted, placement):
    """Buffers in use together share no byte, and lie where they may."""
    ends = []
    for offset, (_, _, nbytes, *alignment) in zip(placement.offsets, wanted, strict=True):
        assert offset >= 0 and offset % (*alignment, 1)[0] == 0
        ends.append(offset + nbytes)
    assert placement.nbytes == max(ends, default=0)
    for (i, one), (j, other) in combinations(enumerate(wanted), 2):
        if one[0] < other[1] and other[0] < one[1] and one[2] and other[2]:
            assert ends[i] <= placement.offsets[j] or ends[j] <= placement.offsets[i]


@given(buffers())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_the_arena_is_proved_to_be_the_smallest(wanted):
    placement = cr.place_buffers(wanted, seconds=60)
    check(wanted, placement)
    assert placement.nbytes == placement.lower_bound == smallest(wanted)
    check(wanted, cr.place_buffers(wanted, seconds=0))


@given(buffers(), st.integers(0, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_capacity_is_met_or_proved_to_be_too_small(wanted, capacity):
    placement = cr.place_buffers(wanted, seconds=60, capacity=capacity)
    check(wanted, placement)
    fits = smallest(wanted) <= capacity
    assert (placement.nbytes <= capacity, placement.lower_bound > capacity) == (fits, not fits)


def test_the_last_moment_is_not_part_of_a_life():
    assert cr.place_buffers([(0, 2, 7), (2, 3, 7)]).nbytes == 7
    assert cr.place_buffers([(0, 3, 7), (2, 3, 7)]).nbytes == 14


def test_sizes_without_an_alignment_are_not_rounded():
    placement = cr.place_buffers([(0, 2, 10), (1, 3, 7), (1, 2, 1)])
    assert (placement.nbytes, placement.lower_bound) == (18, 18)


def test_numbers_of_numpy_and_rows_of_an_array_are_buffers():
    wanted = np.array([[0, 2, 10, 4], [1, 3, 7, 4]])
    check(wanted.tolist(), cr.place_buffers(wanted))
    assert cr.place_buffers(iter(wanted)) == cr.place_buffers(wanted.tolist())


def test_no_buffers_take_no_bytes():
    assert (cr.place_buffers([]).nbytes, cr.place_buffers([(0, 1, 0)]).nbytes) == (0, 0)
    assert cr.place_buffers([(0, 1, 0, 64), (0, 1, 3)]).nbytes == 3


@pytest.mark.parametrize("scale", [1, 1 << 40])
def test_large_numbers_are_counted_exactly(scale):
    wanted = [(0, 3, 3), (1, 4, 5), (2, 6, 7), (5, 8, 9), (0, 8, 1), (3, 7, 2), (6, 9, 4)]
    small = cr.place_buffers(wanted, seconds=60)
    large = cr.place_buffers([(a, b, n * scale) for a, b, n in wanted], seconds=60)
    assert (large.nbytes, large.lower_bound) == (small.nbytes * scale, small.lower_bound * scale)


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        ((0, 1), r"buffer 1 is \(0, 1\)"),
        ((0, 1, 2, 3, 4), r"buffer 1 is \(0, 1, 2, 3, 4\)"),
        ((0, 1, 2.5), r"buffer 1 is \(0, 1, 2.5\)"),
        (7, "buffer 1 is 7"),
        ("abc", "buffer 1 is 'abc'"),
        ((3, 3, 8), "in use from 3 up to 3, which is never"),
        ((0, 1, -8), "it has -8 bytes"),
        ((0, 1, 8, 0), "its offset is to be a multiple of 0"),
    ],
)
def test_what_is_no_buffer_is_told(buffer, said):
    with pytest.raises(InputError, match=rf"{said}[\s\S]*\(start, stop, nbytes"):
        cr.place_buffers([(0, 1, 8), buffer])


def test_more_bytes_than_can_be_counted_are_refused():
    with pytest.raises(InputError, match=r"at most[\s\S]*larger units, such as KiB"):
        cr.place_buffers([(0, 1, 1 << 61), (1, 2, 1 << 61)])


def test_the_unit_divides_what_can_be_an_offset():
    assert unit_of([Block(64, 0, 1), Block(128, 0, 1)]) == 64
    assert unit_of([Block(64, 0, 1, 32), Block(128, 0, 1, 64)]) == 64
    assert unit_of([Block(64, 0, 1, 48), Block(128, 0, 1)]) == 16
    assert unit_of([Block(64, 0, 1, 128)]) == 64
    assert unit_of([Block(0, 0, 1, 7)]) == 0


def test_a_solver_from_elsewhere_agrees():
    pytest.importorskip("ortools.sat.python.cp_model", exc_type=ImportError)
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "cp_sat.py"
    spec = importlib.util.spec_from_file_location("cp_sat", path)
    assert spec is not None and spec.loader is not None
    cp_sat = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cp_sat)
    text = "0,3,2\n5,6,1\n2,5,1\n2,4,2\n1,2,3\n3,6,1\n6,8,2\n4,8,3\n"
    wanted = [tuple(map(int, row)) for row in csv.reader(io.StringIO(text))]
    found, ours = cp_sat.place_by_cp_sat(wanted, seconds=30), cr.place_buffers(wanted, seconds=30)
    assert found.nbytes == found.lower_bound == ours.nbytes == ours.lower_bound == 6
    assert cp_sat.place_by_cp_sat(wanted, seconds=30, capacity=5).lower_bound == 6
