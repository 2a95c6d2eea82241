"""Computes the rows of a Jacobian or Hessian in one pass, as a batch of rows of the identity.

Reverse mode seeds the outputs, and every row is the gradient of one element of them.  Forward mode
moves the inputs, and what comes out is a column; of a Hessian a column is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, NotDifferentiableError
from chainrule.frontend.trace import Trace
from chainrule.functional.arguments import Wrt
from chainrule.functional.calls import Call, one_or_all, tidied
from chainrule.functional.identity import count_of, identity_rows
from chainrule.functional.vmap import example
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.origin import Origin
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import add_batch_axis, reshape, slice_, transpose
from chainrule.primitives.sources import full_like
from chainrule.tracing import definition, function_name, output_node
from chainrule.transforms.batch import batch_nodes
from chainrule.transforms.jvp import push
from chainrule.transforms.vjp import pull, summed_seeds

MODES = ("forward", "reverse")


@dataclass(frozen=True)
class Wanted:
    """What is asked for: `mode` None is chosen by the sizes, and is the other one where a function
    has no rule for it; `symmetric` says that the function is a gradient, whose columns are rows."""

    wrt: Wrt = None
    has_aux: bool = False
    mode: str | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, *MODES):
            raise InputError(
                f"mode={self.mode!r} is no mode of differentiation",
                hint='mode="forward", mode="reverse", or none for the one with fewer passes',
            )


@dataclass(frozen=True)
class Layout:
    """How the arrays of one pass are the parts of the whole: one row for each element of `seeded`,
    and in every row something of each of the types `given`.

    `columns` says that such a row is a column of the result.
    """

    seeded: tuple[ArrayType, ...]
    given: tuple[ArrayType, ...]
    columns: bool
    outputs: Structure
    inputs: tuple[Structure, ...]
    wrt: Wrt

    @property
    def count(self) -> int | Size:
        """How many rows there are."""
        return count_of(self.seeded)

    @property
    def width(self) -> int | Size:
        """How many elements a row has."""
        return count_of(self.given)

    @property
    def nbytes(self) -> int | Size:
        """The bytes of the whole result."""
        return self.count * sum((one.nbytes for one in self.given), 0)

    @property
    def starts(self) -> list[int | Size]:
        """The first row of each of the arrays that are seeded."""
        return list(accumulate((one.size for one in self.seeded[:-1]), initial=0))

    def container(self, blocks: Mapping[tuple[int, int], Any]) -> Any:
        """The blocks (array seeded, array given) in containers: of the outputs, in each of whose
        places there are those of the inputs."""
        found = []
        for output in range(len(self.outputs.leaf_names)):
            parts, place = [], 0
            for structure in self.inputs:
                leaves = range(place, place + len(structure.leaf_names))
                pairs = [(leaf, output) if self.columns else (output, leaf) for leaf in leaves]
                parts.append(structure.unflatten([blocks[pair] for pair in pairs]))
                place += len(leaves)
            found.append(one_or_all(self.wrt, parts))
        return self.outputs.unflatten(found)


class Rows:
    """One call of a function in a trace, and its derivative by one row of the identity."""

    def __init__(
        self, building: Trace, function: Callable[..., Any], wanted: Wanted, args: Any, kwargs: Any
    ) -> None:
        call = Call(building, function, args, kwargs, wanted.wrt)
        value, self.aux = call.result if wanted.has_aux else (call.result, None)
        leaves, structure = flatten(value, "value")
        outputs = [
            output_node(building, leaf, name)
            for leaf, name in zip(leaves, structure.leaf_names, strict=True)
        ]
        _need_floats(function, outputs, structure, building)
        inputs = call.wanted
        self.building, self.nodes = building, topological([*outputs, *inputs])
        self.mode, found = self._moved(wanted, outputs, inputs)
        forward = self.mode == "forward"
        seeded, given = (inputs, outputs) if forward else (outputs, inputs)
        zeros = [found[node] if node in found else full_like(node, 0) for node in given]
        new = tidied([*self.nodes, *self.ones, *zeros], self.nodes)
        self.row = [new[node] for node in zeros]
        self.layout = Layout(
            seeded=tuple(node.type for node in seeded),
            given=tuple(node.type for node in given),
            columns=forward and not wanted.symmetric,
            outputs=structure,
            inputs=tuple(structure for _, structure in call.variables),
            wrt=wanted.wrt,
        )

    def _moved(
        self, wanted: Wanted, outputs: list[Node], inputs: list[Node]
    ) -> tuple[str, dict[Node, Node]]:
        """The mode, and one row by it.  Where an operation has a rule for the other mode alone, and
        nobody has asked for this one, it is the other."""
        ways = {"forward": self._pushed, "reverse": self._pulled}
        mode = wanted.mode or ("forward" if wanted.symmetric else _fewer_passes(outputs, inputs))
        try:
            return mode, ways[mode](outputs, inputs)
        except NotDifferentiableError:
            if wanted.mode is not None:
                raise
            other = "reverse" if mode == "forward" else "forward"
            with suppress(NotDifferentiableError):
                return other, ways[other](outputs, inputs)
            raise

    def _pushed(self, outputs: list[Node], inputs: list[Node]) -> dict[Node, Node]:
        self.ones = [example(self.building, node.type) for node in inputs]
        return push(self.nodes, dict(zip(inputs, self.ones, strict=True)), "grad")

    def _pulled(self, outputs: list[Node], inputs: list[Node]) -> dict[Node, Node]:
        self.ones = [example(self.building, node.type) for node in outputs]
        return pull(self.nodes, summed_seeds(outputs, self.ones), inputs, "grad")[0]

    def batch(self, count: int | Size, first: Node | None = None) -> list[Node]:
        """`count` rows from the row `first` on (0 where None): an array for each of `given`."""
        site = self.building.site or Origin()
        seeds = identity_rows(self.layout.seeded, count, first)
        stamp(seeds, site)
        found = batch_nodes(
            topological(self.row),
            dict(zip(self.ones, seeds, strict=True)),
            count,
            lambda node: node.origin,
        )
        results = [found[n] if n in found else add_batch_axis(n, count) for n in self.row]
        stamp(results, site)
        new = tidied([*self.nodes, *results], self.nodes)
        return [new[node] for node in results]

    def blocks(self) -> dict[tuple[int, int], Node]:
        """All rows, taken apart: of shape seeded + given, or given + seeded for columns."""
        layout = self.layout
        found: dict[tuple[int, int], Node] = {}
        for place, rows in enumerate(self.batch(layout.count)):
            own = layout.given[place].shape
            for index, (one, start) in enumerate(zip(layout.seeded, layout.starts, strict=True)):
                part: Any = rows
                if len(layout.seeded) > 1:
                    part = slice_(
                        rows,
                        start=(start, *(0 for _ in own)),
                        step=(1,) * (1 + len(own)),
                        shape=(one.size, *own),
                    )
                shape = (*one.shape, *own)
                if layout.columns:
                    part = transpose(part, permutation=(*range(1, part.ndim), 0))
                    shape = (*own, *one.shape)
                if part.type.shape != shape:
                    part = reshape(part, shape=shape)
                stamp((part,), self.building.site or Origin())
                found[index, place] = part
        return found


def _fewer_passes(outputs: list[Node], inputs: list[Node]) -> str:
    """Reverse mode where there are fewer outputs, or where named sizes leave that open."""
    more = count_of([node.type for node in outputs]) - count_of([node.type for node in inputs])
    return "forward" if sizes.is_nonnegative(more) else "reverse"


def _need_floats(
    function: Callable[..., Any], outputs: list[Node], structure: Structure, building: Trace
) -> None:
    for node, name in zip(outputs, structure.leaf_names, strict=True):
        if not node.type.is_float:
            raise NotDifferentiableError(
                f"{name} of {function_name(function)} is {node.type}: only floating-point results "
                "have a Jacobian",
                where=node.origin.describe() or definition(function),
                hint="return it as aux, (value, aux), and say has_aux=True",
            )
