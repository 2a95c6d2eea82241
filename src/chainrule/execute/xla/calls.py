"""Calls of a program bound to some of its arrays; those of a training state stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import StateError
from chainrule.execute.executor import Then
from chainrule.execute.home import Home
from chainrule.execute.xla.ahead import SentAhead
from chainrule.execute.xla.code import given_of, given_value, is_given
from chainrule.execute.xla.jax_here import jax_here, wide
from chainrule.execute.xla.memory import device_failed
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.xla.xla_program import XlaProgram


class Arguments:
    """Arrays for the nodes of `given`: those of `order` by position, the others on the device."""

    def __init__(
        self,
        given: Sequence[Node],
        order: Sequence[Node | None],
        there: Mapping[Node, Any],
        shape_of: Callable[[Node], tuple[int, ...]],
    ) -> None:
        self.kinds = [None if one is None else (one.dtype, shape_of(one)) for one in order]
        position = {node: place for place, node in enumerate(order) if node is not None}
        self.base = [there.get(node) for node in given]
        self.moved = [(slot, position[x]) for slot, x in enumerate(given) if x in position]
        self.is_whole = all(node in position or node in there for node in given)

    def fit(self, arrays: Sequence[Any]) -> bool:
        """Whether all are arrays that code takes as they are."""
        for array, kind in zip(arrays, self.kinds, strict=True):
            if kind is not None and (
                type(array) is not np.ndarray or array.dtype != kind[0] or array.shape != kind[1]
            ):
                return False
        return True

    def of(self, arrays: Sequence[Any]) -> list[Any]:
        """What code takes."""
        found = self.base.copy()
        for slot, place in self.moved:
            found[slot] = arrays[place]
        return found


class XlaCall:
    """See `InPlace.call`."""

    overwritten: Mapping[Node, Node] = {}

    def __init__(
        self, program: XlaProgram, order: Sequence[Node | None], fixed: Mapping[Node, Any]
    ) -> None:
        self.program, self.graph, self.results = program, program.graph, program.results
        self.fixed = {node: np.array(value, node.dtype) for node, value in fixed.items()}
        code = program.code
        fixed = {node: program.sent(node, one) for node, one in self.fixed.items()}
        there = {**program.constants, **fixed}
        self.arguments = Arguments(program.given, order, there, program.shape_given)
        self.code, self.jitted = code, code.jitted
        self.is_short = self.arguments.is_whole and list(self.results) == program.computed

    def __call__(self, arrays: tuple[Any, ...]) -> list[np.ndarray] | None:
        """See `Call.__call__`."""
        if not self.is_short or not self.arguments.fit(arrays):
            return None
        given = self.arguments.of(arrays)
        if self.code.is_out_of_range(given):
            return None
        self.code.refuse_too_much(given)
        try:
            with wide():
                found, failed = self.jitted(*given)
            return None if failed and bool(failed[0]) else [np.array(one) for one in found]
        except jax_here().errors.JaxRuntimeError:
            self.code.foreign.take()
            return None

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`."""
        found = self.program({**self.fixed, **inputs})
        return [found[node] for node in self.results]


