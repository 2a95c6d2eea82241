"""The node that replaces a function's own derivative by a user's rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from chainrule.custom.fitting import fitted, leaves_for, parts_of
from chainrule.custom.packing import packed, unpacked
from chainrule.custom.rules import (
    BatchedRules,
    Nodes,
    called,
    joint,
    reaches,
    rule_trace,
    shown,
    unplaced,
)
from chainrule.dataclass import dataclass, field
from chainrule.errors import NotDifferentiableError
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node, topological
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import Structure
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Library, Primitive, Sample, no_flops
from chainrule.primitives.python import Python
from chainrule.primitives.sources import full_like, input_
from chainrule.tracing import definition
from chainrule.transforms.vjp import pull

_SERIALS = count()


@dataclass(eq=False)
class Function:
    """A function with rules of its own; `static` are the places of its static arguments."""

    call: Callable[..., Any]
    name: str
    static: tuple[int, ...] = ()
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    serial: int = field(default_factory=lambda: next(_SERIALS))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name}#{self.serial}"


@dataclass(frozen=True)
class Argument:
    """One argument: its containers, and the leaves that are no arrays, which are held by identity
    (None where an operand of the node stands)."""

    structure: Structure
    held: tuple[Held | None, ...]


class Held:
    """A value that is not part of the graph; equal to itself alone, or to an equal plain one."""

    def __init__(self, value: Any) -> None:
        self.value = value
        plain = isinstance(value, (bool, int, float, str, type(None), tuple, Size))
        try:
            self.key: Any = (type(value), value) if plain else id(value)
            hash(self.key)
        except TypeError:
            self.key = id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value) if isinstance(self.key, tuple) else f"<{self.key}>"


@dataclass(frozen=True)
class CallRules:
    """The rules of one call: the operands of its node are the value, then the arrays among the
    arguments; `floats` says which of these have derivatives."""

    function: Function
    arguments: tuple[Argument | Held, ...]  # Held: a static argument
    floats: tuple[bool, ...]
    result: Structure
    differentiable: tuple[bool, ...]  # of the leaves of the result: the others have no derivative

    def __str__(self) -> str:
        return str(self.function)

    def __repr__(self) -> str:
        return f"{self.function!r}{self.arguments!r}{self.result.leaf_names!r}"

    @property
    def _static(self) -> list[Any]:
        return [one.value for one in self.arguments if isinstance(one, Held)]

    @property
    def _moving(self) -> list[Argument]:
        return [one for one in self.arguments if isinstance(one, Argument)]

    def _filled(self, values: Sequence[Any]) -> list[Any]:
        """The arguments that are not static, with `values` where operands stand."""
        return self._with(values, lambda held: held.value)

    def _directions(self, values: Sequence[Any]) -> list[Any]:
        """The same for tangents: a Python int, which may stand for a float, has the tangent 0."""
        return self._with(values, lambda held: 0.0 if type(held.value) is int else None)

    def _with(self, values: Sequence[Any], of_held: Callable[[Held], Any]) -> list[Any]:
        rest = iter(values)
        return [
            one.structure.unflatten(
                [next(rest) if leaf is None else of_held(leaf) for leaf in one.held]
            )
            for one in self._moving
        ]

    def _all(self, moving: list[Any]) -> list[Any]:
        """All arguments in their order."""
        rest = iter(moving)
        return [one.value if isinstance(one, Held) else next(rest) for one in self.arguments]

    def _types(self, out: Node, inputs: Sequence[Node]) -> list[ArrayType]:
        """The types of the differentiable results.  One that is alone is the value; several are
        packed in it, and their types are those of the operands after the arguments'."""
        count = sum(self.differentiable)
        return [out.type] if count == 1 else [node.type for node in inputs[-count:]]

    def _operands(self, inputs: Sequence[Node]) -> Sequence[Node]:
        return inputs[1 : 1 + len(self.floats)]

    def _value(self, parts: Sequence[Any]) -> Any:
        """The result's containers, with `parts` where it has floating-point arrays."""
        rest = iter(parts)
        return self.result.unflatten([next(rest) if has else None for has in self.differentiable])

    # Forward mode --------------------------------------------------------------------------------

    def tangent(self, dxs: Nodes, out: Node, inputs: Sequence[Node]) -> Node | None:
        """By the jvp rule."""
        name, rule = self.function.name, self.function.jvp
        operands = self._operands(inputs)
        moves = dxs[1 : 1 + len(operands)]
        if all(dx is None for dx in moves):
            return None
        if rule is None:
            raise NotDifferentiableError(
                f"{name} has no rule for forward mode"
                + (": defvjp gives one for reverse mode alone" if self.function.bwd else ""),
                where=out.origin.describe() or definition(self.function.call),
                hint=f"give it one: {name}.defjvp(rule), which serves both modes; or use reverse "
                "mode: cr.grad, cr.vjp, cr.jacrev",
            )
        with rule_trace() as trace:
            found = self._tangent_by(trace, rule, out, inputs, moves)
        unplaced([found], [*inputs, *[dx for dx in moves if dx is not None]])
        return found

    def _tangent_by(
        self, trace: Trace, rule: Any, out: Node, inputs: Sequence[Node], moves: Nodes
    ) -> Node:
        name, operands = self.function.name, self._operands(inputs)
        primals = self._filled([shown(trace, node) for node in operands])
        directions = [
            None if not has else shown(trace, full_like(node, 0) if dx is None else dx)
            for node, dx, has in zip(operands, moves, self.floats, strict=True)
        ]
        tangents = self._directions(directions)
        returned = called(trace, rule, *self._static, tuple(primals), tuple(tangents))
        what = f"the jvp rule of {name}"
        _, tangent = parts_of(returned, 2, what, "(out, tangent)", rule)
        names = [n for n, has in zip(self.result.leaf_names, self.differentiable, strict=True)]
        leaves = leaves_for(tangent, names, "out", f"the tangent of {name}", rule)
        wanted = [leaf for leaf, has in zip(leaves, self.differentiable, strict=True) if has]
        shownames = [n for n, has in zip(names, self.differentiable, strict=True) if has]
        parts = []
        for leaf, type_, one in zip(wanted, self._types(out, inputs), shownames, strict=True):
            leaf = 0.0 if leaf is None else leaf
            parts.append(fitted(trace, leaf, type_, f"the tangent of {name}'s result {one}", rule))
        return packed(trace, parts)

    # Reverse mode --------------------------------------------------------------------------------

    def cotangents(
        self, g: Node, out: Node, active: tuple[int, ...], inputs: Sequence[Node]
    ) -> Nodes:
        """By the vjp rule; without one, by the jvp rule, transposed."""
        with rule_trace() as trace:
            if self.function.bwd is not None:
                found = self._by_vjp(trace, g, out, inputs)
            elif self.function.jvp is not None:
                found = self._by_transpose(trace, g, out, inputs)
            else:
                name = self.function.name
                raise NotDifferentiableError(
                    f"{name} is a custom_derivative without a rule",
                    where=definition(self.function.call),
                    hint=f"{name}.defvjp(fwd, bwd) or {name}.defjvp(rule), before it is "
                    "differentiated",
                )
        unplaced(found, [g, *inputs])
        return [None, *found, *[None] * (len(inputs) - 1 - len(found))]

    def _by_vjp(self, trace: Trace, g: Node, out: Node, inputs: Sequence[Node]) -> Nodes:
        function, operands = self.function, self._operands(inputs)
        name, fwd, bwd = function.name, function.fwd, function.bwd
        assert fwd is not None and bwd is not None
        primals = self._filled([shown(trace, node) for node in operands])
        what = f"fwd of {name}"
        returned = called(trace, fwd, *self._all(primals))
        _, residuals = parts_of(returned, 2, what, "(out, residuals)", fwd)
        seeds = unpacked(trace, g, self._types(out, inputs))
        seed = self._value([shown(trace, node) for node in seeds])
        returned = called(trace, bwd, *self._static, residuals, seed)
        moving = self._moving
        each = "one cotangent for each argument" + (" that is not static" * bool(function.static))
        parts = parts_of(returned, len(moving), f"bwd of {name}", each, bwd)
        values = [
            leaf
            for argument, part in zip(moving, parts, strict=True)
            for leaf, held in zip(
                self._cotangent_leaves(argument, part), argument.held, strict=True
            )
            if held is None
        ]
        names = [
            n
            for argument in moving
            for n, held in zip(argument.structure.leaf_names, argument.held, strict=True)
            if held is None
        ]
        found: list[Node | None] = []
        for value, node, has, one in zip(values, operands, self.floats, names, strict=True):
            if not has or value is None:
                found.append(None)
            else:
                found.append(fitted(trace, value, node.type, f"bwd's cotangent of {one}", bwd))
        return found

    def _cotangent_leaves(self, argument: Argument, part: Any) -> list[Any]:
        names, bwd = argument.structure.leaf_names, self.function.bwd
        assert bwd is not None
        root = _root(names)
        what = f"bwd's cotangent of {root}"
        return leaves_for(part, names, root, what, bwd)

    def _by_transpose(self, trace: Trace, g: Node, out: Node, inputs: Sequence[Node]) -> Nodes:
        rule, operands = self.function.jvp, self._operands(inputs)
        assert rule is not None
        moves: list[Node | None] = [
            input_(index=-1, type=node.type) if has else None
            for node, has in zip(operands, self.floats, strict=True)
        ]
        live = [dx for dx in moves if dx is not None]
        tangent = self._tangent_by(trace, rule, out, inputs, moves)
        pulled, _ = pull(topological([tangent]), {tangent: g}, live, "transpose")
        found = [None if dx is None else pulled.get(dx) for dx in moves]
        if reaches(found, live):
            raise NotDifferentiableError(
                f"the jvp rule of {self.function.name} is not linear in the tangents, so it has no "
                "transpose for reverse mode",
                where=definition(rule),
                hint=f"multiply each tangent by a factor that depends on the primals alone; or "
                f"give a rule for reverse mode too: {self.function.name}.defvjp(fwd, bwd)",
            )
        return found


