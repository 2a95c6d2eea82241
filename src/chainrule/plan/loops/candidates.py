"""Which nodes a growing nest may take in next: users of its members, and of what these read.

They come in the order of the graph.  A value that thousands read is gone through lazily, and only
as far as the nest grows; so that all nests together take about as long as the graph is large.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping, Sequence

from chainrule.graph.node import Node


class Candidates:
    """The nodes that were offered to one nest and not yet tried, the first of the graph first.

    `users` are in the order of the graph (`position`); only those that are `pending` are offered.
    `first_pending` says from where on the users of a value are worth looking at; it is kept up to
    date here, for later nests.
    """

    def __init__(
        self,
        users: Mapping[Node, Sequence[Node]],
        position: Mapping[Node, int],
        pending: Container[Node],
        first_pending: dict[Node, int],
    ) -> None:
        self._users, self._position, self._pending = users, position, pending
        self._first_pending = first_pending
        # What comes next of each list: its position, a number of the list, the list, a place in it.
        self._heap: list[tuple[int, int, Sequence[Node], int]] = []
        self._lists = 0
        self._age = 0
        self._refused: dict[Node, int] = {}  # at what age
        self._offered: dict[Node, int] = {}

    def offer_users_of_member(self, member: Node) -> None:
        """A node that needs the new member may be possible now, even if it was refused before."""
        users = self._users.get(member, ())
        for user in users:
            self._refused.pop(user, None)
        self._add(users, 0)

    def offer_users_of(self, source: Node, always: Sequence[Node]) -> None:
        """The users of a value that the nest reads.

        Offered again, they would be refused again, but for those of `always`.
        """
        for user in always:
            self._refused.pop(user, None)
        if self._offered.get(source) == self._age:
            self._add(always, 0)
            return
        self._offered[source] = self._age
        users = self._users.get(source, ())
        start = self._first_pending.get(source, 0)
        while start < len(users) and users[start] not in self._pending:
            start += 1
        self._first_pending[source] = start
        self._add(users, start)

    def next(self) -> Node | None:
        """The next node to be tried; None if none is left."""
        while self._heap:
            _, _, users, place = heapq.heappop(self._heap)
            self._add(users, place + 1)
            node = users[place]
            if self._refused.get(node) != self._age:
                return node
        return None

    def refused(self, node: Node) -> None:
        """The nest cannot take the node in, as it is now."""
        self._refused[node] = self._age

    def try_again(self) -> None:
        """The nest has changed so that what was refused may be possible, where it is offered."""
        self._age += 1

    def _add(self, users: Sequence[Node], place: int) -> None:
        while place < len(users) and users[place] not in self._pending:
            place += 1
        if place < len(users):
            self._lists += 1
            entry = (self._position[users[place]], self._lists, users, place)
            heapq.heappush(self._heap, entry)
