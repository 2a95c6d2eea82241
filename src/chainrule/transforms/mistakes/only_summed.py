"""Decides whether an objective only computes with a matrix of pairs elementwise and reduces it.

What is known of a value is which of its axes are which axis of the matrix (0 or 1; BOTH where one
axis runs over all pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from chainrule.graph.node import Node
from chainrule.primitives.movement import broadcast_to, reshape, slice_, transpose
from chainrule.primitives.primitive import MOVING, Map
from chainrule.primitives.products import matmul
from chainrule.primitives.reduce import max_, min_, sum_
from chainrule.primitives.sources import is_uniform

BOTH = 2
Axes = dict[int, int]


def only_summed(
    pairs: Node,
    axes: tuple[int, int],
    target: Node,
    users: Mapping[Node, list[Node]],
    needed: Collection[Node],
) -> bool:
    """Whether all that `target` does with `pairs`, a matrix along `axes`, is arithmetic on each,
    then a sum over both axes, or the largest or smallest of all; a product of the matrix with
    itself, r.T @ r, is such a sum."""
    return _Uses(pairs, axes, target, users, needed).are_sums()


class _Uses:
    """The values that are made of the pairs, as far as they still are a matrix or a row of it."""

    def __init__(
        self,
        pairs: Node,
        axes: tuple[int, int],
        target: Node,
        users: Mapping[Node, list[Node]],
        needed: Collection[Node],
    ) -> None:
        self.target, self.users, self.needed = target, users, needed
        self.left: dict[Node, Axes] = {pairs: {axes[0]: 0, axes[1]: 1}}
        self.products: set[Node] = set()  # of the matrix with itself, and what is made of these
        self.extremes: set[Node] = set()
        self.waiting: set[Node] = set()  # products whose other factor is not known yet

    def are_sums(self) -> bool:
        pending = [*self.left]
        while pending:
            node = pending.pop()
            if node is self.target:
                return False  # a target that is no scalar
            for user in self.users.get(node, ()):
                if user not in self.needed or user in self.left:
                    continue
                axes = self._after(user, node)
                if axes is None:
                    return False
                if axes:
                    self.left[user] = axes
                    pending.append(user)
        return not (self.waiting or self._spreads_an_extreme() or self._reads_an_extreme())

    def _after(self, user: Node, node: Node) -> Axes | None:
        """Which axes of the pairs the user still has; None where it does more than arithmetic."""
        axes = self.left[node]
        if user.primitive in (sum_, max_, min_):
            return self._reduced(user, node)
        if user.primitive is matmul:
            return self._multiplied(user)
        if user.primitive is transpose:
            places = enumerate(user.param("permutation"))
            return {place: axes[axis] for place, axis in places if axis in axes}
        if user.primitive is reshape:
            return {0: BOTH} if len(axes) == node.ndim == 2 and user.ndim == 1 else None
        if user.primitive is slice_ and node in self.products:
            first = all(size == 1 for size in user.shape) and not any(user.param("start"))
            return {} if first else None
        if not isinstance(user.primitive.kernel, Map):
            return None
        if any(self.left.get(one, axes) != axes for one in user.inputs):
            return None
        if node in self.products:
            self.products.add(user)
        return axes if all(self._says_nothing(one, axes) for one in user.inputs) else None

    def _reduced(self, user: Node, node: Node) -> Axes | None:
        axes, gone = self.left[node], user.param("axes")
        if user.primitive is not sum_:
            whole = set(axes) <= set(gone) and {*axes.values()} in ({0, 1}, {BOTH})
            self.extremes.add(user)
            return {} if whole else None
        return {
            axis - sum(one < axis for one in gone): label
            for axis, label in axes.items()
            if axis not in gone
        }

    def _multiplied(self, user: Node) -> Axes | None:
        """Of r.T @ r: both factors are made of the pairs, and the same axis of them is summed."""
        left, right = (self.left.get(one) for one in user.inputs)
        if left is None or right is None:
            self.waiting.add(user)
            return {}
        self.waiting.discard(user)
        x, y = user.inputs
        if max(x.ndim, y.ndim) > 2:
            return None
        summed = left.get(x.ndim - 1)
        if summed is None or summed != right.get(0):
            return None
        self.products.add(user)
        found = {0: left[0]} if x.ndim == 2 and 0 in left else {}
        if y.ndim == 2 and 1 in right:
            found[user.ndim - 1] = right[1]
        return found

    def _says_nothing(self, node: Node, axes: Axes) -> bool:
        """Whether an operand is made of the pairs, or is the same along some axis: a true matrix of
        weights says that a matrix is meant."""
        turned = [label for _, label in sorted(axes.items())] == [1, 0]
        pending, seen = [node], set()
        while pending:
            one = pending.pop()
            if one in seen or is_uniform(one) or one.primitive is broadcast_to:
                continue
            seen.add(one)
            if one in self.left:
                if self.left[one] != axes:
                    return False
                continue
            if one.ndim == 0:
                continue
            if not isinstance(one.primitive.kernel, Map) or not one.inputs or turned:
                return False
            pending.extend(one.inputs)
        return True

    def _spreads_an_extreme(self) -> bool:
        """Whether arrays are made of the largest of the pairs: so are they scaled, or a softmax."""
        return any(node.ndim for node in _reached(self.extremes, lambda n: self.users.get(n, ())))

    def _reads_an_extreme(self) -> bool:
        """Whether the pairs meet a largest element, of whatever: as those of another expression."""
        others = [one for node in self.left for one in node.inputs if one not in self.left]
        spread = [one for one in others if one.primitive is broadcast_to]
        elementwise = _reached(spread, lambda n: n.inputs if _keeps_elements(n) else ())
        return any(node.primitive in (max_, min_) for node in elementwise)


def _keeps_elements(node: Node) -> bool:
    return isinstance(node.primitive.kernel, (Map, *MOVING))


def _reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """These nodes, and all that follow them."""
    found: set[Node] = set()
    pending = [*starts]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(following(node))
    return found
