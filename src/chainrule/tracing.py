"""`trace` runs a Python function once on traced arrays and records its operations as a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from chainrule.annotations import MISSING, Unread, described, evaluated
from chainrule.errors import InputError, TypeSpecError, UnsupportedError
from chainrule.frontend.errors.foreign_values import refuse_inner
from chainrule.frontend.frozen.frozen_random import warning_of_draws
from chainrule.frontend.functions.elementwise import COMPLEX, REAL, as_node
from chainrule.frontend.leaf_types import leaf_type, refuse_strange_container
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.graph.agreement import Axis, axes_of, refuse_contradictions
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import rebuild, roots
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.structure import Structure, flatten
from chainrule.numpy.names import TABLE
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.sources import input_
from chainrule.tracebacks import entry


def new_trace() -> Trace:
    """A trace that knows all of this library's functions."""
    return Trace(TABLE)


@entry
def trace(function: Callable[..., Any], /, *examples: Any, **types: Any) -> Graph:
    """Traces `function` into a graph.

    The type of each argument comes from its annotation (`x: float32["n 784"]`), from an example
    array at its position, or from a keyword, the later overriding the earlier; a keyword is an
    array type or an example.  So an example of another dtype or length than annotated is no error,
    but examples show one number for one named size.  Containers of types or arrays go everywhere
    an array does.  Float and int defaults become named scalar inputs; bool, str and None are plain
    Python values.

    Raises TypeSpecError for an argument whose type is not known, SizeError for examples that
    contradict each other, and what the function raises.  Warns (FrozenRandomWarning) of random
    numbers that are drawn in it, and of clocks and files that it reads, as these are constants of
    the graph.
    """
    with warning_of_draws(function, examples, types) as made:
        graph = traced_anew(function, examples, types)
        made.append(lambda: (graph.nodes, graph.name_of))
    return graph


def traced_anew(
    function: Callable[..., Any], examples: tuple[Any, ...], types: dict[str, Any]
) -> Graph:
    """As `trace`, for one run: what NumPy draws in it is drawn again for the next."""
    if not callable(function):
        raise InputError(
            f"trace needs a function, got {type(function).__name__}",
            hint="cr.trace(objective), where objective takes arrays and returns arrays",
        )
    building = new_trace()
    origin = Origin(getattr(inspect.unwrap(function), "__code__", None), -1)
    inputs: list[Input] = []
    structures: dict[str, Structure] = {}

    def argument(name: str, value: Any, is_default: bool = False) -> Any:
        leaves, structure = flatten(value, name)
        made = [
            _traced_leaf(building, origin, leaf, leaf_name, inputs, is_default)
            for leaf, leaf_name in zip(leaves, structure.leaf_names, strict=True)
        ]
        named = zip(structure.leaf_names, made, strict=True)
        fixed = {leaf_name: leaf for leaf_name, leaf in named if not isinstance(leaf, Traced)}
        if not made or len(fixed) < len(made):  # an empty container, too
            structures[name] = structure.fixing(fixed)
        return structure.unflatten(made)

    with building:
        args, kwargs = _arguments(function, examples, types, argument)
        result = call_traced(building, function, args, kwargs)
        return check(_graph(building, graph_name(function), inputs, structures, result))


