"""Stands in for optree in the browser, where its extension module cannot run.

Only the functions that chainrule calls, for the containers that are common in programs: dict,
OrderedDict, defaultdict, list, tuple, named tuple, deque, None, and registered classes.
tests/website/test_optree_stand_in.py compares it with optree.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Entry:
    """One step of a path: the key, index or attribute."""

    entry: Any


class GetAttrEntry(Entry):
    """The step to an attribute of a registered class."""


@dataclass(frozen=True)
class NamedTupleEntry(Entry):
    """The step to a field of a named tuple."""

    field: str = ""


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a tree: the class of a container, what rebuilds it, its children."""

    kind: Any
    data: Any = None
    children: tuple[TreeSpec, ...] = ()


class OneLevel(NamedTuple):
    """A container opened once: its children, what rebuilds it, and their keys."""

    children: list[Any]
    metadata: Any
    entries: tuple[Any, ...]


LEAF = TreeSpec("leaf")
_registered: dict[type, tuple[Any, Any]] = {}


def _in_order(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:  # keys of several classes
        return sorted(keys, key=lambda key: (type(key).__module__, type(key).__qualname__, key))


def _opened(value: Any, none_is_leaf: bool = False) -> tuple[list[Entry], list[Any], Any] | None:
    """The steps, children and data of a container; None for a leaf."""
    cls = type(value)
    if value is None:
        return None if none_is_leaf else ([], [], None)
    if cls in _registered:
        children, data, entries = _registered[cls][0](value)
        return [GetAttrEntry(entry) for entry in entries], list(children), data
    if cls in (dict, defaultdict):
        keys = _in_order(value)
        data = (getattr(value, "default_factory", None), tuple(value), tuple(keys))
        return [Entry(key) for key in keys], [value[key] for key in keys], data
    if cls is OrderedDict:
        return [Entry(key) for key in value], list(value.values()), tuple(value)
    if cls in (list, tuple):
        return [Entry(place) for place in range(len(value))], list(value), None
    if cls is deque:
        return [Entry(place) for place in range(len(value))], list(value), value.maxlen
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        steps: list[Entry] = [NamedTupleEntry(*field) for field in enumerate(cls._fields)]
        return steps, list(value), None
    return None


def _rebuilt(spec: TreeSpec, children: list[Any]) -> Any:
    """The container of a specification, with these children."""
    kind, data = spec.kind, spec.data
    if kind is type(None):
        return None
    if kind in _registered:
        return _registered[kind][1](data, children)
    if kind in (dict, defaultdict):
        factory, written, keys = data
        found = dict(zip(keys, children, strict=True))
        in_written_order = {key: found[key] for key in written}
        return in_written_order if kind is dict else defaultdict(factory, in_written_order)
    if kind is OrderedDict:
        return OrderedDict(zip(data, children, strict=True))
    if kind is deque:
        return deque(children, maxlen=data)
    return kind(children) if kind in (list, tuple) else kind(*children)


def register_pytree_node(
    cls: type, flatten: Any, unflatten: Any, *, path_entry_type: Any, namespace: str
) -> None:
    """Teaches a class: what opens it, and what rebuilds it."""
    _registered[cls] = (flatten, unflatten)


def treespec_leaf(*, namespace: str = "") -> TreeSpec:
    """The specification of a leaf."""
    return LEAF


def treespec_is_leaf(spec: TreeSpec) -> bool:
    """Whether it is that of a leaf."""
    return spec == LEAF


def tree_is_leaf(value: Any, *, namespace: str = "") -> bool:
    """Whether a value is no container."""
    return _opened(value) is None


def tree_flatten_one_level(
    value: Any, *, none_is_leaf: bool = False, namespace: str = ""
) -> OneLevel:
    """The children of a container and their keys; ValueError for a leaf."""
    found = _opened(value, none_is_leaf)
    if found is None:
        raise ValueError(f"Cannot flatten leaf-type: {type(value)} (node: {value!r}).")
    steps, children, data = found
    return OneLevel(children, data, tuple(step.entry for step in steps))


def tree_flatten_with_accessor(
    value: Any, *, none_is_leaf: bool = False, namespace: str = ""
) -> tuple[list[tuple[Entry, ...]], list[Any], TreeSpec]:
    """The path of each leaf, the leaves, and how to put them together again."""
    paths: list[tuple[Entry, ...]] = []
    leaves: list[Any] = []

    def visit(part: Any, path: tuple[Entry, ...]) -> TreeSpec:
        found = _opened(part, none_is_leaf)
        if found is None:
            paths.append(path)
            leaves.append(part)
            return LEAF
        steps, children, data = found
        pairs = zip(steps, children, strict=True)
        return TreeSpec(type(part), data, tuple(visit(one, (*path, step)) for step, one in pairs))

    spec = visit(value, ())
    return paths, leaves, spec


def tree_unflatten(spec: TreeSpec, leaves: Any) -> Any:
    """The container with these leaves; ValueError where they are too few or too many."""
    rest = iter(leaves)

    def made(part: TreeSpec) -> Any:
        if part == LEAF:
            return next(rest)
        return _rebuilt(part, [made(child) for child in part.children])

    try:
        value = made(spec)
    except (StopIteration, RuntimeError) as error:
        raise ValueError("there are fewer leaves than places") from error
    if next(rest, LEAF) is not LEAF:
        raise ValueError("there are more leaves than places")
    return value
