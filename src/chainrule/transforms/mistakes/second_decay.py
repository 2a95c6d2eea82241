"""Finds the parameters that the objective penalises by a sum of squares, in its graph."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import ChainruleError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives import arithmetic, logic, movement, products, reduce, sources
from chainrule.tracebacks import warn_user

# What a sum of squares passes through on its way to the objective and stays one, unscaled.
_PASSED = (logic.cast, movement.reshape, reduce.sum_, arithmetic.identity)


@dataclass(frozen=True, eq=False)
class _Term:
    """One term of the objective: `node` times a number of the sign of `positive`.

    `shown` is the first value with a name on the way from the objective to it, else None.
    """

    node: Node
    positive: bool
    shown: Node | None


def warn_of_second_decay(
    graph: Graph, of: str, parameters: Iterable[str], optimizer: str, decay: object
) -> None:
    """A UserWarning where `of` penalises parameters that the optimizer of this name decays too, by
    `decay`.

    None where that is not certain: a penalty is a sum of squares of one whole parameter, times a
    factor that is positive for the defaults, added to something else that the parameter is needed
    for.
    """
    found = penalties(graph, of, parameters) if decay else {}
    if not found:
        return
    values = list(dict.fromkeys(node for node in found.values() if node is not None))
    shown = _listed([graph.name_of[node] for node in values])
    place = (values or [graph[of]])[0]
    amount = f"{decay:g}" if isinstance(decay, (int, float)) else decay
    said = ChainruleError(  # not raised: its text has the form of every message
        f"{of} contains a sum of squares of {_listed(list(found))}"
        + (f" (in {shown})" if shown else "")
        + f", and weight_decay={amount} of {optimizer} decays the same once more",
        where=place.origin.describe(),
        hint=f"keep one of them: take the squares out of {shown or of}, "
        f"or give {optimizer} weight_decay=0",
    )
    warn_user(str(said), UserWarning)


def penalties(graph: Graph, of: str, parameters: Iterable[str]) -> dict[str, Node | None]:
    """For each parameter that `of` penalises, the named value that is or contains the penalty."""
    names = {graph[name]: name for name in parameters}
    numbers = _numbers(graph, names)
    found: dict[Node, Node | None] = {}
    others: list[Node] = []
    for term in _terms(graph, graph[of], numbers):
        parameter = _squared(term.node)
        if parameter in names and term.positive:
            found.setdefault(parameter, term.shown)
        else:
            others.append(term.node)
    needed = set(topological(others))
    return {names[node]: shown for node, shown in found.items() if node in needed}


def _terms(graph: Graph, objective: Node, numbers: dict[Node, np.ndarray]) -> Iterator[_Term]:
    """The terms of the objective, however far its sums and uniform factors reach down."""
    stack = [_Term(objective, True, None)]
    seen: set[tuple[Node, bool]] = set()
    while stack:
        term = stack.pop()
        node, positive = term.node, term.positive
        if (node, positive) in seen:
            continue
        seen.add((node, positive))
        shown = term.shown
        if shown is None and node in graph.name_of and node is not objective:
            shown = node
        primitive, inputs = node.primitive, node.inputs
        if primitive in _PASSED:
            below = [(inputs[0], positive)]
        elif primitive is arithmetic.add:
            below = [(inputs[0], positive), (inputs[1], positive)]
        elif primitive is arithmetic.subtract:
            below = [(inputs[0], positive), (inputs[1], not positive)]
        elif primitive is arithmetic.negative:
            below = [(inputs[0], not positive)]
        else:
            factor, rest = _factor(node, numbers)
            if factor == 0:
                continue
            if rest is None:
                yield _Term(node, positive, shown)
                continue
            below = [(rest, positive == (factor > 0))]
        stack += [_Term(inner, sign, shown) for inner, sign in reversed(below)]


def _factor(node: Node, numbers: dict[Node, np.ndarray]) -> tuple[float, Node | None]:
    """A number and the rest of which the node is the product or quotient; else 1 and None."""
    pairs: list[tuple[Node, ...]] = []
    if node.primitive is arithmetic.multiply:
        pairs = [node.inputs, node.inputs[::-1]]
    elif node.primitive is arithmetic.divide:
        pairs = [node.inputs[::-1]]
    for one, rest in pairs:
        if one in numbers and np.isfinite(numbers[one]):
            return float(numbers[one]), rest
    return 1, None


def _numbers(graph: Graph, parameters: Container[Node]) -> dict[Node, np.ndarray]:
    """By their defaults, the values of the uniform nodes that depend on 0-d numbers alone.

    What is trained is no number.  A number that is given only later counts as 1, as does a size.
    """
    defaults = {item.node: item.default for item in graph.inputs if item.node not in parameters}
    numbers: dict[Node, np.ndarray] = {}
    for node in graph.nodes:
        if node.primitive is sources.full:
            numbers[node] = np.asarray(node.param("value"), node.dtype)
        elif node.primitive is movement.broadcast_to and node.inputs[0] in numbers:
            numbers[node] = numbers[node.inputs[0]]
        elif node.shape:
            continue
        elif node in defaults or node.primitive is sources.size_value:
            default = defaults.get(node)
            numbers[node] = np.asarray(1 if default is None else default, node.dtype)
        elif node not in parameters and all(parent in numbers for parent in node.inputs):
            operands = [numbers[parent] for parent in node.inputs]
            with np.errstate(all="ignore"):
                value = node.primitive.evaluate(np, *operands, **dict(node.params))
            numbers[node] = np.asarray(value)
    return numbers


def _squared(node: Node) -> Node | None:
    """The array whose squares the node has or sums up; None where it is no square."""
    primitive, inputs = node.primitive, node.inputs
    if primitive is arithmetic.integer_power:
        return _array(inputs[0]) if node.param("exponent") == 2 else None
    if primitive is arithmetic.power:
        two = inputs[1].primitive is sources.full and inputs[1].param("value") == 2
        return _array(inputs[0]) if two else None
    if primitive is products.contract and node.param("x_axes") != node.param("y_axes"):
        return None
    if primitive is arithmetic.multiply or (
        primitive in (products.matmul, products.contract) and not node.type.shape
    ):
        left, right = map(_array, inputs)
        same = left is right and inputs[0].type == inputs[1].type
        return left if same else None
    return None


def _array(node: Node) -> Node:
    """The array itself, before it was cast or reshaped."""
    while node.primitive in (logic.cast, movement.reshape, arithmetic.identity):
        node = node.inputs[0]
    return node


def _listed(names: list[str]) -> str:
    """`W1`, `W1 and W2`, `W1, W2 and W3`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
