"""The loss of all alignments of a sequence with labels: connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.api import scan
from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import refuse, require_flag, shown
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size
from chainrule.nn.activations import logsumexp
from chainrule.nn.losses import reduced
from chainrule.numpy.of_arrays import positions_of

INDEX = np.int64


@composite(symbol="CTC", latex=r"\operatorname{CTC}")
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of the targets, over all alignments with blanks between them
    (Graves et al., 2006), as PyTorch's ctc_loss.

    `log_probs` (length, n, classes) are logarithms of probabilities, as of `cr.log_softmax`;
    `targets` (n, labels) integers other than `blank`, of which the first `target_lengths` (n) of
    each row count, as do the first `input_lengths` (n) of the length.  All may lack n.  The mean is
    that of the losses, each over the length of its target (1 for an empty one).  A target that no
    alignment fits has the loss inf; with `zero_infinity`, 0.  Its derivative is 0.

    The derivative is that with respect to `log_probs` alone.  (PyTorch's contains the one of a
    log-softmax before it; behind a log-softmax both are equal.)
    """
    require_flag((log_probs,), zero_infinity, "ctc_loss: zero_infinity")
    log_probs = log_probs if isinstance(log_probs, Traced) else np.asarray(log_probs)
    targets, counts, lengths = (
        one if isinstance(one, Traced) else np.asarray(one)
        for one in (targets, target_lengths, input_lengths)
    )
    had_batch = np.ndim(log_probs) == 3
    if np.ndim(log_probs) == 2:
        log_probs, targets = log_probs[:, None], targets[None]
        counts, lengths = np.reshape(counts, 1), np.reshape(lengths, 1)
    _check(log_probs, targets, lengths, counts, blank)
    labels = _with_blanks(targets, counts, blank)
    found = _log_likelihood(log_probs, labels, lengths, counts)
    losses = -found
    if zero_infinity:
        losses = np.where(losses == np.inf, 0, losses)
    if reduction == "mean":
        losses = losses / np.maximum(counts, 1).astype(log_probs.dtype)
    if reduction == "none" and not had_batch:
        return losses[0]
    return reduced(losses, reduction)


def _with_blanks(targets: Any, counts: Any, blank: int) -> Any:
    """(n, 2 labels + 1): a blank before, between and behind the labels, and for those that do not
    count."""
    rows, width = np.shape(targets)
    labels = np.where(_numbers((targets, counts), width) < counts[:, None], targets, blank)
    labels = labels.astype(INDEX)
    pairs = np.stack([np.full_like(labels, blank), labels], axis=-1)
    pairs = np.reshape(pairs, (rows, 2 * width))
    return np.concatenate([pairs, np.full_like(labels, blank, shape=(rows, 1))], axis=1)


def _log_likelihood(log_probs: Any, labels: Any, lengths: Any, counts: Any) -> Any:
    """For each row the log of the sum over all alignments of the products of probabilities."""
    length, rows, _ = np.shape(log_probs)
    width = np.shape(labels)[1]
    given = (log_probs, labels, lengths, counts)
    wanted = np.broadcast_to(labels, (length, rows, width))
    emitted = np.take_along_axis(log_probs, wanted, axis=2)
    # A label may follow another one without a blank between them, unless they are equal.
    differs = labels[:, 2:] != labels[:, :-2]
    places = _numbers(given, width)
    may_skip = np.concatenate([np.zeros_like(differs, shape=(rows, 2)), differs], axis=1)
    may_skip = may_skip[:, :width] & (places % 2 == 1)
    nothing = np.full_like(log_probs, -np.inf, shape=(rows, width))
    start = np.where(places == 0, 0, nothing)

    def iteration(alpha: Any, row: Any) -> Any:
        one = _moved(alpha, 1)
        two = np.where(may_skip, _moved(alpha, 2), -np.inf)
        after = logsumexp(np.stack([alpha, one, two]), axis=0) + row["emitted"]
        return np.where(row["time"] < lengths[:, None], after, alpha), None

    steps = {"emitted": emitted, "time": _numbers(given, length)}
    alpha, _ = scan(iteration, start, steps)
    last = 2 * counts[:, None]
    is_end = (places == last) | (places == last - 1)
    return logsumexp(np.where(is_end, alpha, -np.inf), axis=1)


def _moved(alpha: Any, places: int) -> Any:
    """Each place has what was so many places before it, the first ones -inf."""
    padding = np.full_like(alpha[:, :1], -np.inf)
    moved = np.concatenate([*[padding] * places, alpha[:, :-places]], axis=1)
    return moved[:, : np.shape(alpha)[1]]  # of no labels there is one place


def _numbers(given: Any, count: Any) -> Any:
    trace = trace_of(given)
    if isinstance(count, Size):
        assert trace is not None
        return positions_of(trace, count)
    return np.arange(count)


def _check(log_probs: Any, targets: Any, lengths: Any, counts: Any, blank: Any) -> None:
    given = (log_probs, targets, lengths, counts)
    if np.ndim(log_probs) != 3 or dtype_kind(log_probs.dtype) != "f":
        refuse(
            ShapeError if np.ndim(log_probs) != 3 else DTypeError,
            given,
            f"ctc_loss: the logarithms of probabilities are {shown(log_probs)}",
            "they are floats (length, n, classes), or without n",
        )
    _, rows, classes = np.shape(log_probs)
    if np.ndim(targets) != 2 or np.shape(targets)[0] != rows:
        refuse(
            ShapeError,
            given,
            f"ctc_loss: the targets {shown(targets)} for {rows} sequences",
            "targets are (n, labels): rows of one length, of which target_lengths count",
        )
    for name, one in (("input_lengths", lengths), ("target_lengths", counts), ("targets", targets)):
        if one.dtype.kind not in "iu":
            refuse(DTypeError, given, f"ctc_loss: {name} is {shown(one)}", "give integers")
        if name != "targets" and tuple(np.shape(one)) != (rows,):
            refuse(
                ShapeError,
                given,
                f"ctc_loss: {name} {shown(one)} for {rows} sequences",
                "one integer for each sequence",
            )
    if isinstance(classes, int) and not 0 <= blank < classes:
        raise InputError(
            f"ctc_loss: blank={blank!r} is none of {classes} classes",
            hint="it is the number of a class: blank=0",
        )
