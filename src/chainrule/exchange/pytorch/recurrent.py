"""PyTorch's recurrent layers, and the loss of sequences: chainrule's own loops over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import REDUCTIONS
from chainrule.numpy.of_one_primitive import stop_gradient
from chainrule.random import keys
from chainrule.random.dropout import dropout as dropped
from chainrule.sequences.ctc import ctc_loss
from chainrule.sequences.recurrent import gru, lstm, rnn

_FIELDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


def _weights(params: Any, has_biases: bool, layers: int, bidirectional: bool) -> dict[str, Any]:
    """PyTorch's list of arrays, direction by direction, by the names of its state_dict."""
    suffixes = [
        f"_l{layer}{end}"
        for layer in range(layers)
        for end in (("", "_reverse") if bidirectional else ("",))
    ]
    count = len(params) // len(suffixes)
    fields = _FIELDS[:count] if has_biases else ("weight_ih", "weight_hh", "weight_hr")[:count]
    names = [field + suffix for suffix in suffixes for field in fields]
    return dict(zip(names, params, strict=True))


def _recurrent(function: Any, **fixed: Any) -> Any:
    """A layer of aten: with a key, its dropout is that of training."""

    def call(
        key: Any,
        x: Any,
        state: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        drawn = iter(range(num_layers))
        output, last = function(
            x,
            _weights(params, has_biases, num_layers, bidirectional),
            state,
            batch_first=batch_first,
            dropout=None
            if key is None
            else lambda h: dropped(h, dropout, key=keys.fold_in(key, next(drawn))),
            **fixed,
        )
        return (output, *last) if isinstance(last, tuple) else (output, last)

    return call


def _drops(x: Any, state: Any, params: Any, biases: Any, layers: Any, p: Any, train: Any, *_: Any):
    return bool(train and p and layers > 1)


def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Any:
    """ctc_loss, with the derivative of PyTorch's, which is that behind a log-softmax."""
    total = np.sum(np.exp(log_probs), axis=-1, keepdims=True)
    log_probs = log_probs - (total - stop_gradient(total))
    counts = target_lengths
    if np.ndim(targets) == 1 and np.ndim(log_probs) == 3:  # one behind the other
        starts, last = np.cumsum(counts) - counts, np.shape(targets)[0] - 1
        places = starts[:, None] + np.arange(last + 1)
        targets = targets[np.minimum(places, last)]
    options = (blank, REDUCTIONS[reduction], zero_infinity)
    return ctc_loss(log_probs, targets, input_lengths, counts, *options)


_LAYERS: dict[str, Any] = {
    "lstm": _recurrent(lstm),
    "gru": _recurrent(gru),
    "rnn_tanh": _recurrent(rnn),
    "rnn_relu": _recurrent(rnn, nonlinearity="relu"),
}


def _without_key(function: Any) -> Any:
    return lambda *given: function(None, *given)


RECURRENT: dict[str, Any] = {
    **{name: _without_key(one) for name, one in _LAYERS.items()},
    "ctc_loss": _ctc_loss,
}
RECURRENT_DRAWS: dict[str, Any] = {name: (one, _drops) for name, one in _LAYERS.items()}
