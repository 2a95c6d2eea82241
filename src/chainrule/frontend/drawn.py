"""Random numbers that NumPy draws while a program is traced are constants of its graph: a warning.

Nothing is watched while the program runs.  A generator whose state is another one afterwards has
drawn, and the line that drew is looked for in the code: without one, another thread may have.
"""

from __future__ import annotations

import dis
import inspect
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, FrozenRandomWarning
from chainrule.graph.origin import Origin

MOST_CODES = 200  # of the user's, that are looked through
GENERATORS = (np.random.Generator, np.random.RandomState)
SHARED: Any = np.random.normal.__self__  # what np.random.normal and its like draw from
METHODS = (BuiltinFunctionType, MethodType)
NO_DRAWS = {"get_state", "set_state", "spawn"}
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
SKIPPED = ("PUSH_NULL", "CACHE", "PRECALL", "RESUME")
Codes = dict[CodeType, Mapping[str, Any]]
_told: dict[object, object] = {}  # which places Python's "default" filter has shown already


@contextmanager
def warning_of_draws(function: Any, examples: Any, named: Mapping[str, Any]) -> Iterator[None]:
    """A FrozenRandomWarning at the user's line, where what runs within draws random numbers.

    Found are NumPy's own generator (np.random.normal), and those that the function gets as
    arguments or reads from outside.
    """
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        yield
        return
    own = getattr(plain, "__self__", None)  # of a method
    examples = examples if own is None else (own, *examples)
    given = {**dict(zip(code.co_varnames, examples, strict=False)), **named}
    codes = _reached(plain, given)
    generators = _generators(codes, [*given.values(), *getattr(own, "__dict__", {}).values()])
    before = [_state(one) for one in generators]
    yield
    pairs = zip(generators, before, strict=True)
    changed = [one for one, state in pairs if _state(one) != state]
    if changed:
        _warn(plain.__name__, codes, changed)


def _reached(function: Any, given: dict[str, Any]) -> Codes:
    """The code of the function and of those of the user's that it names, and so on, each with the
    variables that it reads."""
    found: Codes = {}
    pending = [(function, given)]
    while pending and len(found) < MOST_CODES:
        one, arguments = pending.pop(0)
        if one.__code__ in found:
            continue
        space = ChainMap(arguments, _closure(one), one.__globals__)
        for code in _codes(one.__code__):
            found[code] = space
            for name in (*code.co_names, *code.co_freevars):
                value = space.get(name)
                inside = vars(value) if isinstance(value, ModuleType) else {}
                several = [value, *[inside[other] for other in code.co_names if other in inside]]
                pending += [(each, {}) for each in several if _is_users(each)]
    return found


def _is_users(value: Any) -> bool:
    """Whether this is a function that is written in Python outside of the libraries here."""
    libraries = ("chainrule", "numpy", "scipy")
    is_function = isinstance(value, FunctionType)
    return is_function and (value.__module__ or "").partition(".")[0] not in libraries


def _closure(function: Any) -> dict[str, Any]:
    """The variables of the functions around it that a function reads."""
    found = {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            pass
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of the functions and comprehensions that are written in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _generators(codes: Codes, values: Iterable[Any]) -> list[Any]:
    """The generators among the values, and those that the code can name; NumPy's own, whose state
    takes long to read, only where there is the word random, or one of its methods."""
    found = [*values]
    for code, space in codes.items():
        names = (*code.co_names, *code.co_freevars)
        outside = [space[name] for name in names if name in space]
        bound = [one.__self__ for one in outside if isinstance(one, METHODS)]
        if "random" in names or any(one is SHARED for one in bound):
            found.append(SHARED)
        found += outside
    return list({id(one): one for one in found if isinstance(one, GENERATORS)}.values())


def _state(generator: Any) -> Any:
    """The state of a generator as something that can be compared."""
    if isinstance(generator, np.random.RandomState):
        return _comparable(generator.get_state(legacy=False))
    return _comparable(generator.bit_generator.state)


def _comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return tuple([(key, _comparable(value)) for key, value in found.items()])
    return found.tobytes() if isinstance(found, np.ndarray) else found


def _warn(function: str, codes: Codes, changed: list[Any]) -> None:
    """Warn of the draw that is found in the code; not where it seeds the generator itself."""
    found = [
        (path, origin)
        for code, space in codes.items()
        for path, value, origin in _named(code, space)
        if _is_draw(value, changed)
    ]
    if any(name.rpartition(".")[2] == "seed" for name, _ in found):
        return
    for name, origin in found[:1]:
        text = ChainruleError(
            f"{name} draws while {function} is traced: its numbers are constants of the "
            "graph, the same in every run",
            where=origin.describe(),
            hint="cr.random draws in every run, with a key that is an argument: "
            "cr.random.fold_in(key, step)\nis another one in each step; "
            "or draw before the call, and pass the array",
        )
        where = origin.location
        assert where is not None
        warnings.warn_explicit(
            FrozenRandomWarning(str(text)),
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
        elif instruction.opname in ATTRIBUTES and isinstance(value, (ModuleType, *GENERATORS)):
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
    if not isinstance(value, METHODS) or value.__name__ in NO_DRAWS:
        return False
    return any(value.__self__ is one for one in changed)
