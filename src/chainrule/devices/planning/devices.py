"""Devices as data: groups of alike devices, their memory and speeds, and the links between them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.devices.stages import BYTES_EACH_SECOND, MESSAGE_SECONDS
from chainrule.errors import InputError
from chainrule.graph.bytes_text import nbytes_of
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.speeds import SPEEDS, Speeds, checked_speeds, scaled, speeds_of
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.train.step.step import TrainingStep

MOST_DEVICES = 100_000
DTYPES = {"float16": 2, "float32": 4, "float64": 8}  # of products, and their bytes
KNOWN = SPEEDS[64]
_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True)
class Link:
    """How long a message takes: a latency in seconds, then so many bytes each second."""

    latency: float
    bandwidth: float

    def seconds(self, nbytes: float) -> float:
        """How long a message of so many bytes is on its way."""
        return self.latency + nbytes / self.bandwidth


THREADS = Link(MESSAGE_SECONDS, BYTES_EACH_SECOND)  # between ranks of one process


# To check a batch, cut it, start threads, and let go of what they had: a fit to steps of 1 to 97
# arrays of the state, on 1 to 4 ranks, in 4 and 16 parts, at about 3 GHz (0.3 ms off on average).
STEP_SECONDS, ARRAY_SECONDS = 5e-4, 2e-5


def starting_seconds(arrays: int) -> float:
    """Seconds in which a step with so many arrays of state is begun and ended on a known processor,
    beside what the programs of its ranks do."""
    return STEP_SECONDS + ARRAY_SECONDS * arrays


@dataclass(frozen=True)
class Processor:
    """How many times as long a processor takes as the known one with vectors of `vector_bytes`:
    for products, loops, moving memory, in NumPy, and to begin and end a step on ranks."""

    vector_bytes: int
    products: float
    loops: float
    memory: float
    numpy: float
    starting: float = 1.0

    @property
    def speeds(self) -> Speeds:
        """The numbers by which its instructions are timed."""
        return scaled(
            speeds_of(self.vector_bytes),
            products=self.products,
            loops=self.loops,
            memory=self.memory,
            numpy=self.numpy,
        )


def processor_of(speeds: Speeds) -> Processor:
    """The processor with these speeds, of which each group of numbers is scaled as one."""
    known = speeds_of(speeds.vector_nbytes)
    moved = (one.memory[-1].nbytes_each_nanosecond for one in (known, speeds))
    return Processor(
        speeds.vector_nbytes,
        speeds.multiply_add / known.multiply_add,
        speeds.operation / known.operation,
        next(moved) / next(moved),
        speeds.numpy.flop / known.numpy.flop,
    )


def products_of(speeds: Speeds) -> dict[str, float]:
    """Operations each second of products on one core, by dtype: a product and a sum are two."""
    each = 2e9 * speeds.vector_nbytes / speeds.multiply_add
    return {name: each / DTYPES[name] for name in ("float32", "float64")}


@dataclass(frozen=True)
class Group:
    """Devices that are alike and near each other; there are `copies` such groups.

    `memory_nbytes` is that of each device (None: no limit), `products` the operations each second
    of its matrix products by dtype, `memory_bandwidth` the bytes each second of its memory, `link`
    that between two devices of a group.
    """

    name: str
    devices: int
    copies: int
    memory_nbytes: int | None
    products: Mapping[str, float]
    memory_bandwidth: float
    link: Link
    processor: Processor | None = None

    @property
    def count(self) -> int:
        """The devices of all copies."""
        return self.devices * self.copies

    @cached_property
    def speeds(self) -> Speeds:
        """The numbers by which instructions are timed: those of its processor; of another device,
        the known ones, as much quicker as its products and its memory are."""
        if self.processor is not None:
            return self.processor.speeds
        times = products_of(KNOWN)["float32"] / self.flops("float32")
        moved = KNOWN.memory[-1].nbytes_each_nanosecond * 1e9 / self.memory_bandwidth
        return scaled(KNOWN, products=times, loops=times, memory=moved, numpy=times)

    def flops(self, dtype: str) -> float:
        """Operations each second of products in a dtype: by the bytes of an element where another
        dtype is known, and of float32 for what is no float."""
        if dtype not in DTYPES:
            dtype = "float32"
        if dtype in self.products:
            return self.products[dtype]
        other, known = max(self.products.items(), key=lambda one: DTYPES[one[0]])
        return known * DTYPES[other] / DTYPES[dtype]

    def nanoseconds_of_flop(self, dtype: np.dtype) -> float:
        """Those of one operation of a product in a dtype."""
        return 1e9 / self.flops(dtype.name)


@dataclass(frozen=True)
class Devices(ShownByText):
    """Devices that a step can be split over; device i runs rank i.

    `groups` are groups of alike devices, `between` is the link between devices of different groups,
    copies of one included.  `cr.Devices.cpu(4, memory="2 GiB")` are ranks of this machine,
    `cr.Devices.load("cluster.toml")` are those of a file.
    """

    groups: tuple[Group, ...]
    between: Link

    def __post_init__(self) -> None:
        groups = self.groups if isinstance(self.groups, tuple) else (self.groups,)
        wrong = [one for one in groups if not isinstance(one, Group)]
        if wrong:
            raise InputError(
                f"devices are made of groups, and one is {type(wrong[0]).__name__}",
                hint='cr.Devices.cpu(4, memory="2 GiB"), or cr.Devices.load("cluster.toml")',
            )
        if not self.groups:
            raise InputError("there are no devices", hint="a group of one device or more")
        names = [one.name for one in self.groups]
        for name in names:
            if not _NAME.fullmatch(name):
                raise InputError(
                    f"a group of devices is called {name[:80]!r}",
                    hint="letters, digits, _, . and -, at most 64 of them",
                )
            if names.count(name) > 1:
                raise InputError(
                    f"two groups of devices are called {name}",
                    hint="one group with copies = 2, or other names",
                )
        if self.count > MOST_DEVICES:
            raise InputError(f"there are {self.count:,} devices", hint=f"at most {MOST_DEVICES:,}")

    @entry
    def parallel(self, step: TrainingStep, **asked: Any) -> ParallelStep:
        """`cr.parallel(step, devices, ...)`."""
        way_in = import_module("chainrule.devices.parallelise")  # which rests on this file
        return way_in.parallel(step, self, **asked)

    @staticmethod
    @entry
    def cpu(
        count: int, *, memory: int | str | None = None, speeds: Speeds | None = None
    ) -> Devices:
        """`count` ranks of this machine, threads or processes, each with so much memory.

        `memory` is in bytes, or text such as "2 GiB"; None is no limit.  `speeds` are those of a
        known processor, or `cr.measured_speeds()`.  Messages take what they take between threads;
        `chainrule devices --measure` measures them between processes.  InputError for a count
        below 1, or an amount that is none.
        """
        known = checked_speeds(speeds) or KNOWN
        group = Group(
            "cpu",
            count_of(count, "the number of devices"),
            1,
            None if memory is None else memory_of(memory, "memory"),
            products_of(known),
            known.memory[-1].nbytes_each_nanosecond * 1e9,
            THREADS,
            processor_of(known),
        )
        return Devices((group,), THREADS)

    @staticmethod
    @entry
    def load(path: str | Path) -> Devices:
        """The devices of a TOML file, whose keys docs/devices.md lists.

        InputError for a file that cannot be read, for unknown keys, and for values that are wrong:
        it names the key, and what to write.
        """
        from chainrule.devices.planning.file import load

        return load(Path(path))

    @staticmethod
    @entry
    def parse(text: str) -> Devices:
        """The devices of a text in TOML, as `load` has them from a file."""
        from chainrule.devices.planning.file import parse

        return parse(text, "the text")

    @staticmethod
    @entry
    def measure(count: int | None = None) -> Devices:
        """This machine, measured: a device for each core, or `count`, which share what is free.

        In an MPI job, whose ranks all call it, a device for each rank, with the links between
        them.  Takes some seconds.
        """
        from chainrule.devices.planning.measuring import measured

        return measured(count)

    def toml(self) -> str:
        """The text of a file that `load` reads."""
        from chainrule.devices.planning.file import text_of

        return text_of(self)

    @entry
    def save(self, path: str | Path) -> None:
        """Write the file that `load` reads; InputError where that fails."""
        from chainrule.explain.writing import write_beside

        write_beside(Path(path), self.toml().encode())

    # One device, and two --------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many devices there are."""
        return sum(one.count for one in self.groups)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(accumulate(one.count for one in self.groups))

    def group_of(self, device: int) -> Group:
        """The group of a device, by its number from 0; InputError where there is no such device."""
        return self.groups[self._place(device)[0]]

    def _place(self, device: int) -> tuple[int, int, int]:
        """The numbers of a device's group, of the copy, and of the device in it."""
        if not isinstance(device, int) or not 0 <= device < self._ends[-1]:
            numbers = f"0 to {self.count - 1}" if self.count > 1 else "0"
            raise InputError(f"there is no device {device!r}", hint=f"a number from {numbers}")
        at = bisect_right(self._ends, device)
        group = self.groups[at]
        return at, *divmod(device - self._ends[at] + group.count, group.devices)

    def link(self, one: int, other: int) -> Link:
        """The link between two devices, by their numbers; InputError where there is none."""
        first, second = self._place(one), self._place(other)
        return self.groups[first[0]].link if first[:2] == second[:2] else self.between

    def name(self, device: int) -> str:
        """`cpu.0`; `node[2].5` is the sixth device of the third copy of a group.  InputError where
        there is no device of this number."""
        at, copy, number = self._place(device)
        group = self.groups[at]
        which = f"[{copy}]" if group.copies > 1 else ""
        return f"{group.name}{which}.{number}"

    def __iter__(self) -> Iterator[Group]:
        """The group of each device, in order."""
        for group in self.groups:
            for _ in range(group.count):
                yield group

    def __str__(self) -> str:
        from chainrule.devices.planning.file import table_of

        return table_of(self)


def count_of(value: Any, name: str) -> int:
    """An integer of 1 or more; InputError for others."""
    try:
        found = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        found = 0
    if found < 1:
        raise InputError(f"{name} is {value!r}", hint="an integer, 1 or more")
    return found


def memory_of(value: Any, name: str) -> int:
    """An amount of memory in bytes, more than 0; InputError for others."""
    found = nbytes_of(value, name)
    if not found:
        raise InputError(f"{name} is {value!r}", hint=f'{name} = "2 GiB"')
    return found
