"""A `Model` from another library: a function of traced arrays, with the model's own arrays."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.errors import InputError, programs_around
from chainrule.frontend.by_hand import scope
from chainrule.frontend.errors.refusing import require_flag
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.functional import compile
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.structure import flatten
from chainrule.graph.types import ArrayType, type_of
from chainrule.tracebacks import entry
from chainrule.tracing import trace

_called: WeakKeyDictionary[Trace, Counter[str]] = WeakKeyDictionary()  # by the names of models


class Call(NamedTuple):
    """What a model computes from: the leaves of its inputs in order, its arrays, and a key."""

    inputs: list[Any]
    parameters: Mapping[str, Any]
    state: Mapping[str, Any]
    key: Any


@dataclass(frozen=True, eq=False, repr=False)
class Model(Frozen):
    """A model as a function: `model(x, parameters)`, on arrays and in traced functions.

    `inputs` are the types of its inputs by name, in containers where it takes containers.
    `parameters` and `state` are its arrays by name: those that are trained, and those that are not,
    such as running statistics.  Those of another shape or dtype are refused, as they are for
    another program.

    `model(x, parameters)` is what the model gives.  `model(x, parameters, state)` is that and the
    state afterwards, `(out, state)`.  Without them the model's own arrays are constants.  A model
    that draws random numbers takes `key=`.

    `training` is the mode of its program, where it has modes: `model(x, ..., training=False)` is
    the model in this mode, as are `model.train()` and `model.eval()`.
    """

    _called = "a model"
    _instead = (
        "import it again in the other program; its arrays go by cr.save_weights(path, "
        "{**model.parameters, **model.state})"
    )

    name: str
    inputs: Mapping[str, Any]
    parameters: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    compute: Callable[[Call], tuple[Any, dict[str, Any]]] = field(repr=False)
    draws: int = 0
    exported: str = "the export"  # what fixed the types of its inputs, for messages
    training: bool | None = None
    in_mode: Callable[[bool], Model] | None = field(default=None, repr=False)

    @entry
    def __call__(
        self,
        *inputs: Any,
        parameters: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        key: Any = None,
        training: bool | None = None,
        **named: Any,
    ) -> Any:
        if training is not None and training != self.training:
            return self._in(training)(*inputs, parameters=parameters, state=state, key=key, **named)
        inputs, parameters, state = self._placed(inputs, parameters, state)
        given = self._bound(inputs, named)
        program = next(programs_around(sys._getframe(1)), None)
        if program is None:
            return self._compiled(given, parameters, state, key)
        count = _called.setdefault(program, Counter())
        count[self.name] += 1
        again = count[self.name] - 1
        with scope(f"{self.name}_{again}" if again else self.name):
            result = self._computed(given, parameters, state, key)
        _name_stored(program, result, sys._getframe(1))
        return result

    def train(self, mode: bool = True) -> Model:
        """The model in train mode: with the statistics of its batches, and with dropout."""
        return self if mode == self.training else self._in(mode)

    def eval(self) -> Model:
        """The model in eval mode, for prediction."""
        return self.train(False)

    def _in(self, training: bool) -> Model:
        """The model in the other mode."""
        require_flag((), training, f"{self.name}: training")
        if self.in_mode is None:
            raise InputError(
                f"{self.name} has one mode: it is not known whether it is for training",
                hint="call it without training=",
            )
        if training not in self._modes:
            self._modes[training] = self.in_mode(training)
        return self._modes[training]

    @cached_property
    def _modes(self) -> dict[bool, Model]:
        return {}

    def _placed(self, inputs: tuple[Any, ...], parameters: Any, state: Any) -> tuple[Any, Any, Any]:
        """Parameters and state may follow the inputs."""
        count = len(self.inputs)
        rest = [*inputs[count:]]
        if rest and parameters is None:
            parameters = rest.pop(0)
        if rest and state is None:
            state = rest.pop(0)
        if rest:
            raise InputError(
                f"{self.name} takes {', '.join(self.inputs)}, parameters and state, got "
                f"{len(inputs)} positional arguments",
                hint=f"model({', '.join(self.inputs)}, parameters, state)",
            )
        return inputs[:count], parameters, state

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        given = {**dict(zip(self.inputs, inputs, strict=False)), **named}
        twice = [name for name in list(self.inputs)[: len(inputs)] if name in named]
        wrong = [*twice, *(name for name in given if name not in self.inputs)]
        missing = [name for name in self.inputs if name not in given]
        if wrong or missing:
            raise InputError(
                f"{self.name} takes {', '.join(self.inputs)}, got {', '.join(given) or 'nothing'}"
                + (f", {', '.join(twice)} twice" if twice else ""),
                hint=f"model({', '.join(self.inputs)}, parameters)",
            )
        return {name: given[name] for name in self.inputs}

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        """For calls with plain arrays."""
        return compile(self._computed)

    def _computed(
        self, given: dict[str, Any], parameters: Any = None, state: Any = None, key: Any = None
    ) -> Any:
        leaves: list[Any] = []
        sizes: dict[str, Any] = {}
        for name, expected in self.inputs.items():
            leaves += self._leaves(name, given[name], expected, sizes)
        if self.draws and key is None:
            raise InputError(
                f"{self.name} draws random numbers ({self.draws} operations, such as dropout) and "
                "was called without a key",
                hint="model(x, parameters, key=key) with key = cr.random.key(0), or one that "
                "changes from step to step; for prediction, export it in eval mode",
            )
        own = self._arrays("parameters", parameters, self.parameters)
        kept = self._arrays("state", state, self.state)
        out, changed = self.compute(Call(leaves, own, kept, key))
        return out if state is None else (out, {**kept, **changed})

    def _leaves(self, name: str, value: Any, expected: Any, sizes: dict[str, Any]) -> list[Any]:
        """The arrays of one input, which are of the types of the program."""
        types, structure = flatten(expected, name)
        found, own = flatten(value, name)
        if own.leaf_names != structure.leaf_names:
            raise InputError(
                f"{self.name}: {name} is {', '.join(own.leaf_names) or 'empty'}, and "
                f"{self.exported} had {', '.join(structure.leaf_names) or 'nothing'}",
                hint="give containers as in the example inputs",
            )
        for leaf, type_, leaf_name in zip(found, types, own.leaf_names, strict=True):
            if isinstance(type_, ArrayType):
                self._check(leaf_name, leaf, type_, sizes)
            elif type_ is not leaf and type_ != leaf:
                raise InputError(
                    f"{self.name}: {leaf_name} is {leaf!r}, and {self.exported} is for {type_!r}",
                    hint="export the model again with this value",
                )
        return found

    def _check(self, name: str, value: Any, expected: ArrayType, sizes: dict[str, Any]) -> None:
        found = value.node.type if isinstance(value, Traced) else type_of(value)
        fits = found.ndim == expected.ndim and (found.dtype == expected.dtype or found.weak)
        for got, wanted in zip(found.shape, expected.shape, strict=False):
            if not isinstance(wanted, int):
                wanted = sizes.setdefault(str(wanted), got)
            fits = fits and (got is wanted or got == wanted)
        if not fits:
            raise InputError(
                f"{self.name}: {name} is {found}, and {self.exported} is for {expected}",
                hint="name the sizes that vary when you import the model, and give it the dtype "
                "of your arrays",
            )

    def _arrays(self, what: str, given: Any, own: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """These arrays by name, or the model's own."""
        if given is None:
            return own
        if not isinstance(given, Mapping):
            raise InputError(
                f"{self.name}: {what} are arrays by name, got {type(given).__name__}",
                hint=f"model.{what}, or a dict with the same names",
            )
        wrong = [name for name in (*own, *given) if name not in own or name not in given]
        if wrong:
            shown = ", ".join(
                f"{name} is {'missing' if name in own else 'unknown'}" for name in wrong[:5]
            )
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise InputError(
                f"{self.name}: of the {what}, {shown}{more}",
                hint=f"{{**model.{what}, **yours}}, with the names of model.{what}",
            )
        for name, array in own.items():
            self._check(name, given[name], type_of(array), {})
        return given

    @cached_property
    def graph(self) -> Graph:
        """The model alone: its inputs, then its parameters and its state, are those of the graph.

        It gives what the model gives, and, if that changes it, the state afterwards.
        """

        def forward(*inputs: Any, **arrays: Any) -> Any:
            given = self._bound(inputs, {})
            own = {name: arrays[name] for name in self.parameters}
            kept = {name: arrays[name] for name in self.state}
            key = arrays.get("key")
            with scope():
                out, after = self._computed(given, own, kept, key)
            changed = {name: after[name] for name in after if after[name] is not kept[name]}
            return (out, changed) if changed else out

        kind = inspect.Parameter
        positional = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in self.inputs]
        forward.__name__ = self.name
        signature = inspect.Signature([*positional, kind("arrays", kind.VAR_KEYWORD)])
        forward.__dict__["__signature__"] = signature
        types = {name: type_of(one) for name, one in {**self.parameters, **self.state}.items()}
        if self.draws:
            types["key"] = type_of(np.zeros(2, np.uint32))
        return trace(forward, *self.inputs.values(), **types)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {value}" for name, value in self.inputs.items())
        count = sum(one.size for one in self.parameters.values())
        return (
            f"<model {self.name}({inputs}) with {count:,} parameters in {len(self.parameters)} "
            f"arrays, and {len(self.state)} arrays of state>"
        )


def _name_stored(program: Trace, result: Any, caller: FrameType) -> None:
    """Name what the model gave by the variables in which the caller stores it."""
    frame = program.enter(caller)
    program.site = None
    if frame is None:  # within `cr.scope`
        return
    for node, place in nodes_of(result):
        target = program.namer.target(frame, place)
        if target is None or target.name == "_":
            continue
        outer = program.scope_at("", target.frame)
        path = f"{outer.path}." if outer is not None else ""
        program.name_by_hand(node, path + target.name)
