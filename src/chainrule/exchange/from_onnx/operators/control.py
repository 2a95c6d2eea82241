"""ONNX's choices and loops, sequences and optional values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.control import api
from chainrule.errors import DTypeError, ShapeError, UnsupportedError
from chainrule.exchange.from_onnx.blocks import Block
from chainrule.exchange.from_onnx.call import Call
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size

MOST_PARTS = 4096  # arrays of a sequence
MOST_UNROLLED = 64  # iterations of a loop over what no array is


def _body(call: Call, name: str) -> Block:
    body = call.get(name)
    if not isinstance(body, Block):
        call.refuse(f"it has no graph {name}")
    return body


def if_(call: Call, condition: Any) -> Any:
    """One branch if the condition is known, else `cr.cond`."""
    branches = _body(call, "then_branch"), _body(call, "else_branch")
    if isinstance(condition, np.ndarray):
        return tuple(call.bodies(branches[0] if condition.ravel()[0] else branches[1]))

    def of(block: Block) -> Callable[[], Any]:
        return lambda: tuple(_arrays(call, call.bodies(block)))

    try:
        with call.trying():
            found = api.cond(np.reshape(condition, ()), of(branches[0]), of(branches[1]))
    except (ShapeError, DTypeError, UnsupportedError) as error:  # one of them depends on it
        try:
            call.known(condition, "condition")
        except UnsupportedError as better:
            raise better from error
        raise
    return tuple(found)


def _arrays(call: Call, values: Any) -> list[Any]:
    for one in values:
        if not isinstance(one, (np.ndarray, Traced)):
            call.refuse("a sequence or no value is the result of a branch that depends on data")
    return [call.traced(one) for one in values]


def loop(call: Call, count: Any = None, condition: Any = None, *initial: Any) -> Any:
    """`cr.scan` where the number of iterations is known, else `cr.while_loop`."""
    body = _body(call, "body")
    carries = len(initial)
    stacked = len(body.outputs) - 1 - carries
    if stacked < 0 or len(body.inputs) != carries + 2:
        call.refuse(f"{carries} values for a body of {len(body.inputs)} inputs")
    always = _goes_on(body) and (condition is None or isinstance(condition, np.ndarray))
    if isinstance(condition, np.ndarray) and not condition.ravel()[0]:
        always, count = True, np.array(0, np.int64)
    known = isinstance(count, np.ndarray)
    if any(not isinstance(one, (np.ndarray, Traced)) for one in initial) or (
        known
        and not always
        and isinstance(call.integer(count, "M"), int)
        and call.integer(count, "M") <= MOST_UNROLLED
    ):
        return _unrolled(call, body, count, condition, initial, stacked)
    if always and known:
        length = call.integer(count, "M")
        if length == 0 and stacked:
            return _unrolled(call, body, count, condition, initial, stacked)
        if not isinstance(length, int) or length > MOST_UNROLLED:
            return _counted(call, body, length, initial)
        try:
            with call.trying():
                return _counted(call, body, max(length, 0), initial)
        except UnsupportedError:  # something must be known in each iteration
            return _unrolled(call, body, count, condition, initial, stacked)
    if stacked:
        for value, what in ((count, "number of iterations"), (condition, "condition")):
            if value is not None:  # on which the shapes of its results depend
                call.known(value, what)
        call.refuse("whether it goes on depends on data, and so do its results' shapes")
    return _while(call, body, count, condition, initial)


def _goes_on(body: Block) -> bool:
    """Whether the body's condition is the one that it is given, or the constant true."""
    made = {name: one for one in body.calls for name in one.outputs}
    name = body.outputs[0]
    while name in made and made[name].operator == "Identity":
        name = made[name].inputs[0]
    if name == body.inputs[1]:
        return True
    value = body.known.get(name)
    if name in made and made[name].operator == "Constant":
        value = made[name].get("value")
    return isinstance(value, np.ndarray) and bool(value.all())


