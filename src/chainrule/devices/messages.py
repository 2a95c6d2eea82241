"""The tags of messages, and the types of what is sent: known before anything runs.

A message needs no header: the receiver knows from the programs which array comes, and in which
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.devices.instructions import Key, Program, Send
from chainrule.errors import InputError
from chainrule.graph.types import ArrayType

Lent = Mapping[tuple[int, Key], tuple[int, ...]]

MOST_LENT = 8 * 2**20  # bytes
MOST_TAGS = 32_768  # what each MPI has: MPI 4.1, section 3.2.3


@dataclass(frozen=True, eq=False)
class Messages:
    """The number of each message between two ranks, and the type of each value."""

    tags: Mapping[tuple[int, int, Key], int]
    types: Mapping[int, ArrayType]


def messages(programs: Sequence[Program], types: Mapping[int, ArrayType]) -> Messages:
    """Counts the messages from each rank to each other one, in the order in which they are sent.

    InputError for more than there are tags.
    """
    tags: dict[tuple[int, int, Key], int] = {}
    counts: dict[tuple[int, int], int] = {}
    for program in programs:
        for one in program.instructions:
            if isinstance(one, Send):
                pair = program.rank, one.to
                tags[*pair, one.key] = counts.get(pair, 0)
                counts[pair] = tags[*pair, one.key] + 1
    for (sender, to), count in counts.items():
        if count > MOST_TAGS:
            raise InputError(
                f"rank {sender} sends {count} messages a step to rank {to}, and MPI can tell "
                f"{MOST_TAGS} apart",
                hint="fewer micro_batches",
            )
    return Messages(tags, types)


def computed_there(program: Program, lent: Iterable[tuple[int, Key]]) -> frozenset[Key]:
    """Of what is lent, by rank and key, what this rank may compute where it leaves it: all but its
    results, which outlive the step."""
    return frozenset(key for rank, key in lent if rank == program.rank) - {*program.results}


def lent(programs: Sequence[Program], types: Mapping[int, ArrayType]) -> Lent:
    """What ranks that share memory leave there for others, and do not send: by the rank and the
    key, who reads it.  Nothing of a rank that has more than `MOST_LENT` bytes of it in a step, as
    that stays there from step to step."""
    found: dict[tuple[int, Key], tuple[int, ...]] = {}
    for program in programs:
        own: dict[tuple[int, Key], tuple[int, ...]] = {}
        for one in program.instructions:
            if isinstance(one, Send):
                own[program.rank, one.key] = (*own.get((program.rank, one.key), ()), one.to)
        if sum(int(types[key.value].nbytes) for _, key in own) <= MOST_LENT:
            found |= own
    return found
