"""How ranks are numbered: replica by replica, in each stage by stage, in each shard by shard.

A stage has one part of the model, or several chunks: chunk c of all is on stage c % stages.
"""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass
from chainrule.devices.tensor.collectives import REPLICAS, SHARDS


@dataclass(frozen=True)
class Grid:
    """`replicas` times `stages` times `ways` ranks: rank (r * stages + s) * ways + w is shard w of
    stage s of replica r.  Each stage has `chunks` parts of the model."""

    stages: int
    replicas: int = 1
    ways: int = 1
    chunks: int = 1

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return self.stages * self.replicas * self.ways

    @property
    def all_chunks(self) -> int:
        """Into how many chunks the model is cut: one a stage, or several."""
        return self.stages * self.chunks

    def stage_with(self, chunk: int) -> int:
        """The stage that has a chunk of the model, by its number among all of them."""
        return chunk % self.stages

    def chunks_of(self, stage: int) -> range:
        """The chunks of a stage."""
        return range(stage, self.all_chunks, self.stages)

    def label(self, chunk: int) -> str:
        """`1` for stage 1, `1.0` for its first chunk where it has several."""
        number, stage = divmod(chunk, self.stages)
        return f"{stage}.{number}" if self.chunks > 1 else str(stage)

    def rank(self, replica: int, stage: int, shard: int) -> int:
        """The number of a rank."""
        return (replica * self.stages + stage) * self.ways + shard

    def replica_of(self, rank: int) -> int:
        """Which replica a rank belongs to."""
        return rank // (self.stages * self.ways)

    def stage_of(self, rank: int) -> int:
        """Which stage of its replica a rank belongs to."""
        return rank // self.ways % self.stages

    def shard_of(self, rank: int) -> int:
        """Which shard of its stage a rank is."""
        return rank % self.ways

    def of_stage(self, stage: int) -> list[int]:
        """The ranks of a stage, of all replicas."""
        return [rank for rank in range(self.count) if self.stage_of(rank) == stage]

    def places(self, rank: int) -> Mapping[str, int]:
        """At which place a rank is in each of its groups."""
        return {SHARDS: self.shard_of(rank), REPLICAS: self.replica_of(rank)}

    def size(self, among: str) -> int:
        """How many ranks a group has."""
        return {SHARDS: self.ways, REPLICAS: self.replicas}[among]

    def group(self, rank: int, among: str) -> tuple[int, ...]:
        """The ranks of a group of a rank: the shards of its stage, or those like it of all
        replicas."""
        replica, stage, shard = self.replica_of(rank), self.stage_of(rank), self.shard_of(rank)
        if among == SHARDS:
            return tuple(self.rank(replica, stage, one) for one in range(self.ways))
        return tuple(self.rank(one, stage, shard) for one in range(self.replicas))


def in_words(stages: int, replicas: int, ways: int) -> str:
    """What a split has more than one of: `2 stages, 3 replicas`; "" for one rank."""
    counts = {"stages": stages, "replicas": replicas, "ways": ways}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count > 1)