def _counted(call: Call, body: Block, length: Any, initial: Any) -> tuple[Any, ...]:
    carries = len(initial)
    true = np.array(True)

    def step(state: Any, _: Any) -> Any:
        place, *values = state
        _, *results = call.bodies(body, place, true, *values)
        arrays = _arrays(call, results)
        return (place + 1, *arrays[:carries]), tuple(arrays[carries:])

    start = (call.traced(np.array(0, np.int64)), *[call.traced(one) for one in initial])
    last, rows = api.scan(step, start, None, length=length)
    return (*last[1:], *rows)


def _while(call: Call, body: Block, count: Any, condition: Any, initial: Any) -> tuple[Any, ...]:
    def goes_on(state: Any) -> Any:
        place, holds, *_ = state
        return holds if count is None else holds & (place < np.reshape(count, ()))

    def step(state: Any) -> Any:
        place, holds, *values = state
        holds, *results = _arrays(call, call.bodies(body, place, holds, *values))
        return (place + 1, np.reshape(holds, ()), *results)

    begin = np.array(True) if condition is None else condition
    start = [np.array(0, np.int64), np.reshape(begin, ()), *initial]
    most = None
    if isinstance(count, np.ndarray):
        limit = call.integer(count, "M")
        most = limit if isinstance(limit, int) and 0 < limit <= 1 << 20 else None
    _, _, *last = api.while_loop(
        goes_on, step, tuple(call.traced(one) for one in start), max_steps=most
    )
    return tuple(last)


def _unrolled(
    call: Call, body: Block, count: Any, condition: Any, initial: Any, stacked: int
) -> tuple[Any, ...]:
    """A loop over sequences, or a short one whose condition is computed from what is known."""
    limit = MOST_UNROLLED + 1 if count is None else call.integer(count, "M")
    values, rows, carries = list(initial), [[] for _ in range(stacked)], len(initial)
    holds = np.array(True) if condition is None else condition
    step = 0
    while step < limit:
        if isinstance(holds, Traced):
            if stacked or any(not isinstance(one, (np.ndarray, Traced)) for one in initial):
                call.known(holds, "condition")  # on which the shapes of its results depend
            return _while(call, body, count, condition, initial)
        if not holds.ravel()[0]:
            break
        if step == MOST_UNROLLED:
            call.refuse(f"more than {MOST_UNROLLED} iterations over what is no array")
        holds, *results = call.bodies(body, np.array(step, np.int64), holds, *values)
        values = results[:carries]
        for row, result in zip(rows, results[carries:], strict=True):
            row.append(result)
        step += 1
    return (*values, *[_stacked(call, row) for row in rows])


def _stacked(call: Call, row: list[Any]) -> Any:
    if not row:
        call.refuse("no iteration, which leaves its results without a shape")
    return np.stack(row)


def scan(call: Call, *given: Any) -> tuple[Any, ...]:
    body = _body(call, "body")
    count = call.get("num_scan_inputs")
    if call.version < 9:
        call.refuse("version 8 of it", "save the model with operator set 9 or newer")
    initial, xs = given[: len(given) - count], given[len(given) - count :]
    carries = len(initial)
    forth = call.get("scan_input_directions") or (0,) * count
    axes = call.get("scan_input_axes") or (0,) * count
    moved = []
    for x, axis, backwards in zip(xs, axes, forth, strict=True):
        x = np.moveaxis(x, call.axis(axis, x.ndim), 0)
        moved.append(call.traced(np.flip(x, 0) if backwards else x))

    def step(state: Any, rows: Any) -> Any:
        arrays = _arrays(call, call.bodies(body, *state, *rows))
        return tuple(arrays[:carries]), tuple(arrays[carries:])

    last, rows = api.scan(step, tuple(call.traced(one) for one in initial), tuple(moved))
    back = call.get("scan_output_directions") or (0,) * len(rows)
    places = call.get("scan_output_axes") or (0,) * len(rows)
    results = []
    for row, axis, backwards in zip(rows, places, back, strict=True):
        row = np.flip(row, 0) if backwards else row
        results.append(np.moveaxis(row, 0, call.axis(axis, row.ndim)))
    return (*last, *results)