def _whole(function: Any) -> Any:
    """The function of which a functools.partial has some arguments."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def function_name(function: Callable[..., Any]) -> str:
    """Names a function in messages: as the user does, and a lambda as Python does."""
    function = _whole(function)
    name = getattr(function, "__name__", None) or type(function).__name__
    return name if name.isidentifier() or name == "<lambda>" else "function"


def written_name(function: Callable[..., Any]) -> str:
    """How advice writes a function: a lambda as f."""
    name = function_name(function)
    return "f" if name == "<lambda>" else name


def graph_name(function: Callable[..., Any]) -> str:
    """How the graph of a function is called."""
    name = function_name(function)
    return name if name.isidentifier() else "function"


def _arguments(
    function: Callable[..., Any],
    examples: tuple[Any, ...],
    types: dict[str, Any],
    argument: Callable[..., Any],
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, each parameter's best description traced."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the signature of {function!r} is not known",
            hint="wrap it: cr.trace(lambda x: f(x), ...)",
        ) from error
    refuse_unknown_types(function, types)
    annotations = _annotations(function)
    given, rest = list(examples), dict(types)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    axes: list[Axis] = []
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(argument(name, tuple(given)))
            given = []
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            for key, value in rest.items():
                if any(one.name == key for one in parameters if one is not parameter):
                    raise InputError(
                        f"{key} is an argument of {function_name(function)}, and a key of **{name}",
                        where=definition(function),
                        hint="two inputs cannot have the same name: rename one",
                    )
                kwargs[key] = argument(key, value)
            rest = {}
            continue
        keyword_only = parameter.kind is parameter.KEYWORD_ONLY
        value = parameter.default
        annotated = described(annotations.get(name, parameter.annotation))
        if annotated in (float, int) and _is_number(value):
            value = annotated(value)  # rate: float = 1
        elif annotated is not MISSING:
            value = annotated
        is_taken = bool(given) and parameter.kind is parameter.POSITIONAL_ONLY
        if given and not keyword_only:
            value = given.pop(0)
        if name in rest and not is_taken:
            value = rest.pop(name)
        if value is MISSING:
            raise _missing_type(function, name, annotations.get(name))
        if annotated is not MISSING and value is not annotated:
            axes += axes_of(name, annotated, value)
        own = value is parameter.default
        if keyword_only and not (own and not _has_arrays(value, name)):
            kwargs[name] = argument(name, value, own)
        elif not keyword_only:
            args.append(argument(name, value, own))
    if given or rest:
        extra = f"{len(given)} more positional" if given else ", ".join(rest)
        raise InputError(
            f"{function_name(function)} has no parameter for: {extra}",
            where=definition(function),
            hint=f"its parameters are: {', '.join(p.name for p in parameters) or 'none'}",
        )
    if axes:
        refuse_contradictions(function_name(function), definition(function), axes)
    return args, kwargs


def refuse_unknown_types(
    function: Callable[..., Any],
    types: Collection[str],
    own: Collection[str] = (),
    called: str = "",
) -> None:
    """InputError for types of arguments that the function has not; `own` are arguments of what is
    `called` with them."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in types:
        if name not in parameters:
            from chainrule.signatures import perhaps_argument  # if refused

            left = [one for one in (*parameters, *own) if one not in types]
            also = f"; those of {called}: {', '.join(own)}" if own else ""
            raise InputError(
                f"{function_name(function)} has no parameter for: {name}",
                where=definition(function),
                hint=f"{perhaps_argument(name, left)}its parameters are: "
                f"{', '.join(parameters) or 'none'}{also}",
            )


