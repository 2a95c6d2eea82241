"""The plans that a search has compared, the best first, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chainrule.dataclass import dataclass, field
from chainrule.devices.reports.timeline_text import duration
from chainrule.devices.stages import TIME
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.columns import in_columns
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.words import printable

HEAD = (
    *("", "stages", "replicas", "ways", "micro-batches"),
    *("schedule", "cut by", "predicted", "", "bytes"),
)


@dataclass(frozen=True)
class Candidate:
    """A plan: how a step is split, what it is predicted to take, and its rank with most bytes.

    `is_exact` says whether its programs were made and followed; else both numbers are those of a
    model, as far off as it is for plans that were.
    """

    stages: int
    replicas: int
    micro_batches: int
    schedule: str
    balance: str
    recompute: bool
    ways: int
    shard: bool
    chunks: int
    seconds: float
    nbytes: int
    is_exact: bool

    @property
    def ranks(self) -> int:
        """How many devices it uses."""
        return self.stages * self.replicas * self.ways

    @property
    def words(self) -> str:
        """`2 stages x 2 replicas, 8 micro-batches, 1f1b`."""
        ways = f" x {_count(self.ways, 'way')}" if self.ways > 1 else ""
        parts = [
            f"{_count(self.stages, 'stage')} x {_count(self.replicas, 'replica')}{ways}",
            _count(self.micro_batches, "micro-batch"),
        ]
        if self.stages > 1:
            parts.append(self.schedule)
        if self.chunks > 1:
            parts.append(f"{self.chunks} chunks each")
        if self.balance != TIME:
            parts.append(f"cut by {self.balance}")
        if self.recompute:
            parts.append("recomputing")
        if self.shard:
            parts.append("sharded optimizer")
        return ", ".join(parts)


def _count(number: int, what: str) -> str:
    plural = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number} {what}{plural}"


@dataclass(frozen=True)
class Candidates(ShownByText):
    """What a search has found: `ranked` are the best plans, the one that was chosen first.

    `compared` is how many there were; `too_large` of them do not fit into the memory of their
    devices.  `unequal` says that replicas, or shards, of the first one have devices that differ in
    speed.
    """

    name: str
    sizes: Mapping[str, int]
    devices: int
    ranked: tuple[Candidate, ...] = field(repr=False)
    compared: int
    too_large: int
    unequal: bool = False

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.ranked)

    def __len__(self) -> int:
        return len(self.ranked)

    def __getitem__(self, at: int) -> Candidate:
        return self.ranked[at]

    def why(self) -> str:
        """Why the first plan was chosen, in a sentence."""
        first, *others = self.ranked
        words = f"The plan is {first.words}: {duration(first.seconds)} a step is predicted"
        if self.too_large:
            words += f"; {self.too_large} of {self.compared} plans do not fit"
        if self.unequal:
            words += "; its devices differ in speed, and ranks that share work wait for the slowest"
        if not others:
            return f"{words}; no other plan was left"
        second = others[0]
        return (
            f"{words}; the next best, {second.words}, would take {duration(second.seconds)}, "
            f"{_more(first.seconds, second.seconds)}"
        )

    def __str__(self) -> str:
        sizes = ", ".join(f"{printable(name)} = {size}" for name, size in self.sizes.items())
        plural = "s" if self.devices > 1 else ""
        large = f", of which {self.too_large} do not fit" if self.too_large else ""
        rows = list[tuple[str, ...]]()
        for number, one in enumerate(self.ranked, 1):
            about = "" if one.is_exact else "about "
            rows.append(
                (
                    str(number),
                    str(one.stages),
                    str(one.replicas),
                    str(one.ways),
                    str(one.micro_batches),
                    _order(one),
                    one.balance if one.stages > 1 else "-",
                    about + duration(one.seconds),
                    _more(self.ranked[0].seconds, one.seconds) if number > 1 else "",
                    about + in_bytes(one.nbytes),
                )
            )
        return "\n".join(
            [
                f"{printable(self.name)} on {self.devices} device{plural}, "
                f"{sizes or 'all sizes fixed'}: {self.compared} plans{large}",
                "",
                *in_columns([HEAD, *rows], (0, 1, 2, 3, 4, 7, 8, 9)),
            ]
        )


def _order(one: Candidate) -> str:
    """The schedule in the table."""
    words = [one.schedule] if one.stages > 1 or one.recompute else []
    words += [f"{one.chunks} chunks"] if one.chunks > 1 else []
    words += ["recomputing"] if one.recompute else []
    words += ["sharded"] if one.shard else []
    return ", ".join(words) or "-"


def _more(least: float, seconds: float) -> str:
    return f"{100 * (seconds / least - 1):+.0f} %" if least else ""
