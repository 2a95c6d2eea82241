"""Declares what an executor is: it prepares a graph, and the program that it gives is called.

An executor is an object with a name, registered in `chainrule.execute.executors`.  `PlainExecutor`
makes one of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.home import Home
    from chainrule.schedule.records import Schedule


@dataclass(frozen=True)
class Traits:
    """What is true of every program of an executor.

    `has_kernels`: it has code of its own for operations, so `strict=True` means something.
    `one_block`: scratch values lie in one block that stays allocated between calls, and results
    are there from the beginning of a call; otherwise each value is an array of its own, allocated
    when it is computed and freed when nothing reads it any more.  `c_order_only`: arguments that
    do not lie in C order are copied for the duration of a call.  `compiles_to_count`: what a run
    within a budget needs is known when it is compiled, which takes seconds, so nobody tries many.
    """

    has_kernels: bool = False
    one_block: bool = False
    c_order_only: bool = False
    compiles_to_count: bool = False


class Executor(Protocol):
    """Turns graphs into programs.

    One that lays values into one block of memory may have a method `searching(placement_seconds)`,
    which gives an executor, of another name, that searches for offsets for so long.  One that can
    compute values again may have `within(memory_nbytes)`: an executor, of another name, whose runs
    need at most so many bytes (then its `memory_nbytes`), all that a memory report counts included.
    Its programs raise MemoryLimitError, with `budget_nbytes`, where that cannot be, before anything
    is allocated.  One that shares its work between threads may have `on_threads(count)`: an
    executor, of another name, that uses at most so many.  One that can run a program on several
    devices at once is `Spreading` (`chainrule.execute.across`).
    """

    @property
    def name(self) -> str:
        """What `executor=` takes."""
        ...

    @property
    def traits(self) -> Traits:
        """What is true of all its programs."""
        ...

    def refusal(self) -> str | None:
        """Why it cannot run on this machine; None where it can."""
        ...

    def prepare(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        *,
        traced: Graph | None = None,
    ) -> Program:
        """The program that computes `results` of a concrete graph (all its sizes are integers).

        `overwrites` maps inputs to the results that may take their arrays, where calls hold
        these (`InPlace.hold`); nobody has to.  `traced` is the graph before its sizes were bound,
        for the names in messages.  Quick: what takes long (compiling) is done when the program is
        first called or bound.
        """
        ...


class Program(Protocol):
    """What an executor makes of a concrete graph; `results` has each node once."""

    @property
    def graph(self) -> Graph:
        """The concrete graph."""
        ...

    @property
    def results(self) -> Sequence[Node]:
        """The nodes whose values a call gives."""
        ...

    def __call__(self, inputs: Mapping[Node, np.ndarray]) -> Mapping[Node, np.ndarray]:
        """The value of every result, in memory of its own, for an array of every input.

        Values have the dtype and shape of their nodes.  Raises IndexOutOfRangeError with the
        user's line for an index out of range, MemoryLimitError before it allocates more than is
        free.  Several threads may call at once.
        """
        ...

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """What a call computes in which order, and in which bytes: what memory reports count.

        `outlines` are arrays that lie as arguments will, where these do not lie in C order; their
        elements must not be read.
        """
        ...

    @property
    def plan(self) -> Any:
        """What `str` makes the text of the plan from."""
        ...

    @property
    def refused(self) -> Sequence[Node]:
        """The nodes for which it has no kernel, evaluated by NumPy instead; `strict=True` refuses
        them."""
        ...

    def overhead(self, arrays: int) -> Mapping[str, int]:
        """Estimated bytes that a call takes beside the schedule's, by what they are; `arrays` is
        the number of large ones (from 64 KiB on) at once, one block of scratch left out."""
        ...


@runtime_checkable
class Analysed(Protocol):
    """What a program has, too, whose compiler says what memory a call takes."""

    def compiled_nbytes(self) -> Mapping[str, int]:
        """The bytes by what they are, of the compiler's own analysis; empty where there is none.
        Compiles."""
        ...

    def allocated_nbytes(self) -> int:
        """What a call allocates beside its arguments, by that analysis; 0 where there is none.
        Compiles."""
        ...

    def compiled_values(self) -> Mapping[Node | None, int]:
        """The bytes of what is neither given nor a result, when that is most, by the nodes that it
        is made for (None: for none that is known); as far as the compiler tells.  Compiles."""
        ...


class Call(Protocol):
    """A program bound to some of its arrays.

    `results` are the nodes whose values a call gives: all of the program's, but for those of
    `overwritten`, which are written into the array of the input that it maps them to.  Where
    `is_short` is false, there is no short way, and calling it gives None.
    """

    graph: Graph
    results: Sequence[Node]
    overwritten: Mapping[Node, Node]
    is_short: bool

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray] | None:
        """The values of the results for arguments by position, which are looked at; None where
        one does not fit as it is, or fails: `take` then gives or raises what there is."""
        ...

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """The values of the results for arrays and numbers of the inputs' types; raises as
        `Program.__call__`."""
        ...


class HeldCall(Call, Protocol):
    """A call for which arrays are held; see `InPlace.hold`."""

    def renew(self) -> None:
        """The caller is about to change arrays of `held` that are not those of `home`."""
        ...


Then = Callable[[Sequence[np.ndarray]], None]
NOWHERE: Mapping[Node, np.ndarray] = MappingProxyType({})


@runtime_checkable
class InPlace(Protocol):
    """What a program has, too, if it can look at arguments faster than `take` does, or write
    results into arrays that stay from call to call."""

    def call(self, order: Sequence[Node | None], fixed: Mapping[Node, np.ndarray]) -> Call:
        """Calls with the arrays of `order` by position (None: not read), and those of `fixed` for
        the other inputs.  Values are new arrays; several threads may call at once."""
        ...

    def hold(
        self, order: Sequence[Node], held: Mapping[Node, np.ndarray], then: Then, home: Home
    ) -> HeldCall:
        """Calls by one caller at a time, for which the arrays of `held` stay in place.

        Overwrites go into them, and the caller may change them between calls (`HeldCall.renew`).
        Some of them are those of `home.memory`: of these an executor may leave newer values on a
        device (`home.coming`), where they are valid as long as they are in `home.away`.  `then` is
        called with the values when a run has come to its end, before the call returns, whatever
        interrupts it (Ctrl-C); and once more where it is itself interrupted.  Until then, no array
        of `held` has changed if anything is raised.  Values are valid until the next call.
        """
        ...


@runtime_checkable
class Overwriting(Protocol):
    """What a program has, too, if its results can take arrays that other calls give it."""

    def overwriting(
        self, inputs: Mapping[Node, np.ndarray], into: Mapping[Node, np.ndarray] = NOWHERE
    ) -> Mapping[Node, np.ndarray]:
        """As `Program.__call__`, but results may take the arrays of the inputs that `overwrites`
        maps to them, and those that they have in `into`, which are of their types.

        All these are in C order, aligned, writeable and nobody else's; if anything is raised, their
        elements may have changed.
        """
        ...

    def make_ready(self) -> None:
        """Makes now what the first call would make: code, and memory of its own."""
        ...
