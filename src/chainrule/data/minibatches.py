"""`minibatches`: splits arrays into batches of rows, in an order computed from key and epoch."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.data.ahead import Ahead
from chainrule.data.rows import Rows, rows_of
from chainrule.errors import IndexOutOfRangeError, InputError
from chainrule.random import fold_in, permutation
from chainrule.random.keys import checked
from chainrule.tracebacks import entry

AHEAD = 2  # batches that are made beforehand, where that pays
WORTH_A_THREAD = 1 << 18  # bytes of a batch: to hand one over takes as long as to copy these


@entry
def minibatches(
    arrays: Any,
    batch_size: int,
    key: Any = None,
    *,
    epoch: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    prefetch: int | None = None,
) -> Minibatches:
    """Splits the rows of `arrays` into batches of `batch_size`, each row once.

    `arrays` is an array, or a tuple, list, dict or dataclass of arrays with equally many rows; a
    batch is the same container with some of the rows, copied.  The rows are taken in the order
    `cr.random.permutation(cr.random.fold_in(key, epoch), rows)`, or, with `shuffle=False`, as they
    are.  The last batch is short if `batch_size` does not divide the number of rows, or left out
    with `drop_last=True`.

    A thread prepares `prefetch` batches ahead, none with 0; by default 2 where batches are large
    or come from a memory-mapped file.

    Raises InputError for a batch size, key or epoch that makes no sense, and what `rows_of` raises.
    """
    return Minibatches(
        rows_of(arrays),
        _counted(batch_size, 1, "batch_size", "the number of rows of a batch"),
        _order_key(key, shuffle, _counted(epoch, 0, "epoch", "its number")),
        drop_last,
        None if prefetch is None else _counted(prefetch, 0, "prefetch", "a number of batches"),
    )


class Minibatches:
    """The batches of one epoch: `for batch in batches`, `len(batches)`, `batches[k]`.

    `batches[k:]` are those from the k-th on, for going on in the middle of an epoch; no data of the
    others are touched.  It can be iterated again, and gives the same.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        key: np.ndarray | None,
        drop_last: bool,
        prefetch: int | None,
        chosen: range | None = None,
    ) -> None:
        self._rows, self._key = rows, key
        self.batch_size, self.drop_last, self.prefetch = batch_size, drop_last, prefetch
        whole, rest = divmod(rows.count, batch_size)
        self._chosen = range(whole + (rest > 0 and not drop_last)) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self._chosen)

    @entry
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = Minibatches(
                self._rows,
                self.batch_size,
                self._key,
                self.drop_last,
                self.prefetch,
                self._chosen[index],
            )
            if "_order" in vars(self):
                part.__dict__["_order"] = self._order
            return part
        return self._rows.take(self._places(self._number(index)))

    def __iter__(self) -> Iterator[Any]:
        ahead = self.prefetch
        if ahead is None:
            large = self._rows.row_nbytes * self.batch_size >= WORTH_A_THREAD
            ahead = AHEAD if large or self._rows.is_on_disk else 0
        if ahead and len(self) > 1:
            return Ahead(self.__getitem__, 0, len(self), ahead)
        return map(self.__getitem__, range(len(self)))

    @entry
    def rows(self, index: int) -> NDArray[np.int64]:
        """The numbers of the rows in a batch, in their order."""
        places = self._places(self._number(index))
        if isinstance(places, slice):
            return np.arange(places.start, places.stop, dtype=np.int64)
        return places.copy()

    def __repr__(self) -> str:
        count, rows = len(self), self._rows.count
        return f"<{count} minibatches of up to {self.batch_size} of {rows} rows>"

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        assert self._key is not None
        return permutation(self._key, self._rows.count)

    def _number(self, index: Any) -> int:
        try:
            return self._chosen[operator.index(index)]
        except IndexError:
            raise IndexOutOfRangeError(
                f"there is no batch {index}: there are {len(self)} batches",
                hint="len(batches) says how many there are",
            ) from None

    def _places(self, number: int) -> slice | NDArray[np.int64]:
        """Where the rows of a batch are, counted in all batches of the epoch."""
        begin = number * self.batch_size
        end = min(begin + self.batch_size, self._rows.count)
        return slice(begin, end) if self._key is None else self._order[begin:end]


def _counted(value: Any, least: int, name: str, what: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least or isinstance(value, bool):
        raise InputError(
            f"{name}={value!r}: {what} is an integer of at least {least}",
            hint=f"{name}={max(least, 100 if name == 'batch_size' else 0)}",
        )
    return count


def _order_key(key: Any, shuffle: bool, epoch: int) -> np.ndarray | None:
    """The key of the order of the rows; None for the order in which they are."""
    if not shuffle:
        return None
    if key is None:
        raise InputError(
            "minibatches in random order need a key",
            hint="key=cr.random.key(0), or shuffle=False for the rows as they are",
        )
    return fold_in(checked(key, None), epoch)
