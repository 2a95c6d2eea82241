"""`dataclasses.dataclass`, which makes a frozen class in a third to a fifth of the time.

That of the standard library compiles each method by itself, which was 40 % of the import of
chainrule (docs/decisions/0047).  Here only `__init__` is compiled; the others are shared functions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import MISSING, field, fields, replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`; frozen classes without slots are made here."""
        if not options.get("frozen") or options.keys() - {"frozen", "eq", "repr"}:
            return dataclasses.dataclass(cls, **options)
        make = functools.partial(_frozen, **options)
        return make if cls is None else make(cls)


def _frozen(cls: type, *, frozen: bool, eq: bool = True, repr: bool = True) -> type:
    own = vars(cls)  # what the class defines itself stays
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    known = fields(made)
    methods: dict[str, Any] = {"__init__": _init(made)}
    methods["__setattr__"], methods["__delattr__"] = _refusals(made, {one.name for one in known})
    if repr:
        methods["__repr__"] = _repr([one.name for one in known if one.repr])
    if eq:
        values = _values([one.name for one in known if one.compare])
        methods["__eq__"] = _eq(values)
        if not has_hash:
            chosen = [one for one in known if (one.compare if one.hash is None else one.hash)]
            methods["__hash__"] = _hash(_values([one.name for one in chosen]))
    for name, method in methods.items():
        if name == "__hash__" or name not in vars(made):
            method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
            setattr(made, name, method)
    return made


class _Absent:
    """Stands where an argument was left out whose value a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


def _init(cls: type) -> Callable[..., None]:
    """`__init__`, by its text: calls are as quick as with what `dataclasses` writes."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    arguments, keywords, lines = [], [], []
    for one in fields(cls):
        name, value, default = one.name, one.name, ""
        if one.default is not MISSING:
            names[f"_default_{name}"], default = one.default, f"=_default_{name}"
        elif one.default_factory is not MISSING:
            names[f"_make_{name}"], default = one.default_factory, "=_absent"
            value = f"_make_{name}()"
            if one.init:
                value += f" if {name} is _absent else {name}"
        if one.init:
            (keywords if one.kw_only else arguments).append(name + default)
        if one.init or one.default_factory is not MISSING:
            lines.append(f"    _set(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()\n")
    listed = ", ".join(["self", *arguments, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({listed}):\n{''.join(lines) or '    pass'}", names)
    init = names["__init__"]
    init.__module__ = cls.__module__
    init.__annotations__ = {one.name: one.type for one in fields(cls) if one.init}
    init.__annotations__["return"] = None
    return init


def _refusals(cls: Any, known: set[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in known:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in known:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return set_attribute, delete_attribute


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def show(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return show


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of these fields of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda one: (getattr(one, names[0]),)) if names else lambda one: ()


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed
