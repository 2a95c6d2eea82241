"""A model of products that several devices share: along which axis each value is split.

As Megatron-LM does (Shoeybi et al., 2019): a product of a whole value with a parameter is split by
columns; values that follow stay split as long as each operation allows; a product whose operands
are both split along what it sums over (a parameter by rows) gives parts of a sum, which are added
up over the devices.  Going back, so is the gradient of each whole value that was read by columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from chainrule.dataclass import dataclass
from chainrule.devices.tensor.rules import rules_of as tensor_rules
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Contract, Fold, Gather
from chainrule.primitives.reduce import sum_

PARTIAL = -1  # parts of a sum, or of another reduction
Rule = tuple[tuple[int | None, ...], int]  # along which axes operands are split; the result


@dataclass(frozen=True)
class Spread:
    """How `ways` devices share some nodes.

    `axes` has the axis along which each split value or parameter is split; all others are whole on
    each device.  The work of `shared` nodes is shared out.  `forward_nbytes` are the values that
    are added up or gathered in the forward pass, `backward_nbytes` in the backward pass.
    """

    ways: int
    axes: dict[Node, int]
    shared: frozenset[Node]
    forward_nbytes: tuple[int, ...]
    backward_nbytes: tuple[int, ...]

    def nbytes(self, node: Node) -> int:
        """The bytes of a value or parameter on each device."""
        whole = int(node.type.nbytes)
        return whole // self.ways if node in self.axes else whole


def spread(nodes: Sequence[Node], parameters: Collection[Node], leaving: Node, ways: int) -> Spread:
    """How devices share the nodes of a forward pass, what comes from outside being whole, and
    `leaving` becoming so."""
    axes: dict[Node, int] = {}
    shared: set[Node] = set()
    added: list[int] = []
    columns: dict[Node, None] = {}
    trained = set(parameters)
    for node in nodes if ways > 1 else ():
        rule = _chosen(node, axes, trained, ways)
        if rule is None:
            for one in node.inputs:  # each device needs all of it
                if one in axes and one not in trained:
                    added.append(int(one.type.nbytes))
                    del axes[one]
            continue
        operands, result = rule
        shared.add(node)
        for one, axis in zip(node.inputs, operands, strict=True):
            if one in trained and axis is not None:
                axes[one] = axis
            elif axis is None and isinstance(node.primitive.kernel, Contract):
                columns[one] = None
        if result == PARTIAL:
            added.append(int(node.type.nbytes))
        else:
            axes[node] = result
    if leaving in axes:
        added.append(int(leaving.type.nbytes))
    back = tuple(int(one.type.nbytes) for one in columns if one not in trained)
    return Spread(ways, axes, frozenset(shared), tuple(added), back)


def _chosen(node: Node, axes: dict[Node, int], trained: set[Node], ways: int) -> Rule | None:
    """The rule that fits how the operands lie; whole ones may be split for it, and a parameter
    is, if nobody has split it."""
    is_split = any(one in axes for one in node.inputs)
    splits = [
        one for one in node.inputs if one in trained and isinstance(node.primitive.kernel, Contract)
    ]
    table = isinstance(node.primitive.kernel, Gather) and node.inputs[0] in trained
    if not (is_split or splits or table):
        return None
    fitting = []
    for operands, result in rules_of(node):
        pairs = list(zip(node.inputs, operands, strict=True))
        fits = all(axis is None or one.shape[axis] % ways == 0 for one, axis in pairs)
        fits = fits and all(axes[one] == axis for one, axis in pairs if one in axes)
        fits = fits and (result == PARTIAL or node.shape[result] % ways == 0)
        if fits and not is_split:  # by the columns of a parameter, or the rows of a table
            wanted = PARTIAL if table else node.ndim - 1
            at = 0 if table else next(at for at, one in enumerate(node.inputs) if one in splits)
            fits = result == wanted and operands[at] is not None
        if fits:
            fitting.append((operands, result))
    # No more is added up than must be.
    return min(fitting, key=lambda rule: (rule[1] == PARTIAL, rule[1]), default=None)


def rules_of(node: Node) -> Iterator[Rule]:
    """In which ways operands may be split, and how the result then lies.

    Beside the rules by which ranks compute: a maximum over parts is the largest of the parts', and
    a row of a table is with the device that has it.
    """
    for rule in tensor_rules(node):
        if not any(one.partial for one in rule.operands):
            result = rule.result.axis
            yield tuple(one.axis for one in rule.operands), PARTIAL if result is None else result
    match node.primitive.kernel:
        case Fold() if node.primitive is not sum_:
            params = dict(node.params)
            reduced = params["axes"] if "axes" in params else (params["axis"],)
            yield from (((axis,), PARTIAL) for axis in reduced)
        case Gather(adds=False):
            count = len(node.inputs) - 1
            yield from (((axis, *(None,) * count), PARTIAL) for axis in range(count))
