"""What training knows of processes that take each step together: `ALONE` is one of its own.

`SplitStep` is the base of steps that several ranks take, `first` lets one of these do what all of
them need.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chainrule import errors
from chainrule.errors import ChainruleError, StateError
from chainrule.graph.frozen import Frozen
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep


class Job(Protocol):
    """The processes that take each step together; all of them call the same, in the same order.

    `what` says for what they do: StateError on all of them where that differs.
    """

    rank: int
    count: int

    def gather(self, what: str, numbers: np.ndarray, seconds: float = 0.0) -> np.ndarray:
        """Up to four numbers of 8 bytes of each rank, a row for each; ranks wait for the others
        until the deadline, and so many seconds longer."""
        ...

    def exchange(self, what: str, told: Any, seconds: float = 0.0) -> list[Any]:
        """What each rank tells, as JSON has it, in the order of ranks."""
        ...

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Writes the array of one rank, in C order, into that of each other one."""
        ...

    def asks_for_time(self, asks: bool) -> None:
        """After a signal: whether this rank still has to finish a step and save."""
        ...


class Alone:
    """The job of a process of its own."""

    rank, count = 0, 1

    def gather(self, what: str, numbers: np.ndarray, seconds: float = 0.0) -> np.ndarray:
        return numbers[None]

    def exchange(self, what: str, told: Any, seconds: float = 0.0) -> list[Any]:
        return [told]

    def broadcast(self, array: np.ndarray, root: int) -> None:
        pass

    def asks_for_time(self, asks: bool) -> None:
        pass


ALONE = Alone()


class SplitStep(Frozen):
    """The base of training steps that are split over ranks; `cr.parallel` makes them.

    `parts` is the step in micro-batches that is split.
    """

    parts: MicroBatchedStep

    @property
    def whole(self) -> TrainingStep:
        """The step on a whole batch that is taken so."""
        return self.parts.whole

    @property
    @abstractmethod
    def job(self) -> Job:
        """The processes of which each is one rank; `ALONE` where ranks are threads of this one."""

    @abstractmethod
    def arrays_of(
        self, state: State, names: Collection[str] | None = None, to: int | None = None
    ) -> Mapping[str, np.ndarray]:
        """The arrays of a state, or those of these names, from all ranks, which all call it: on
        every rank, or on rank `to` alone.  They are copies where other ranks have some."""

    @abstractmethod
    def __call__(
        self, state: State, batch: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Any: ...

    @abstractmethod
    def memory(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> Any: ...

    @abstractmethod
    def planned_nbytes(self, sizes: Mapping[str, int]) -> int:
        """The most bytes that the ranks of this process have at once, at sizes of a batch."""


@runtime_checkable
class SplitsSteps(Protocol):
    """What a training step can be split over, such as `cr.Devices`."""

    def parallel(self, step: TrainingStep, **asked: Any) -> SplitStep:
        """The step, split over these devices."""
        ...


Step = TrainingStep | MicroBatchedStep | SplitStep


def first(job: Job, what: str, work: Callable[[], Any], seconds: float = 0.0) -> Any:
    """What `work` gives on the first rank, as JSON has it; on every rank.

    Where it raises there, all ranks raise.  The others wait until the deadline, and so many seconds
    longer.
    """
    if job.count == 1:
        return work()
    found, failed = None, None
    if job.rank == 0:
        try:
            found = work()
        except Exception as error:
            failed = error
    told = job.exchange(what, {"found": found, "error": _told(failed)}, seconds)[0]
    if failed is not None:
        raise failed
    if told["error"] is not None:
        raise _error(told["error"])
    return told["found"]


def agreed(job: Job, what: str, number: int) -> int:
    """The number of the first rank that has one other than 0; 0 where none has."""
    if job.count == 1:
        return number
    told = job.gather(what, np.array([number], np.int64))[:, 0]
    return int(told[np.argmax(told != 0)])


def _told(error: Exception | None) -> dict[str, str] | None:
    if error is None:
        return None
    if isinstance(error, ChainruleError):
        own = {"what": error.what, "where": error.where, "hint": error.hint}
        return {"kind": type(error).__name__, **own}
    text = f"{type(error).__name__}: {error}"
    return {"kind": "StateError", "what": text, "where": "", "hint": "look at rank 0"}


def _error(told: Mapping[str, str]) -> ChainruleError:
    """The error of the first rank, on another one."""
    kind = getattr(errors, told["kind"], StateError)
    found: ChainruleError = kind(told["what"], where=told["where"], hint=told["hint"])
    found.add_note("as rank 0 says, which does this for all")
    return found