class XlaHeldCall:
    """See `InPlace.hold`: the arrays that are overwritten are donated to each call, and what it
    makes of them stays on the device.

    Before the first call, which compiles, the memory of `home` is brought up to date: an interrupt
    in it, when the device may have lost the arrays, then finds them there.
    """

    def __init__(
        self,
        program: XlaProgram,
        order: Sequence[Node],
        held: Mapping[Node, np.ndarray],
        then: Then,
        home: Home,
    ) -> None:
        self.program, self.graph, self.home, self.then = program, program.graph, home, then
        self.held = dict(held)
        known = {id(array): name for name, array in home.memory.items()}
        self.names = {node: known[id(x)] for node, x in held.items() if id(x) in known}
        self.node_called = {name: node for node, name in self.names.items()}
        self.overwritten = {}
        for node, result in program.overwrites.items():
            if node in self.names and not is_given(result):
                self.overwritten.setdefault(result, node)
        self.results = [one for one in program.results if one not in self.overwritten]
        self.computed = [x for x in self.results if not is_given(x)]
        self.is_short = len(self.computed) == len(self.results)
        self.moved = [self.names[node] for node in self.overwritten.values()]
        self.given = given_of(self.computed, self.overwritten)
        self.code = program.code_for(self.computed, self.overwritten)
        self.arguments = Arguments(self.given, order, program.constants, program.shape_given)
        stays = [(slot, x) for slot, x in enumerate(self.given) if x in self.names]
        self.stays = [(slot, self.names[node]) for slot, node in stays]
        self.numbers = [
            (slot, x) for slot, x in enumerate(self.given) if x in held and x not in self.names
        ]
        self._numbers: dict[Node, tuple[Any, Any]] = {}
        self.before: dict[Node, np.ndarray] = {}
        self.raised: BaseException | None = None
        self.is_cold = True
        self.sent_ahead = SentAhead(program, order, home)

    def __call__(self, arrays: tuple[Any, ...]) -> list[np.ndarray] | None:
        """See `Call.__call__`."""
        if self.is_cold or not self.arguments.fit(arrays):
            return None
        return self._run(self.arguments.of(arrays))

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`; the values of inputs that are held are those of their arrays."""
        given = {node: value for node, value in inputs.items() if node not in self.held}
        if not self.is_short:  # before they may be overwritten
            self.home.come_back()
            arrays = {**self.held, **given}
            self.before = {x: given_value(x, arrays) for x in self.results if is_given(x)}
        found = [
            np.asarray(given[node], node.dtype) if node in given else one
            for node, one in zip(self.given, self.arguments.base, strict=True)
        ]
        values = self._run(found)
        return self._as_reference(given) if values is None else values

    def _run(self, arrays: list[Any]) -> list[np.ndarray] | None:
        """The values of the results; None where code failed, and nothing has changed."""
        home = self.home
        home.move_to(*self.program.where)
        if self.is_cold:
            home.come_back()
        for slot, name in self.stays:
            arrays[slot] = self._there(name)
        for slot, node in self.numbers:
            arrays[slot] = self._number(node)
        if self.code.is_out_of_range(arrays):
            return None
        arrays = self.program.ready(self.given, self.sent_ahead.there(arrays))
        donated = [self._there(name) for name in self.moved]
        made: list[Any] = []
        values = None
        self.code.refuse_too_much(arrays)
        home.expect(self.moved, made)
        try:
            with wide():
                # One call of C: no signal comes between the end of the run and its results.
                made.extend(chain.from_iterable(map(self.code.jitted, (donated,), (arrays,))))
            self.sent_ahead.send()
        except jax_here().errors.JaxRuntimeError as error:
            self.raised = self.code.foreign.take()
            if self.raised is None:
                raise self._lost(donated, error) from error
        finally:
            if made:
                try:
                    values = self._settle(*made[1:])
                except jax_here().errors.JaxRuntimeError as error:  # it had only begun
                    self._take_back(donated, error)
                except BaseException:
                    values = self._settle(*made[1:])
                    raise
            elif self.is_cold and any(one.is_deleted() for one in donated):
                home.forget()
        self.is_cold = self.is_cold and not made
        return values

    def _settle(self, found: Sequence[Any], failed: Any) -> Any:
        """The run has come to its end: the device has the new arrays."""
        self.home.settle()
        if failed and bool(failed[0]):  # they are the old ones
            return None
        values = [np.asarray(one) for one in found]
        if not self.is_short:
            computed = dict(zip(self.computed, values, strict=True))
            values = [computed[x] if x in computed else self.before[x] for x in self.results]
        self.then(values)
        return values

    def _take_back(self, donated: Sequence[Any], error: Exception) -> None:
        """The run failed after its results were promised: the old arrays count again, if they are
        still there, and NumPy says what is wrong, if a call of it has raised."""
        if any(one.is_deleted() for one in donated):
            raise self._lost(donated, error) from error
        self.home.away.update(zip(self.moved, donated, strict=True))
        self.raised = self.code.foreign.take()
        if self.raised is None:
            raise device_failed(error) from error

    def _there(self, name: str) -> Any:
        """An array of the state on the device, where it is sent to if it is not there."""
        found = self.home.away.get(name)
        if found is None:
            array = self.home.memory[name]
            found = self.home.away[name] = self.program.sent(self.node_called[name], array)
        return found

    def _number(self, node: Node) -> Any:
        """A number that is held: sent again where it has changed."""
        value = self.held[node].item()
        known = self._numbers.get(node)
        if known is None or known[0] != value:
            known = self._numbers[node] = (value, self.program.sent(node, self.held[node]))
        return known[1]

    def _as_reference(self, given: Mapping[Node, Any]) -> list[np.ndarray]:
        """What NumPy raises on the same arrays; if that is nothing, what it makes of them."""
        self.home.come_back()
        raised, self.raised = self.raised, None
        found = self.program.as_reference({**self.held, **given}, raised)
        for result, node in self.overwritten.items():
            self.home.memory[self.names[node]][...] = found[result]
        self.home.forget()
        values = [found[one] for one in self.results]
        self.then(values)
        return values

    def _lost(self, donated: Sequence[Any], error: Exception) -> Exception:
        """What to raise where the device failed: the state is as it was, or it is lost."""
        if not any(one.is_deleted() for one in donated):
            return device_failed(error)
        self.home.forget()
        if self.is_cold:  # all was brought back before
            return device_failed(error)
        return StateError(
            f"the device failed in a step, and has lost the state: {error}",
            hint="its arrays are those of when they were last read: go on from a checkpoint",
        )
