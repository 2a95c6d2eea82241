"""Makes the graph that each rank of a group computes on its parts of values, exchanges included.

All ranks compute the same graph on arrays of the same shapes.  Values are followed from the inputs
on: an operation is computed in parts where its operands lie so, by the rules of its kernel, and
what an operation needs in another layout is exchanged before it.  The backward pass is part of the
graph: its exchanges follow in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from chainrule.dataclass import dataclass, field
from chainrule.devices.tensor.collectives import (
    all_gather,
    all_reduce,
    is_collective,
    own_part,
    reduce_scatter,
)
from chainrule.devices.tensor.layouts import PARTIAL, WHOLE, Layout, fits, local_type
from chainrule.devices.tensor.rules import Rule, rules_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import broadcast_to, expanded_axes
from chainrule.primitives.primitive import Contract
from chainrule.primitives.sources import full, input_


@dataclass(frozen=True, eq=False)
class SpreadGraph:
    """The graph of each rank, and how its values lie.

    `layouts` are those of the nodes of the whole graph, `own` those of its own.  `moved_nbytes` are
    about the bytes that a rank sends and receives, `gathered_nbytes` those of them that are no
    sums.
    """

    graph: Graph
    layouts: Mapping[Node, Layout]
    own: Mapping[Node, Layout]
    cut: tuple[tuple[Node, int], ...]  # whole values of which each rank takes its part
    moved_nbytes: int
    gathered_nbytes: int


def spread(
    graph: Graph,
    ways: int,
    among: str,
    given: Mapping[Node, Layout],
    *,
    first: Mapping[Node, Layout] | None = None,
    fixed: Mapping[Node, Layout] | None = None,
    ends: Mapping[Node, Layout] | None = None,
    rules: Callable[[Node], Iterable[Rule]] = rules_of,
) -> SpreadGraph:
    """The graph that each of `ways` ranks computes, of a concrete graph.

    `given` are the layouts of inputs (else whole); those of `first` are exchanged first of all.
    `fixed` are layouts in which nodes are computed, `ends` those in which values are needed at the
    end (outputs are else whole).  By `exact_rules_of` as `rules`, only what has the bits of the
    whole then is computed in parts.
    """
    made = _Spreading(graph, ways, among, given, first or {}, fixed or {}, ends or {}, rules)
    return made.spread()


def local_node(
    node: Node, operands: tuple[Node, ...], result: Layout, ways: int, origin: Origin
) -> Node:
    """The node on operands of local shapes; shapes among its parameters are the result's."""
    type_ = local_type(node.type, result, ways)
    own = {"shape": type_.shape, "type": type_}
    params = tuple((key, own.get(key, value)) for key, value in node.params)
    return Node(node.primitive, operands, params, type_, origin)


