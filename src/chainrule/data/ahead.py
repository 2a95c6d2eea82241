"""`Ahead`: an iterator whose items a background thread prefetches."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.5  # of waiting at a time: Ctrl-C that came just before is seen after it
LONGEST_WAIT = 5.0  # seconds for the item that is being made when an iterator is closed


class _Shared:
    """What the thread and the iterator share, under one lock."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.items: deque[Any] = deque()
        self.error: BaseException | None = None
        self.is_closed = False
        self.process = os.getpid()
        self.thread: threading.Thread | None = None


class Ahead(Generic[T]):
    """The items make(begin), ..., make(end - 1), of which up to `count` are made beforehand.

    What `make` raises is raised, with its traceback, by the `next` that would have returned the
    item.  The thread ends with the last item, when the iterator is closed or dropped, and when the
    interpreter ends.  After a fork the child has no such thread: it starts one of its own.
    """

    def __init__(self, make: Callable[[int], T], begin: int, end: int, count: int) -> None:
        self._make, self._next, self._end, self._count = make, begin, end, count
        self._start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._next >= self._end:
            self.close()
            raise StopIteration
        if self._shared.process != os.getpid():
            self._start()
        shared = self._shared
        with shared.changed:
            while not shared.items and shared.error is None and not shared.is_closed:
                shared.changed.wait(LOOK_SECONDS)
            if shared.items:
                item = shared.items.popleft()
                shared.changed.notify_all()
                self._next += 1
                return item
        self._next = self._end
        error, shared.error = shared.error, None
        if error is None:  # closed
            raise StopIteration
        self.close()
        try:
            raise error
        finally:
            del error  # whose traceback holds this frame

    def close(self) -> None:
        """End the thread; the iterator has no further items."""
        self._next = self._end
        self._finalizer()

    def _start(self) -> None:
        self._shared = shared = _Shared()
        arguments = (shared, self._make, self._next, self._end, self._count)
        # The thread must not hold the iterator, or that would never be dropped.
        shared.thread = threading.Thread(
            target=_work, args=arguments, name="chainrule-data", daemon=True
        )
        self._finalizer = weakref.finalize(self, _end, shared)  # when dropped, and at exit
        shared.thread.start()


def _work(shared: _Shared, make: Callable[[int], Any], begin: int, end: int, count: int) -> None:
    """What the thread does: make items while there is room for them."""
    for number in range(begin, end):
        with shared.changed:
            while len(shared.items) >= count and not shared.is_closed:
                shared.changed.wait()
            if shared.is_closed:
                return
        try:
            item = make(number)
        except BaseException as error:
            with shared.changed:
                shared.error = error
                shared.changed.notify_all()
            return
        with shared.changed:
            shared.items.append(item)
            shared.changed.notify_all()
        del item


def _end(shared: _Shared) -> None:
    """Close, and wait for the item that is being made: it may read a file that is closed next."""
    if shared.process != os.getpid():
        return  # another process's thread, which may have held the lock at the fork
    with shared.changed:
        shared.is_closed = True
        shared.items.clear()
        shared.changed.notify_all()
    thread = shared.thread
    if thread is not None and thread.ident is not None and thread is not threading.current_thread():
        thread.join(LONGEST_WAIT)
