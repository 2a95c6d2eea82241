"""What took long to make, in the user's cache folder: a later process need not make it again.

Compiled code is there, and the sequences of instructions that fit into less memory.

The folder is $CHAINRULE_CACHE_DIR, else $XDG_CACHE_HOME/chainrule, else ~/.cache/chainrule.
Code that is loaded is run, so the folder must belong to the user and be closed to all others
(mode 0700, as it is made here); else nothing is read or written and a `CacheWarning` says why.
`CHAINRULE_CACHE=0` turns the cache off, `CHAINRULE_CACHE_SIZE` is the most that it may take, in
MiB (256): what has not been used for the longest time goes first.

The cache is never in the way: whatever is wrong with an entry, it is taken away and there is none.
Many processes may use one folder: an entry appears whole, by a rename, and an open one stays
readable when it is removed.  Nothing is flushed to the disk: what a power cut tears, the checksum
of the entry finds.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from chainrule.disk.entry import MOST_NBYTES, DamagedEntryError, Record, pack, unpack
from chainrule.errors import CacheWarning
from chainrule.tracebacks import warn_user

SWITCH, FOLDER, SIZE = "CHAINRULE_CACHE", "CHAINRULE_CACHE_DIR", "CHAINRULE_CACHE_SIZE"
DEFAULT_SIZE = 256  # MiB
MOST_ENTRIES = 2048  # so that looking through the folder takes no more than a few milliseconds
LOOK_AFTER = 8  # the part of what there was room for that is stored before the next look
ENTRY, UNFINISHED = ".code", ".part"
ABANDONED_SECONDS = 600  # after which an unfinished entry is taken for that of a dead process

IMPORTED = time.time() - 2  # seconds; this module is imported after most others
PACKAGE = Path(__file__).parents[1]
# The parts of the package that what is made depends on, given the numbers in its key.
GENERATOR = ("disk", "machine_code", "graph", "primitives", "schedule", "plan", "execute/native")


def load(key: str, kind: type[Record], is_sensible: Callable[[Record], bool]) -> Record | None:
    """What was stored under this key by this version of the library; None if there is nothing.

    `kind` is a dataclass as in `entry`.  A file can hold anything: `is_sensible` says whether a
    record with fields of the right types is one that its reader can rely on.
    """
    with _folder(create=False) as folder:
        if folder is None:
            return None
        name = _name(key)
        try:
            data = _read(folder, name)
            return None if data is None else unpack(key, data, kind, is_sensible)
        except DamagedEntryError:
            _remove(folder, name)
            return None


def store(key: str, record: object) -> None:
    """Keep a record; where that cannot be, a CacheWarning says so once in a process."""
    if not _is_on():
        return
    data, most = pack(key, record), _most_nbytes()
    if data is None or len(data) > most:
        return
    with _folder(create=True) as folder:
        if folder is None:
            return
        name = _name(key)
        unfinished = f"{name}.{os.urandom(8).hex()}{UNFINISHED}"
        try:
            _write(folder, unfinished, data)
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            _remove(folder, unfinished)
            _warn(f"{folder_path()} cannot be written ({error.strerror})", "make room there, or")
            return
        _keep_room(folder, most, len(data))


def folder_path() -> Path:
    """Where the cache is, by the environment."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(os.path.abspath(os.path.expanduser(given)))
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a path that is not absolute is to be ignored.
    base = shared if os.path.isabs(shared) else os.path.expanduser("~/.cache")
    return Path(base, "chainrule")


# the folder


def _is_on() -> bool:
    return os.environ.get(SWITCH) != "0" and os.name == "posix"


@contextmanager
def _folder(create: bool) -> Iterator[int | None]:
    """A descriptor of the folder; None where there is none, or none that can be trusted.

    All that follows is done relative to it: it stays the folder that was looked at.
    """
    found = _opened(create) if _is_on() else None
    try:
        yield found
    finally:
        if found is not None:
            os.close(found)


def _opened(create: bool) -> int | None:
    path = folder_path()
    if not path.is_absolute():
        _warn("this user has no home folder")
        return None
    if not _generator():
        return None
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            found = os.open(path, flags)
        except FileNotFoundError:
            if not create:
                return None
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            found = os.open(path, flags)
    except OSError as error:
        # Not Path.is_symlink, which raises where the user may not enter the folder above.
        link = os.path.islink(path)
        why = "is a symbolic link" if link else f"cannot be opened ({error.strerror})"
        _warn(f"{path} {why}")
        return None
    about = os.fstat(found)
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid == os.geteuid() and not mode & 0o077:
        return found
    os.close(found)
    if about.st_uid != os.geteuid():
        _warn(f"{path} belongs to another user (number {about.st_uid})")
    else:
        _warn(f"{path} is open to other users (mode {mode:04o})", f"chmod 700 {path}, or")
    return None


