"""Recurrent layers with PyTorch's weights: each direction of each layer is one loop over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.control.api import scan
from chainrule.errors import InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import refuse, require_flag, shown
from chainrule.numpy.of_arrays import positions_of
from chainrule.numpy.of_one_primitive import sigmoid
from chainrule.sequences.recurrent_weights import Direction, layers_of

State = dict[str, Any]  # h, and c of long short-term memory
Step = Callable[[State, Any], State]  # the state, and what the input adds to the gates


@composite(symbol="RNN", latex=r"\operatorname{RNN}")
def rnn(
    x: Any,
    weights: Mapping[str, Any],
    state: Any = None,
    *,
    nonlinearity: str = "tanh",
    batch_first: bool = False,
    lengths: Any = None,
    dropout: Callable[[Any], Any] | None = None,
) -> Any:
    """(output, h_n) of h' = tanh(W_ih x + b_ih + W_hh h + b_hh), as PyTorch's nn.RNN (Elman, 1990).

    `weights` has weight_ih_l0 (hidden, features), weight_hh_l0 (hidden, hidden) and, or not,
    bias_ih_l0 and bias_hh_l0 (hidden); `lstm` says the rest.  `nonlinearity` is "tanh" or "relu".
    """
    functions = {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0)}
    if nonlinearity not in functions:
        raise InputError(
            f"rnn: nonlinearity={nonlinearity!r} is not known", hint='it is "tanh" or "relu"'
        )
    function = functions[nonlinearity]

    def step_of(one: Direction) -> Step:
        def step(state: Any, z: Any) -> Any:
            z = _called("a", z + state["h"] @ one.w_hh.T)
            return {"h": _called("h", function(z))}

        return step

    options = (batch_first, lengths, dropout)
    output, (h_n,) = _layers(x, weights, _alone(state), options, "rnn", 1, "h", step_of)
    return output, h_n


@composite(symbol="GRU", latex=r"\operatorname{GRU}")
def gru(
    x: Any,
    weights: Mapping[str, Any],
    state: Any = None,
    *,
    batch_first: bool = False,
    lengths: Any = None,
    dropout: Callable[[Any], Any] | None = None,
) -> Any:
    """(output, h_n) of gated recurrent units, as PyTorch's nn.GRU (Cho et al., 2014).

    `weights` has weight_ih_l0 (3 hidden, features), weight_hh_l0 (3 hidden, hidden) and, or not,
    bias_ih_l0 and bias_hh_l0 (3 hidden), each with the rows of the gates r, z, n below each other;
    `lstm` says the rest.  With r and z, sigmoids of their sums,
    n = tanh(W_in x + b_in + r (W_hn h + b_hn)) and h' = (1 - z) n + z h.
    """

    def step_of(one: Direction) -> Step:
        k = np.shape(one.w_hh)[-1]

        def step(state: Any, a: Any) -> Any:
            b = state["h"] @ one.w_hh.T
            if one.b_hh is not None:
                b = b + one.b_hh
            b = _called("b", b)
            r = _called("r", sigmoid(a[..., :k] + b[..., :k]))
            z = _called("z", sigmoid(a[..., k : 2 * k] + b[..., k : 2 * k]))
            n = _called("n", np.tanh(a[..., 2 * k :] + r * b[..., 2 * k :]))
            return {"h": _called("h", (1 - z) * n + z * state["h"])}

        return step

    options = (batch_first, lengths, dropout)
    output, (h_n,) = _layers(x, weights, _alone(state), options, "gru", 3, "h", step_of)
    return output, h_n


@composite(symbol="LSTM", latex=r"\operatorname{LSTM}")
def lstm(
    x: Any,
    weights: Mapping[str, Any],
    state: Any = None,
    *,
    batch_first: bool = False,
    lengths: Any = None,
    dropout: Callable[[Any], Any] | None = None,
) -> Any:
    """(output, (h_n, c_n)) of long short-term memory, as PyTorch's nn.LSTM (Hochreiter and
    Schmidhuber, 1997; with forget gates).

    `x` is (length, n, features), with `batch_first` (n, length, features), or without n.
    `weights` is the state_dict of a torch.nn.LSTM, or any mapping with these names, from which
    layers and directions follow: weight_ih_l0 (4 hidden, features), weight_hh_l0 (4 hidden,
    hidden), or not bias_ih_l0 and bias_hh_l0 (4 hidden), and weight_hr_l0 (out, hidden) where the
    state is projected; _l1, _l2, ... of further layers, which read the outputs below them;
    weight_ih_l0_reverse and so on of the direction from the end.  Rows are those of the gates
    i, f, g, o below each other: with sigmoids of three of them and g = tanh of the fourth,
    c' = f c + i g and h' = o tanh(c').

    `state` is (h, c), each (layers directions, n, hidden), layer by layer, zeros unless given, and
    so are h_n and c_n.  `output` (length, n, directions hidden) has the states h of the last layer.

    `lengths` (n), integers, says how many elements of each sequence count: beyond them the state
    stays, outputs are 0, and the direction from the end begins there, as for PyTorch's packed
    sequences.  `dropout` is applied to what the layers above the first read: for instance
    `lambda h: cr.dropout(h, 0.1, key=k)`.
    """

    def step_of(one: Direction) -> Step:
        k = np.shape(one.w_hh)[0] // 4

        def step(state: Any, z: Any) -> Any:
            z = _called("a", z + state["h"] @ one.w_hh.T)
            i = _called("i", sigmoid(z[..., :k]))
            f = _called("f", sigmoid(z[..., k : 2 * k]))
            g = _called("g", np.tanh(z[..., 2 * k : 3 * k]))
            o = _called("o", sigmoid(z[..., 3 * k :]))
            c = _called("c", f * state["c"] + i * g)
            h = o * np.tanh(c)
            if one.w_hr is not None:
                h = h @ one.w_hr.T
            return {"h": _called("h", h), "c": c}

        return step

    if state is not None and (not isinstance(state, (tuple, list)) or len(state) != 2):
        raise InputError(
            "lstm: the state is not (h, c)", hint="give two arrays (layers directions, n, hidden)"
        )
    options = (batch_first, lengths, dropout)
    return _layers(x, weights, state, options, "lstm", 4, "hc", step_of)


def _called(name: str, value: Any) -> Any:
    """The value, under this name in the graph of an iteration."""
    value.program.bind_name(name, value.node)
    return value


def _alone(state: Any) -> Any:
    return None if state is None else (state,)


def _layers(
    x: Any,
    weights: Mapping[str, Any],
    state: Any,
    options: tuple[bool, Any, Any],
    asked: str,
    gates: int,
    parts: str,
    step_of: Callable[[Direction], Step],
) -> tuple[Any, tuple[Any, ...]]:
    """All layers, one after the other; `parts` are the names of the arrays of a state."""
    batch_first, lengths, dropout = options
    require_flag((x,), batch_first, f"{asked}: batch_first")
    layers = layers_of(weights, gates, asked)
    x, unbatched = _in_time(x, batch_first, asked)
    counts = None if lengths is None else _which_count(x, lengths, asked)
    if counts is not None:
        x = np.where(counts, x, 0)  # NaN behind the end would reach the gradient of the weights
    count = len(layers) * len(layers[0])
    starts = None if state is None else _starts(state, x, count, unbatched, parts, asked)
    finals: list[State] = []
    for number, directions in enumerate(layers):
        if number and dropout is not None:
            x = dropout(x)
        outputs = []
        for place, one in enumerate(directions):
            one.require_features(np.shape(x)[-1], x, asked)
            given = _summed(x, one, asked)
            begin = _zeros(given, one, parts) if starts is None else starts[len(finals)]
            final, output = _in_loop(step_of(one), given, begin, counts, place == 1)
            outputs.append(output)
            finals.append(final)
        x = outputs[0] if len(outputs) == 1 else np.concatenate(outputs, axis=-1)
    last = tuple(np.stack([one[part] for one in finals]) for part in parts)
    if unbatched:
        return x[:, 0], tuple(one[:, 0] for one in last)
    return (np.swapaxes(x, 0, 1) if batch_first else x), last


def _in_time(x: Any, batch_first: bool, asked: str) -> tuple[Any, bool]:
    """x as (length, n, features), and whether it had no n."""
    if np.ndim(x) == 2:
        return x[:, None], True
    if np.ndim(x) != 3:
        shape = "(n, length, features)" if batch_first else "(length, n, features)"
        refuse(
            ShapeError,
            (x,),
            f"{asked}: {shown(x)} has {np.ndim(x)} axes",
            f"it takes {shape}, or without n",
        )
    return (np.swapaxes(x, 0, 1) if batch_first else x), False


def _summed(x: Any, one: Direction, asked: str) -> Any:
    """What the inputs add to the sums of the gates, for all times in one product."""
    given = x @ one.w_ih.T
    if one.b_ih is not None:
        given = given + one.b_ih
        if asked != "gru":  # whose reset gate scales this one
            given = given + one.b_hh
    return given


def _zeros(given: Any, one: Direction, parts: str) -> State:
    rows = np.shape(given)[1]
    widths = {"h": one.width, "c": np.shape(one.w_hh)[0] // 4}
    return {part: np.zeros_like(given, shape=(rows, widths[part])) for part in parts}


def _starts(state: Any, x: Any, count: int, unbatched: bool, parts: str, asked: str) -> list[State]:
    """The first state of each direction of each layer."""
    rows = np.shape(x)[1]
    found = {}
    for part, given in zip(parts, state, strict=True):
        one = given[:, None] if unbatched and np.ndim(given) == 2 else given
        if np.ndim(one) != 3 or tuple(np.shape(one)[:2]) != (count, rows):
            refuse(
                ShapeError,
                (x, given),
                f"{asked}: the state {part} {shown(given)} for {count} loops and {rows} sequences",
                f"a state is ({count}, {rows}, hidden): one for each direction of each layer",
            )
        found[part] = one
    return [{part: one[k] for part, one in found.items()} for k in range(count)]


def _which_count(x: Any, lengths: Any, asked: str) -> Any:
    """(length, n, 1): whether an element is before the end of its sequence."""
    length, rows = np.shape(x)[:2]
    if tuple(np.shape(lengths)) != (rows,):
        refuse(
            ShapeError,
            (x, lengths),
            f"{asked}: lengths {shown(lengths)} for {rows} sequences",
            "give one integer for each sequence, an array of one axis",
        )
    trace = trace_of((x, lengths))
    numbers = np.arange(length) if trace is None else positions_of(trace, length)
    return (numbers[:, None] < lengths)[:, :, None]


def _in_loop(step: Step, given: Any, begin: State, counts: Any, reverse: bool) -> tuple[State, Any]:
    """The last state, and all states h; where an element does not count the state stays."""
    if counts is None:

        def iteration(state: State, z: Any) -> Any:
            after = step(state, z)
            return after, after["h"]

        return scan(iteration, begin, given, reverse=reverse)

    def counted(state: State, row: Any) -> Any:
        after = step(state, row["z"])
        kept = {part: np.where(row["counts"], new, state[part]) for part, new in after.items()}
        return kept, np.where(row["counts"], after["h"], 0)

    return scan(counted, begin, {"z": given, "counts": counts}, reverse=reverse)
