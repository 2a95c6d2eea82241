"""A training step as one computational graph, in one sitting: NumPy and nothing else.

It traces an objective, differentiates it, prints it, runs it, says what it must keep, and trains.
`docs/from-scratch.md` says what each part grew into.  To see it work:

    python docs/from_scratch.py
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# ---- 1. The graph: variables, and the operations that make them ---------------------------------


@dataclass(frozen=True)
class Operation:
    """An operation, declared once.  All that follows reads these records."""

    name: str
    evaluate: Callable  # arrays and parameters -> array
    pullback: Callable | None  # g, out, *inputs -> a gradient for each input; None: it is flat
    text: str  # how it is printed
    shape: Callable  # shapes of the inputs and parameters -> shape of the result
    broadcasts: bool  # whether it works element by element


@dataclass(eq=False)
class Node(np.lib.mixins.NDArrayOperatorsMixin):
    """A variable: an operation applied to other variables.  There is no number in it.

    NumPy calls `__array_ufunc__` for an operator or a function that works element by element, and
    `__array_function__` for the others.  Instead of computing, they make the next node.
    """

    operation: Operation
    inputs: tuple["Node", ...]
    shape: tuple[int, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    __hash__, __eq__ = object.__hash__, object.__eq__  # a node is equal to itself alone

    def __array_ufunc__(self, ufunc, method, *operands):
        return apply(ufunc.__name__, *operands)

    def __array_function__(self, function, types, arguments, options):
        return FUNCTIONS[function.__name__](*arguments, **options)

    @property
    def T(self):
        return apply("transpose", self)


def apply(name: str, *operands: Any, **parameters: Any) -> Node:
    """One more node.  Broadcasting is a node of its own, so no derivative below thinks of it."""
    operation = OPERATIONS[name]
    inputs = [as_node(one) for one in operands]
    if operation.broadcasts:
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        inputs = [x if x.shape == shape else apply("broadcast", x, to=shape) for x in inputs]
    shape = operation.shape(*(one.shape for one in inputs), **parameters)
    return Node(operation, tuple(inputs), shape, parameters)


def as_node(value: Any) -> Node:
    """A number in the program is a variable, too."""
    if isinstance(value, Node):
        return value
    return Node(CONSTANT, (), np.shape(value), {"value": value}, name=str(value))


# ---- 2. The operations, each with its derivative, which is written with nodes --------------------

CONSTANT = Operation("constant", lambda value: value, None, "", np.shape, False)
INPUT = Operation("input", lambda: None, None, "", np.shape, False)
OPERATIONS: dict[str, Operation] = {}


def declare(name, text, evaluate, pullback=None, shape=None):
    """Adds an operation; without `shape` it is one that works element by element."""
    is_elementwise = shape is None
    shape = shape or (lambda first, *others: first)
    OPERATIONS[name] = Operation(name, evaluate, pullback, text, shape, is_elementwise)


declare("add", "{} + {}", np.add, lambda g, out, x, y: (g, g))
declare("subtract", "{} - {}", np.subtract, lambda g, out, x, y: (g, -g))
declare("negative", "-{}", np.negative, lambda g, out, x: (-g,))
declare("multiply", "{} * {}", np.multiply, lambda g, out, x, y: (g * y, g * x))
declare("divide", "{} / {}", np.divide, lambda g, out, x, y: (g / y, -(g * out) / y))
declare("power", "{}**{}", np.power, lambda g, out, x, y: (g * (y * x ** (y - 1)), None))
declare("exp", "exp({})", np.exp, lambda g, out, x: (g * out,))
declare("log", "log({})", np.log, lambda g, out, x: (g / x,))
declare("tanh", "tanh({})", np.tanh, lambda g, out, x: (g * (1 - out * out),))
declare("greater", "{} > {}", lambda x, y: np.where(x > y, 1.0, 0.0))
declare(
    "maximum",
    "max({}, {})",
    np.maximum,
    lambda g, out, x, y: (g * np.greater(x, y), g * np.greater(y, x)),
)
declare(
    "matmul",
    "{} @ {}",
    np.matmul,
    lambda g, out, x, y: (g @ y.T, x.T @ g),
    lambda x, y: (x[0], y[1]),
)
declare("transpose", "{}ᵀ", np.transpose, lambda g, out, x: (g.T,), lambda x: x[::-1])


def added_up(g, out, x):
    """A number that was copied has the sum of its copies' gradients."""
    new = len(out.shape) - len(x.shape)
    copied = [i for i, n in enumerate(out.shape) if i < new or (x.shape[i - new] == 1 and n > 1)]
    return (np.reshape(np.sum(g, axis=copied), x.shape),)


