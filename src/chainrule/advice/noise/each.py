"""Makes the graph of a gradient and of the squared norm of every example's gradient.

One graph has both: the objective on the whole batch, with its gradient, and the backward pass of
one example, batched.  What the first has computed for all examples the second reads, so all that is
added are the norms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.advice.noise.holding import Held, bound_node, holding
from chainrule.advice.noise.products import square, terms_of
from chainrule.control.bodies import between
from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.arithmetic import add, divide
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import add_batch_axis, broadcast_to, reshape, transpose
from chainrule.primitives.sources import full_like, input_, is_uniform, size_of
from chainrule.transforms.backward import gradient_name
from chainrule.transforms.batch import batch_nodes
from chainrule.transforms.deduplicate import deduplicate
from chainrule.transforms.jvp import push
from chainrule.transforms.simplify import simplify
from chainrule.transforms.vjp import pull, seed_one


@dataclass(frozen=True)
class Names:
    """What the outputs are called that belong to one parameter.

    `gradient` is the mean over examples; `shift` the part of it that no example changes (that of
    a penalty), None where there is none; `squares` are the squared norms, one for each example, of
    the gradient without that part.  `direction` is an input (see `each_example`).
    """

    gradient: str
    shift: str | None
    squares: str
    direction: str | None


@dataclass(frozen=True)
class EachExample:
    """A graph with the gradients of single examples; `size` is how many there are.

    `slopes`, if asked for, is by how much the objective of each example changes along the
    directions.
    """

    graph: Graph
    objective: str
    size: str
    names: Mapping[str, Names]
    slopes: str | None


def each_example(
    graph: Graph,
    objective: str,
    wrt: Iterable[str],
    size: str,
    *,
    norms: bool = True,
    slopes: bool = False,
) -> EachExample:
    """The graph of the objective, of its gradient, and of what each example has.

    `norms`: the squared norm of each example's gradient by each parameter.  `slopes`: the inner
    product of each example's gradient by all parameters with directions, which are given to the
    graph as further inputs.  All sizes of the graph but `size` are integers.  InputError where the
    objective is no mean over the examples.
    """
    chosen = tuple(wrt)
    target = graph[objective]
    held = holding(graph, target, size)
    parameters = [graph[name] for name in chosen]
    for name, node in zip(chosen, parameters, strict=True):
        if held.of.get(node) is not None and held.of[node].of_examples:
            raise InputError(
                f"{name}: {node.type} has the size of the batch, {size}: it is no parameter",
                where=node.origin.describe(),
                hint="parameters have other sizes than the batch",
            )
    return _Making(held, objective, dict(zip(chosen, parameters, strict=True))).made(norms, slopes)


class _Making:
    def __init__(self, held: Held, objective: str, parameters: Mapping[str, Node]) -> None:
        self.held, self.objective, self.parameters = held, objective, parameters
        self.graph, self.target = held.graph, held.graph[objective]
        self.count = sizes.size(held.size)
        self.forward = topological([self.target])
        self.one = self._one_example()
        self.taken: dict[str, Any] = dict(self.graph.names)

    def _one_example(self) -> dict[Node, Node]:
        """For each node that of one example: itself, where the batch has no part in it."""
        found: dict[Node, Node] = {}
        values = {self.held.size: 1}
        for node in self.forward:
            inputs = tuple([found[one] for one in node.inputs])
            new = bound_node(node, inputs, values)
            same = new.type == node.type and new.params == node.params and inputs == node.inputs
            found[node] = node if same else new
        return found

    def made(self, norms: bool, slopes: bool) -> EachExample:
        """The graph, with what was asked for."""
        inputs, outputs = list(self.graph.inputs), [(self.objective, self.target)]
        wrt = list(self.parameters.values())
        total, _ = pull(self.forward, {self.target: self._seed()}, wrt)
        nodes = [self.one[node] for node in self.forward]
        end = self.one[self.target]
        given = {self.one[node]: self._apart(node, node) for node in self._read()}
        small: dict[Node, Node] = {}
        if norms:
            small, _ = pull(nodes, {end: seed_one(end)}, wrt)
            for node in self._read():
                own = small.get(self.one[node])
                if own is not None and not is_uniform(own) and own.inputs:
                    given.setdefault(own, self._apart(node, total[node]))
        batched = _Batched(given, self.count, self.target.origin.derived("examples", self.target))
        names: dict[str, Names] = {}
        for name, node in self.parameters.items():
            mean = self._mean(total.get(node), node)
            gradient = self._name(gradient_name(self.objective, name))
            outputs.append((gradient, mean))
            shift = squares = ""
            if norms:
                own, rest = batched.parted(small.get(node))
                squares = self._name(f"squares({gradient})")
                outputs.append((squares, batched.value(square(own) if own else None, end)))
                if rest is not None:
                    shift = self._name(f"shift({gradient})")
                    outputs.append((shift, rest))
            names[name] = Names(gradient, shift or None, squares, None)
        along = None
        if slopes:
            moves = {}
            for name, node in self.parameters.items():
                direction = input_(index=len(inputs), type=node.type)
                stamp((direction,), node.origin.derived("jvp", node))
                moves[node] = direction
                called = self._name(f"direction({name})")
                inputs.append(Input(called, direction))
                names[name] = replace(names[name], direction=called)
            tangent = push(nodes, moves).get(end)
            along = self._name(f"slopes({self.objective})")
            outputs.append((along, batched.value(tangent, end)))
        stamp([node for _, node in outputs], self.target.origin.derived("examples", self.target))
        return EachExample(
            self._graph(inputs, outputs), self.objective, self.held.size, names, along
        )

    def _seed(self) -> Any:
        """The cotangent of the objective: so many as there are examples, for gradients of each."""
        seed: Any = size_of(self.count, self.target.type)
        stamp((seed,), self.target.origin.derived("backward", self.target))
        return seed

    def _mean(self, total: Node | None, node: Node) -> Any:
        if total is None:
            return full_like(node, 0)
        count = size_of(self.count, total.type.with_shape(()))
        return divide(total, _spread(count, total))

    def _read(self) -> list[Node]:
        """The values that examples have each for itself, as one example alone would have them."""
        of = self.held.of
        return [x for x in self.forward if of[x].axis is not None and of[x].degree == 0]

    def _apart(self, node: Node, value: Any) -> Any:
        """What `value`, which lies as `node` does, has for each example, along a first axis."""
        axis, shape = self.held.of[node].axis, self.one[node].shape
        assert axis is not None
        own = shape[axis]
        if own != 1 or axis:
            split = (*shape[:axis], self.count, *shape[axis:])
            value = reshape(value, shape=split)
            if axis:
                order = (axis, *[k for k in range(len(split)) if k != axis])
                value = transpose(value, permutation=order)
        else:
            value = reshape(value, shape=(self.count, *shape))
        stamp((value,), node.origin.derived("examples", node))
        return value

    def _name(self, wish: str) -> str:
        name = free_name(wish, self.taken)
        self.taken[name] = None
        return name

    def _graph(self, inputs: list[Input], outputs: list[tuple[str, Any]]) -> Graph:
        names = {name: node for name, node in self.graph.names.items() if node in set(self.forward)}
        names |= {item.name: item.node for item in inputs} | dict(outputs)
        made = self.graph.replace(
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            names=names,
            gradients=(),
            unreached=(),
            result=None,
        )
        made = made.replace(nodes=ordered(made))
        return check(deduplicate(simplify(made)))


class _Batched:
    """Values of one example, for all of them."""

    def __init__(self, given: Mapping[Node, Node], count: int | Size, origin: Origin) -> None:
        self.count, self.origin = count, origin
        self.found: dict[Node, Node] = dict(given)

    def parted(self, node: Node | None) -> tuple[list[Node], Any]:
        """The terms of a value that differ from example to example, and the sum of the others."""
        own: list[Node] = []
        rest: Any = None
        for one in terms_of(node) if node is not None else ():
            if self.reaches(one):
                own.append(one)
            elif not (is_uniform(one) and one.param("value") == 0):
                rest = one if rest is None else add(rest, one)
        return own, rest

    def reaches(self, node: Node) -> bool:
        """Whether examples reach a value."""
        self._walk(node)
        return node in self.found

    def value(self, node: Any, like: Node) -> Any:
        """The number of each example, in the dtype of the objective; zeros of none."""
        if node is None:
            return add_batch_axis(full_like(like, 0), self.count)
        self._walk(node)
        found = self.found.get(node)
        if found is None:
            found = add_batch_axis(node, self.count)
        if found.dtype != like.dtype or found.type.weak:
            found = cast(found, dtype=like.dtype, weak=False)
        return found

    def _walk(self, node: Node) -> None:
        if node not in self.found:
            stamp((node,), self.origin)
            self.found |= batch_nodes(between(self.found, [node]), self.found, self.count)


def _spread(count: Any, like: Any) -> Any:
    return broadcast_to(count, shape=like.type.shape) if like.ndim else count
