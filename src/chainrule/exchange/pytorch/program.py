"""A program that `torch.export` made, as plain instructions that run on traced arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.exchange.pytorch.complex_numbers import Complex
from chainrule.exchange.pytorch.sources import Frame
from chainrule.exchange.pytorch.values import is_array
from chainrule.frontend.by_hand import named, scope
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.numpy.of_one_primitive import stop_gradient
from chainrule.random import keys


@dataclass(frozen=True)
class Ref:
    """Stands for a value among the arguments of an instruction."""

    place: int


@dataclass(frozen=True)
class Instruction:
    """One operator: its function, arguments and place, and the dtypes of what it gives."""

    place: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    frame: Frame
    path: str = ""  # of the submodule
    name: str = ""  # of the value, in that submodule or in one around it
    dtypes: Any = None  # a dtype, or one for each result; None: as it comes
    operands: np.dtype | None = None  # the dtype in which it computes
    makes: bool = False  # an array from sizes: its function takes the trace
    has_gradient: bool = True  # not under torch.no_grad
    draws: int | None = None  # the i-th random numbers of the program: its function takes a key


@dataclass(frozen=True)
class Program:
    """Instructions in order, the number of their values, and what they read and give."""

    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    results: tuple[Any, ...]  # Refs and plain values
    count: int
    constants: tuple[tuple[int, str, np.ndarray], ...] = ()

    @property
    def draws(self) -> int:
        """How many instructions draw random numbers."""
        return sum(one.draws is not None for one in self.instructions)

    def run(self, trace: Trace, values: Sequence[Any], key: Any) -> list[Any]:
        """The results for these values of the inputs, in a trace or, without one, on arrays."""
        known: list[Any] = [None] * self.count
        for place, value in zip(self.inputs, values, strict=True):
            known[place] = value
        for place, name, array in self.constants:
            known[place] = named(array, name) if array.size > 1 else array
        for one in self.instructions:
            where = one.frame
            with scope(one.path, file=where.file, line=where.line, function=where.function):
                value = known[one.place] = _computed(one, known, trace, key)
            if one.name and isinstance(value, Traced):
                _name(value, one.name)
        return [_filled(one, known) for one in self.results]


def _name(value: Traced, name: str) -> None:
    """Name a value; one that has a name already (dropout in eval mode changes nothing) only if a
    module further out stores it."""
    known = value.program.name_of.get(value.node)
    with scope():
        place = value.program.place
        outer = f"{place.scope.path}." if place is not None and place.scope is not None else ""
    if known is None or f"{outer}{name}".count(".") < known.count("."):
        named(value, name)


def _computed(one: Instruction, known: list[Any], trace: Trace, key: Any) -> Any:
    args = [_filled(value, known) for value in one.args]
    options = {name: _filled(value, known) for name, value in one.options.items()}
    if one.operands is not None:
        args = [_cast(value, one.operands) for value in args]
    if one.makes:
        args = [trace, *args]
    if one.draws is not None:
        args = [keys.fold_in(key, one.draws), *args]
    found = _typed(one.function(*args, **options), one.dtypes)
    return found if one.has_gradient else _without_gradient(found)


def _without_gradient(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_gradient(one) for one in value]
    if isinstance(value, Complex):
        return Complex(_without_gradient(value.real), _without_gradient(value.imag))
    is_float = isinstance(value, Traced) and dtype_kind(value.dtype) == "f"
    return stop_gradient(value) if is_float else value


def _filled(value: Any, known: list[Any]) -> Any:
    if isinstance(value, Ref):
        return known[value.place]
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    return value


def _cast(value: Any, dtype: np.dtype) -> Any:
    return value.astype(dtype) if is_array(value) and value.dtype != dtype else value


def _typed(value: Any, dtypes: Any) -> Any:
    """The results in the dtypes that PyTorch gives them."""
    if isinstance(value, Complex):
        return value.cast(dtypes) if isinstance(dtypes, np.dtype) else value
    if isinstance(dtypes, np.dtype):
        return _cast(value if is_array(value) else np.asarray(value), dtypes)
    if isinstance(dtypes, tuple):
        pairs = zip(value, dtypes, strict=False)
        return [one if dtype is None or one is None else _typed(one, dtype) for one, dtype in pairs]
    return value
