"""The units of work of a graph, in the order in which they run.

One unit is a loop nest, a product, or a node that is computed alone.  Units are made while the
order is made: a nest takes in every node that it can compute from what exists when it begins, so
the partition has no cycles by construction.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from math import prod

from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.checks import Checked, checks_of
from chainrule.plan.loops.candidates import Candidates
from chainrule.plan.loops.fuse import LARGEST, SMALL_TOTAL, Nest, is_one_hot
from chainrule.plan.products.fold import Products
from chainrule.plan.roles import (
    FAILING,
    KERNELS,
    Role,
    is_widening,
    needed,
    sources,
    sources_of,
)
from chainrule.primitives.reduce import folded_axes


@dataclass(frozen=True, eq=False)
class Alone:
    """A node that is computed by itself, from its operands: scattered, assembled of regions, by a
    routine, or without a kernel."""

    node: Node
    operands: tuple[Node, ...]


Unit = Nest | Products | Alone


class Ordering:
    """The state of the list scheduler.

    `stored` are transparent nodes that are wanted in memory all the same.  A result that takes a
    given array (`overwrites`) is computed after everything that reads the array, and after all
    that may stop the run: of those that check the same index, the first.  `copied` are the results
    for which that is impossible, so that they need memory of their own.  `unreadable` are
    transparent nodes that must be stored, or those that read them have no kernel.  `factors` are
    read in place of the first operand (`routine_work.factors_of`).
    """

    def __init__(
        self,
        graph: Graph,
        roles: Mapping[Node, Role],
        products: Mapping[Node, Products],
        stored: Collection[Node],
        overwrites: Mapping[Node, Node],
        layouts: Mapping[Node, tuple[int, ...]],
        factors: Mapping[Node, Node],
    ) -> None:
        self.layouts, self.factors = layouts, factors
        self.graph, self.roles, self.products, self.stored = graph, roles, products, stored
        absorbed = {node for one in products.values() for node in one.absorbed}
        given = {node for node in graph.nodes if roles[node] is Role.GIVEN}
        self.done: set[Node] = set(given)
        self.position = {node: place for place, node in enumerate(graph.nodes)}
        self.pending = {
            node: None
            for node in graph.nodes
            if (roles[node] in KERNELS and node not in absorbed) or node in stored
        }
        self.needs: dict[Node, list[Node]] = {}
        self.users: dict[Node, list[Node]] = {}
        self.rereads: set[Node] = set()  # floats that are widened, and what is computed of these
        for node in self.pending:
            self._require(node)
            if self._rereads(node):
                self.rereads.add(node)
        self.taken = {result: given for given, result in overwrites.items()}
        self.updates: dict[Node, list[Node]] = {}
        for result in self.taken:
            for source in self.needs.get(result, ()):
                self.updates.setdefault(source, []).append(result)
        self.first_pending: dict[Node, int] = {}
        self.readers = {
            result: {user for user in self.users.get(given, ()) if user is not result}
            for result, given in self.taken.items()
        }
        self.checked = Checked()
        self.failing = {node: None for node in self.pending if roles[node] in FAILING}
        self.checking: dict[Node, list[Node]] = {}
        for node in self.failing:
            for check in checks_of([node]):
                self.checking.setdefault(check.indices, []).append(node)
        self.copied: list[Node] = []
        self.unreadable: set[Node] = set()
        self.units: list[Unit] = []

    def _require(self, node: Node) -> None:
        products = self.products.get(node)
        if products is None:
            found = sources_of(self._operands(node), self.roles, self.stored)
        else:
            parts = [*(one for one, _ in products.terms)]
            found = [s for one in parts for s in sources(one, self.roles, self.stored)]
            for scalar in products.scalars:
                found += needed(scalar, self.roles, self.stored)
            if products.base is not None:
                found.append(products.base)
        self.needs[node] = list(dict.fromkeys(found))
        for one in self.needs[node]:
            self.users.setdefault(one, []).append(node)

    def _rereads(self, node: Node) -> bool:
        """Whether it is a wider copy, or an elementwise function of wider copies alone."""
        if is_widening(node):
            return True
        arrays = [one for one in self.needs[node] if one.ndim]
        elementwise = self.roles[node] is Role.MAP and node not in self.products
        rounds = node.dtype.itemsize < max([one.dtype.itemsize for one in arrays], default=0)
        return elementwise and not rounds and bool(arrays) and self.rereads.issuperset(arrays)

    def _operands(self, node: Node) -> tuple[Node, ...]:
        """What the node is computed from."""
        if node not in self.factors:
            return node.inputs
        return (self.factors[node], *node.inputs[1:])

    def run(self) -> list[Unit]:
        """All units, in order."""
        self.waiting = {
            node: sum(one not in self.done for one in self.needs[node]) for node in self.pending
        }
        self.ready: list[tuple[int, int]] = []
        self.parked: dict[Node, None] = {}
        blocked: list[Node] = []
        for node, count in self.waiting.items():
            if not count:
                self._offer(node)
        while self.pending:
            if not self.ready and self.parked:  # nobody else can go on
                node = min(self.parked, key=self.position.__getitem__)
                del self.parked[node]
                self._complete(self._unit(node))
                continue
            if not self.ready:
                self._give_up_place(blocked.pop())
                blocked, again = [], blocked
                for node in [*again, *self.copied]:
                    if node in self.pending and not self.waiting[node]:
                        self._offer(node)
                continue
            node = self.graph.nodes[heapq.heappop(self.ready)[1]]
            if node not in self.pending or node in self.parked:
                continue
            if not self._may_overwrite(node, ()):
                blocked.append(node)
                continue
            if not self._leads_on(node) or self._is_early(node):
                self.parked[node] = None
                self._wake(node)
                continue
            self._complete(self._unit(node))
            for one in blocked:
                self._offer(one)
            blocked = []
        return self.units

    def _offer(self, node: Node) -> None:
        update = node in self.taken
        heapq.heappush(self.ready, (0 if update else 1, self.position[node]))

    def _complete(self, members: Iterable[Node]) -> None:
        """These are computed; what waited for them may be ready."""
        for member in members:
            del self.pending[member]
            self.parked.pop(member, None)
            self.done.add(member)
            self._cannot_fail_now(member)
            self._wake(member)
            for user in self.users.get(member, ()):
                self.waiting[user] -= 1
                if not self.waiting[user] and user in self.pending:
                    self._offer(user)

    def _cannot_fail_now(self, node: Node) -> None:
        """The node was computed; nor can others fail that check the same indices."""
        if self.roles[node] not in FAILING:
            return
        self.failing.pop(node, None)
        for check in checks_of([node]):
            if self.checked.by(check) is not None:
                continue
            self.checked.add(check, self.position[node])
            for other in self.checking.get(check.indices, ()):
                covered = all(self.checked.by(one) is not None for one in checks_of([other]))
                if covered and self.roles[other] not in (Role.FOREIGN, Role.ROUTINE):
                    self.failing.pop(other, None)

    def _wake(self, node: Node) -> None:
        """What was parked beside the node may lead on now; what does not stays parked, or two
        that wait for a third would wake each other for ever."""
        for user in self.users.get(node, ()):
            for need in self.needs[user]:
                for other in list(self._parked_below(need)):
                    if other is not node and not self._is_early(other) and self._leads_on(other):
                        del self.parked[other]
                        self._offer(other)

    def _leads_on(self, node: Node) -> bool:
        """Whether somebody who needs the elementwise node could run now, with it in one nest.

        If not, computing it now would only keep an array for later.
        """
        if self.roles[node] is not Role.MAP or node in self.products or node in self.taken:
            return True
        users = self.users.get(node, ())
        if not users:
            return True
        for user in users:
            if user in self.products or self.roles[user] not in (Role.MAP, Role.FOLD):
                return True
            others = (one for one in self.needs[user] if one is not node)
            if all(one in self.done or one in self.parked for one in others):
                return True
        return False

    def _is_early(self, node: Node, members: Container[Node] = ()) -> bool:
        """Whether it is a wider copy for others of which none can run as soon as wider copies are
        made, after a nest with these members: till then, the narrower array is kept."""
        pending = [node] if node in self.rereads else []
        seen = {*pending}
        while pending:
            users = self.users.get(pending.pop(), ())
            if not users:
                return False
            for user in users:
                if user not in self.rereads:
                    if all(self._is_near(one, members) for one in self.needs[user]):
                        return False
                elif user not in seen:
                    seen.add(user)
                    pending.append(user)
        return bool(seen)

    def _is_near(self, node: Node, members: Container[Node]) -> bool:
        """Whether it is computed, or by a few elementwise operations on what is."""
        pending, seen = [node], {node}
        while pending:
            one = pending.pop()
            if one in self.done or one in members:
                continue
            if self.roles[one] is not Role.MAP or one in self.products or len(seen) > LARGEST:
                return False
            pending += [x for x in self.needs[one] if x not in seen]
            seen.update(self.needs[one])
        return True

    def _parked_below(self, node: Node) -> Iterator[Node]:
        """What is parked of a value and the wider copies that it is made of."""
        pending = [node]
        while pending:
            one = pending.pop()
            if one in self.parked:
                yield one
            elif one in self.rereads and one in self.pending:
                pending += self.needs[one]

    def _give_up_place(self, node: Node) -> None:
        """The result cannot wait for all readers of the array it was to take."""
        del self.taken[node], self.readers[node]
        self.copied.append(node)

    def _may_overwrite(self, node: Node, inside: Collection[Node]) -> bool:
        """Whether nothing that is still to run may fail, or reads the array the node takes; who is
        inside the same nest may read it element by element."""
        if node in self.taken and self.failing:
            return False
        return all(
            user not in self.pending or (user in inside and self.roles[user] is not Role.GATHER)
            for user in self.readers.get(node, ())
        )

    def _unit(self, node: Node) -> Iterable[Node]:
        """Make the unit that begins with this node; the nodes that it computes."""
        role = self.roles[node]
        if node in self.products:
            self.units.append(self.products[node])
            return [node]
        if role in (Role.ASSEMBLED, Role.ROUTINE, Role.FOREIGN) or (
            role is Role.SCATTER and not is_one_hot(node)
        ):
            self.units.append(Alone(node, self._operands(node)))
            return [node]
        nest = Nest(*self._domain(node), self.roles, self.done, self.stored, self.layouts)
        if not nest.join(node):
            unreadable = nest.unreadable(node)
            if unreadable is not None:
                self.unreadable.add(unreadable)
            self.units.append(Alone(node, node.inputs))
            return [node]
        self._grow(nest, node)
        self.units.append(nest)
        return nest.members

    def _domain(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows and columns of the nest that begins with this node."""
        if self.roles[node] is not Role.FOLD:
            return node.shape[:-1], node.shape[-1:]
        shape = node.inputs[0].shape
        axes = folded_axes(node)
        kept = len(shape) - len(axes)
        if axes == tuple(range(kept, len(shape))) and (kept or prod(shape) <= SMALL_TOTAL):
            return shape[:kept], shape[kept:]
        if axes == tuple(range(len(shape))):
            return shape, ()
        return shape[:-1], shape[-1:]

    def _grow(self, nest: Nest, seed: Node) -> None:
        """Take in all that is connected with the nest and can be computed in it."""
        candidates = Candidates(self.users, self.position, self.pending, self.first_pending)
        rows = prod(nest.rows)

        def offer_neighbours(node: Node) -> None:
            candidates.offer_users_of_member(node)
            for source in self.needs[node]:
                if source not in nest.members and prod(source.shape) >= rows > 1:
                    candidates.offer_users_of(source, self.updates.get(source, ()))

        offer_neighbours(seed)
        while not nest.is_full and (node := candidates.next()) is not None:
            if node in nest.members or node in self.products:
                continue
            if self._is_early(node, nest.members):
                candidates.refused(node)
                continue
            before, axes = len(nest.members), (nest.rows, nest.columns)
            joined = self._joins(nest, node)
            if (nest.rows, nest.columns) != axes or (not joined and len(nest.members) > before):
                candidates.try_again()
            if joined:
                for member in [*nest.members][before:]:
                    offer_neighbours(member)
            else:
                candidates.refused(node)

    def _joins(self, nest: Nest, node: Node) -> bool:
        """Take the node in, with what it needs and nobody computed so far."""
        missing = [
            one for one in self.needs[node] if one not in self.done and one not in nest.members
        ]
        ready = self.roles[node] in (Role.MAP, Role.FOLD) and all(
            self.roles[one] is Role.MAP and one in self.pending and not self.waiting[one]
            for one in missing
        )
        if missing and not ready:
            return False
        if node in self.taken and not self._may_overwrite(node, {*nest.members, *missing}):
            return False
        for one in missing:
            if one in self.products or one in self.taken or not nest.join(one):
                return False
        return nest.join(node)
