"""Flattens nested containers (dict, list, tuple, dataclass) into leaves with paths, by optree."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import optree

from chainrule.dataclass import dataclass
from chainrule.errors import InputError

NAMESPACE = "chainrule"
_registered: set[type] = set()
_registering = threading.Lock()


def _begin_anew() -> None:
    """After a fork: a thread that is not in this process may have held the lock."""
    global _registering
    _registering = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


_LEAF = optree.treespec_leaf(namespace=NAMESPACE)


@dataclass(frozen=True)
class Structure:
    """The shape of a container: a tree specification and the name of each leaf, in order.

    `fixed` are the places, names and values of leaves that are no arrays (text, bool): they are
    part of the container, and not among `leaf_names`.
    """

    spec: Any
    leaf_names: tuple[str, ...]
    fixed: tuple[tuple[int, str, Any], ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether the whole is one array and no container."""
        return optree.treespec_is_leaf(self.spec)

    def unflatten(self, leaves: list[Any]) -> Any:
        """The container with these leaves."""
        if self.fixed:
            leaves = list(leaves)
            for place, _, value in self.fixed:
                leaves.insert(place, value)
        return optree.tree_unflatten(self.spec, leaves)

    def fixing(self, values: Mapping[str, Any]) -> Structure:
        """The same container, whose leaves of these names have these values."""
        places = enumerate(self.leaf_names)
        fixed = tuple((place, name, values[name]) for place, name in places if name in values)
        left = tuple(name for name in self.leaf_names if name not in values)
        return Structure(self.spec, left, fixed)


def _register_dataclass(cls: type) -> None:
    """Teach optree a dataclass, in our namespace only: its fields are its children."""
    names = tuple(f.name for f in dataclasses.fields(cls))

    def flatten(value: Any) -> tuple[list[Any], None, tuple[str, ...]]:
        return [getattr(value, name) for name in names], None, names

    def unflatten(_: Any, children: Any) -> Any:
        value = object.__new__(cls)  # not through __init__, which may change what it is given
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    with _registering:
        if cls not in _registered:
            optree.register_pytree_node(
                cls,
                flatten,
                unflatten,
                path_entry_type=optree.GetAttrEntry,
                namespace=NAMESPACE,
            )
            _registered.add(cls)


def _is_new_dataclass(value: Any) -> bool:
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and type(value) not in _registered
        and not hasattr(value, "__chainrule_leaf__")
    )


def leaf_name(root: str, path: Iterable[Any]) -> str:
    """`params.layer1.W` for fields, attributes and identifier keys, `hs[0]` for positions."""
    name = root
    for step in path:
        key = step.field if isinstance(step, optree.NamedTupleEntry) else step.entry
        if isinstance(key, str) and key.isidentifier():
            name = f"{name}.{key}" if name else key
        else:
            name = f"{name}[{key!r}]"
    return name


def flatten(value: Any, root: str = "") -> tuple[list[Any], Structure]:
    """The leaves of `value` and how to put them together again; leaves are named from `root`.

    None is a container without leaves.  Raises InputError for containers that contain themselves,
    and for two leaves of one name (keys of a dict that print alike).
    """
    if optree.tree_is_leaf(value, namespace=NAMESPACE) and not _is_new_dataclass(value):
        return [value], Structure(_LEAF, (root,))
    while True:
        try:
            paths, leaves, spec = optree.tree_flatten_with_accessor(value, namespace=NAMESPACE)
        except RecursionError as error:
            raise InputError(
                f"the container {root or 'given'} contains itself or is nested too deeply",
                hint="pass a tree of dicts, lists, tuples or dataclasses",
            ) from error
        new = {type(leaf) for leaf in leaves if _is_new_dataclass(leaf)}
        if not new:
            break
        for cls in new:
            _register_dataclass(cls)
    names = tuple(leaf_name(root, path) for path in paths)
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(
            f"two parts of the container {root or 'given'} are called {twice}",
            hint="keys of a dict that print differently: text or integers",
        )
    return leaves, Structure(spec, names)
