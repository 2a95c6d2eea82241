"""Random numbers that are drawn while a program is traced are constants of its graph: a warning.

No draw is watched while the program runs.  A generator whose state is another one afterwards has
drawn, and the line that drew is looked for in the code.  Without one, another thread may have drawn
from a generator that all share; one that only the program reaches is told with the function's line.
What has no state that could be compared (entropy, clocks, files) is found by `asked`.
"""

from __future__ import annotations

import dis
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, FrozenRandomWarning
from chainrule.frontend.asked import KEYS, is_in, watching
from chainrule.frontend.reached import (
    GENERATORS,
    METHODS,
    Codes,
    entered,
    generators,
    is_generator,
    reached,
)
from chainrule.graph.graph import Graph
from chainrule.graph.origin import Origin

SHARED: Any = np.random.normal.__self__  # what np.random.normal and its like draw from
PYTHONS: Any = random.random.__self__  # what random.random and its like draw from
NO_DRAWS = {"get_state", "set_state", "spawn", "getstate", "setstate", "initial_seed"}
SEEDS = {"seed", "manual_seed"}
SETTERS = SEEDS | {"set_state", "setstate"}
OF_TORCH = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
OF_TORCH |= {f"{name}_like" for name in ("rand", "randn", "randint")} | {"dropout", "manual_seed"}
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
SKIPPED = ("PUSH_NULL", "CACHE", "PRECALL", "RESUME")
_told: dict[object, object] = {}  # which places Python's "default" filter has shown already


@contextmanager
def warning_of_draws(
    function: Any, examples: Any, named: Mapping[str, Any]
) -> Iterator[list[Graph]]:
    """A FrozenRandomWarning at the user's line, where what runs within draws random numbers.

    Found are the generators of NumPy, Python and PyTorch (np.random.normal, random.random,
    torch.randn), and those that the function gets as arguments or reads from outside; entropy of
    the system, also of a generator without a seed; and clocks and files, if a number that came
    from nowhere else is in the graph, which the caller puts into the list.
    """
    graphs: list[Graph] = []
    plain, given = entered(function, examples, named)
    if plain is None:
        yield graphs
        return
    codes = reached(plain, given, function)
    outside = {name: value for space in codes.values() for name, value in space.items()}
    private = generators({**outside, **given, "function": function})
    found = _generators(codes, [one for _, one in private])
    before = [_state(one) for one in found]
    with watching(codes) as asked:
        yield graphs
    pairs = zip(found, before, strict=True)
    changed = [one for one, state in pairs if _state(one) != state]
    if changed:
        _warn(plain, codes, changed, private)
    for source, origin in asked.found.items():
        if is_in(graphs[0], source, codes):
            _tell(source.what.format(_called(plain)), origin, source.hint)


def _generators(codes: Codes, values: Iterable[Any]) -> list[Any]:
    """The generators among the values, and those that the code can name; NumPy's own, whose state
    takes long to read, only where there is the word random, or one of its methods."""
    found = [*values]
    for code, space in codes.items():
        names, outside = (*code.co_names, *code.co_freevars), list(space.values())
        found += [one.__self__ for one in outside if isinstance(one, METHODS)]
        if "random" in names:
            found += [SHARED, PYTHONS]
        found += [vars(one).get(name) for one in outside if _has_parts(one) for name in names]
        if "torch" in sys.modules and ("torch" in names or any(_is_torchs(one) for one in outside)):
            found.append(sys.modules["torch"].default_generator)
        found += outside
    return list({id(one): one for one in found if is_generator(one)}.values())


def _has_parts(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, (ModuleType, type, FunctionType))


def _state(generator: Any) -> Any:
    """The state of a generator as something that can be compared."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return _comparable(generator.get_state(legacy=False))
    if isinstance(generator, np.random.Generator):
        return _comparable(generator.bit_generator.state)
    return generator.get_state().numpy().tobytes()  # PyTorch's


def _comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return tuple([(key, _comparable(value)) for key, value in found.items()])
    return found.tobytes() if isinstance(found, np.ndarray) else found


def _warn(
    function: FunctionType, codes: Codes, changed: list[Any], private: list[tuple[str, Any]]
) -> None:
    """Warn of the draw that is found in the code; not where it seeds the generator itself.

    Of a generator that only the program reaches also without such a line, then where it is named.
    """
    named = [
        (path, value, origin)
        for code, space in codes.items()
        for path, value, origin in _named(code, space)
    ]
    found = [(path, origin) for path, value, origin in named if _is_draw(value, changed)]
    if any(name.rpartition(".")[2] in SEEDS for name, _ in found):
        return
    if not found and SETTERS.isdisjoint(name for code in codes for name in code.co_names):
        shared = [SHARED, PYTHONS, getattr(sys.modules.get("torch"), "default_generator", None)]
        hidden = [one for one in private if _is_in(one[1], changed) and not _is_in(one[1], shared)]
        for path, one in hidden[:1]:
            passed = [(name, origin) for name, value, origin in named if value is one]
            found = passed if len(passed) == 1 else [(path, Origin(function.__code__, -1))]
    for name, origin in found[:1]:
        what = f"{name} draws while {_called(function)} is traced: its numbers are constants"
        _tell(f"{what} of the graph, the same in every run", origin, KEYS)


def _called(function: FunctionType) -> str:
    """How a message calls the function; of the call of an object, its class."""
    outer, _, name = function.__qualname__.rpartition(".")
    return outer.rpartition(".")[2] if name == "__call__" and outer else function.__name__


def _is_in(value: Any, several: Iterable[Any]) -> bool:
    return any(value is one for one in several)


def _tell(what: str, origin: Origin, hint: str) -> None:
    where = origin.location
    assert where is not None
    warnings.warn_explicit(
        FrozenRandomWarning(str(ChainruleError(what, where=origin.describe(), hint=hint))),
        FrozenRandomWarning,
        where.filename,
        where.line,
        registry=_told,  # type: ignore[arg-type]
    )


def _named(code: CodeType, space: Mapping[str, Any]) -> Iterator[tuple[str, Any, Origin]]:
    """Every name in the code, and every attribute that is known without running anything: as it
    is written, its value, and the place."""
    path, value = "", None
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in SKIPPED:
            continue
        if instruction.opname in LOADS and name in space:
            path, value = name, space[name]
        elif instruction.opname in ATTRIBUTES and (
            isinstance(value, ModuleType) or is_generator(value)
        ):
            path, value = f"{path}.{name}", getattr(value, name, None)
        elif instruction.opname in ATTRIBUTES and name in getattr(value, "__dict__", {}):
            path, value = f"{path}.{name}", vars(value)[name]
        else:
            path, value = "", None
            continue
        yield path, value, Origin(code, instruction.offset)


def _is_draw(value: Any, changed: list[Any]) -> bool:
    """Whether this is a method of one of these generators that draws, or seeds it."""
    if value is np.random.seed:
        return SHARED in changed
    if getattr(value, "__name__", None) in NO_DRAWS:
        return False
    if _is_torchs(value):  # and takes a generator as an argument
        return any(not isinstance(one, GENERATORS) for one in changed)
    return isinstance(value, METHODS) and _is_in(value.__self__, changed)


def _is_torchs(value: Any) -> bool:
    """Whether this is a function of PyTorch's that draws."""
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] == "torch" and getattr(value, "__name__", "") in OF_TORCH