def annotated_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """What the annotation of each argument says of arrays: a type, a container of types, float or
    int, or MISSING."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    annotations = _annotations(function)
    return {
        name: described(annotations.get(name, one.annotation)) for name, one in parameters.items()
    }


def refuse_contradicting(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """SizeError where these arguments show two numbers for one named size of the annotations."""
    annotations = _annotations(function)
    axes: list[Axis] = []
    for name, value in given.items():
        annotated = described(annotations.get(name, MISSING))
        if annotated is not MISSING:
            axes += axes_of(name, annotated, value)
    refuse_contradictions(function_name(function), definition(function), axes)


def _has_arrays(value: Any, name: str) -> bool:
    return any(leaf_type(leaf, name) is not None for leaf in flatten(value, name)[0])


def _annotations(function: Any) -> Mapping[str, Any]:
    target = inspect.unwrap(_whole(function))
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = inspect.unwrap(type(target).__call__)
    raw = inspect.get_annotations(getattr(target, "__func__", target))
    closure = (
        inspect.getclosurevars(target).nonlocals
        if any(isinstance(value, str) for value in raw.values())
        else {}
    )
    return evaluated(raw, getattr(target, "__globals__", {}), closure)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def definition(function: Any) -> str:
    code = getattr(inspect.unwrap(_whole(function)), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}" if code else ""


def _missing_type(function: Any, name: str, annotation: Any) -> TypeSpecError:
    because = ""
    if isinstance(annotation, Unread):
        because = f": its annotation {annotation.text} cannot be read ({annotation.problem})"
    return TypeSpecError(
        f"the argument {name} of {function_name(function)} has no array type{because}",
        where=definition(function),
        hint=f'annotate it ({name}: chainrule.float32["n 784"]), or give an example or a type: '
        f"cr.trace({written_name(function)}, {name}=np.zeros((2, 784)))",
    )


def _traced_leaf(
    building: Trace, origin: Origin, value: Any, name: str, inputs: list[Input], is_default: bool
) -> Any:
    type_ = leaf_type(value, name)
    if type_ is None:
        refuse_strange_container(value, name)
        return value
    if name in building.names:
        raise InputError(
            f"two inputs are called {name}: a part of a container, and an argument",
            where=origin.describe(),
            hint="rename one of them",
        )
    node = input_(index=len(inputs), type=type_)
    object.__setattr__(node, "origin", origin)
    default = value if type_.weak and isinstance(value, (int, float)) else None
    if is_default and isinstance(value, (np.ndarray, np.generic)):
        default = value
    inputs.append(Input(name, node, default))
    building.names[name] = node
    building.name_of[node] = name
    if isinstance(default, (int, float)) and type_.weak:
        building.scalars[node] = default
    return Traced(node, building)


def _graph(
    building: Trace,
    name: str,
    inputs: list[Input],
    structures: dict[str, Structure],
    result: Any,
) -> Graph:
    building.name_returned()
    leaves, structure = flatten(result, "out")
    outputs: list[tuple[str, Node]] = []
    taken: set[str] = set()
    for leaf, leaf_name in zip(leaves, structure.leaf_names, strict=True):
        node = output_node(building, leaf, leaf_name)
        shown = building.name_of.get(node, leaf_name)
        if shown in taken:
            shown = leaf_name
        while shown in taken or building.names.get(shown, node) is not node:
            shown += "_1"
        taken.add(shown)
        building.names.setdefault(shown, node)
        outputs.append((shown, node))
    graph = Graph(
        name=name,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        nodes=tuple(topological(roots(inputs, building.names, outputs))),
        names=building.names,
        assigned={key: tuple(value) for key, value in building.assigned.items()},
        conditions=tuple(building.conditions),
        guards=tuple(building.guards.values()),
        structures=structures,
        result=structure,
    )
    known = {item.node for item in inputs}
    inner = {node for node in graph.nodes if node.primitive is input_ and node not in known}
    if inner:
        refuse_inner(building.show, [node for _, node in outputs], inner, (), set())
    if any(node.primitive is identity for node in graph.nodes):
        graph = rebuild(graph, _without_marker)
    return graph


def _without_marker(node: Node, inputs: tuple[Node, ...], _: Origin) -> Node:
    """The node itself; for the marker of a nested derivative's variable, what it marks."""
    if node.primitive is identity:
        return inputs[0]
    if inputs == node.inputs:
        return node
    return node.with_inputs(inputs)


def output_node(building: Trace, leaf: Any, name: str) -> Node:
    """The node of something that a traced function returned."""
    if isinstance(leaf, (Traced, np.ndarray, np.generic, bool, int, float, Size)):
        return as_node(building, leaf)
    if isinstance(leaf, complex):
        raise UnsupportedError(f"a traced function returned {leaf!r}, {COMPLEX}", hint=REAL)
    if leaf is None:
        raise UnsupportedError(
            f"a traced function returned None{'' if name in ('out', 'value') else f' as {name}'}",
            hint="return its result: perhaps a return is missing",
        )
    raise UnsupportedError(
        f"a traced function returned {name}, a {type(leaf).__name__}",
        hint="return arrays and numbers, or dicts, lists, tuples and dataclasses of them",
    )
