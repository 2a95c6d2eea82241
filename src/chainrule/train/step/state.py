"""A `State` holds what lives between training steps: parameters, and arrays beside them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from chainrule.errors import NameLookupError, StateError
from chainrule.execute.aligned import address_of, block
from chainrule.execute.free_memory import refuse_beyond_free
from chainrule.execute.home import Home
from chainrule.graph.structure import Structure
from chainrule.nearest import perhaps
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.train.step.step import TrainingStep

ALIGNMENT = 64  # bytes; the arrays of a state begin at multiples of it


class NothingBound:
    """What takes steps on a state until one is bound to it."""

    def taken(self, step: TrainingStep, state: State, batch: Mapping[str, Any]) -> Any:
        """Take a step on a batch, which is looked at."""
        return step.looked_at(state, batch)


NOTHING_BOUND = NothingBound()


class State(Mapping[str, Any]):
    """Parameters and optimizer arrays after `steps` training steps; made by `TrainingStep.init`.

    A mapping from names to arrays: the parameters, then the objective's own state, then what the
    optimizer keeps, each array once, containers taken apart.  So `np.savez(file, **state)` saves
    all of it, and `TrainingStep.restore` takes it back.  `state[name]`, and `name in state`, also
    know each container as a whole; `parameters`, `carried` and `weights` give such containers, by
    the names of the arguments, as they were given to `init`.

    The one object that changes: all arrays lie in one piece of memory, which a step that succeeds
    updates in place, and a step that fails does not touch.  What is read out (`state["W1"]`,
    `state["params"]`, `state.parameters`) is a copy, which may be written to and then changes
    nothing here, and waits while a step is running; `copy()` reads all arrays at one moment.  Two
    steps at a time are refused.

    A process that is forked while another thread takes a step has a copy whose arrays may be half
    updated: it refuses to be read and to be stepped.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        parameters: tuple[str, ...],
        structures: Mapping[str, Structure],
        carried: tuple[str, ...] = (),
    ) -> None:
        self._arena = _in_one_arena(arrays)
        self._views = {name: _read_only(array) for name, array in self._arena.items()}
        self.begin, self.end = _span(self._arena.values())
        self.home = Home(self._arena)
        self.steps_taken = 0
        # What this rank of a job has not, or only a part of: arrays without memory that show whole
        # shapes, and which rank has what.
        self._elsewhere: Mapping[str, np.ndarray] = {}
        self.shares: Any = None
        self._parameters, self._structures = parameters, dict(structures)
        self._carried = carried
        # A step holds the lock for as long as it runs, which keeps readers away (but not the
        # handler of a signal that comes in its own thread), and says so: other steps are refused.
        # `with` on the lock directly: in a method of ours, a signal could come between taking it
        # and saying so; and what a step gives is stored before it is returned: `return` would be
        # outside of `try`.
        self.updating, self.is_stepping = threading.RLock(), False
        self.is_torn = False  # by a fork: it then `is_stepping` for ever
        _states.add(self)
        # What the native executor has bound to this memory, by concrete graph; the last one first.
        self.bound: dict[Any, Any] = {}
        self.latest: Any = NOTHING_BOUND

    def __getitem__(self, name: str) -> Any:
        """A copy of the parameter, container of parameters, or optimizer array called `name`.

        Raises NameLookupError (a KeyError) for another name.
        """
        with self.updating:
            self._refuse_torn()
            if name in self._arena and name not in self._elsewhere:
                return self._memory[name].copy()
            structure = self._structures.get(name)
            if structure is not None or name in self._elsewhere:
                self._refuse_elsewhere([name] if structure is None else structure.leaf_names)
            if structure is not None:
                return structure.unflatten([self._memory[n].copy() for n in structure.leaf_names])
        known = list(dict.fromkeys([*self._structures, *self._arena]))
        raise NameLookupError(
            f"the state has no array called {name!r}",
            hint=f"{perhaps(name, known)}one of: {', '.join(known)}",
        )

    @entry
    def __setitem__(self, name: str, value: object) -> NoReturn:
        """Refused: a step, its compiled code and readers in other threads may hold the arrays."""
        raise StateError(
            f"the array {name} of a state changes by steps alone",
            hint="make a state with another array: "
            f"state = step.restore({{**state, {name!r}: value}}, steps=state.steps)",
        )

    def __contains__(self, name: object) -> bool:
        return name in self._whole or name in self._structures

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    @property
    def _whole(self) -> Mapping[str, np.ndarray]:
        """The arrays that this process has all of; a device may have newer ones."""
        if not self._elsewhere:
            return self._arena
        return {name: one for name, one in self._arena.items() if name not in self._elsewhere}

    @property
    def _memory(self) -> Mapping[str, np.ndarray]:
        """The arrays, up to date."""
        self.home.come_back()
        return self._arena

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def copy(self) -> State:
        """Copies the state: the same arrays and number of steps, in new memory."""
        with self.updating:
            self._refuse_torn()
            other = State(self._memory, self._parameters, self._structures, self._carried)
            other._elsewhere, other.shares = self._elsewhere, self.shares
            other.steps_taken = self.steps_taken
        return other

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> State:
        return self.copy()

    def __reduce__(self) -> Any:
        raise StateError(
            "unpickling can run arbitrary code, so a state cannot be pickled",
            hint="np.savez(file, **state), and step.restore(np.load(file)); or cr.Checkpoints",
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Copies of all parameters by argument, in the containers that were given to `init`.

        Of a container that is trained in part, each trained array by its own name.
        """
        return self._in_containers(self._parameters)

    @property
    def carried(self) -> dict[str, Any]:
        """Copies of the objective's own state (running statistics), as `parameters`."""
        return self._in_containers(self._carried)

    @property
    def weights(self) -> dict[str, Any]:
        """Copies of what evaluation needs: parameters, and the objective's own state."""
        return self._in_containers(self.weight_names)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The names of the arrays of `weights`, containers taken apart."""
        return (*self._parameters, *self._carried)

    def copies(self, names: Collection[str]) -> dict[str, np.ndarray]:
        """Copies of the arrays of these names, all of one moment."""
        with self.updating:
            self._refuse_torn()
            self._refuse_elsewhere(names)
            return {name: self._memory[name].copy() for name in names}

    def _in_containers(self, names: Collection[str]) -> dict[str, Any]:
        arrays = self.copies(names)
        root_of: dict[str, str] = {}
        for root, structure in self._structures.items():
            if set(structure.leaf_names) <= set(names):
                root_of = dict.fromkeys(structure.leaf_names, root) | root_of
        found: dict[str, Any] = {}
        for name, array in arrays.items():
            root = root_of.get(name, name)
            if root == name:
                found[name] = array
            elif root not in found:
                structure = self._structures[root]
                found[root] = structure.unflatten([arrays[n] for n in structure.leaf_names])
        return found

    @property
    def steps(self) -> int:
        """The number of steps taken, from what `TrainingStep.restore` was told, else from 0."""
        return self.steps_taken

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """All arrays themselves, read-only: the parameters, then the optimizer's.

        A step changes them; an executor whose steps leave them on a device, when this is read.
        """
        self.home.come_back()
        return self.outlined

    @property
    def outlined(self) -> Mapping[str, np.ndarray]:
        """As `arrays`, for their types: the device of an executor may have newer values."""
        self._refuse_torn()
        self._refuse_elsewhere(self._elsewhere)
        return MappingProxyType(self._views)

    @property
    def parts(self) -> Mapping[str, np.ndarray]:
        """What this process has of the arrays, read-only: of a rank of a job its own, or its part
        of them."""
        self._refuse_torn()
        self.home.come_back()
        return MappingProxyType(self._views)

    @property
    def outlines(self) -> Mapping[str, np.ndarray]:
        """All arrays, read-only; those that other ranks have, or parts of, show shapes alone."""
        self.home.come_back()
        return self.outlines_only

    @property
    def outlines_only(self) -> Mapping[str, np.ndarray]:
        """As `outlines`, for their types: the device of an executor may have newer values."""
        self._refuse_torn()
        return {**self._views, **self._elsewhere}

    def hold(
        self,
        arrays: Mapping[str, np.ndarray],
        elsewhere: Mapping[str, np.ndarray],
        shares: Any,
    ) -> None:
        """Has copies of these arrays from now on, and leaves those `elsewhere`, or parts of them,
        to other ranks of a job.

        The caller holds the state.
        """
        self._arena = _in_one_arena(arrays)
        self._views = {name: _read_only(array) for name, array in self._arena.items()}
        self.begin, self.end = _span(self._arena.values())
        self.home = Home(self._arena)
        self._elsewhere, self.shares = elsewhere, shares
        self.bound, self.latest = {}, NOTHING_BOUND

    @property
    def elsewhere(self) -> Mapping[str, np.ndarray]:
        """What this rank of a job has not, or only a part of; without memory."""
        return self._elsewhere

    def _refuse_elsewhere(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name in self._elsewhere]
        if missing:
            raise StateError(
                f"this rank of the job has not all of {', '.join(missing)}: other ranks have",
                hint="on every rank: whole = split.collect(state)",
            )

    def refuse_second_step(self) -> None:
        """StateError where a step is running.

        Two threads that ask at the same moment may both pass; then one waits for the other.
        """
        if self.is_stepping:
            self._refuse_torn()
            raise StateError(
                "a step began on a state while another step was still running on it",
                hint="one thread steps a state; let the others wait, or init states of their own",
            )

    def _refuse_torn(self) -> None:
        if self.is_torn:
            raise StateError(
                "this process was forked while another thread was taking a step on the state, "
                "whose arrays may be half updated here",
                hint="fork between two steps, or give the child copies: state.copy()",
            )

    def take_over(self) -> None:
        """In a child process, right after `fork`: free what threads hold that are not there."""
        try:
            self.updating.release()
        except RuntimeError:  # not held by this thread
            self.is_torn |= self.is_stepping
            self.updating = threading.RLock()
        else:  # the handler of a signal forked in a step of this thread, which goes on
            self.updating.acquire()

    def advance(self, changes: Collection[tuple[str, np.ndarray]]) -> None:
        """Take the changed arrays after a step, all of them also when a signal (Ctrl-C) comes.

        The caller holds the state.
        """
        try:
            self.put(changes)
        except BaseException:
            self.put(changes)
            raise
        finally:
            self.steps_taken += 1

    def put(self, changes: Collection[tuple[str, np.ndarray]]) -> None:
        """Give arrays new values, by name; the caller holds the state."""
        self.home.moved_in()
        for name, array in changes:
            self._arena[name][...] = array

    @property
    def memory(self) -> Mapping[str, np.ndarray]:
        """The arrays for who holds the state, to be updated in place: a device has them no more."""
        self.home.moved_in()
        return self._arena

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {v.dtype.name}{list(v.shape)}" for k, v in self._views.items())
        return f"<State after {self.steps_taken} steps: {shown}>"


_states: weakref.WeakSet[State] = weakref.WeakSet()


def _take_over() -> None:
    for state in list(_states):
        state.take_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_take_over)


def _in_one_arena(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Copies of the arrays, in C order, one after another in one piece of memory.

    What is 0 everywhere by its strides is not written: the system gives such memory when a step
    first touches it, to all threads of the step.
    """
    offsets: dict[str, int] = {}
    total = 0
    for name, array in arrays.items():
        offsets[name] = total
        total += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    refuse_beyond_free(total, what="the state of a training")
    memory = block(total, np.zeros)
    found = {}
    for name, array in arrays.items():
        place = memory[offsets[name] :]
        copy = np.ndarray(array.shape, array.dtype, place.data) if array.nbytes else array.copy()
        if any(array.strides) or any(array[:1].tobytes() if array.ndim else array.tobytes()):
            copy[...] = array
        found[name] = copy
    return found


def _span(arrays: Iterable[np.ndarray]) -> tuple[int, int]:
    """The addresses of the first byte of the arrays, which lie together, and of the one behind."""
    begins = [(address_of(x), x.nbytes) for x in arrays if x.nbytes]
    return min(begins, default=(0, 0))[0], max((at + nbytes for at, nbytes in begins), default=0)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view
