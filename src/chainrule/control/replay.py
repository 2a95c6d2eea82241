"""Replays a loop or a choice: yields each body that runs, with its arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.control.cond_node import cond
from chainrule.control.evaluate_body import program_of, store
from chainrule.control.scan_node import scan
from chainrule.control.while_node import unwind, while_
from chainrule.control.wording import users_name
from chainrule.dataclass import dataclass
from chainrule.graph.body import Body, bodies_of
from chainrule.graph.node import Node


@dataclass(frozen=True)
class Turn:
    """One evaluation of a body: `inputs` are its arrays, in order, `outputs` what it gave.

    `said` is the place in words: `iteration 2 (of 0 to 9) of a loop over cell`; `row` which of the
    slices of a scan it reads.
    """

    said: str
    row: int
    body: Body
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]


def turns(node: Node, operands: Sequence[np.ndarray]) -> Iterator[Turn]:
    """What the node does on these operands, in the order in which it is done; none for a node that
    is no loop and no choice.  Iterations are counted from 0, those of a scan by their slices."""
    found = {scan: _scanned, cond: _chosen, while_: _repeated, unwind: _unwound}.get(node.primitive)
    return iter(()) if found is None else found(node, operands)


def carried(node: Node) -> tuple[int, int]:
    """How many of the inputs of a body are the same in all turns, and how many those after them
    are that each turn leaves to the next."""
    if node.primitive is cond:
        return len(node.inputs) - 1, 0
    return node.param("constants"), node.param("carries")


def parts(node: Node, result: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The result of a loop or a choice taken apart: what the last turn leaves (zeros for carries
    that are not part of it), and, for each further output of the body, the rows of all turns."""
    count = carried(node)[1]
    body = next(bodies_of(node)) if node.primitive is cond else node.param("body")
    types = [one.type for _, one in body.graph.outputs]
    rows = node.param("length") if node.primitive is scan else 1
    found, start = [], 0
    for place, one in enumerate(types):
        shape: Any = one.shape if place < count else (rows, *one.shape)
        if place < count and one.dtype != node.dtype:
            found.append(np.zeros(shape, result.dtype))
            continue
        stop = start + int(np.prod(shape))
        found.append(result[start:stop].reshape(shape))
        start = stop
    return found[:count], found[count:]


def _turn(said: str, row: int, body: Body, inputs: Sequence[np.ndarray]) -> Turn:
    with np.errstate(all="ignore"):
        outputs = program_of(body)(inputs)
    return Turn(said, row, body, tuple([np.array(one) for one in inputs]), tuple(outputs))


def _chosen(node: Node, operands: Sequence[np.ndarray]) -> Iterator[Turn]:
    taken = bool(operands[0])
    body = node.param("if_true" if taken else "if_false")
    yield _turn(f"the branch for {taken}{_called(body)} of a cond", 0, body, operands[1:])


def _scanned(node: Node, operands: Sequence[np.ndarray]) -> Iterator[Turn]:
    body, carries, constants = (node.param(key) for key in ("body", "carries", "constants"))
    length, last = node.param("length"), constants + carries
    fixed = operands[:constants]
    states = _states(body, operands[constants:last])
    for step in range(length - 1, -1, -1) if node.param("reverse") else range(length):
        rows = [np.asarray(one[step]) for one in operands[last:]]
        said = f"iteration {step} (of 0 to {length - 1}) of a loop{_over(body)}"
        turn = _turn(said, step, body, [*fixed, *states, *rows])
        yield turn
        store(states, turn.outputs[:carries])


def _repeated(node: Node, operands: Sequence[np.ndarray]) -> Iterator[Turn]:
    body, condition, constants = (node.param(key) for key in ("body", "condition", "constants"))
    fixed, states = operands[:constants], _states(body, operands[constants:])
    step = 0
    while program_of(condition)([*fixed, *states])[0]:
        said = f"iteration {step} of a loop{_over(body)}"
        turn = _turn(said, step, body, [*fixed, *states])
        yield turn
        store(states, turn.outputs)
        step += 1


def _unwound(node: Node, operands: Sequence[np.ndarray]) -> Iterator[Turn]:
    """The iterations of the loop, then those back."""
    body, step, condition = (node.param(key) for key in ("body", "step", "condition"))
    constants, last = node.param("constants"), len(operands) - node.param("carries")
    fixed, states = operands[:constants], _states(step, operands[constants:last])
    befores = []
    while program_of(condition)([*fixed, *states])[0]:
        said = f"iteration {len(befores)} of a loop{_over(step)}"
        turn = _turn(said, len(befores), step, [*fixed, *states])
        befores.append(turn.inputs[constants:])
        yield turn
        store(states, turn.outputs)
    gone = _states(body, operands[last:])
    for row in range(len(befores) - 1, -1, -1):
        said = f"iteration {row} of a loop{_over(body)}"
        turn = _turn(said, row, body, [*fixed, *befores[row], *gone])
        yield turn
        store(gone, turn.outputs)


def _states(body: Body, initial: Sequence[np.ndarray]) -> list[np.ndarray]:
    pairs = zip(initial, body.graph.outputs, strict=False)
    return [np.array(array, node.dtype) for array, (_, node) in pairs]


def _over(body: Body) -> str:
    name = users_name(body)
    return f" over {name}" if name else ""


def _called(body: Body) -> str:
    name = users_name(body)
    return f" ({name})" if name else ""
