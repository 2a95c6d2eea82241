"""`backward`: forward and backward propagation as one graph, with named gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from chainrule.errors import InputError, NotDifferentiableError, ShapeError
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import refuse_no_graph
from chainrule.graph.node import ArrayValue, Node, stamp, topological
from chainrule.graph.parts import Gradient, Input
from chainrule.graph.rebuild import resting_on
from chainrule.graph.types import ArrayType, type_of
from chainrule.primitives.sources import constant_of, full_like, input_
from chainrule.tracebacks import entry
from chainrule.transforms.deduplicate import deduplicate
from chainrule.transforms.mistakes.outer_pairs import warn_of_outer_pairs
from chainrule.transforms.simplify import simplify
from chainrule.transforms.vjp import pull, seed_one

MOST_NAMES = 6  # in a hint
Wrt = str | int | Iterable[str | int] | None


def gradient_name(of: str, wrt: str) -> str:
    """dJ/dW1, dJ/d(params.W), d(dJ/dW1)/dW2."""
    return f"d{_bracketed(of)}/d{_bracketed(wrt)}"


def _bracketed(name: str) -> str:
    return name if name.isidentifier() else f"({name})"


@entry
@without_collector
def backward(graph: Graph, wrt: Wrt = None, of: str | None = None, seed: Any = None) -> Graph:
    """The graph with the gradients of `of` with respect to `wrt` after its own nodes.

    `wrt`: names of inputs, intermediates or containers, or "all" (every float input, and every
    named float value that `of` depends on); the first argument by default.  Every named value
    between `wrt` and `of` gets its named gradient too (`dJ/dh`).  `of`: the single output by
    default.  `seed`: the cotangent of a non-scalar `of`: an array of its shape, or the name of a
    new input.

    The result's outputs are those of `graph`, then the gradients in the order of `wrt`.  What
    `of` does not depend on gets a zero gradient and is listed in `unreached`.
    """
    refuse_no_graph(graph, "cr.backward(cr.trace(objective), wrt=...)")
    target_name, target = _target(graph, of)
    chosen = wrt_names(graph, wrt, target)
    variables = [graph[name] for name in chosen]
    warn_of_outer_pairs(graph.nodes, target, variables, graph.name_of.get)
    inputs, seeded = _seed(graph, target_name, target, seed)
    cotangents, terms = pull(graph.nodes, {target: seeded}, variables)
    unreached = []
    for name, variable in zip(chosen, variables, strict=True):
        if variable not in cotangents:
            zero = full_like(variable, 0)
            stamp((zero,), variable.origin.derived("backward", variable))
            cotangents[variable] = zero
            unreached.append(name)
    names = dict(graph.names)
    outputs = list(graph.outputs)
    gradients = list(graph.gradients)
    if inputs is not graph.inputs:
        names[inputs[-1].name] = inputs[-1].node
    for node, cotangent in reversed(cotangents.items()):
        gradients.append(Gradient(target_name, node, cotangent, terms.get(node, ())))
        variable_name = graph.name_of.get(node)
        if variable_name is not None and node is not target:
            _bind(names, gradient_name(target_name, variable_name), cotangent)
    for name, variable in zip(chosen, variables, strict=True):
        value = cotangents[variable]
        outputs.append((_bind(names, gradient_name(target_name, name), value), value))
    combined = graph.replace(
        inputs=inputs,
        outputs=tuple(outputs),
        names=names,
        gradients=tuple(gradients),
        unreached=(*graph.unreached, *unreached),
        result=None,
    )
    combined = resting_on(combined, {})
    simple = simplify(combined, frozen=graph.nodes)
    return _without_echoes(graph, deduplicate(simple, frozen=graph.nodes))


def _bind(names: dict[str, Node], name: str, node: Node) -> str:
    """Call the node `name`; `name_1`, `name_2`, ... where that is another one's."""
    shown, count = name, 0
    while names.get(shown, node) is not node:
        count += 1
        shown = f"{name}_{count}"
    names[shown] = node
    return shown


def _without_echoes(before: Graph, after: Graph) -> Graph:
    """Without second names for gradients that an earlier backward pass has made already."""
    echoes = {}
    for name, node in after.names.items():
        stem = name.rpartition("_")[0]
        if name not in before.names and stem in before.names and after.names[stem] is node:
            echoes[name] = stem
    if not echoes:
        return after
    outputs = {echoes.get(name, name): node for name, node in after.outputs}
    names = {name: node for name, node in after.names.items() if name not in echoes}
    return after.replace(names=names, outputs=tuple(outputs.items()))


def _nothing_returned(graph: Graph) -> InputError:
    inputs = {item.node for item in graph.inputs}
    computed = [name for name, node in graph.names.items() if node not in inputs]
    last = computed[-1] if computed else "J"
    return InputError(
        f"{graph.name} returns nothing to differentiate",
        where=graph.inputs[0].node.origin.describe() if graph.inputs else "",
        hint=f"return the objective: add `return {last}` at its end",
    )


def _target(graph: Graph, of: str | None) -> tuple[str, Node]:
    if of is not None:
        name, node = of, graph[of]
    elif len(graph.outputs) == 1:
        name, node = graph.outputs[0]
    elif graph.outputs:
        raise InputError(
            f"{graph.name} has {len(graph.outputs)} outputs: "
            f"{', '.join(name for name, _ in graph.outputs)}",
            hint=f"say which one to differentiate: of={graph.outputs[0][0]!r}",
        )
    else:
        raise _nothing_returned(graph)
    if not node.type.is_float:
        raise NotDifferentiableError(
            f"{name} is {node.type}, which has no derivative",
            where=node.origin.describe(),
            hint="differentiate a floating-point value",
        )
    return name, node


