"""Lanes: a frame for each stage of a program that several ranks share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lane of each node of the forward pass, and of its sources: no node reads a later lane.

    `scopes` has a scope for each lane, called by its title; nodes without a lane are computed
    wherever they are read, and `data` are there without a message.
    """

    of: Mapping[Node, int]
    scopes: tuple[Scope, ...]
    data: Collection[Node] = ()

    def lane(self, nodes: tuple[Node, ...]) -> int:
        """The lane of what is drawn as one box."""
        return max((self.of[node] for node in nodes if node in self.of), default=0)

    def crosses(self, reader: Node, read: Node) -> bool:
        """Whether a value is sent to the lane in which it is read."""
        return read in self.of and reader in self.of and self.of[read] != self.of[reader]
