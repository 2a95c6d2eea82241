"""Random numbers that are drawn while a program is traced are constants of its graph: a warning.

No draw is watched while the program runs.  A generator whose state is another one afterwards has
drawn, and the line that drew is looked for in the code: without one, another thread may have.
What has no state that could be compared (entropy, clocks, files) is found by `asked`.
"""

from __future__ import annotations

import dis
import inspect
import random
import sys
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, FrozenRandomWarning
from chainrule.frontend.asked import KEYS, is_in, watching
from chainrule.graph.graph import Graph
from chainrule.graph.origin import Origin

MOST_CODES = 200  # of the user's, that are looked through
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
SHARED: Any = np.random.normal.__self__  # what np.random.normal and its like draw from
METHODS = (BuiltinFunctionType, MethodType)
PYTHONS: Any = random.random.__self__  # what random.random and its like draw from
NO_DRAWS = {"get_state", "set_state", "spawn", "getstate", "setstate", "initial_seed"}
SEEDS = {"seed", "manual_seed"}
OF_TORCH = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
OF_TORCH |= {f"{name}_like" for name in ("rand", "randn", "randint")} | {"dropout", "manual_seed"}
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
SKIPPED = ("PUSH_NULL", "CACHE", "PRECALL", "RESUME")
Codes = dict[CodeType, Mapping[str, Any]]
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
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        yield graphs
        return
    own = getattr(plain, "__self__", None)  # of a method
    examples = examples if own is None else (own, *examples)
    given = {**dict(zip(code.co_varnames, examples, strict=False)), **named}
    codes = _reached(plain, given)
    generators = _generators(codes, [*given.values(), *getattr(own, "__dict__", {}).values()])
    before = [_state(one) for one in generators]
    with watching(codes) as asked:
        yield graphs
    pairs = zip(generators, before, strict=True)
    changed = [one for one, state in pairs if _state(one) != state]
    if changed:
        _warn(plain.__name__, codes, changed)
    for source, origin in asked.found.items():
        if is_in(graphs[0], source, codes):
            _tell(source.what.format(plain.__name__), origin, source.hint)


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
            names = (*code.co_names, *code.co_freevars, *arguments)
            found[code] = {name: space[name] for name in names if name in space}
            for value in found[code].values():
                inside = vars(value) if isinstance(value, ModuleType) else {}
                several = [value, *[inside[other] for other in code.co_names if other in inside]]
                pending += [(each, {}) for each in several if _is_users(each)]
    return found


def _is_users(value: Any) -> bool:
    """Whether this is a function that is written in Python outside of the libraries here."""
    libraries = ("chainrule", "numpy", "scipy", "random", "secrets", "uuid", "torch", "jax")
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
        names, outside = (*code.co_names, *code.co_freevars), list(space.values())
        found += [one.__self__ for one in outside if isinstance(one, METHODS)]
        if "random" in names:
            found += [SHARED, PYTHONS]
        found += [vars(one).get(name) for one in outside if _has_parts(one) for name in names]
        if "torch" in sys.modules and ("torch" in names or any(_is_torchs(one) for one in outside)):
            found.append(sys.modules["torch"].default_generator)
        found += outside
    return list({id(one): one for one in found if _is_generator(one)}.values())


def _is_generator(value: Any) -> bool:
    """Whether this is a generator whose state can be read (the system's has none)."""
    if isinstance(value, GENERATORS):
        return not isinstance(value, random.SystemRandom)
    return type(value).__name__ == "Generator" and type(value).__module__ == "torch._C"


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


def _warn(function: str, codes: Codes, changed: list[Any]) -> None:
    """Warn of the draw that is found in the code; not where it seeds the generator itself."""
    found = [
        (path, origin)
        for code, space in codes.items()
        for path, value, origin in _named(code, space)
        if _is_draw(value, changed)
    ]
    if any(name.rpartition(".")[2] in SEEDS for name, _ in found):
        return
    for name, origin in found[:1]:
        what = f"{name} draws while {function} is traced: its numbers are constants of the graph"
        _tell(f"{what}, the same in every run", origin, KEYS)


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
            isinstance(value, ModuleType) or _is_generator(value)
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
    return isinstance(value, METHODS) and any(value.__self__ is one for one in changed)


def _is_torchs(value: Any) -> bool:
    """Whether this is a function of PyTorch's that draws."""
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] == "torch" and getattr(value, "__name__", "") in OF_TORCH