@dataclass(eq=False)
class _Spreading:
    graph: Graph
    ways: int
    among: str
    given: Mapping[Node, Layout]
    first: Mapping[Node, Layout]
    fixed: Mapping[Node, Layout]
    ends: Mapping[Node, Layout]
    rules_of: Callable[[Node], Iterable[Rule]]
    made: list[Node] = field(default_factory=list)
    versions: dict[Node, dict[Layout, Node]] = field(default_factory=dict)
    layouts: dict[Node, Layout] = field(default_factory=dict)
    cut: list[tuple[Node, int]] = field(default_factory=list)

    def spread(self) -> SpreadGraph:
        """Follows the values, then puts outputs and names on the new ones."""
        users = Counter(parent for node in self.graph.nodes for parent in node.inputs)
        self.alone = {node for node, count in users.items() if count == 1}
        for node in self.graph.nodes:
            self._place(node)
        self.ends = {**self.fixed, **self.ends}
        for node, layout in self.ends.items():
            self._version(node, layout)
        outputs = tuple((name, self._at_end(node)) for name, node in self.graph.outputs)
        inputs = tuple(
            Input(item.name, self.versions[item.node][self._given(item.node)], item.default)
            for item in self.graph.inputs
        )
        names = {name: self._named(node) for name, node in self.graph.names.items()}
        graph = Graph(self.graph.name, inputs, outputs, tuple(self.made), names)
        moved = [node for node in self.made if is_collective(node)]
        gathered = sum(self._nbytes(node) for node in moved if node.primitive is all_gather)
        total = sum(self._nbytes(node) for node in moved)
        own = {one: at for there in self.versions.values() for at, one in there.items()}
        return SpreadGraph(graph, self.layouts, own, tuple(self.cut), total, gathered)

    def _nbytes(self, node: Node) -> int:
        """About what one rank sends for an exchange."""
        twice = 2 if node.primitive is all_reduce else 1
        large = max(int(node.type.nbytes), int(node.inputs[0].type.nbytes))
        return twice * large * (self.ways - 1) // self.ways

    def _given(self, node: Node) -> Layout:
        return self.given.get(node, WHOLE)

    # One node -------------------------------------------------------------------------------------

    def _place(self, node: Node) -> None:
        if node.primitive is input_:
            layout = self._given(node)
            params = (("index", node.param("index")), ("type", self._type(node, layout)))
            self._put(node, layout, Node(input_, (), params, params[1][1], node.origin))
            if node in self.first:
                self._version(node, self.first[node])
                self.layouts[node] = self.first[node]
            return
        rule = self._chosen(node)
        result = WHOLE if rule is None else rule.result
        operands = tuple(map(self._version, node.inputs, _operands(node, rule)))
        self._put(node, result, local_node(node, operands, result, self.ways, self._origin(node)))

    def _chosen(self, node: Node) -> Rule | None:
        """The rule by which a value is computed: a product in parts, if it can be; else what moves
        the fewest bytes, in parts at a tie."""
        layouts = [self.layouts[one] for one in node.inputs]
        if all(one == WHOLE for one in layouts):
            return None
        wanted = self.fixed.get(node)
        rules = [rule for rule in self.rules_of(node) if self._applies(node, rule, layouts)]

        def cost(rule: Rule | None) -> tuple[bool, bool, int]:
            result = WHOLE if rule is None else rule.result
            nbytes = sum(map(self._cost, node.inputs, _operands(node, rule)))
            if result.partial:
                nbytes += self._moved(node, 2)
            in_parts = rule is not None or not isinstance(node.primitive.kernel, Contract)
            return wanted is not None and result != wanted, not in_parts, nbytes

        return min([*rules, None], key=cost)

    def _applies(self, node: Node, rule: Rule, layouts: list[Layout]) -> bool:
        """Whether one operand lies as the rule wants it, and all can."""
        matches = False
        for one, at, layout in zip(node.inputs, rule.operands, layouts, strict=True):
            if at.partial and (layout != at or one not in self.alone):
                return False
            if not fits(one.type, at, self.ways):
                return False
            matches |= at != WHOLE and at == layout
        return matches and fits(node.type, rule.result, self.ways)

    def _cost(self, node: Node, layout: Layout) -> int:
        """The bytes that move so that a value lies so."""
        there = self.versions[node]
        if layout in there or WHOLE in there:
            return 0
        return self._moved(node, 2 if set(there) == {PARTIAL} and layout == WHOLE else 1)

    def _moved(self, node: Node, times: int) -> int:
        return times * int(node.type.nbytes) * (self.ways - 1) // self.ways

    # New nodes ------------------------------------------------------------------------------------

    def _put(self, node: Node, layout: Layout, made: Node) -> None:
        self.layouts[node] = layout
        self.versions[node] = {layout: made}
        self.made.append(made)

    def _type(self, node: Node, layout: Layout) -> ArrayType:
        return local_type(node.type, layout, self.ways)

    def _origin(self, node: Node) -> Origin:
        old = node.origin
        if old.node is None:
            return old
        source = self._first(old.node) if old.node in self.versions else old.node
        return Origin(old.code, old.lasti, old.scope, old.transform, source)

    def _first(self, node: Node) -> Node:
        return self.versions[node][self.layouts[node]]

    def _version(self, node: Node, layout: Layout) -> Node:
        """The value in this layout, exchanged if it is not there."""
        there = self.versions[node]
        if layout in there:
            return there[layout]
        if node.primitive is full:
            made = local_node(node, (), layout, self.ways, node.origin)
        elif set(there) == {PARTIAL}:  # else the sum is there: no part of one is read twice
            params = {"among": self.among, "ways": self.ways}
            if layout == WHOLE:
                made = all_reduce(there[PARTIAL], **params)
            else:
                made = reduce_scatter(there[PARTIAL], axis=layout.axis, **params)
        elif layout == WHOLE:
            axis = next(at.axis for at in there if at.axis is not None)
            made = all_gather(there[Layout(axis)], axis=axis, ways=self.ways, among=self.among)
        else:
            assert layout.axis is not None, "no value becomes a part of a sum"
            repeated = self._repeated(node, layout.axis)
            if repeated is not None:
                there[layout] = repeated
                self.made.append(repeated)
                return repeated
            self.cut.append((node, layout.axis))
            whole = self._version(node, WHOLE)
            made = own_part(whole, axis=layout.axis, ways=self.ways, among=self.among)
        origin = node.origin
        if origin.node is None:  # made for a value of the forward pass: where that is
            origin = origin.derived("exchange", self._first(node))
        else:
            origin = self._origin(node)
        object.__setattr__(made, "origin", origin)
        there[layout] = made
        self.made.append(made)
        return made

    def _repeated(self, node: Node, axis: int) -> Node | None:
        """This rank's part of what is repeated along an axis: it is repeated less often."""
        if node.primitive is not broadcast_to:
            return None
        (x,) = node.inputs
        if axis not in expanded_axes(x.shape, node.shape) or WHOLE not in self.versions[x]:
            return None
        whole = self.versions[x][WHOLE]
        return local_node(node, (whole,), Layout(axis), self.ways, self._origin(node))

    def _at_end(self, node: Node) -> Node:
        return self._version(node, self.ends.get(node, WHOLE))

    def _named(self, node: Node) -> Node:
        """What a name stands for: not a part of a sum, if the sum is there."""
        if node in self.ends:
            return self._version(node, self.ends[node])
        there = self.versions[node]
        if node.primitive is input_:
            return there[self._given(node)]
        if self.layouts[node].partial:
            sums = [one for layout, one in there.items() if not layout.partial]
            return there.get(WHOLE) or (*sums, there[PARTIAL])[0]
        return self._first(node)


def _operands(node: Node, rule: Rule | None) -> tuple[Layout, ...]:
    return (WHOLE,) * len(node.inputs) if rule is None else rule.operands
