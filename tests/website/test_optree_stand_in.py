"""The stand-in that the browser has for optree gives the names, leaves and containers of optree."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections import OrderedDict, defaultdict, deque, namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import InputError
from chainrule.functional import mapped
from chainrule.graph import structure

STAND_IN_FILE = Path(__file__).resolve().parents[2] / "website" / "browser" / "optree.py"
Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    W: Any
    b: Any = None


def stand_in() -> ModuleType:
    """The module, which is called optree in the browser alone."""
    spec = importlib.util.spec_from_file_location("stand_in", STAND_IN_FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "stand_in", module)
        spec.loader.exec_module(module)
    return module


STAND_IN = stand_in()
KEYS = st.text("abc ", min_size=1, max_size=2) | st.integers(0, 9)


def extended(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    dicts = st.dictionaries(KEYS, inner, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        dicts,
        dicts.map(OrderedDict),
        dicts.map(lambda found: defaultdict(list, found)),
        st.builds(Pair, inner, inner),
        st.builds(Layer, inner, inner),
    )


TREES = st.recursive(st.none() | st.integers() | st.floats(allow_nan=False), extended)


def flattened(value: Any) -> Any:
    """Names, leaves and the container put together again; the message where it is refused."""
    try:
        leaves, found = structure.flatten(value, "p")
    except InputError as error:
        return str(error)
    rebuilt = found.unflatten(leaves)
    order = [list(rebuilt)] if isinstance(rebuilt, dict) else []
    return found.leaf_names, leaves, found.is_leaf, type(rebuilt), rebuilt, order


def with_stand_in(function: Any, *arguments: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "optree", STAND_IN)
        patch.setattr(structure, "_LEAF", STAND_IN.treespec_leaf())
        patch.setattr(structure, "_registered", set())
        patch.setattr(mapped, "optree", STAND_IN)
        return function(*arguments)


@given(TREES)
def test_names_leaves_and_containers_are_those_of_optree(value: Any) -> None:
    assert with_stand_in(flattened, value) == flattened(value)


@given(TREES)
def test_the_parts_of_a_container_are_those_of_optree(value: Any) -> None:
    flattened(value)  # has dataclasses registered
    with_stand_in(flattened, value)
    assert with_stand_in(mapped._parts, value) == mapped._parts(value)


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3]])
def test_too_few_or_too_many_leaves_are_refused(leaves: list[int]) -> None:
    _, _, spec = STAND_IN.tree_flatten_with_accessor({"a": 1, "b": 2})
    with pytest.raises(ValueError, match="leaves than places"):
        STAND_IN.tree_unflatten(spec, leaves)
