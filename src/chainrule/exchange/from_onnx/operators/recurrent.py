"""ONNX's recurrent layers, as scans over the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.control import api
from chainrule.exchange.from_onnx.call import Call
from chainrule.graph.sizes.sizes import Size
from chainrule.nn import activations, linear_units
from chainrule.numpy.of_one_primitive import sigmoid

ACTIVATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "relu": lambda x, a, b: activations.relu(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "sigmoid": lambda x, a, b: sigmoid(x),
    "affine": lambda x, a, b: (1.0 if a is None else a) * x + (b or 0.0),
    "leakyrelu": lambda x, a, b: linear_units.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: np.where(x > (1.0 if a is None else a), x, 0.0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.clip(
        (0.2 if a is None else a) * x + (0.5 if b is None else b), 0.0, 1.0
    ),
    "elu": lambda x, a, b: linear_units.elu(x, 1.0 if a is None else a),
    "softsign": lambda x, a, b: x / (1 + np.absolute(x)),
    "softplus": lambda x, a, b: activations.softplus(x),
}
WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(call: Call, default: Sequence[str], directions: int) -> list[list[Any]]:
    """The activation functions of each direction."""
    names = [one.lower() for one in call.get("activations") or (*default,) * directions]
    if len(names) != len(default) * directions or any(one not in ACTIVATIONS for one in names):
        call.refuse(f"the activations {', '.join(names)}")
    alphas, betas = (
        list(call.get("activation_alpha") or ()),
        list(call.get("activation_beta") or ()),
    )
    found = []
    for name in names:
        a = alphas.pop(0) if name in WITH_ALPHA and alphas else None
        b = betas.pop(0) if name in WITH_BETA and betas else None
        found.append(_of(ACTIVATIONS[name], a, b, call.get("clip")))
    each = len(default)
    return [found[i * each : (i + 1) * each] for i in range(directions)]


def _of(function: Callable[[Any, Any, Any], Any], a: Any, b: Any, limit: Any) -> Callable[..., Any]:
    if limit is None:
        return lambda x: function(x, a, b)
    return lambda x: function(np.clip(x, -limit, limit), a, b)


Cell = Callable[[Any, Any, Any, list[Any], Any], Any]


def _layer(
    call: Call, states: int, default: Sequence[str], gates: int, cell: Cell, given: Sequence[Any]
) -> tuple[Any, ...]:
    """Runs `cell` over the sequence, in one direction or both; the outputs of all steps, then the
    last states."""
    x, w, r = given[:3]
    bias, lengths, *initial = (*given[3:], *(None,) * 5)[:5]
    if call.get("layout", 0):
        x = np.swapaxes(x, 0, 1)
        initial[:states] = [
            None if one is None else np.swapaxes(one, 0, 1) for one in initial[:states]
        ]
    peepholes = initial[states] if states == 2 else None
    hidden, batch = r.shape[-1], x.shape[1]
    directions = w.shape[0]
    way = call.get("direction", "forward")
    if way not in ("forward", "reverse", "bidirectional") or directions != 1 + (
        way == "bidirectional"
    ):
        call.refuse(f"direction {way!r} with weights for {directions}")
    functions = _activations(call, default, directions)
    every, last = [], []
    for one in range(directions):
        backwards = way == "reverse" or one == 1
        parts = np.zeros_like(w, shape=(2, gates * hidden))
        if bias is not None:
            parts = np.reshape(bias[one], (2, gates * hidden))
        weights = w[one], r[one], parts, None if peepholes is None else peepholes[one]
        begin = tuple(
            call.traced(np.zeros_like(x, shape=(batch, hidden)) if h is None else h[one])
            for h in initial[:states]
        )
        rows, ends = _run(call, cell, weights, functions[one], x, begin, lengths, backwards)
        every.append(rows)
        last.append(ends)
    outputs = np.stack(every, 1)  # (steps, directions, batch, hidden)
    ends = [np.stack([one[i] for one in last], 0) for i in range(states)]
    if call.get("layout", 0):
        outputs = np.transpose(outputs, (2, 0, 1, 3))
        ends = [np.swapaxes(one, 0, 1) for one in ends]
    return (outputs, *ends)


def _run(
    call: Call,
    cell: Cell,
    weights: Any,
    functions: list[Any],
    x: Any,
    begin: Any,
    lengths: Any,
    backwards: bool,
) -> tuple[Any, Any]:
    steps = x.shape[0]
    if lengths is None:

        def step(state: Any, row: Any) -> Any:
            state = cell(call, row, state, functions, weights)
            return state, state[0]

        last, rows = api.scan(step, begin, x, reverse=backwards)
        return rows, last
    if isinstance(steps, Size):
        call.refuse(f"sequence_lens with {steps} steps")
    numbers = call.traced(call.positions(steps))
    lengths = call.traced(lengths)

    def masked(state: Any, given: Any) -> Any:
        row, number = given
        inside = np.expand_dims(number < lengths, 1)
        new = cell(call, row, state, functions, weights)
        kept = tuple(np.where(inside, a, b) for a, b in zip(new, state, strict=True))
        return kept, np.where(inside, new[0], np.zeros_like(new[0]))

    last, rows = api.scan(masked, begin, (x, numbers), reverse=backwards)
    return rows, last


def _rnn_cell(call: Call, x: Any, state: Any, functions: list[Any], weights: Any) -> Any:
    w, r, bias, _ = weights
    return (functions[0](x @ w.T + state[0] @ r.T + bias[0] + bias[1]),)


def _lstm_cell(call: Call, x: Any, state: Any, functions: list[Any], weights: Any) -> Any:
    w, r, bias, peepholes = weights
    h, c = state
    size = h.shape[-1]
    gates = x @ w.T + h @ r.T + bias[0] + bias[1]
    i, o, f, g = (gates[:, one * size : (one + 1) * size] for one in range(4))
    p_o = None
    if peepholes is not None:
        p_i, p_o, p_f = (peepholes[one * size : (one + 1) * size] for one in range(3))
        i, f = i + p_i * c, f + p_f * c
    i = functions[0](i)
    f = 1 - i if call.get("input_forget", 0) else functions[0](f)
    c = f * c + i * functions[1](g)
    o = functions[0](o if p_o is None else o + p_o * c)
    return o * functions[2](c), c


def _gru_cell(call: Call, x: Any, state: Any, functions: list[Any], weights: Any) -> Any:
    w, r, bias, _ = weights
    (h,) = state
    size = h.shape[-1]
    given = x @ w.T + bias[0]
    both = given[:, : 2 * size] + h @ r[: 2 * size].T + bias[1, : 2 * size]
    update, reset = functions[0](both[:, :size]), functions[0](both[:, size:])
    last, own = r[2 * size :].T, bias[1, 2 * size :]
    if call.get("linear_before_reset", 0):
        new = functions[1](given[:, 2 * size :] + reset * (h @ last + own))
    else:
        new = functions[1](given[:, 2 * size :] + (reset * h) @ last + own)
    return ((1 - update) * new + update * h,)


def rnn(call: Call, *given: Any) -> tuple[Any, ...]:
    return _layer(call, 1, ("tanh",), 1, _rnn_cell, given)


def lstm(call: Call, *given: Any) -> tuple[Any, ...]:
    return _layer(call, 2, ("sigmoid", "tanh", "tanh"), 4, _lstm_cell, given)


def gru(call: Call, *given: Any) -> tuple[Any, ...]:
    return _layer(call, 1, ("sigmoid", "tanh"), 3, _gru_cell, given)


RECURRENT: dict[str, Callable[..., Any]] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
