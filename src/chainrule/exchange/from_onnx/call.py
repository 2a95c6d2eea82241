"""A `Call` is one node of an ONNX file, as the function of its operator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import ChainruleError, UnsupportedError
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.node import topological
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.sizes.sizes import names as names_of
from chainrule.numpy.statistics import size_value
from chainrule.primitives.sources import input_
from chainrule.primitives.sources import size_value as size_value_

SMALL = 1 << 16  # elements up to which arrays are computed while a file is read


class Call:
    """One node: its operator, its attributes, and the names of what it reads and makes.

    `version` is that of the operator set which the file says, `number` the node's place in it,
    `note` what its author says of it.
    """

    def __init__(
        self,
        operator: str,
        domain: str,
        name: str,
        attributes: dict[str, Any],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
    ) -> None:
        self.operator, self.domain, self.name = operator, domain, name
        self.attributes, self.inputs, self.outputs = attributes, inputs, outputs
        self.scope, self.number, self.version, self.note = "", 1, 0, ""
        self.trace: Trace | None = None
        self.bodies: Any = None  # runs a graph that is an attribute: `Bodies`

    @property
    def shown(self) -> str:
        """The operator and the node's own name, for messages."""
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.operator}" + (f" ({self.name})" if self.name else "")

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        """An UnsupportedError about this node."""
        raise UnsupportedError(f"{self.operator}: {what}", hint=hint)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Errors within, which are caught to do the same in another way, say nothing of the
        program that is traced."""
        noted = self.trace.refused if self.trace is not None else []
        count = len(noted)
        try:
            yield
        except ChainruleError:
            del noted[count:]
            raise

    def axis(self, axis: int, ndim: int) -> int:
        """An axis counted from the front; refused where there is none such."""
        if not -ndim <= axis < max(ndim, 1):
            self.refuse(f"axis {axis} of an array of {ndim} axes")
        return axis % max(ndim, 1)

    # Values ------------------------------------------------------------------------------------

    def known(self, value: Any, what: str) -> np.ndarray:
        """The numbers of an operand; refused where they depend on what a run is given."""
        if isinstance(value, np.ndarray):
            return value
        sources, sizes = _inputs_of(value), _sizes_of(value)
        if not sources:
            self.refuse(
                f"its {what} must be known when the file is read, but depends on the size "
                f"{', '.join(sizes)}",
                f"give it a number: cr.from_onnx(path, sizes={{{sizes[0]!r}: ...}})"
                if sizes
                else "",
            )
        given = ", ".join(f"{name!r}: ..." for name in sources)
        self.refuse(
            f"its {what} must be known when the file is read, but is computed from the "
            f"input {', '.join(sources)}",
            f"fix it: cr.from_onnx(path, values={{{given}}})",
        )

    def integers(self, value: Any, what: str) -> tuple[Any, ...]:
        """Integers and sizes of an operand that must be known."""
        found = self.known(value, what)
        if found.dtype != object and found.dtype.kind not in "iub":
            self.refuse(f"its {what} are {found.dtype}, no integers")
        return tuple(one if isinstance(one, Size) else int(one) for one in found.ravel().tolist())

    def integer(self, value: Any, what: str) -> Any:
        """One of them."""
        found = self.integers(value, what)
        if len(found) != 1:
            self.refuse(f"its {what} has {len(found)} numbers instead of one")
        return found[0]

    def one_float(self, value: Any, what: str) -> float:
        """One known number as a float."""
        found = self.known(value, what)
        if found.size != 1 or found.dtype == object:
            self.refuse(f"its {what} is no single number")
        return float(found.ravel()[0])

    def traced(self, value: Any) -> Any:
        """A value of the graph: of a known array a constant; sizes become values."""
        if isinstance(value, Traced):
            return value
        if value.dtype == object:
            like = self.traced(np.array(0, np.int64))
            parts = [
                np.asarray(one)
                if not isinstance(one, Size)
                else size_value(one, like).astype(np.int64)
                for one in value.ravel().tolist()
            ]
            whole = [one if isinstance(one, Traced) else like + one for one in parts]
            return np.reshape(np.stack(whole), value.shape)
        assert self.trace is not None
        return Traced(self.trace.constant(value), self.trace)

    def positions(self, count: Any) -> Any:
        """0, 1, ..., count - 1; known if they are few."""
        if isinstance(count, int) and count <= SMALL:
            return np.arange(count)
        shape: Any = (count,)
        return np.cumsum(np.broadcast_to(self.traced(np.array(1, np.int64)), shape)) - 1

    def filled(self, shape: tuple[Any, ...], value: Any) -> Any:
        """An array of one value; known if it is small."""
        if all(isinstance(one, int) for one in shape) and _count(shape) <= SMALL:
            return np.full(shape, value)
        return np.broadcast_to(self.traced(np.asarray(value)), shape)


def _count(shape: tuple[Any, ...]) -> int:
    count = 1
    for one in shape:
        count *= one
    return count


def _inputs_of(value: Any) -> list[str]:
    """The inputs of the graph from which a value is computed."""
    if not isinstance(value, Traced):
        return []
    nodes = topological([value.node])
    names = [value.program.name_of.get(node) for node in nodes if node.primitive is input_]
    return [name for name in names if name]


def _sizes_of(value: Any) -> list[str]:
    """The named sizes from which a value is computed."""
    if not isinstance(value, Traced):
        return []
    found = [one.param("size") for one in topological([value.node]) if one.primitive is size_value_]
    return sorted(set().union(*[names_of(one) for one in found])) if found else []


def has_sizes(value: Any) -> bool:
    """Whether this is a known array with named sizes in it."""
    return isinstance(value, np.ndarray) and value.dtype == object


def sized(values: Any) -> np.ndarray:
    """A known array of integers and sizes."""
    entries = list(values)
    if any(isinstance(one, Size) for one in entries):
        found = np.empty(len(entries), object)
        found[:] = entries
        return found
    return np.array(entries, np.int64)


def tidy(value: Any) -> Any:
    """NumPy's scalars as arrays; arrays of objects that are all integers as int64."""
    if isinstance(value, Size):
        found = np.empty((), object)
        found[()] = value
        return found
    if isinstance(value, (np.generic, bool, int, float)):
        value = np.asarray(value)
    if has_sizes(value) and not any(isinstance(one, Size) for one in value.ravel().tolist()):
        return value.astype(np.int64)
    return value
