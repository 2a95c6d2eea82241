"""Feeds training steps: the batches of an epoch, constants, and keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from chainrule.data import Minibatches, minibatches
from chainrule.data.rows import Rows, rows_of
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.types import type_of
from chainrule.random import fold_in
from chainrule.train.loop.rows import (
    count_rows,
    first_batches,
    named_batch,
    positions_of,
    refuse_other_rows,
    refuse_unknown,
    roots_of,
    row_arguments,
)
from chainrule.train.step.random_inputs import ORDER, Keys, key_inputs

BY_EPOCH = (
    "data=lambda epoch: cr.data.minibatches(arrays, 256, key, epoch=epoch), or arrays by name"
)


class Feed:
    """The batches of every epoch, and what is given beside them.

    `data` are arrays by the names of inputs, which are shuffled and cut by `cr.data.minibatches`
    with the key fold_in(key, 0) and the number of the epoch, from 1; or batches that can be read
    in every epoch, as of a list or a DataLoader; or a function of that number that returns the
    batches.  `state` and `constants` are the inputs that others give; `size` is
    the named size that counts rows, where it is known.
    """

    def __init__(
        self,
        graph: Graph,
        data: Any,
        batch_size: int,
        key: np.ndarray,
        state: Iterable[str],
        constants: Mapping[str, Any],
        size: object = None,
    ) -> None:
        self.graph, self.batch_size = graph, batch_size
        self.key, self.constants = key, dict(constants)
        self._held = {*state, *self.constants}
        self.arguments = row_arguments(graph, self._held, size)
        self._keys: Keys | None = None
        self._named: frozenset[str] = frozenset()  # of the batch that was checked last
        self._rows: Rows | None = None
        self._positions = positions_of(graph, self._held)
        self._function: Any = data
        if isinstance(data, Mapping):
            self._arrays = dict(data)
            self._set_names(self._arrays)
            refuse_other_rows(graph, self._arrays)
            self._rows = rows_of(self._arrays)
            next(first_batches(self._arrays, batch_size))  # which refuses what makes none
        elif not callable(data):
            self._function = lambda epoch: data
            refuse_once(data)

    def batches(self, epoch: int) -> Any:
        """The batches of an epoch, the first of which is number 1."""
        if self._rows is not None:
            order = fold_in(self.key, ORDER)
            return minibatches(self._arrays, self.batch_size, order, epoch=epoch)
        batches = self._function(epoch)
        if not isinstance(batches, Iterable):
            raise InputError(
                f"data({epoch}) is {type(batches).__name__}, and not the batches of an epoch",
                hint=BY_EPOCH,
            )
        return batches

    def complete(self, batch: Any, step: int) -> Mapping[str, Any]:
        """The batch with constants and the keys of the step that comes after `step` steps."""
        batch = self.named(batch)
        keys = self._keys
        if keys is None or batch.keys() != self._named:
            keys = self._set_names(batch)
        if not keys.names and not self.constants:
            return batch
        return {**self.constants, **keys.at(step), **batch}

    def named(self, batch: Any) -> Mapping[str, Any]:
        """The arrays of a batch by name."""
        return batch if type(batch) is dict else named_batch(batch, self._positions)

    def count(self, batch: Mapping[str, Any]) -> int:
        """The rows of a batch."""
        return count_rows(batch, self.arguments)

    def first(self) -> Iterator[Mapping[str, Any]]:
        """A batch of each length that comes up, where that is known; for a check."""
        if self._rows is not None:
            for batch in first_batches(self._arrays, self.batch_size):
                yield self.complete(batch, 0)

    def described(self) -> dict[str, Any]:
        """What must be the same where a training goes on, as JSON has it."""
        found: dict[str, Any] = {"key": [int(word) for word in self.key]}
        if self._rows is not None:
            found["batch_size"] = self.batch_size
            for name, array in zip(self._rows.structure.leaf_names, self._rows.arrays, strict=True):
                found[name.replace("arrays", "data", 1)] = str(type_of(array))
        return found

    def _set_names(self, batch: Mapping[str, Any]) -> Keys:
        """Who gives which input, from the names in a batch; InputError where that does not fit."""
        graph, roots = self.graph, roots_of(self.graph)
        others = [name for name in graph.arguments if name not in self._held]
        refuse_unknown(graph, batch, "the data", others)
        for name in batch:
            parts = [part for part, root in roots.items() if root == name]
            for part in (name, *parts):
                if part in self._held:
                    raise InputError(
                        f"{part} is in the data and in the parameters",
                        hint="one of the two",
                    )
        given = {name for name, root in roots.items() if {name, root} & set(batch)}
        given |= self._held
        names = key_inputs(graph, given)
        missing = [
            item
            for item in graph.inputs
            if item.default is None and item.name not in {*given, *names}
        ]
        if missing:
            lacking = ", ".join(f"{item.name}: {item.type}" for item in missing)
            raise InputError(
                f"there is no value for {lacking}: the data have {', '.join(batch) or 'no names'}",
                where=missing[0].node.origin.describe(),
                hint="give it among the data, a row for each example, or among the parameters",
            )
        if self._keys is None:
            self._keys = Keys(names, self.key)
        elif self._keys.names != names:
            raise InputError(
                f"keys are given here to {', '.join(names) or 'no input'}, and in the first batch "
                f"to {', '.join(self._keys.names) or 'none'}",
                hint="batches with the same names: a key in all of them, or in none",
            )
        self._named = frozenset(batch)
        return self._keys


def refuse_once(data: Any) -> None:
    """InputError for what has no batches, or those of one epoch."""
    if isinstance(data, Minibatches):
        why = "whose order is that of one epoch"
    elif isinstance(data, Iterator):
        why = "which can be read only once"
    elif isinstance(data, Iterable) and not hasattr(data, "shape"):
        return
    else:
        why = "which has no batches"
    raise InputError(
        f"data are arrays by name, batches or a function of the epoch, got {type(data).__name__}, "
        f"{why}",
        hint=BY_EPOCH,
    )


def may_look_ahead(batches: Any) -> bool:
    """Whether making a batch before its turn changes nothing, and nothing changes it then."""
    return isinstance(batches, (Minibatches, list, tuple))


def after(batches: Any, count: int) -> Iterator[Any]:
    """The batches but for the first `count`, which are not made where that can be avoided."""
    if not count:
        return iter(batches)
    if may_look_ahead(batches):
        return iter(batches[count:])
    return islice(iter(batches), count, None)
