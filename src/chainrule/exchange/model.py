"""A `Model` from another library: a function of traced arrays, with the model's own arrays."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError, programs_around
from chainrule.frontend.by_hand import scope
from chainrule.frontend.errors.refusing import require_flag
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.functional import compile
from chainrule.graph.dtypes import in_python
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.structure import flatten
from chainrule.graph.types import ArrayType, type_of
from chainrule.tracebacks import entry
from chainrule.tracing import trace

_called: WeakKeyDictionary[Trace, Counter[str]] = WeakKeyDictionary()  # by the names of models

# The program of a model: from the trace, the leaves of its inputs, its arrays by name, and a key
# to what it gives, and the buffers that it changes.
Compute = Callable[[Trace, list[Any], Mapping[str, Any], Any], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True, eq=False, repr=False)
class Model(Frozen):
    """A model as a function: `model(x, parameters)`, on arrays and in traced functions.

    `inputs` are the types of its inputs by name, in containers where it takes containers.
    `parameters` and `buffers` are its arrays by name: those that are trained, and those that are
    not, such as running statistics.  `graph` is the model alone, to draw, count and export.

    `model(x, parameters)` is what the model gives; several results that have names are a dict.
    `model(x, parameters, buffers)` is that and the buffers afterwards, `(out, buffers)`.  Without
    them the model's own arrays are constants.  Inputs may also be given by name.  A model that
    draws random numbers takes `key=`.

    `training` is the mode of its program, where it has modes: `model(x, ..., training=False)` is
    the model in this mode, as are `model.train()` and `model.eval()`.

    Raises InputError for arrays of other names, shapes or dtypes than those of its program.
    """

    _called = "a model"
    _instead = (
        "import it again in the other program; its arrays go by cr.save_weights(path, "
        "{**model.parameters, **model.buffers})"
    )

    name: str
    inputs: Mapping[str, Any]
    parameters: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]
    compute: Compute = field(repr=False)
    outputs: tuple[str, ...] = ()  # the names of the results, where the source names them
    draws: int = 0
    source: str = "the export"  # what fixed the types of its inputs, for messages
    training: bool | None = None
    in_mode: Callable[[bool], Model] | None = field(default=None, repr=False)

    @entry
    def __call__(
        self,
        *inputs: Any,
        parameters: Mapping[str, Any] | None = None,
        buffers: Mapping[str, Any] | None = None,
        key: Any = None,
        training: bool | None = None,
        **named: Any,
    ) -> Any:
        if training is not None and training != self.training:
            return self._in(training)(
                *inputs, parameters=parameters, buffers=buffers, key=key, **named
            )
        if "key" in self.inputs and key is not None:
            key, named = None, {**named, "key": key}
        inputs, parameters, buffers = self._placed(inputs, parameters, buffers)
        given = self._bound(inputs, named)
        own = self._arrays("parameters", parameters, self.parameters)
        kept = self._arrays("buffers", buffers, self.buffers)
        program = next(programs_around(sys._getframe(1)), None)
        if program is None:
            alone, both = self._compiled
            return (alone if buffers is None else both)(given, own, kept, key)
        count = _called.setdefault(program, Counter())
        count[self.name] += 1
        again = count[self.name] - 1
        with scope(f"{self.name}_{again}" if again else self.name):
            out, after = self._computed(given, own, kept, key)
        result = out if buffers is None else (out, after)
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
                f"{self.name} has one mode: {self.source} does not say how it is trained",
                hint="call it without training=",
            )
        if training not in self._modes:
            self._modes[training] = self.in_mode(training)
        return self._modes[training]

    @cached_property
    def _modes(self) -> dict[bool, Model]:
        return {}

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """For calls with plain arrays: what the model gives, and also the buffers afterwards."""
        return compile(lambda *given: self._computed(*given)[0]), compile(self._computed)

    # What it is given ------------------------------------------------------------------------

    def _placed(self, inputs: tuple[Any, ...], parameters: Any, buffers: Any) -> Any:
        """Parameters and buffers may follow the inputs."""
        count = len(self.inputs)
        rest = [*inputs[count:]]
        if rest and parameters is None:
            parameters = rest.pop(0)
        if rest and buffers is None:
            buffers = rest.pop(0)
        if rest:
            raise InputError(
                f"{self.name} takes {self._takes}, parameters and buffers, got "
                f"{len(inputs)} positional arguments",
                hint=f"model({self._takes}, parameters, buffers)",
            )
        return inputs[:count], parameters, buffers

    @property
    def _takes(self) -> str:
        return ", ".join(self.inputs)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        given = {**dict(zip(self.inputs, inputs, strict=False)), **named}
        twice = [name for name in list(self.inputs)[: len(inputs)] if name in named]
        wrong = [*twice, *(name for name in given if name not in self.inputs)]
        missing = [name for name in self.inputs if name not in given]
        if wrong or missing:
            raise InputError(
                f"{self.name} takes {self._takes}, got {', '.join(given) or 'nothing'}"
                + (f", {', '.join(twice)} twice" if twice else ""),
                hint=f"model({self._takes}, parameters)",
            )
        for name, value in self._fixed.items():
            if given[name] is not value and given[name] != value:
                raise InputError(
                    f"{self.name}: {name} is {given[name]!r}, and {self.source} is for {value!r}",
                    hint="import the model again with this value",
                )
        return {name: given[name] for name in self.inputs if name not in self._fixed}

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """The inputs without arrays, which are a part of the program."""
        return {
            name: value
            for name, value in self.inputs.items()
            if not any(isinstance(leaf, ArrayType) for leaf in flatten(value, name)[0])
        }

    def _leaves(self, name: str, value: Any, expected: Any, sizes: dict[str, Any]) -> list[Any]:
        """The arrays of one input, which are of the types of the program."""
        types, structure = flatten(expected, name)
        found, own = flatten(value, name)
        if own.leaf_names != structure.leaf_names:
            raise InputError(
                f"{self.name}: {name} is {', '.join(own.leaf_names) or 'empty'}, and "
                f"{self.source} has {', '.join(structure.leaf_names) or 'nothing'}",
                hint="give containers as in the example inputs",
            )
        for leaf, type_, leaf_name in zip(found, types, own.leaf_names, strict=True):
            if isinstance(type_, ArrayType):
                self._check(leaf_name, leaf, type_, sizes)
            elif type_ is not leaf and type_ != leaf:
                raise InputError(
                    f"{self.name}: {leaf_name} is {leaf!r}, and {self.source} is for {type_!r}",
                    hint="import the model again with this value",
                )
        return found

    def _check(self, name: str, value: Any, expected: ArrayType, sizes: dict[str, Any]) -> None:
        found = value.node.type if isinstance(value, Traced) else type_of(value)
        fits = found.ndim == expected.ndim and (found.dtype == expected.dtype or found.weak)
        for got, wanted in zip(found.shape, expected.shape, strict=False):
            if not isinstance(wanted, int):
                wanted = sizes.setdefault(str(wanted), got)
            fits = fits and (got is wanted or got == wanted)
        if fits:
            return
        axes = " ".join(map(str, found.shape))
        raise InputError(
            f"{self.name}: {name} is {found}, and {self.source} is for {expected}",
            hint="name the sizes that vary when you import the model, and give it the dtype of "
            f'your arrays: {name} as cr.{found.dtype}["{axes}"], say'
            if name not in self.parameters and name not in self.buffers
            else f"an array like that of the model: .astype({in_python(expected.dtype)})"
            if found.shape == expected.shape
            else "arrays like those of the model",
        )

    def _arrays(self, what: str, given: Any, own: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """These arrays by name, or the model's own."""
        if given is None:
            return own
        if not isinstance(given, Mapping):
            raise InputError(
                f"{self.name}: {what} are arrays by name, got {type(given).__name__}",
                hint=f"model.{what}, or a dict with the same names; inputs come first: "
                f"model({self._takes}, parameters)",
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

    # What it gives ---------------------------------------------------------------------------

    def _computed(
        self, given: dict[str, Any], parameters: Any, buffers: Any, key: Any
    ) -> tuple[Any, dict[str, Any]]:
        """What the model gives, and the buffers afterwards, in the trace that runs."""
        leaves: list[Any] = []
        sizes: dict[str, Any] = {}
        for name, expected in self.inputs.items():
            leaves += self._leaves(name, given.get(name, expected), expected, sizes)
        if self.draws and key is None:
            raise InputError(
                f"{self.name} draws random numbers ({self.draws} operations, such as dropout) and "
                "was called without a key",
                hint="model(x, parameters, key=key) with key = cr.random.key(0), or one that "
                "changes from step to step; for prediction, model.eval()(x)",
            )
        running = next(programs_around(sys._getframe(1)))
        out, changed = self.compute(running, leaves, {**parameters, **buffers}, key)
        return out, {**buffers, **changed}

    @cached_property
    def graph(self) -> Graph:
        """The model alone: its inputs, then its parameters and its buffers, are those of the graph.

        It gives what the model gives, and, if that changes them, the buffers afterwards.
        """

        def forward(**given: Any) -> Any:
            own = {name: given[name] for name in self.parameters}
            kept = {name: given[name] for name in self.buffers}
            with scope():
                out, after = self._computed(given, own, kept, given.get("key"))
            changed = {name: after[name] for name in after if after[name] is not kept[name]}
            return (out, changed) if changed else out

        forward.__name__ = self.name
        types = {name: type_of(one) for name, one in {**self.parameters, **self.buffers}.items()}
        if self.draws:
            types["key"] = type_of(np.zeros(2, np.uint32))
        inputs = {name: one for name, one in self.inputs.items() if name not in self._fixed}
        made = trace(forward, **inputs, **types)
        return _with_names(made, self.outputs) if self.outputs else made

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {value}" for name, value in self.inputs.items())
        count = sum(one.size for one in self.parameters.values())
        return (
            f"<model {self.name}({inputs}) with {count:,} parameters in {len(self.parameters)} "
            f"arrays, and {len(self.buffers)} buffers>"
        )


def _with_names(graph: Graph, names: tuple[str, ...]) -> Graph:
    """The graph whose results, one or a dict, are called by these names."""
    assert graph.result is not None
    found = graph.result.unflatten([node for _, node in graph.outputs])
    values = [found] if len(names) == 1 else [found[name] for name in names]
    outputs = tuple(
        (f"{name}[{place}]" if isinstance(value, list) else name, node)
        for name, value in zip(names, values, strict=True)
        for place, node in enumerate(value if isinstance(value, list) else [value])
    )
    known = dict(graph.names)
    for name, node in outputs:
        known.setdefault(name, node)
    return graph.replace(outputs=outputs, names=known)


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
