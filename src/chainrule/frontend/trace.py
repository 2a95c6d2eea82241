"""A `Trace` collects names, scopes and conditions during one call of `trace`; nothing is global."""

from __future__ import annotations

import itertools
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, DTypeError, ForeignValueError
from chainrule.frontend.errors.foreign_values import refuse_ended
from chainrule.frontend.errors.types_shown import too_large
from chainrule.frontend.naming import (
    Namer,
    Place,
    Target,
    has_returned,
    name_of_object,
    returned_variables,
    user_frame,
)
from chainrule.frontend.scopes import Scopes
from chainrule.graph.node import ArrayValue, Node
from chainrule.graph.origin import Origin, Scope
from chainrule.graph.parts import Condition, ValueGuard
from chainrule.graph.sizes.sizes import Size, names
from chainrule.graph.types import exceeds_memory, type_of
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import constant, constant_of, input_
from chainrule.primitives.value import Value

_told: dict[Any, int] = {}  # the warnings that were shown
_SERIALS = itertools.count()
_INT_OPERATIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.power: operator.pow,
}
KEEP_INSIDE = (
    "pass the array as an argument of the traced function; do not store traced arrays outside of it"
)


class Trace:
    """The program being traced, as far as it has run.

    `functions` maps NumPy functions (and ufuncs) to their traced versions.  It is open within its
    `with` statement, and for the thread that made it: its values are of no use to others.
    """

    def __init__(self, functions: Mapping[Any, Callable[..., Any]]) -> None:
        self.serial = next(_SERIALS)
        self.thread: int | None = get_ident()  # None when it has ended
        self.functions = functions
        self.namer = Namer(call_traced.__code__)
        self.names: dict[str, Node] = {}
        self.name_of: dict[Node, str] = {}
        self.argument_of: dict[Node, str] = {}  # of variables of derivatives: what messages say
        self.assigned: dict[str, list[str]] = {}
        self.conditions: dict[Condition, None] = {}
        self.warned: list[tuple[Warning, type[Warning], str, int]] = []
        self.refused: list[tuple[ChainruleError, Origin]] = []  # and where the user's code was
        self.guards: dict[str, ValueGuard] = {}
        self.scalars: dict[Node, Any] = {}
        self.site: Origin | None = None
        self.place: Origin | None = None  # within `cr.scope`, where nothing is named by bytecode
        self.made: set[Node] | None = None  # what is built while a body is traced
        self.ended: set[Node] = set()  # variables of bodies and batches that are over
        self.settled: set[Node] = set()  # nodes that no variable reaches but those of the graph
        self._constants: dict[tuple[int, str], tuple[Any, Node]] = {}
        self._scopes = Scopes(_is_entry, self.namer)
        self._inside: dict[Node, list[str]] = {}

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.thread = None

    # Building ------------------------------------------------------------------------------

    def build(self, primitive: Primitive, *inputs: Node, **params: Any) -> Value:
        """A node with the origin of the user's expression that is running."""
        if self.thread != get_ident():
            self.refuse_leaked(*inputs)
        type_ = primitive.result_type(*[node.type for node in inputs], **params)
        if exceeds_memory(type_):
            raise too_large(primitive.name, type_, self.where())
        items = tuple(sorted(params.items())) if len(params) > 1 else tuple(params.items())
        value = Value(primitive, inputs, items, type_, self.site or Origin())
        if self.made is not None:
            self.made.add(value)
        return value

    @contextmanager
    def apart(self) -> Iterator[tuple[dict[str, Node], set[Node]]]:
        """While a body is traced: the names that it gives, and the nodes that it builds, to which
        its variables are added: after it they are of no use."""
        self.name_returned()
        before = self.names, self.assigned, self.made, self.site
        self.names, self.assigned, self.made, self.site = {}, {}, set(), None
        counted = self._scopes.count_anew()
        try:
            yield self.names, self.made
            self.name_returned()
        finally:
            self.ended |= {node for node in self.made or () if node.primitive is input_}
            self.names, self.assigned, self.made, self.site = before
            self._scopes.calls, self._scopes.opened = counted

    def constant(self, value: Any, name: str = "") -> Node:
        """The constant node of a closed-over array or named scalar; one for each object."""
        known = self._constants.get((id(value), name))
        if known is not None and known[0] is value and _unchanged(value, known[1]):
            return known[1]
        type_ = type_of(value)
        node = constant_of(ArrayValue(np.asarray(value, type_.dtype), name), type_)
        object.__setattr__(node, "origin", self.site or Origin())
        self._constants[id(value), name] = (value, node)
        if not name and self.place is None:
            frame = user_frame(sys._getframe(1))
            name = name_of_object(value, frame) if frame is not None else ""
        if name and (name not in self.names or self.names[name].primitive is constant):
            self.bind_name(name, node)
        return node

    def require(self, expression: int | Size, zero: bool, text: str) -> None:
        """Note a condition on the sizes that cannot be proved now."""
        relation = "==" if zero else ">="
        self.conditions.setdefault(Condition(expression, relation, text, self.site or Origin()))

    def assume_not_zero(
        self, expression: int | Size, text: str, origin: Origin | None = None
    ) -> None:
        """Note that the program takes the expression, which may be 0, for something else: on this
        line, or on the one that is running."""
        place = origin or self.site or Origin()
        self.conditions.setdefault(Condition(expression, "!=", text, place))

    @property
    def sizes(self) -> frozenset[str]:
        """The named sizes of the inputs."""
        inputs = [node for node in self.name_of if node.primitive is input_]
        return frozenset().union(*[names(size) for node in inputs for size in node.shape])

    def known_int(self, value: Any) -> int | None:
        """The integer of a Python int, or of a traced one that comes from int arguments alone."""
        node = getattr(value, "node", None)
        found = value if node is None else self.scalars.get(node)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def specialised(self, value: Any) -> int:
        """The integer of a known value, to which the graph is then bound by a guard."""
        node = getattr(value, "node", None)
        return value if node is None else self.guard(node)

    def carry_int(self, ufunc: np.ufunc, node: Node, left: Any, right: Any) -> None:
        """Remember the integer that an operation on known integers gives."""
        first, second = self.known_int(left), self.known_int(right)
        operation = _INT_OPERATIONS.get(ufunc)
        if operation is None or first is None or second is None or node.type.dtype.kind != "i":
            return
        huge = ufunc is np.power and abs(first) > 1 and second > 63  # 9**9**9 takes forever
        value = 2**63 if huge else operation(first, second)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            shown = f"{first}**{second}" if huge else value
            raise DTypeError(
                f"the Python integer {shown} does not fit int64",
                where=self.origin_at(sys._getframe(2)).describe(),
                hint="use floats: 2.0 in place of 2",
            )
        if isinstance(value, int):
            self.scalars[node] = value

    def guard(self, node: Node) -> Any:
        """The number of a known scalar that Python asks for, to which the graph is then bound."""
        self.refuse_leaked(node)
        origin = self.site or self.origin_at(sys._getframe(2))
        stack = [node]
        while stack:
            one = stack.pop()
            stack.extend(one.inputs)
            if not one.inputs and one in self.scalars and one in self.name_of:
                name = self.name_of[one]
                self.guards.setdefault(name, ValueGuard(name, self.scalars[one], origin))
        return self.scalars[node]

    def own(self, trace: Trace, node: Node) -> None:
        """Raise ForeignValueError unless `trace`, to which the node belongs, is this one."""
        if trace is not self or trace.thread is None:
            trace.refuse_leaked(node)
            error = ForeignValueError(
                f"{trace.show(node)} belongs to another call of trace",
                where=self.where() or node.origin.describe(),
                hint=KEEP_INSIDE,
            )
            error.outermost = min(trace, self, key=lambda one: one.serial)
            raise error

    def refuse_leaked(self, *nodes: Node) -> None:
        """ForeignValueError where this trace has ended, or is another thread's."""
        if self.thread == get_ident():
            return
        what = self.show(nodes[0]) if nodes else "a traced array"
        has_ended, end = self.thread is None, "after the call that traced it has ended"
        raise ForeignValueError(
            f"{what} is used {end if has_ended else 'in another thread than traces it'}",
            where=self.origin_at(sys._getframe(1)).describe(),
            hint=KEEP_INSIDE,
        )

    def note_error(self, error: ChainruleError, frame: FrameType) -> None:
        """Remember an error of this library's: the program may catch it and go on."""
        self.refused.append((error, self.origin_at(frame)))

    # Places --------------------------------------------------------------------------------

    def where(self) -> str:
        """The user's file, line and expression that is running, for messages."""
        return self.site.describe() if self.site is not None else ""

    def enter(self, frame: FrameType) -> FrameType | None:
        """Begin an operation of the user's: remember its place.  Returns the user's frame; None
        where that names nothing."""
        if self.place is not None:
            self.site = self.place
            return None
        found = user_frame(frame)
        if found is None:
            self.site = Origin()
        else:
            self.site = Origin(found.f_code, found.f_lasti, self._scopes.of(found))
        return found

    def origin_at(self, frame: FrameType) -> Origin:
        """The origin for an operation that runs in this frame, outside of any other."""
        if self.place is not None:
            return self.place
        found = user_frame(frame)
        return Origin() if found is None else Origin(found.f_code, found.f_lasti, None)

    # Names ---------------------------------------------------------------------------------

    def name_result(self, node: Node, frame: FrameType | None, place: Place = ()) -> None:
        """Give the node the name under which the user's source will store it, if any.

        `place` says which of the parts that the operation gives it is.
        """
        if frame is None or self.place is not None:
            return
        if node in self.name_of or frame in self._scopes.outside:
            return
        if self._scopes.returning:
            self.name_returned()
        target = self.namer.target(frame, place)
        if target is None or target.name == "_":  # what the program does not want
            return
        scope = self._scopes.of(target.frame)
        full = f"{scope.path}.{target.name}" if scope is not None else target.name
        self.bind_name(full, node, target.frame.f_code)

    def name_returned(self) -> None:
        """Give what helper functions have returned by now the names of their callers' targets.

        The variable that the helper returned stays a second name: `h` is also `block.y`.
        """
        for item in reversed(list(self._scopes.returning)):  # the innermost call first
            call, scope, targets = item
            if not has_returned(call):
                continue
            self._scopes.returning.remove(item)
            for place, variable, value in returned_variables(call):
                if place in targets:
                    self._name_returned(variable, value, scope, targets[place])

    def _name_returned(
        self, variable: str, value: object, scope: Scope | None, target: Target
    ) -> None:
        """The same of one variable that a helper has returned."""
        node: Any = getattr(value, "node", None)
        inner = self.name_of.get(node) if isinstance(node, Node) else None
        prefix = re.escape(f"{scope.path}." if scope is not None else "")
        if inner is None or not re.fullmatch(rf"{prefix}{re.escape(variable)}(_\d+)?", inner):
            return
        outer = self._scopes.of(target.frame)
        full = f"{outer.path}.{target.name}" if outer is not None else target.name
        self._rename(full, node, inner, target.frame.f_code)

    def name_by_hand(self, node: Node, name: str) -> None:
        """Call the node so, in the scope that is open.  Earlier names stay, after this one; an
        input's own name stays the first."""
        scope = self.place.scope if self.place is not None else None
        full = f"{scope.path}.{name}" if scope is not None else name
        known = self.name_of.get(node)
        if self.names.get(full) is node:
            return
        if known is None:
            self.bind_name(full, node)
        elif node.primitive is input_:
            self.bind_name(full, node)
            self.name_of[node] = known
        else:
            self._rename(full, node, known)

    def _rename(self, full: str, node: Node, known: str, code: CodeType | None = None) -> None:
        """Give a node that is called `known` another first name."""
        inside = self._inside.setdefault(node, [])
        inside.insert(0, known)
        for name in inside:
            del self.names[name]
        self.bind_name(full, node, code)
        self.names.update(dict.fromkeys(inside, node))  # after the name that counts

    def scope_at(self, path: str, frame: FrameType | None) -> Scope | None:
        """The scope of this dotted path, in the one that is open or that `frame` stands for."""
        scope = None
        if self.place is not None:
            scope = self.place.scope
        elif frame is not None:
            scope = self._scopes.of(frame)
        for name in path.split(".") if path else ():
            scope = self._scopes.open(scope, name)
        return scope

    def bind_name(self, full: str, node: Node, code: CodeType | None = None) -> None:
        """Call the node `full`, or `full_1`, `full_2`, ... where that is taken."""
        name = full
        if full in self.names:
            bound = () if code is None else (*code.co_varnames, *code.co_cellvars)
            stem, bracket, rest = full.partition("[")
            count = len(self.assigned.get(full, (full,)))
            name = f"{stem}_{count}{bracket}{rest}"
            while name in self.names or name.rpartition(".")[2] in bound:
                count += 1
                name = f"{stem}_{count}{bracket}{rest}"
            self.assigned.setdefault(full, [full]).append(name)
        self.names[name] = node
        self.name_of[node] = name

    def name_shown(self, node: Node) -> str | None:
        """How a message calls the node, if it has a name."""
        return self.name_of.get(node) or self.argument_of.get(node)

    def show(self, node: Node) -> str:
        """How a message calls the node: its name and type, or its operation and type."""
        name = self.name_shown(node)
        return f"{name}: {node.type}" if name else f"({node.primitive.name}): {node.type}"