def _root(names: Sequence[str]) -> str:
    """The argument's own name, of which the names of its leaves are made."""
    return names[0].partition(".")[0].partition("[")[0] if names else ""


def _copied(xp: Any, x: Any, *rest: Any, rule: Any) -> Any:
    return np.array(x, order="C") if xp is np else xp.array(x, copy=True)


def _batch(
    size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node
) -> Node:
    every = [
        node if has else add_batch_axis(node, size)
        for node, has in zip(inputs, batched, strict=True)
    ]
    return out.primitive(*every, rule=BatchedRules(out.param("rule")))


class _NoRules:
    """What samples have in the place of rules: the derivative of the value itself."""

    def __repr__(self) -> str:
        return "value"

    def tangent(self, dxs: Nodes, out: Node, inputs: Sequence[Node]) -> Node | None:
        return dxs[1]

    def cotangents(
        self, g: Node, out: Node, active: tuple[int, ...], inputs: Sequence[Node]
    ) -> Nodes:
        return [None, g, *[None] * (len(inputs) - 2)]


@cache
def overriding(count: int, packed: int = 0) -> Primitive:
    """The value of a function, whose derivative by the `count` operands after it is a rule's; then
    come the `packed` results of which the value is made, where there are several."""
    others = count + packed
    names = ("x", *[f"y{place}" for place in range(others)])
    shapes, domains = ((3,),) * len(names), ((-2.0, 2.0),) * len(names)
    return Primitive(
        name="custom_derivative",
        doc="x itself, with a derivative by the others that a rule of the user's gives.",
        inputs=names,
        result_type=lambda x, *others, rule: x,
        evaluate=_copied,
        derivative=joint("rule", steers=(0, *range(1 + count, 1 + others))),
        batch=_batch,
        kernel=Library(),
        as_stored=True,
        flops=no_flops,
        latex=Latex("{x}", ATOM, (0,) * len(names)),
        samples=(Sample(shapes, domains, (("rule", _NoRules()),), smooth=False),),
        python=Python(lambda out, writing, x, *others: x),
    )
