"""`custom_derivative`: a traced function with a derivative rule of the user's."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, cast, overload

from chainrule.custom.overriding import Argument, CallRules, Function, Held, overriding
from chainrule.custom.packing import packed, unpacked
from chainrule.custom.placing import placed
from chainrule.errors import InputError, NotDifferentiableError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.leaf_types import leaf_type
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node
from chainrule.graph.plain import refuse_among
from chainrule.graph.structure import flatten
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.primitive import Flat
from chainrule.primitives.sources import input_
from chainrule.tracebacks import entry
from chainrule.tracing import definition, function_name, graph_name, output_node

Rule = TypeVar("Rule", bound=Callable[..., Any])
Static = str | int | Iterable[str | int]


class CustomDerivative(Protocol):
    """A function with derivative rules of the user's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Reverse mode: `fwd(*args)` returns (out, residuals), and `bwd(*static, residuals, g)` a
        tuple of one cotangent for each argument that is not static, None for zero."""

    def defjvp(self, rule: Rule) -> Rule:
        """Both modes: `rule(*static, primals, tangents)` returns (out, tangent of out), which is
        linear in the tangents.  Returns the rule, so that it serves as a decorator."""
        ...


@overload
def custom_derivative(function: Callable[..., Any], *, static: Static = ()) -> CustomDerivative: ...
@overload
def custom_derivative(*, static: Static = ()) -> Callable[..., CustomDerivative]: ...
@entry
def custom_derivative(function: Any = None, *, static: Static = ()) -> Any:
    """Gives a function a derivative by your own rules: `f.defvjp(fwd, bwd)`, `f.defjvp(rule)`.

    Function and rules are written with NumPy on traced arrays; arguments and results may be
    containers.  `static` names or counts arguments that are plain Python values: rules get them
    first.  With a vjp rule alone there is no forward mode; a jvp rule alone serves both.  Rules are
    differentiated themselves for higher orders.  On plain arrays the function simply computes.
    """
    if function is None:
        return functools.partial(custom_derivative, static=static)
    if not callable(function):
        raise InputError(
            f"custom_derivative needs a function, got {type(function).__name__}",
            hint="@cr.custom_derivative above a function of arrays",
        )
    own = Function(function, graph_name(function), _places(function, static))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = flatten([args, kwargs])[0]
        trace = trace_of(leaves)
        if trace is None:
            refuse_among(leaves, own.name)
            result = function(*args, **kwargs)
            for leaf in flatten(result)[0]:
                if isinstance(leaf, Traced):  # which the function closes over
                    leaf.program.refuse_leaked(leaf.node)
            return result
        if own.bwd is None and own.jvp is None:
            raise NotDifferentiableError(
                f"{own.name} is a custom_derivative without a rule",
                where=definition(function),
                hint=f"give it one before it is called: {own.name}.defvjp(fwd, bwd), or "
                f"{own.name}.defjvp(rule)",
            )
        return _called(trace, own, _positional(own, args, kwargs), sys._getframe(1))

    def defvjp(fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        own.fwd, own.bwd = _checked(own, "fwd", fwd), _checked(own, "bwd", bwd)

    def defjvp(rule: Callable[..., Any]) -> Callable[..., Any]:
        own.jvp = _checked(own, "the jvp rule", rule)
        return rule

    found = cast(Any, call)
    found.defvjp, found.defjvp = defvjp, defjvp
    return found


def _checked(own: Function, what: str, rule: Any) -> Callable[..., Any]:
    if not callable(rule):
        raise InputError(
            f"{what} of {own.name} is a {type(rule).__name__}, not a function",
            where=definition(own.call),
            hint=f"{own.name}.defvjp(fwd, bwd) or {own.name}.defjvp(rule)",
        )
    return rule


def _parameters(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the signature of {function_name(function)} is not known",
            hint="wrap it: cr.custom_derivative(lambda x: f(x))",
        ) from error


def _places(function: Callable[..., Any], static: Static) -> tuple[int, ...]:
    """The positions of static arguments."""
    names = list(_parameters(function).parameters)
    found = []
    for one in (static,) if isinstance(static, (str, int)) else static:
        place = names.index(one) if isinstance(one, str) and one in names else one
        if not isinstance(place, int) or not -len(names) <= place < len(names):
            raise InputError(
                f"static={one!r} is no argument of {function_name(function)}",
                where=definition(function),
                hint=f"its arguments are: {', '.join(names)}",
            )
        found.append(place % len(names))
    return tuple(sorted(set(found)))


def _positional(own: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by position, with their defaults: so do rules get them."""
    bound = _parameters(own.call).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise InputError(
            f"{own.name} takes {', '.join(bound.kwargs)} by keyword alone, and rules get arguments "
            "by position",
            where=definition(own.call),
            hint="remove the * from its signature",
        )
    return bound.args


