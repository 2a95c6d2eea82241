"""Calls of a program bound to some of its arrays; those of a training state stay on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray, ndarray

from chainrule.errors import StateError
from chainrule.execute.executor import Then
from chainrule.execute.home import Home
from chainrule.execute.xla.ahead import SentAhead
from chainrule.execute.xla.code import given_of, given_value, is_given
from chainrule.execute.xla.jax_here import failures, jax_here, wide
from chainrule.execute.xla.landing import Landing, leave
from chainrule.execute.xla.memory import device_failed
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.xla.xla_program import XlaProgram


INTERRUPTS = 100  # that come while a step is waited for after the first one


class Arguments:
    """Arrays for the nodes of `given`: those of `order` by position, the others on the device.

    Those of `numbers` that have changed are sent again, if they are said to be `renewed`.
    """

    def __init__(
        self,
        program: XlaProgram,
        given: Sequence[Node],
        order: Sequence[Node | None],
        there: Mapping[Node, Any],
        numbers: Mapping[Node, np.ndarray] | None = None,
    ) -> None:
        self.program, self.given = program, given
        read = [(place, one) for place, one in enumerate(order) if one is not None]
        position = {node: place for place, node in read}
        slots = {node: slot for slot, node in enumerate(given)}
        self.base = [there.get(node) for node in given]
        self._moved = [
            (slots.get(node), place, node.dtype, program.shape_given(node)) for place, node in read
        ]
        self.is_whole = all(node in position or node in there for node in given)
        own = numbers or {}
        self._numbers = [(slot, own[node]) for slot, node in enumerate(given) if node in own]
        self._bits: dict[int, bytes] = {}
        self.renewed = True

    def of(self, arrays: Sequence[Any]) -> list[Any] | None:
        """What code takes; None where an array is not taken as it is."""
        if self.renewed:
            self._send_numbers()
        found = [*self.base]
        for slot, place, dtype, shape in self._moved:
            array = arrays[place]
            if type(array) is not ndarray or array.shape != shape:
                return None
            if array.dtype is not dtype and array.dtype != dtype:
                return None
            if slot is not None:
                found[slot] = array
        return found

    def of_values(self, values: Mapping[Node, Any]) -> list[Any]:
        """What code takes, of arrays and numbers by node."""
        self._send_numbers()
        return [
            np.asarray(values[node], node.dtype) if node in values else one
            for node, one in zip(self.given, self.base, strict=True)
        ]

    def _send_numbers(self) -> None:
        """Copies of the numbers, as they are now."""
        for slot, number in self._numbers:
            bits = number.tobytes()
            if self._bits.get(slot) != bits:
                self._bits.pop(slot, None)
                self.base[slot] = self.program.sent(self.given[slot], number)
                self._bits[slot] = bits
        self.renewed = False


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
        self.arguments = Arguments(program, program.given, order, there)
        self.code, self.jitted = code, code.jitted
        self.is_short = self.arguments.is_whole and list(self.results) == program.computed

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray] | None:
        """See `Call.__call__`."""
        given = self.arguments.of(arrays) if self.is_short else None
        if given is None or self.code.is_out_of_range(given):
            return None
        self.code.refuse_too_much(given)
        landed = self.program.landing.land(given)
        try:
            with wide():
                found, failed = self.jitted(*given)
            values = None if failed and bool(failed[0]) else [np.array(one) for one in found]
            leave(landed)
            return values
        except failures():
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
        self.jitted = self.code.jitted if self.overwritten else self._leaving_all
        numbers = {node: array for node, array in held.items() if node not in self.names}
        self.arguments = Arguments(program, self.given, order, program.constants, numbers)
        self.landing = Landing(self.given)
        stays = [(slot, x) for slot, x in enumerate(self.given) if x in self.names]
        self.stays = [(slot, self.names[node]) for slot, node in stays]
        self.before: dict[Node, np.ndarray] = {}
        self.raised: Exception | None = None
        self.is_cold = True
        self.is_spread = False  # over several devices, to which arguments are sent
        self.sent_ahead = SentAhead(program, order, home)
        self.wide = wide()

    def renew(self) -> None:
        """See `HeldCall.renew`."""
        self.arguments.renewed = True

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`; the values of inputs that are held are those of their arrays."""
        given = {node: value for node, value in inputs.items() if node not in self.held}
        if not self.is_short:  # before they may be overwritten
            self.home.come_back()
            arrays = {**self.held, **given}
            self.before = {x: given_value(x, arrays) for x in self.results if is_given(x)}
        values = self((), self.arguments.of_values(given))
        return self._as_reference(given) if values is None else values

    def __call__(
        self, arrays: Sequence[Any], given: list[Any] | None = None
    ) -> list[np.ndarray] | None:
        """See `Call.__call__`; `given` is what code takes, of arrays that may not fit as they are.

        None where code failed, too, and nothing has changed.
        """
        if given is None:
            given = None if self.is_cold else self.arguments.of(arrays)
            if given is None:
                return None
        home, code = self.home, self.code
        donated = home.left if home.left_as is self.moved else self._gathered()
        for slot, name in self.stays:
            given[slot] = self._there(home.others, name)
        if code.ranges and code.is_out_of_range(given):
            return None
        if home.sent:
            given = self.sent_ahead.there(given)
        if self.is_spread:
            given = self.program.ready(self.given, given)
        if not code.is_small:
            code.refuse_too_much(given)
        landed = self.landing.land(given)
        made: list[Any] = []
        home.coming = self.moved, made
        try:
            with self.wide:
                # One call of C: no signal comes between the end of the run and its results.
                made += map(self.jitted, (donated,), (given,))
            if code.donates:
                donated = None  # what is left of them is freed while the run goes on
            if home.ahead is not None:
                self.sent_ahead.send()
            values = self._settle(made)
            leave(landed)
        except BaseException as error:
            if self._stands(error, donated, made):
                raise
            values = None
        if self.is_cold:
            self.is_cold = not made
        return values

    def _settle(self, made: Sequence[Any]) -> list[np.ndarray] | None:
        """Wait for the end of the run: the device has the new arrays.  None where it failed, and
        they are the old ones."""
        self.home.settle()
        new, found, failed = made[0]
        if not (found or failed):  # nobody waits for a number
            jax_here().block_until_ready(new)
        if failed and bool(failed[0]):
            return None
        values = []
        for one in found:
            values.append(asarray(one))
        if not self.is_short:
            computed = dict(zip(self.computed, values, strict=True))
            values = [computed[x] if x in computed else self.before[x] for x in self.results]
        self.then(values)
        return values

    def _stands(
        self, error: BaseException, donated: Sequence[Any] | None, made: Sequence[Any]
    ) -> bool:
        """Whether to raise an error that came in a run: not where a call of NumPy has raised, which
        says itself what is wrong, nor where JAX has looked for NaNs, and found one.

        A run that had begun counts, if it does not fail; else the old arrays count again.
        """
        failure = failures()
        if made:
            for turn in reversed(range(INTERRUPTS)):
                try:
                    self._settle(made)
                    return True
                except failure as failed:  # it had only begun
                    self._take_back(donated, failed)
                    break
                except BaseException:  # another signal; the step counts all the same
                    if not turn:
                        raise
        elif isinstance(error, failure):
            self.raised = self.code.foreign.take()
            found_nan = isinstance(error, FloatingPointError) and not is_lost(donated)
            if self.raised is None and not found_nan:
                raise self._lost(donated, error) from error
        elif self.is_cold and is_lost(donated):
            self.home.forget()
        return not isinstance(error, failure)

    def _take_back(self, donated: Sequence[Any] | None, error: Exception) -> None:
        """The run failed after its results were promised: the old arrays count again, if they are
        still there, and NumPy says what is wrong, if a call of it has raised."""
        if donated is None or is_lost(donated):
            raise self._lost(donated, error) from error
        self.home.put_back(self.moved, donated)
        self.raised = self.code.foreign.take()
        if self.raised is None:
            raise device_failed(error) from error

    def _leaving_all(self, _: Sequence[Any], arrays: Sequence[Any]) -> Any:
        """As code that overwrites something."""
        return [], *self.code.jitted(*arrays)

    def _gathered(self) -> list[Any]:
        """The arrays that are overwritten, where the last run on this state was not this call's."""
        self.home.move_to(*self.program.where)
        if self.is_cold:
            self.home.come_back()
        away = self.home.away
        return [self._there(away, name) for name in self.moved]

    def _there(self, away: dict[str, Any], name: str) -> Any:
        """An array of the state on the device, where it is sent to if it is not there."""
        if name not in away:
            array, self.home.is_away = self.home.memory[name], True
            away[name] = self.program.sent(self.node_called[name], array)
        return away[name]

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

    def _lost(self, donated: Sequence[Any] | None, error: Exception) -> Exception:
        """What to raise where the device failed: the state is as it was, or it is lost."""
        if not is_lost(donated):
            return device_failed(error)
        self.home.forget()
        if self.is_cold:  # all was brought back before
            return device_failed(error)
        return StateError(
            f"the device failed in a step, and has lost the state: {error}",
            hint="its arrays are those of when they were last read: go on from a checkpoint",
        )


def is_lost(donated: Sequence[Any] | None) -> bool:
    """Whether a run has taken over the memory of arrays; None for all of them."""
    return donated is None or any(one.is_deleted() for one in donated)