def declare_reduction(name, of_numpy, pullback):
    """It leaves axes of length 1, which the function for NumPy takes away."""

    def function(x, axis=None, keepdims=False):
        axes = range(len(x.shape)) if axis is None else np.atleast_1d(axis).tolist()
        found = apply(name, x, axes=tuple(axes))
        left = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        return found if keepdims else np.reshape(found, left)

    def shape(x, axes):
        return tuple(1 if i in axes else n for i, n in enumerate(x))

    declare(name, name + "({})", lambda x, axes: of_numpy(x, axes, keepdims=True), pullback, shape)
    return function


def declare_shaping(name, of_numpy, pullback):
    """It is told the shape of its result."""
    declare(name, "{}", lambda x, to: of_numpy(x, to), pullback, lambda x, to: to)
    return lambda x, shape: x if x.shape == shape else apply(name, x, to=shape)


FUNCTIONS = {  # by their names in NumPy
    "sum": declare_reduction("sum", np.sum, lambda g, out, x: (np.broadcast_to(g, x.shape),)),
    "reshape": declare_shaping("reshape", np.reshape, lambda g, out, x: (np.reshape(g, x.shape),)),
    "broadcast_to": declare_shaping("broadcast", np.broadcast_to, added_up),
}


largest = declare_reduction("max", np.max, None)  # only where its gradient cancels


def scattered(g, labels, columns):
    """Zeros, but g at the label of each row."""
    found = np.zeros((len(labels), columns), g.dtype)
    found[np.arange(len(labels)), labels] = g
    return found


declare(
    "pick",
    "{}[{}]",
    lambda x, labels: x[np.arange(len(labels)), labels],
    lambda g, out, x, labels: (apply("scatter", g, labels, columns=x.shape[1]), None),
    lambda x, labels: labels,
)
declare(
    "scatter",
    "scatter({}, {})",
    scattered,
    lambda g, out, x, labels: (apply("pick", g, labels), None),
    lambda g, labels, columns: (*labels, columns),
)


def cross_entropy(scores: Node, labels: Node) -> Node:
    """The mean of -log softmax(scores)[label]; the largest score is taken off, so exp is finite."""
    shifted = scores - largest(scores, axis=1, keepdims=True)
    log_total = np.log(np.sum(np.exp(shifted), axis=1))
    return np.sum(log_total - apply("pick", shifted, labels)) / scores.shape[0]


# ---- 3. Tracing: from a Python function to a graph that has its names ----------------------------


@dataclass(frozen=True)
class Graph:
    """Named inputs, named outputs, and all that is between them."""

    inputs: dict[str, Node]
    outputs: dict[str, Node]

    @property
    def nodes(self) -> list[Node]:
        return ordered(self.outputs.values())


def trace(function: Callable, **examples: Any) -> Graph:
    """Calls the function once, with nodes.  They are called what its local variables are called."""
    inputs = {name: Node(INPUT, (), np.shape(one), {}, name) for name, one in examples.items()}
    variables: dict[str, Any] = {}

    def watch(frame, event, result):
        if event == "return" and frame.f_code is function.__code__:
            variables.update(frame.f_locals)

    sys.setprofile(watch)
    try:
        result = function(**inputs)
    finally:
        sys.setprofile(None)
    for name, value in variables.items():
        if isinstance(value, Node) and not value.name:
            value.name = name
    return Graph(inputs, {result.name or "out": result})


def ordered(roots: Iterable[Node]) -> list[Node]:
    """Each node after its inputs; without recursion, as graphs are deep."""
    found: dict[Node, None] = {}
    pending = list(roots)[::-1]
    while pending:
        missing = [one for one in pending[-1].inputs if one not in found]
        pending += missing
        if not missing:
            found.setdefault(pending.pop())
    return list(found)


# ---- 4. Backpropagation: the chain rule, in reverse order ----------------------------------------


def backward(graph: Graph, wrt: Iterable[str]) -> Graph:
    """The graph with its gradients, which are nodes as all others: differentiate it again."""
    name, objective = list(graph.outputs.items())[-1]
    asked = [graph.inputs[one] for one in wrt]
    leads = set(asked)  # to what is asked: no other gradient is computed
    for node in graph.nodes:
        if not leads.isdisjoint(node.inputs):
            leads.add(node)
    gradients = {objective: as_node(1.0)}
    for node in reversed(ordered([objective])):
        if node not in gradients or node.operation.pullback is None:
            continue
        parts = node.operation.pullback(gradients[node], node, *node.inputs)
        for parent, part in zip(node.inputs, parts, strict=True):
            if parent not in leads:
                continue
            if part is None:
                raise NotImplementedError(f"the derivative of {node.operation.name} by an operand")
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    for node, g in gradients.items():
        g.name = g.name or (f"d{name}/d{node.name}" if node.name else "")
    found = {f"d{name}/d{one.name}": gradients[one] for one in asked}
    return Graph(graph.inputs, {**graph.outputs, **found})


