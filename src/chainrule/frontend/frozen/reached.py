"""Finds the code and the random generators that a function can reach, without running it.

Nothing of the user's is called: attributes are read from dictionaries of instances and classes.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dis import opmap
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from chainrule.frontend.frozen.generator_states import is_generator

Codes = dict[CodeType, Mapping[str, Any]]
MOST_CODES = 200  # of the user's, that are looked through
MOST_VALUES = 2000
MOST_PARTS = 100  # of one container
METHODS = (BuiltinFunctionType, MethodType)
CALLED = {FunctionType, MethodType, functools.partial}
IMPORT = opmap["IMPORT_NAME"]
LEAVES = {type(None), bool, int, float, str, bytes, np.ndarray, property, staticmethod, classmethod}
NO_PARTS = LEAVES | {ModuleType, np.ufunc}
LIBRARIES = {"builtins", "chainrule", "numpy", "scipy", "random", "secrets", "uuid", "torch", "jax"}


def entered(function: Any, examples: Iterable[Any], named: Mapping[str, Any]) -> tuple[Any, dict]:
    """The Python function that a call of `function` enters, or None, and its arguments by name."""
    given, keywords = tuple(examples), dict(named)
    while isinstance(function, functools.partial):
        given, keywords = (*function.args, *given), {**function.keywords, **keywords}
        function = function.func
    plain = inspect.unwrap(function)
    if isinstance(plain, MethodType):
        given = (plain.__self__, *given)
    elif not hasattr(plain, "__code__") and _is_users(type(plain)):
        given, plain = (plain, *given), _of_class(type(plain), "__call__")
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, FunctionType):
        return None, {}
    return plain, {**dict(zip(plain.__code__.co_varnames, given, strict=False)), **keywords}


def reached(function: FunctionType, given: dict[str, Any], wrapper: Any = None) -> Codes:
    """The code of the function and of those of the user's that it names, and so on, each with the
    variables that it reads; also of the decorators that are called in its place."""
    found: Codes = {}
    pending = deque([(function, given)])
    while isinstance(wrapper, FunctionType) and wrapper is not function and len(pending) < 10:
        pending.append((wrapper, {}))
        wrapper = getattr(wrapper, "__wrapped__", None)
    while pending and len(found) < MOST_CODES:
        one, arguments = pending.popleft()
        if one.__code__ in found:
            continue
        own = {**_closure(one), **_defaults(one), **arguments}
        kept = [name for name in own if name not in one.__code__.co_freevars]
        for code in _codes(one.__code__):
            space = {name: own[name] for name in (*code.co_freevars, *kept) if name in own}
            outside = one.__globals__
            space |= {
                name: outside[name]
                for name in code.co_names
                if name in outside and name not in space
            }
            if IMPORT in code.co_code[::2]:
                space |= _imported(code, space)
            found[code] = space
            for value in space.values():
                if type(value) not in LEAVES:
                    pending += _functions(value, code.co_names)
    return found


def _imported(code: CodeType, space: Mapping[str, Any]) -> dict[str, Any]:
    """The loaded modules that the code imports itself, and of them what it may name."""
    modules = {
        name: sys.modules[name]
        for name in code.co_names
        if name in sys.modules and name not in space
    }
    of_them = [vars(one) for one in modules.values() if isinstance(one, ModuleType)]
    parts = {name: of[name] for name in code.co_names for of in of_them if name in of}
    return {**{name: one for name, one in parts.items() if name not in space}, **modules}


def _functions(value: Any, names: Iterable[str]) -> Iterator[tuple[FunctionType, dict[str, Any]]]:
    """The user's functions that code with these names can call by way of a value."""
    several = [value]
    if isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] in LIBRARIES:
            return
        several = [vars(value)[name] for name in names if name in vars(value)]
    elif _has_parts(value):
        several += [vars(value)[name] for name in names if name in vars(value)]
    elif type(value) in (list, tuple):
        several = [one for one in value[:MOST_PARTS] if type(one) in CALLED]
    elif type(value) is dict:
        several = [one for one in islice(value.values(), MOST_PARTS) if type(one) in CALLED]
    for one in several:
        while isinstance(one, functools.partial):
            one = one.func
        if isinstance(one, MethodType):
            one = one.__func__
        if isinstance(one, FunctionType):
            if _is_users(one):
                yield one, {}
        elif _has_parts(one):
            for name in ("__call__", *names):
                method = _of_class(type(one), name)
                if isinstance(method, FunctionType) and method.__code__.co_argcount:
                    yield method, {method.__code__.co_varnames[0]: one}


def generators(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The generators of NumPy, Python and PyTorch among the values, in their containers, in
    attributes of the user's objects, in what functions are closed over and in their defaults; each
    with the way to it, as it would be written."""
    found: list[tuple[str, Any]] = []
    pending = deque([one for one in named if type(one[1]) not in NO_PARTS])
    seen: set[int] = set()
    while pending and len(seen) < MOST_VALUES:
        path, value = pending.popleft()
        if isinstance(value, METHODS):
            path, value = path.rpartition(".")[0] or path, value.__self__
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_generator(value):
            found.append((path, value))
        else:
            pending += _parts(path, value)
    return found


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    """What is in a container, an object of the user's, or a function."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts += [
            (f"{path}[{key!r}]" if _is_short(key) else path, one)
            for key, one in islice(dict.items(value), MOST_PARTS)
            if type(one) not in LEAVES
        ]
    elif isinstance(value, (list, tuple)):
        parts += [
            (f"{path}[{i}]", one)
            for i, one in enumerate(value[:MOST_PARTS])
            if type(one) not in LEAVES
        ]
    elif isinstance(value, (set, frozenset)):
        parts += [(path, one) for one in islice(value, MOST_PARTS)]
    elif isinstance(value, functools.partial):
        parts += [(path, value.func), *_parts(path, value.args), *_parts(path, value.keywords)]
    elif isinstance(value, FunctionType):
        if _is_users(value):
            parts += [*_closure(value).items(), *_defaults(value).items()]
    elif isinstance(value, type):
        if _is_users(value):
            items = islice(list(vars(value).items()), MOST_PARTS)
            parts += [(f"{path}.{name}", one) for name, one in items if type(one) not in LEAVES]
            parts += [(path, one) for one in value.__bases__]
    elif _is_users(type(value)):
        parts += [
            (f"{path}.{name}", one) for name, one in _attributes(value) if type(one) not in LEAVES
        ]
        parts.append((path, type(value)))
    return parts


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What the object itself holds, by name, also in slots; no `__getattr__` is asked."""
    with suppress(AttributeError):
        yield from islice(list(object.__getattribute__(value, "__dict__").items()), MOST_PARTS)
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):  # "__weakref__" of classes in C
                yield name, object.__getattribute__(value, name)


def _is_short(key: Any) -> bool:
    return isinstance(key, int) or (isinstance(key, str) and len(key) < 40)


def _is_users(value: Any) -> bool:
    """Whether this is a function, or a class, that is written outside of the libraries here."""
    if not isinstance(value, (FunctionType, type)):
        return False
    module = value.__module__
    return not (isinstance(module, str) and module.partition(".")[0] in LIBRARIES)


def _has_parts(value: Any) -> bool:
    return not isinstance(value, (ModuleType, type, FunctionType)) and (
        _is_users(type(value)) and hasattr(value, "__dict__")
    )


def _of_class(kind: type, name: str) -> Any:
    """What a class or one it inherits from defines under this name."""
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)


def _defaults(function: FunctionType) -> dict[str, Any]:
    """The defaults of a function's arguments."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


def _closure(function: FunctionType) -> dict[str, Any]:
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
