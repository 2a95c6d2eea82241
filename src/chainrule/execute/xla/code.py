"""The compiled code of a graph: one jitted function, shared by all graphs that compute the same."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray, ndarray

from chainrule.execute.free_memory import WORTH_CHECKING
from chainrule.execute.xla.calling_thread import for_caller, is_for_caller
from chainrule.execute.xla.foreign import Foreign, any_foreign
from chainrule.execute.xla.fullest import fullest
from chainrule.execute.xla.jax_here import OPTIONS, jax_here, keeping_barriers, tracing, wide
from chainrule.execute.xla.memory import (
    analysed,
    beside_arguments,
    copied_nbytes,
    device_with_memory,
    refuse_beyond_device,
)
from chainrule.execute.xla.overwriting import after, late_readers
from chainrule.execute.xla.parts import InParts, evaluate
from chainrule.execute.xla.text_of_program import scope_of
from chainrule.execute.xla.tracing import Space
from chainrule.graph.body import inner_nodes
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.checks import checks_of
from chainrule.primitives.movement import broadcast_to, reshape, transpose
from chainrule.primitives.primitive import Given
from chainrule.primitives.sources import constant

if TYPE_CHECKING:
    from chainrule.execute.xla.grid import Grid

REMEMBERED = 64  # codes; those that programs hold stay beside them


class Code:
    """What computes `results` of a graph: a function of the arrays of `given_of` them.

    `inner` are the nodes in bodies.  With `overwritten`, which maps further results to inputs, it
    is a function of two lists, of the arrays of these inputs, which it takes over, and of the
    others; it gives their new values first, or the old ones where it failed.  With `parts`, it is
    computed in these, or the body of a loop is, and some of it again.

    Indices that are given are checked before a call (`is_out_of_range`): code that checks them
    itself must keep what it overwrites until it knows, which costs a pass over all of it.

    On a `grid` of devices each of them computes this on its parts of the arrays.
    """

    def __init__(
        self,
        results: Sequence[Node],
        overwritten: Mapping[Node, Node],
        inner: Sequence[Node],
        grid: Grid | None = None,
        parts: InParts | None = None,
    ) -> None:
        given = given_of(results, overwritten)
        self.foreign = Foreign()
        outlined = array_of if grid is None else grid.array_of
        self.taken = [outlined(one) for one in given]
        self.donated = [outlined(one) for one in overwritten.values()]
        self.sharing = 1 if grid is None else grid.sharing
        self.is_small = False  # no call with these needs a look at the memory
        order = order_of(results, overwritten)
        slots = {node: slot for slot, node in enumerate(given)}
        found = {check: slots.get(same_numbers(check.indices)) for check in checks_of(order)}
        before = {check: slot for check, slot in found.items() if slot is not None}
        self.ranges = {
            (slot, check.low, check.high)
            for check, slot in before.items()
            if int(given[slot].type.size)
        }

        numbers = {node: number for number, node in reversed(list(enumerate([*order, *inner])))}

        def evaluated(values: dict[Node, Any]) -> Any:
            space = Space(self.foreign, before, numbers, parts)
            with tracing():
                if parts is not None and parts.body is None:
                    evaluate(space, parts.parts, values)
                else:
                    space.evaluate(order, values)
                if grid is not None and space.failed is not False:
                    space.failed = grid.anywhere(space.failed)
            return space

        def chosen(space: Space, node: Node, before: Any, after: Any) -> Any:
            with jax_here().named_scope(scope_of(numbers[node])):
                return space.where(space.failed, before, after)

        late = late_readers(order, overwritten)
        by_caller = grid is None and is_for_caller(order)

        def called(values: list[Any]) -> list[Any]:
            return [*map(for_caller, values[:1]), *values[1:]] if by_caller else values

        def computed(*arrays: Any) -> Any:
            values = dict(zip(given, arrays, strict=True))
            space = evaluated(values)
            return called([values[node] for node in results]), _noted(space)

        def updated(donated: Sequence[Any], arrays: Sequence[Any]) -> Any:
            old = dict(zip(overwritten.values(), donated, strict=True))
            values = {**old, **dict(zip(given, arrays, strict=True))}
            space = evaluated(values)
            new = [values[node] for node in overwritten]
            for place, (node, one) in enumerate(overwritten.items()):
                # Within a budget some are not kept.
                readers = [values[x] for x in late.get(node, ()) if x in values]
                new[place] = after(readers, old[one], new[place])
            if space.failed is not False:
                pairs = zip(overwritten, old.values(), new, strict=True)
                new = [chosen(space, *one) for one in pairs]
            return new, called([values[node] for node in results]), _noted(space)

        function: Any = updated if overwritten else computed
        compiled = {**OPTIONS, **keeping_barriers()} if parts is not None else OPTIONS
        options: dict[str, Any] = {"compiler_options": compiled}
        # a call of NumPy may raise, and then they are needed
        self.donates = bool(overwritten) and not any_foreign((*order, *inner))
        if self.donates:
            options["donate_argnums"] = 0
        if grid is None:
            self.jitted = jax_here().jit(function, **options)
        else:
            old = list(overwritten.values())
            self.jitted = grid.jitted(function, (old, given), (old, results), **options)

    @cached_property
    def _compiled(self) -> Any:
        """Compiles, and the first call finds that done."""
        with wide():
            outlines = (self.donated, self.taken) if self.donated else self.taken
            return self.jitted.lower(*outlines).compile()

    @cached_property
    def nbytes(self) -> dict[str, int]:
        """What a call takes, as XLA says; compiles."""
        return analysed(self._compiled)

    @cached_property
    def fullest(self) -> dict[int | None, int]:
        """See `fullest.fullest`; nodes have their numbers in `order_of` the results."""
        return fullest(self.text)

    @property
    def text(self) -> str:
        """XLA's text of the compiled program; compiles."""
        return self._compiled.as_text()

    def refuse_too_much(self, arrays: Iterable[Any]) -> None:
        """MemoryLimitError where the device has no memory for a call with these arguments."""
        if self.is_small:
            return
        copied, times = copied_nbytes(arrays), self.sharing
        nbytes = times * beside_arguments(self.nbytes)
        refuse_beyond_device(copied + nbytes)
        given = sum(one.size * one.dtype.itemsize for one in self.taken)
        self.is_small = device_with_memory() is None and nbytes + given < WORTH_CHECKING

    def is_out_of_range(self, arrays: Sequence[Any]) -> bool:
        """Whether an index among the arrays is out of the range of what it is for."""
        for slot, low, high in self.ranges:
            index = arrays[slot]
            if type(index) is not ndarray:
                index = asarray(index)
            # As quick as it gets where nothing is in caches: a view as unsigned integers, which
            # needs one pass, takes longer than the other pass.
            if index.item(index.argmax()) > high or index.item(index.argmin()) < low:
                return True
        return False


def order_of(results: Sequence[Node], overwritten: Mapping[Node, Node]) -> list[Node]:
    """The nodes that are evaluated, in order."""
    return topological([*overwritten, *results])


def same_numbers(node: Node) -> Node:
    """What has the same numbers as the node, perhaps in other places, and is nearest to what is
    given."""
    while node.primitive in (reshape, transpose, broadcast_to):
        node = node.inputs[0]
    return node


def array_of(node: Node) -> Any:
    """The shape and dtype of a node, as JAX takes them."""
    return jax_here().ShapeDtypeStruct(node.shape, node.dtype)


def _noted(space: Space) -> tuple[Any, ...]:
    return () if space.failed is False else (space.failed,)


def is_given(node: Node) -> bool:
    """Whether nothing computes it: inputs and constants."""
    return isinstance(node.primitive.kernel, Given)


def given_of(results: Sequence[Node], overwritten: Mapping[Node, Node] | None = None) -> list[Node]:
    """The inputs and constants that the results need, but for those that are overwritten."""
    overwritten = overwritten or {}
    taken = set(overwritten.values())
    needed = topological([*overwritten, *results])
    return [one for one in needed if is_given(one) and one not in taken]


def given_value(node: Node, inputs: Mapping[Node, Any]) -> np.ndarray:
    """The value of an input or of a constant, in memory of its own."""
    value = node.param("value").array if node.primitive is constant else inputs[node]
    return np.array(value, node.dtype, order="C")


_codes: OrderedDict[str, Code] = OrderedDict()
_lock = threading.Lock()


def code_of(
    graph: Graph,
    results: Sequence[Node],
    overwritten: Mapping[Node, Node] | None = None,
    grid: Grid | None = None,
    parts: InParts | None = None,
) -> Code:
    """The code for these results of a concrete graph, made when it is first asked for."""
    overwritten = overwritten or {}
    key = _key(graph, results, overwritten, grid, parts)
    with _lock:
        found = _codes.get(key)
        if found is None:
            found = _codes[key] = Code(results, overwritten, tuple(inner_nodes(graph)), grid, parts)
        _codes.move_to_end(key)
        while len(_codes) > REMEMBERED:
            _codes.popitem(last=False)
    return found


def _key(
    graph: Graph,
    results: Sequence[Node],
    overwritten: Mapping[Node, Node],
    grid: Grid | None,
    parts: InParts | None,
) -> str:
    """What determines the code.  Names and the values of constants do not; primitives count by
    identity, since a user may declare two of one name."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    wiring = [[places[parent] for parent in node.inputs] for node in graph.nodes]
    made = [id(node.primitive) for node in (*graph.nodes, *inner_nodes(graph))]
    wanted = [places[node] for node in results]
    pairs = [(places[one], places[other]) for one, other in overwritten.items()]
    text = f"{graph.structural_hash}|{wiring}|{made}|{wanted}|{pairs}|"
    text += "" if parts is None else parts.numbered(graph)
    if grid is not None:
        text += grid.text(places, graph.nodes)
    return hashlib.sha256(text.encode()).hexdigest()
