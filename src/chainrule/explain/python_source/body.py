"""Writes the statements of the function: decides what gets a variable and what is inlined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chainrule.explain.python_source.identifiers import Identifiers
from chainrule.explain.python_source.layout import in_c_order, multiplied
from chainrule.explain.python_source.numbers import (
    constant_text,
    float_text,
    number_text,
    size_text,
)
from chainrule.explain.python_source.operands import Expression, Operand, Operands
from chainrule.explain.reading.statements import Reading, Statement
from chainrule.graph.node import Node, topological
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.arithmetic import identity, stop_gradient
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape, slice_, transpose
from chainrule.primitives.notation import ATOM, PREFIX
from chainrule.primitives.primitive import MOVING, Contract, Fold, Map
from chainrule.primitives.python import Written, dtype_text, shape_text
from chainrule.primitives.sources import constant, full, input_, size_value

LONGEST = 80  # columns of an expression and the name that it is given
DEEPEST = 4  # brackets within brackets
VIEWS = (transpose, slice_, broadcast_to, stop_gradient, identity, full, size_value)


@dataclass
class Block:
    """The lines that compute one named value (None for what has no name)."""

    statement: Statement | None
    value: Node
    lines: list[str] = field(default_factory=list)


class Body:
    """The statements of a graph's function, made one after another.

    `blocks` are the lines, `sizes` the named sizes they use, `helpers` the functions (source by
    name), `constants` those that the function is given.
    """

    def __init__(self, reading: Reading, identifiers: Identifiers, size_names: Mapping[str, str]):
        graph = reading.graph
        self.reading, self.identifiers, self._size_names = reading, identifiers, size_names
        self.needed = set(topological(node for _, node in graph.outputs))
        self._order = [node for node in graph.nodes if node in self.needed]
        self._in_c_order = in_c_order(self._order)
        self._outputs = {node for _, node in graph.outputs}
        self._named = {node for node in graph.nodes if node in reading.names}
        self._multiplied = multiplied(self._order)
        self._readers = self._count_readers()
        keeping = {node for node in self._order if self._keeps_axes(node)}
        self._joined = {node.inputs[0] for node in keeping}
        self._uses = self._count_uses()
        self._expressions: dict[Node, Expression] = {}
        self._operands = Operands(self._named | keeping, self._expression, self._spell)
        self._done: set[str] = set()
        self._lines: list[str] = []
        self.sizes: set[str] = set()
        self.helpers: dict[str, str] = {}
        self.constants: dict[str, Node] = {}
        self.blocks: list[Block] = []
        self.results = self._write()

    # What a spelling may ask ---------------------------------------------------------------------

    def size(self, size: int | Size) -> str:
        """A size as text; its names are remembered."""
        self.sizes |= sizes.names(size)
        return size_text(size, self._size_names)

    def helper(self, source: str) -> str:
        """The name of a function that the source then defines."""
        if source not in self.helpers:
            own = source.strip().partition("def ")[2].partition("(")[0]
            name = self.identifiers.add(source, own)
            self.helpers[source] = source.replace(f"def {own}(", f"def {name}(", 1)
        return self.identifiers[source]

    # How often a value is read -------------------------------------------------------------------

    def _count_readers(self) -> dict[Node, int]:
        found = dict.fromkeys(self._order, 0)
        for node in self._order:
            for parent in node.inputs:
                found[parent] += 1
        for node in self._outputs:
            found[node] += 1
        return found

    def _keeps_axes(self, node: Node) -> bool:
        """Whether the node is a reshape that puts back the axes which its operand summed away."""
        if node.primitive is not reshape:
            return False
        inner = node.inputs[0]
        if not isinstance(inner.primitive.kernel, Fold) or "axes" not in dict(inner.params):
            return False
        if inner in self._named or self._readers[inner] > 1:
            return False
        if inner.inputs[0] not in self._in_c_order and node in self._multiplied:
            return False  # the new axes have other strides, which matrix products look at
        shape, axes = inner.inputs[0].shape, inner.param("axes")
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        return bool(axes) and node.shape == kept

    def _is_free(self, node: Node) -> bool:
        """Whether an unnamed node costs nothing, so that each use can have it inside."""
        if node in self._named or node.primitive in (input_, constant):
            return False
        if node.primitive is reshape:
            return node.inputs[0] in self._in_c_order and not self._keeps_axes(node)
        return node.primitive in VIEWS or (node.primitive is cast and not node.ndim)

    def _count_uses(self) -> dict[Node, int]:
        """How often each node is written; what free nodes are made of counts for each of theirs."""
        found = dict.fromkeys(self._order, 0)
        for node in self._outputs:
            found[node] += 1
        for node in reversed(self._order):
            times = min(found[node], 2) if self._is_free(node) else 1
            for parent in node.inputs:
                found[parent] += times
        return found

    # Statements ----------------------------------------------------------------------------------

    def _write(self) -> list[str]:
        shared: list[Node] = []  # inside of values that nobody needs, and needed by others
        for statement in self.reading.statements:
            if statement.value in self.needed:
                self._write_block(statement, (*shared, *statement.nodes), statement.value)
                shared = []
            else:
                shared += [node for node in statement.inside if node in self.needed]
        for node in self._order:
            if node not in self._expressions:
                self._write_block(None, (node,), node)
        self._lines = []
        results = [self._operands.whole(node).text for _, node in self.reading.graph.outputs]
        if self._lines:
            self.blocks.append(Block(None, self.reading.graph.outputs[0][1], self._lines))
        return results

    def _write_block(self, statement: Statement | None, nodes: tuple[Node, ...], value: Node):
        self._lines = []
        for node in nodes:
            if node in self.needed and node not in self._expressions:
                self._visit(node)
        if self._lines:
            self.blocks.append(Block(statement, value, self._lines))

    def _visit(self, node: Node) -> None:
        if node in self._joined or node.primitive in (input_, constant):
            return
        if node not in self._named and node.primitive in (full, size_value, broadcast_to):
            return
        expression = self._express(node)
        self._expressions[node] = expression
        if node in self._named or (self._uses[node] > 1 and not self._is_free(node)):
            self._assign(node)

    def _expression(self, node: Node) -> Expression:
        found = self._expressions.get(node)
        if found is None:
            found = self._expressions[node] = self._given(node)
        return found

    def _given(self, node: Node) -> Expression:
        """An input or a constant, where it is used first."""
        is_number = node.type.weak and node.type.is_float
        if node.primitive is constant:
            array = node.param("value").array
            text = float_text(array.item(), node.dtype) if is_number else constant_text(array)
            if text and self._uses[node] == 1 and node not in self._named and len(text) <= 40:
                return Expression(Written(text, PREFIX if text[0] == "-" else ATOM), is_number)
            if node not in self.identifiers:
                self.identifiers.add(node, self.reading.sources.get(node) or "constant")
            name = self.identifiers[node]
            if text is None:
                self.constants[name] = node
            else:
                self._lines.append(f"{name} = {text}")
        return Expression(Written(self.identifiers[node]), is_number)

    def _assign(self, node: Node) -> None:
        """Give the node a variable, from here on."""
        expression = self._expressions[node]
        if node not in self.identifiers:
            spelling = self._source(node).primitive.python
            self.identifiers.add(node, spelling.noun if spelling is not None else "", "t")
        name = self.identifiers[node]
        self._lines.append(f"{name} = {expression.written.text}")
        self._expressions[node] = Expression(Written(name), expression.is_number)

    # Expressions ---------------------------------------------------------------------------------

    def _express(self, node: Node) -> Expression:
        if node.primitive is full and node.ndim and self._readers[node] == (node in self._outputs):
            return Expression(self._filled(node))
        room = LONGEST - len(self.identifiers[node] if node in self.identifiers else "product_1")
        while True:
            operands, shown, is_number = self._operands.of(self._source(node))
            written = self._spell(node, shown)
            spilled = self._to_spill(node, operands, written, room)
            if spilled is None:
                break
            self._assign(spilled)
        for check in written.before:
            if check not in self._done:
                self._done.add(check)
                self._lines.append(check)
        return Expression(Written(written.text, written.binding), is_number)

    def _source(self, node: Node) -> Node:
        """The node whose operands are written: a reduction, where the node keeps its axes."""
        return node.inputs[0] if self._keeps_axes(node) else node

    def _spell(self, node: Node, operands: list[Written]) -> Written:
        spelling = self._source(node).primitive.python
        assert spelling is not None, node.primitive.name
        if not self._keeps_axes(node):
            return spelling.write(node, self, operands)
        text = spelling.write(node.inputs[0], self, operands).text.removesuffix(")")
        return Written(f"{text}{'' if text.endswith('(') else ', '}keepdims=True)")

    def _filled(self, node: Node) -> Written:
        """A uniform array that nothing reads but the caller: in memory of its own."""
        dtype, shape = dtype_text(node.dtype), shape_text(self, node.shape)
        value = number_text(node.param("value"), node.dtype)
        if value in ("0", "1"):
            return Written(f"np.{'zeros' if value == '0' else 'ones'}({shape}, {dtype})")
        return Written(f"np.full({shape}, {value}, {dtype})")

    def _to_spill(
        self, node: Node, operands: list[Operand], written: Written, room: int
    ) -> Node | None:
        """The operand that needs a variable first, or None."""
        compound = [one for one in operands if one.node is not None and self._is_compound(one.node)]
        if not compound:
            return None
        if len(written.text) > room or _depth(written.text) > DEEPEST:
            return max(compound, key=lambda one: len(one.weak.text)).node
        for one in compound:
            if any(one.weak.text in check for check in written.before):
                return one.node
        if not isinstance(node.primitive.kernel, Map) or written.binding == ATOM:
            return None
        if sum(bool(one.shape) for one in operands) > 1:
            for one in compound:
                inner = one.node if one.shape == node.shape else None
                if inner is not None and self._may_be_written_into(inner):
                    return inner
        return None

    def _may_be_written_into(self, node: Node) -> bool:
        """Whether NumPy may reuse the value's memory for a result that is then in its order."""
        is_view = isinstance(node.primitive.kernel, (*MOVING, Contract))
        return not is_view and node not in self._in_c_order

    def _is_compound(self, node: Node) -> bool:
        return not self._expression(node).written.text.isidentifier()


def _depth(text: str) -> int:
    """How deep the brackets are nested."""
    deepest = depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        deepest = max(deepest, depth)
    return deepest