_told: set[str] = set()


def _warn(what: str, hint: str = "") -> None:
    """Say once in a process and for each folder why there is no cache, at the user's line."""
    path = str(folder_path())
    if path in _told:
        return
    _told.add(path)
    hints = f"{hint} set {FOLDER} to a folder of your own, or {SWITCH}=0 to do without".strip()
    text = f"compiled code and plans are not kept on disk: {what}\n  try: {hints}"
    warn_user(text, CacheWarning)


def _most_nbytes() -> int:
    """The most that all entries together may take."""
    asked = os.environ.get(SIZE, "")
    try:
        size = float(asked) if asked else DEFAULT_SIZE
        return max(int(size * (1 << 20)), 0)
    except (ValueError, OverflowError):
        _warn(f"the environment variable {SIZE} is {asked!r}, which is no number of MiB")
        return 0


# entries


def _name(key: str) -> str:
    """The name of a file: what its key says, and the library that makes it."""
    return hashlib.sha256(repr((key, _generator())).encode()).hexdigest() + ENTRY


@lru_cache(maxsize=1)
def _generator() -> str:
    """A digest of the files that make entries: a new version of the library, or an edit of it.

    Empty, which turns the cache off, where there are no such files (they are in an archive), and
    where one was edited since it was imported: it would speak of other code than what runs.
    1.3 ms once in a process.  Times and sizes of the files would take a third of it, but not
    every way of copying files gives them new times.
    """
    found = hashlib.sha256()
    paths = [PACKAGE / "__init__.py"]
    for part in GENERATOR:
        paths += sorted((PACKAGE / part).rglob("*.py"))
    try:
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                text = file.read()
                if os.fstat(file.fileno()).st_mtime > IMPORTED:
                    return ""
            found.update(f"{path.name} {len(text)}\n".encode())
            found.update(text)
    except OSError:
        return ""
    return found.hexdigest()


def _read(folder: int, name: str) -> bytes | None:
    """The bytes of an entry, now the one used last; None if there is none that can be read.

    DamagedEntryError for what is not a file of the user's that only the user can write.
    """
    # O_NONBLOCK: opening a pipe would wait for somebody to write.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DamagedEntryError("a symbolic link") from error
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_NBYTES:
            raise DamagedEntryError("not a file, or too large")
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise DamagedEntryError("others can write it")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(about.st_size + 1)  # a buffer of what is there, not of the most
        try:
            os.utime(descriptor)
        except OSError:  # a disk that cannot be written; reading is all that is needed
            pass
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _write(folder: int, name: str, data: bytes) -> None:
    """A new file that only the user can read and write."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:  # another process was faster, or it is not ours to remove
        pass


_until_look: dict[tuple[int, int, int], tuple[int, int]] = {}
"""For each folder and limit: the bytes and entries that may be stored before all is looked at."""


def _keep_room(folder: int, most: int, nbytes: int) -> None:
    """Make room, unless far less was stored since this process last did so than there was room for.

    Other processes store, too: so an eighth of it.
    """
    about = os.fstat(folder)
    which = about.st_dev, about.st_ino, most
    free, entries = _until_look.get(which, (0, 0))
    if nbytes >= free or entries <= 1:
        left, left_entries = _make_room(folder, most)
        _until_look[which] = left // LOOK_AFTER, left_entries // LOOK_AFTER
    else:
        _until_look[which] = free - nbytes, entries - 1


def _make_room(folder: int, most: int) -> tuple[int, int]:
    """Remove what was not used for the longest time, if all together is too much.

    An eighth more than must be, so that not every entry that is stored removes one.
    The bytes and the entries that there is room for.
    """
    found: list[tuple[int, int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:  # gone
                continue
            if entry.name.endswith(ENTRY):
                found.append((about.st_mtime_ns, about.st_size, entry.name))
            elif entry.name.endswith(UNFINISHED):
                if about.st_mtime < time.time() - ABANDONED_SECONDS:
                    _remove(folder, entry.name)
    total = sum(nbytes for _, nbytes, _ in found)
    left = len(found)
    if total <= most and left <= MOST_ENTRIES:
        return most - total, MOST_ENTRIES - left
    for _, nbytes, name in sorted(found)[:-1]:
        if total <= most - most // 8 and left <= MOST_ENTRIES - MOST_ENTRIES // 8:
            break
        _remove(folder, name)
        total, left = total - nbytes, left - 1
    return most - total, MOST_ENTRIES - left