def descended(step: Graph, objective: str, wrt: Iterable[str], learning_rate: float) -> Graph:
    """A whole training step: with the updated parameters, as `new W`."""
    new = {}
    for name in wrt:
        updated = step.inputs[name] - learning_rate * step.outputs[f"d{objective}/d{name}"]
        updated.name = f"new {name}"
        new[updated.name] = updated
    return Graph(step.inputs, {**step.outputs, **new})


# ---- 5. Explaining: the graph as text, and what has to be kept -----------------------------------


def text(graph: Graph) -> str:
    """A line for each variable with a name or several uses; others stand where they are used."""
    uses = [one for node in graph.nodes for one in node.inputs]
    shown: dict[Node, str] = {}
    lines = []
    for node in graph.nodes:
        template = node.operation.text
        expression = template.format(*(shown[one] for one in node.inputs)) or node.name
        if not node.inputs or template == "{}":
            shown[node] = expression
        elif node.name or uses.count(node) > 1:
            shown[node] = node.name or f"v{len(lines) + 1}"
            lines.append(f"{shown[node]} = {expression}   {node.shape}")
        else:
            shown[node] = expression if template.endswith((")", "]", "ᵀ")) else f"({expression})"
    return "\n".join(lines)


def kept(forward: Graph, step: Graph) -> list[Node]:
    """What forward propagation makes and backpropagation reads: why training takes more memory than
    prediction."""
    made = dict.fromkeys(node for node in forward.nodes if node.inputs)
    read = {base(one) for node in step.nodes if node not in made for one in node.inputs}
    return [node for node in made if node in read]


def base(node: Node) -> Node:
    """Where its memory is: what is broadcast or reshaped has none of its own."""
    return base(node.inputs[0]) if node.operation.text == "{}" else node


# ---- 6. Running: arrays in, arrays out, and nothing is held longer than it is needed -------------


def run(graph: Graph, **arrays: Any) -> tuple[dict[str, Any], int]:
    """The outputs by name, and the most bytes that were alive at once, beside the inputs."""
    nodes = graph.nodes
    last = {one: place for place, node in enumerate(nodes) for one in node.inputs}
    last.update(dict.fromkeys(graph.outputs.values(), len(nodes)))
    values = {node: np.asarray(arrays[name]) for name, node in graph.inputs.items()}
    inputs = list(values.values())  # held, so that none of their ids is used again
    given = dict(map(owner, inputs))
    peak = 0
    for place, node in enumerate(nodes):
        if node.operation is not INPUT:
            values[node] = evaluate(node, values)
        alive = dict(map(owner, values.values()))
        peak = max(peak, sum(alive[one] for one in alive.keys() - given.keys()))
        values = {one: array for one, array in values.items() if last.get(one, 0) > place}
    return {name: values[node] for name, node in graph.outputs.items()}, peak


def evaluate(node: Node, values: dict[Node, Any]) -> Any:
    operands = [values[one] for one in node.inputs]
    return np.asarray(node.operation.evaluate(*operands, **node.parameters))


def owner(array: Any) -> tuple[int, int]:
    """Whose memory an array or a view is in, and its bytes."""
    found = array if array.base is None else array.base
    return id(found), found.nbytes


# ---- 7. All of it, with the network of the README ------------------------------------------------


def objective(x, y, W1, W2, weight_decay):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def example() -> dict[str, Any]:
    """60 points, labelled by the largest of three sums, and the parameters."""
    random = np.random.default_rng(0)
    x, true = random.standard_normal((60, 8)), random.standard_normal((8, 3))
    W1, W2 = 0.1 * random.standard_normal((8, 16)), 0.1 * random.standard_normal((16, 3))
    return {"x": x, "y": np.argmax(x @ true, axis=1), "W1": W1, "W2": W2, "weight_decay": 1e-3}


def main() -> None:
    arrays, parameters = example(), ("W1", "W2")
    graph = trace(objective, **arrays)
    step = backward(graph, parameters)
    print(text(step))
    names = [node.name or f"{node.operation.name}(...)" for node in kept(graph, step)]
    print("\nkept for backpropagation:", ", ".join(names))
    print(f"bytes: {run(graph, **arrays)[1]} to predict, {run(step, **arrays)[1]} to train")
    training = descended(step, "J", parameters, learning_rate=0.5)
    for epoch in range(201):
        results, _ = run(training, **arrays)
        arrays |= {name: results[f"new {name}"] for name in parameters}
        if epoch % 50 == 0:
            print(f"epoch {epoch:3}: J = {results['J']:.4f}")


if __name__ == "__main__":
    main()