def call_traced(
    program: Trace, function: Callable[..., Any], args: Any, kwargs: Any, *, nested: bool = False
) -> Any:
    """Call the user's function, which is traced into `program`.  What it returns has no name
    beyond this frame; unless `nested` (a function differentiated inside a traced one), neither
    have its scopes.  How sizes compare in it becomes a condition of the program.  What it returns
    needs no value of a body or a batch that is over: its derivative would be zero."""
    try:
        returned = function(*args, **kwargs)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        from chainrule.frontend.errors.restore_errors import (
            restored_error,  # loaded where a program fails
        )

        clearer = restored_error(error, program)
        if clearer is None:
            raise
        raise clearer.with_traceback(error.__traceback__) from None
    if program.refused:
        from chainrule.frontend.errors.caught import settle_caught  # loaded where a program catches

        settle_caught(program)
    refuse_ended(program, returned, [args, kwargs])
    while program.warned:
        warnings.warn_explicit(*program.warned.pop(0), registry=_told)
    return returned


__runs_programs__ = call_traced.__code__  # where `graph.asking` finds the program


def _is_entry(frame: FrameType) -> bool:
    return frame.f_code is call_traced.__code__ and not frame.f_locals["nested"]


def _unchanged(value: Any, node: Node) -> bool:
    """Whether an array still has the bytes that its constant holds (programs may write into it)."""
    if not isinstance(value, np.ndarray):
        return True
    held = node.param("value").array
    return held.shape == value.shape and held.tobytes() == value.tobytes()