# Sequences are Python's lists while the file is read: how long they are is always known.


def sequence_construct(call: Call, *parts: Any) -> Any:
    return _of_arrays(call, list(parts))


def _of_arrays(call: Call, parts: list[Any]) -> list[Any]:
    """A sequence of arrays, not too long; another could be huge in a small file."""
    if any(isinstance(one, list) for one in parts):
        call.refuse("a sequence of sequences")
    if len(parts) > MOST_PARTS:
        call.refuse(f"a sequence of {len(parts)} arrays; {MOST_PARTS} may be read")
    return parts


def sequence_at(call: Call, parts: list[Any], place: Any) -> Any:
    return _sequence(call, parts)[call.integer(place, "position")]


def sequence_insert(call: Call, parts: list[Any], value: Any, place: Any = None) -> Any:
    found = list(_sequence(call, parts))
    at = len(found) if place is None else call.integer(place, "position")
    if not -len(found) <= at <= len(found):
        call.refuse(f"position {at} of {len(found)}")
    found.insert(at, value)
    return _of_arrays(call, found)


def sequence_erase(call: Call, parts: list[Any], place: Any = None) -> Any:
    found = list(_sequence(call, parts))
    del found[-1 if place is None else call.integer(place, "position")]
    return found


def sequence_map(call: Call, first: Any, *others: Any) -> Any:
    body = _body(call, "body")
    rows = []
    for place, one in enumerate(_sequence(call, first)):
        rest = [other[place] if isinstance(other, list) else other for other in others]
        rows.append(call.bodies(body, one, *rest))
    return tuple([row[i] for row in rows] for i in range(len(body.outputs)))


def _sequence(call: Call, parts: Any) -> list[Any]:
    if not isinstance(parts, list):
        call.refuse("its operand is no sequence")
    return parts


def concat_from_sequence(call: Call, parts: Any) -> Any:
    axis = call.get("axis", 0)
    join = np.stack if call.get("new_axis", 0) else np.concatenate
    return join(_sequence(call, parts), axis)


def split_to_sequence(call: Call, x: Any, lengths: Any = None) -> Any:
    axis = call.axis(call.get("axis", 0), x.ndim)
    length = x.shape[axis]
    if isinstance(length, Size):
        call.refuse(f"along the size {length}")
    each = 1 if lengths is None else call.integers(lengths, "split")[0] if not lengths.ndim else 0
    if lengths is not None and lengths.ndim:
        parts = call.integers(lengths, "split")
    elif each < 1 or length // each > MOST_PARTS:
        call.refuse(f"{length} elements in parts of {each}")
    else:
        parts = [each] * (length // each) + ([length % each] if length % each else [])
    found, start = [], 0
    for one in parts:
        place = [slice(None)] * x.ndim
        place[axis] = slice(start, start + one)
        part = x[tuple(place)]
        squeezes = lengths is None and not call.get("keepdims", 1)
        found.append(np.squeeze(part, axis) if squeezes else part)
        start += one
    return _of_arrays(call, found)


def optional(call: Call, value: Any = None) -> Any:
    return value


def optional_get(call: Call, value: Any = None) -> Any:
    if value is None:
        call.refuse("there is no value")
    return value


def optional_has(call: Call, value: Any = None) -> Any:
    return np.array(value is not None)


CONTROL: dict[str, Callable[..., Any]] = {
    "ConcatFromSequence": concat_from_sequence,
    "If": if_,
    "Loop": loop,
    "Optional": optional,
    "OptionalGetElement": optional_get,
    "OptionalHasElement": optional_has,
    "Scan": scan,
    "SequenceAt": sequence_at,
    "SequenceConstruct": sequence_construct,
    "SequenceEmpty": sequence_construct,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": lambda call, parts: np.array(len(_sequence(call, parts)), np.int64),
    "SequenceMap": sequence_map,
    "SplitToSequence": split_to_sequence,
}