def wrt_names(graph: Graph, wrt: Wrt, target: Node | None = None) -> list[str]:
    """The names of the values that `wrt` means, containers taken apart."""
    refuse_no_graph(graph, "cr.transforms.vjp_graph(cr.trace(f))")
    if wrt is None:
        if not graph.inputs:
            raise InputError(f"{graph.name} has no inputs", hint='wrt="name"')
        first = next(iter(graph.structures), graph.inputs[0].name)
        wrt = (first,)
    if wrt == "all" and "all" not in graph.names:
        return _all_names(graph, target)
    if isinstance(wrt, bool) or not isinstance(wrt, (str, int, Iterable)):
        raise InputError(f"wrt={wrt!r} names nothing", hint='wrt="W", or several: wrt=("W1", "W2")')
    chosen = (wrt,) if isinstance(wrt, (str, int)) else tuple(wrt)
    found: list[str] = []
    for one in chosen:
        name = _argument_at(graph, one) if isinstance(one, int) else one
        structure = graph.structures.get(name)
        parts = structure.leaf_names if structure is not None and not structure.is_leaf else (name,)
        for part in parts:
            if part not in graph.names:
                inside = [n for n in graph.names if n.startswith((f"{part}.", f"{part}["))]
                inside = [n for n in inside if any(item.name == n for item in graph.inputs)]
                if not inside:
                    raise graph.unknown_name(part)
                found.extend(inside)
                continue
            found.append(part)
    for name in found:
        node = graph[name]
        if not node.type.is_float:
            raise NotDifferentiableError(
                f"{name} is {node.type}: only floating-point values have gradients",
                where=node.origin.describe(),
                hint=f"convert it before the call ({name}.astype(np.float64)), "
                f"or leave it out of wrt={_without(graph, name, found, chosen)}",
            )
    return list(dict.fromkeys(found))


def _without(graph: Graph, name: str, found: Sequence[str], chosen: Sequence[str | int]) -> str:
    """What `wrt=` is without this part of a container; "" where it was named itself."""
    floats = [one for one in found if graph[one].type.is_float]
    if name in chosen or not floats:
        return ""
    more = ", ..." if len(floats) > MOST_NAMES else "," * (len(floats) == 1)
    return f"({', '.join(map(repr, floats[:MOST_NAMES]))}{more})"


def _all_names(graph: Graph, target: Node | None) -> list[str]:
    """Every float input, and every float intermediate that the target depends on."""
    inputs = {item.node for item in graph.inputs}
    needed = set(topological([target])) if target is not None else set(graph.nodes)
    gradients = {g.value for g in graph.gradients}
    return [
        name
        for node, name in graph.name_of.items()
        if node.type.is_float
        and node is not target
        and node not in gradients
        and (node in inputs or node in needed)
    ]


def _argument_at(graph: Graph, position: int) -> str:
    arguments = list(graph.structures)
    if not -len(arguments) <= position < len(arguments):
        raise InputError(
            f"wrt={position}: {graph.name} has {len(arguments)} arguments",
            hint=f"they are: {', '.join(arguments)}",
        )
    return arguments[position]


def to_a_scalar(type_: ArrayType) -> str:
    """What to do with a value of this type that is to be an objective."""
    if not type_.is_float:
        return "compute it in floating point, with x.astype(np.float64): integers have no gradient"
    if all(isinstance(size, int) and size == 1 for size in type_.shape):
        return f"return its one element, J[{', '.join('0' * len(type_.shape))}]"
    return "reduce it (np.sum, np.mean)"


def _seed(graph: Graph, name: str, target: Node, seed: Any) -> tuple[tuple[Input, ...], Node]:
    if seed is None:
        if target.type.shape != ():
            raise ShapeError(
                f"{name} is {target.type}, not a scalar: its gradient needs a seed",
                where=target.origin.describe(),
                hint=f"{to_a_scalar(target.type)}, or pass seed=: an array of shape "
                f"{list(target.type.shape)}, or the name of a new input".replace("'", ""),
            )
        return graph.inputs, seed_one(target)
    if isinstance(seed, str):
        if not seed.isidentifier():
            raise InputError(f"{seed!r} is no name for an input", hint='seed="v"')
        if seed in graph.names:
            raise InputError(f"the name {seed!r} is taken in {graph.name}", hint="choose another")
        node = input_(index=len(graph.inputs), type=target.type)
        stamp((node,), target.origin.derived("backward", target))
        return (*graph.inputs, Input(seed, node)), node
    try:
        array = np.asarray(seed, target.type.dtype)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the seed is no array of numbers: {error}",
            hint="pass an array of the shape of the differentiated value, or the name of an input",
        ) from error
    if type_of(array).shape != target.type.shape:
        raise ShapeError(
            f"the seed has shape {list(array.shape)}, {name} is {target.type}",
            hint="a seed has the shape of the differentiated value",
        )
    node = constant_of(ArrayValue(array), target.type)
    stamp((node,), target.origin.derived("backward", target))
    return graph.inputs, node