def _names(own: Function, count: int) -> list[str]:
    names: list[str] = []
    for one in _parameters(own.call).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            names += [f"{one.name}_{place}" for place in range(count - len(names))]
        else:
            names.append(one.name)
    return names[:count]


def _called(trace: Trace, own: Function, args: tuple[Any, ...], frame: Any) -> Any:
    """Run the function, and put a node with its rules above what it returned."""
    given: list[Any] = []
    arguments: list[Argument | Held] = []
    operands: list[Node] = []
    for place, (value, name) in enumerate(zip(args, _names(own, len(args)), strict=True)):
        if place in own.static:
            arguments.append(Held(_plain(own, value, name)))
            given.append(value)
            continue
        leaves, structure = flatten(value, name)
        held: list[Held | None] = []
        for i, leaf in enumerate(leaves):
            type_ = leaf.node.type if isinstance(leaf, Traced) else leaf_type(leaf, name)
            if isinstance(leaf, Traced) or (type_ is not None and type_.is_float):
                node = trace.build(identity, as_node(trace, leaf))
                operands.append(node)
                leaves[i] = Traced(node, trace)
                held.append(None)
            else:
                held.append(Held(leaf))
        arguments.append(Argument(structure, tuple(held)))
        given.append(structure.unflatten(leaves))
    result = call_traced(trace, own.call, given, {}, nested=True)
    leaves, structure = flatten(result, "out")
    nodes = [
        output_node(trace, leaf, name)
        for leaf, name in zip(leaves, structure.leaf_names, strict=True)
    ]
    _refuse_closed_over(trace, own, nodes, operands)
    with placed(trace, frame, own.call) as user:
        floats = tuple(node.type.is_float for node in operands)
        has = tuple(node.type.is_float for node in nodes)
        rules = CallRules(own, tuple(arguments), floats, structure, has)
        made = _overridden(trace, rules, operands, nodes)
    returned = structure.unflatten([Traced(node, trace) for node in made])
    for node, place in nodes_of(returned):
        trace.name_result(node, user, place)
    return returned


def _overridden(
    trace: Trace, rules: CallRules, operands: list[Node], nodes: list[Node]
) -> list[Node]:
    """The results, those that are floats by way of a node with the rules."""
    floats = [node for node in nodes if node.type.is_float]
    if not floats:
        return nodes
    results = floats if len(floats) > 1 else []
    primitive = overriding(len(operands), len(results))
    whole = trace.build(primitive, packed(trace, floats), *operands, *results, rule=rules)
    parts = iter(unpacked(trace, whole, [node.type for node in floats]))
    return [next(parts) if node.type.is_float else node for node in nodes]


def _plain(own: Function, value: Any, name: str) -> Any:
    if any(isinstance(leaf, Traced) for leaf in flatten(value, name)[0]):
        raise InputError(
            f"the static argument {name} of {own.name} is a traced array",
            where=definition(own.call),
            hint=f"leave {name} out of static=: None in its place among the cotangents says that "
            "nothing flows there",
        )
    return value


def _refuse_closed_over(
    trace: Trace, own: Function, results: list[Node], operands: list[Node]
) -> None:
    """Raise where a result depends on arrays that are no arguments: the rules know nothing of
    them, and their gradients would be zero without a word."""
    seen = set(operands)
    pending = list(results)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = node.primitive is input_ or node in trace.argument_of
        if variable and node.type.is_float:
            name = trace.name_shown(node) or trace.show(node)
            raise NotDifferentiableError(
                f"{own.name} uses {name}, which is not among its arguments: its rule gives no "
                f"derivative with respect to {name}",
                where=definition(own.call),
                hint=f"make {name} an argument; or cr.stop_gradient({name}) says that none is "
                "wanted",
            )
        if node.type.is_float and not isinstance(node.primitive.derivative, Flat):
            pending += node.inputs
