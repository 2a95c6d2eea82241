"""Functions of PyTorch that `torch.export` would unroll or cannot follow: kept whole while it runs.

Each becomes an operator of PyTorch's for that time, which only knows the shapes of its results: so
a recurrent layer stays one operator, whose length may be a named size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

NAMESPACE = "chainrule"

_LOSS = (
    "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "int reduction, bool zero_infinity) -> Tensor"
)
_LAYER = (
    "(Tensor x, {state} state, Tensor[] params, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, bool batch_first) -> {results}"
)
_OF_H = _LAYER.format(state="Tensor", results="(Tensor, Tensor)")
_OF_H_AND_C = _LAYER.format(state="Tensor[]", results="(Tensor, Tensor, Tensor)")


def _of_loss(x: Any, targets: Any, lengths: Any, counts: Any, blank: Any, reduction: int, *_: Any):
    return x.new_empty(x.shape[1:2] if reduction == 0 and x.ndim == 3 else ())


def _of_layer(x: Any, state: Any, *given: Any) -> Any:
    last = [state] if not isinstance(state, (list, tuple)) else list(state)
    is_bidirectional = given[5]
    width = last[0].shape[-1] * (2 if is_bidirectional else 1)
    return (x.new_empty((*x.shape[:-1], width)), *(one.new_empty(one.shape) for one in last))


# For each its arguments, and the results for tensors without numbers.
_SIGNATURES: dict[str, tuple[str, Callable[..., Any]]] = {
    "ctc_loss": (_LOSS, _of_loss),
    "lstm": (_OF_H_AND_C, _of_layer),
    **dict.fromkeys(("gru", "rnn_tanh", "rnn_relu"), (_OF_H, _of_layer)),
}


@cache
def _operators(torch: ModuleType) -> dict[str, Any]:
    for name, (schema, results) in _SIGNATURES.items():
        torch.library.define(f"{NAMESPACE}::{name}", schema)
        torch.library.register_fake(f"{NAMESPACE}::{name}", results)
    return {name: getattr(torch.ops.chainrule, name) for name in _SIGNATURES}


@contextmanager
def kept_whole(torch: ModuleType) -> Iterator[None]:
    """While it is open, these functions are operators of their own."""
    operators = _operators(torch)

    def ctc_loss(log_probs: Any, targets: Any, lengths: Any, counts: Any, *given: Any) -> Any:
        blank, reduction, zero_infinity = (*given, *(0, 1, False)[len(given) :])
        both = [
            one if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=torch.int64)
            for one in (lengths, counts)
        ]
        return operators["ctc_loss"](log_probs, targets, *both, blank, reduction, zero_infinity)

    def layer(name: str) -> Callable[..., Any]:
        original = getattr(torch._VF, name)

        def call(*given: Any) -> Any:
            is_packed = isinstance(given[3], (list, tuple))  # with batch sizes before the state
            return original(*given) if is_packed else operators[name](*given)

        return call

    changed: list[tuple[Any, str, Any]] = [(torch, "ctc_loss", ctc_loss)]
    changed += [(torch._VF, name, layer(name)) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
    before = [vars(holder).get(name) for holder, name, _ in changed]
    for holder, name, function in changed:
        setattr(holder, name, function)
    try:
        yield
    finally:
        for (holder, name, _), function in zip(changed, before, strict=True):
            if function is None:  # _VF finds its functions elsewhere
                delattr(holder, name)
            else:
                setattr(holder, name, function)
