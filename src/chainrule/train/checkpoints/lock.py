"""Locks a folder, so that one process at a time writes to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from chainrule.errors import StateError

NAME = ".lock"


class FolderLock:
    """Holds a folder until `release`, or until the process ends, however it ends.

    The system frees the lock of a process that was killed.  Raises StateError, with the number of
    the other process, where one holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process, self._descriptor = os.getpid(), -1
        self._held = os.stat(folder)
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._descriptor)
        except OSError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            self._descriptor = -1
            raise StateError(
                f"the folder {folder} is in use by another training"
                + (f": process {holder}" if holder.isdecimal() else ""),
                hint="another folder for this training, or end that one first",
            ) from None
        except BaseException:  # a signal, perhaps after it was locked
            self.release()
            raise
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{self._process}\n".encode(), 0)
        except BaseException:
            self.release()
            raise

    def __reduce__(self) -> Any:  # of copies, too: each would close the other's descriptor
        raise StateError(
            f"a hold of the folder {self.folder} is neither copied nor pickled",
            hint="Checkpoints of another folder",
        )

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the folder; a forked child does not."""
        return self._descriptor >= 0 and self._process == os.getpid()

    def renew(self) -> bool:
        """False where the folder is another one by now; a lock file that was removed is made anew.

        StateError where another process holds the folder since.
        """
        try:
            if not os.path.samestat(self._held, os.stat(self.folder)):
                return False
        except FileNotFoundError:
            return False
        try:
            whole = os.path.samestat(os.fstat(self._descriptor), os.stat(self.folder / NAME))
        except FileNotFoundError:
            whole = False
        if not whole:
            other = FolderLock(self.folder)
            self._descriptor, other._descriptor = other._descriptor, self._descriptor
            other.release()
        return True

    def release(self) -> None:
        """Give the folder free, also where a forked child has it open; further calls do nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                if self._process == os.getpid():  # a child must not unlock it for its parent
                    _unlock(descriptor)
            finally:
                os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        # One byte far behind the text, which others may read.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        """Closing it does that here."""

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
