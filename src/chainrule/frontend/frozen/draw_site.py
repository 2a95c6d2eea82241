"""Finds the line that drew from a generator: resolves the names in the code and their attributes,
as far as possible without running anything.

If no line is found, the warning shows that of the function; for a generator that all threads share,
only if no other thread has run meanwhile, because that may have drawn.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from chainrule.frontend.bytecode.use_of_result import is_only_shown
from chainrule.frontend.frozen.generator_states import (
    PYTHONS,
    SHARED,
    is_generator,
    package_of,
    torchs,
)
from chainrule.frontend.frozen.reached import METHODS, Codes
from chainrule.graph.origin import Origin

Named = tuple[str, Any, Origin]  # as it is written, its value, and the place
NO_DRAWS = {"get_state", "set_state", "spawn", "getstate", "setstate", "initial_seed", "state"}
SEEDS = {"seed", "manual_seed"}
SETTERS = SEEDS | {"set_state", "setstate"}
OF_TORCH = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
OF_TORCH |= {f"{name}_like" for name in ("rand", "randn", "randint")} | {"dropout", "manual_seed"}
DRAW_FOR_OTHERS = ("torch", "scipy")  # their functions draw from generators that all share
NOTHING: tuple[str, Any, Any] = ("", None, None)
LOADS = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
SKIPPED = ("PUSH_NULL", "CACHE", "PRECALL", "RESUME", "COPY_FREE_VARS", "MAKE_CELL")


class Draws:
    """What may have drawn, in the code that a function reaches; `private` are the generators that
    only the program reaches, by the way to them, and `is_alone` whether no other thread has run."""

    def __init__(
        self, function: FunctionType, codes: Codes, private: list[tuple[str, Any]], is_alone: bool
    ) -> None:
        self.function, self.codes, self.private, self.is_alone = function, codes, private, is_alone
        self.named = [one for code, space in codes.items() for one in named(code, space)]

    def first(self, changed: list[Any]) -> tuple[str, Origin] | None:
        """What drew from one of these generators, as it is written, and where; None where all
        that is known to have drawn was seeded by the program itself, or is used for nothing."""
        for one in changed:
            found = [(path, origin) for path, value, origin in self.named if _is_draw(value, one)]
            if any(path.rpartition(".")[2] in SEEDS for path, _ in found):
                continue
            if found:
                found = [one for one in found if not is_only_shown(one[1], is_number=False)]
            else:
                found = [*self._hidden(one)]
            if found:
                return found[0]
        return None

    def _hidden(self, generator: Any) -> Iterator[tuple[str, Origin]]:
        """The generator, and the line that is likeliest to draw from it; none if it may be set to
        a state, or be another thread's."""
        if not SETTERS.isdisjoint(name for code in self.codes for name in code.co_names):
            return
        own = Origin(self.function.__code__, -1)
        shared = {id(SHARED): "np.random", id(PYTHONS): "random", id(torchs()): "torch"}
        if id(generator) in shared:
            if self.is_alone:
                lines = {
                    origin.describe().partition("\n")[0]: origin
                    for _, value, origin in self.named
                    if package_of(value) in DRAW_FOR_OTHERS
                }
                where = next(iter(lines.values())) if len(lines) == 1 else own
                yield shared[id(generator)], where
            return
        for path, one in self.private:
            if one is generator:
                passed = [(name, origin) for name, value, origin in self.named if value is one]
                yield passed[0] if len(passed) == 1 else (path, own)


def named(code: CodeType, space: Mapping[str, Any]) -> Iterator[Named]:
    """Every name in the code whose value is known, and every attribute of one."""
    path, value, known = "", None, dict(space)
    imported, last = None, None  # a module whose names are stored, the constant before
    for instruction in dis.get_instructions(code):
        operation, name = instruction.opname, instruction.argval
        if operation in SKIPPED or (imported is not None and operation in ("SWAP", "POP_TOP")):
            continue
        if operation == "IMPORT_NAME":
            module = sys.modules.get(name)
            is_whole = last is None and "." in name
            path, value, imported = name, sys.modules.get(name.partition(".")[0]), module
            value = value if is_whole else module
        elif operation == "IMPORT_FROM":  # after `import a.b as c`, too, with last None
            path, value = name, imported if last is None else getattr(imported, name, None)
        elif operation.startswith("STORE_") and isinstance(name, str) and path:
            known[name] = value
        elif operation.startswith(LOADS):
            name = name[-1] if isinstance(name, tuple) else name  # two variables at once
            path, value, imported = (name, known[name], None) if name in known else NOTHING
        elif operation in ATTRIBUTES and (isinstance(value, ModuleType) or is_generator(value)):
            path, value, imported = f"{path}.{name}", getattr(value, name, None), None
        elif operation in ATTRIBUTES and name in getattr(value, "__dict__", {}):
            path, value, imported = f"{path}.{name}", vars(value)[name], None
        else:
            path, value, imported = NOTHING
            last = name if operation == "LOAD_CONST" else last
        if path and imported is None and not operation.startswith("STORE_"):
            yield path, value, Origin(code, instruction.offset)


def _is_draw(value: Any, generator: Any) -> bool:
    """Whether this is a method of the generator that draws, or seeds it."""
    if value is np.random.seed:
        return generator is SHARED
    if getattr(value, "__name__", None) in NO_DRAWS:
        return False
    if package_of(value) == "torch" and getattr(value, "__name__", "") in OF_TORCH:
        return package_of(generator) == "torch"  # it takes a generator as an argument
    return isinstance(value, METHODS) and value.__self__ is generator
