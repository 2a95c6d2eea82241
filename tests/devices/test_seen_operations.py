"""The timeline of one program follows from what its devices were seen to do."""

from __future__ import annotations

from chainrule.devices.grid import Grid
from chainrule.devices.reports.operations import EVERYWHERE, Seen, from_zero, spans_of
from chainrule.devices.reports.operations import without_waiting as starting_together
from chainrule.devices.reports.spans import ADDING, BACKWARD, UPDATE, WAITING, Operation
from chainrule.devices.reports.timeline_text import longest
from chainrule.devices.tensor.collectives import SHARDS


def seen(rank: int, doing: str, start: float, end: float, among: str = "", name: str = "") -> Seen:
    part = None if doing == UPDATE else 0
    return Seen(Operation(rank, name, doing, part, start, end), start, f"op {doing}", among)


def test_ranks_wait_in_an_exchange_until_all_have_begun_it() -> None:
    """Two shards, the first of which has less to do; the second exchange is there at once."""
    found = from_zero(
        starting_together(
            Grid(1, 1, 2),
            [
                seen(0, BACKWARD, 10, 11),
                seen(0, ADDING, 11, 15, SHARDS, "dJ/dh"),
                seen(0, ADDING, 15, 16, SHARDS, "dJ/dx"),
                seen(0, UPDATE, 16, 17),
                seen(1, BACKWARD, 12, 13),
                seen(1, BACKWARD, 13, 14),
                seen(1, ADDING, 14, 15, SHARDS, "dJ/dh"),
                seen(1, ADDING, 15, 16, SHARDS, "dJ/dx"),
                seen(1, UPDATE, 18, 19),
            ],
        )
    )
    ranks = spans_of(Grid(1, 1, 2), found, 7)
    assert [[(x.doing, x.start, x.end) for x in spans] for spans in ranks] == [
        [(BACKWARD, 0, 1), (WAITING, 1, 4), (ADDING, 4, 6), (UPDATE, 6, 7)],
        [(WAITING, 0, 2), (BACKWARD, 2, 4), (ADDING, 4, 8), (UPDATE, 8, 9)],
    ]
    assert {one.nbytes for spans in ranks for one in spans} == {7}
    rows = longest([one.operation for one in found])[0].splitlines()
    assert [row.split()[0] for row in rows] == ["value", "dJ/dh", "dJ/dx"]
    assert rows[1].split()[-2:] == ["2", "s"]


def test_an_exchange_is_among_the_ranks_of_its_group() -> None:
    """Shards of one replica do not wait for those of the other; what no node stands for is of
    all."""
    begun = {0: 1.0, 1: 2.0, 2: 8.0, 3: 9.0}
    for among, there in ((SHARDS, [2.0, 2.0, 9.0, 9.0]), (EVERYWHERE, [9.0] * 4)):
        one = [seen(rank, ADDING, start, 10, among) for rank, start in begun.items()]
        found = starting_together(Grid(1, 2, 2), one)
        assert [x.operation.start for x in found] == there
        assert [x.begun for x in found] == [*begun.values()]
