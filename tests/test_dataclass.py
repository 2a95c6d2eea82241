"""chainrule's `dataclass` makes what that of the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any

import pytest

from chainrule import dataclass as quick


def classes(dataclass: Callable[..., Any]) -> dict[str, Any]:
    """Classes of many kinds, made by a decorator."""

    @dataclass(frozen=True)
    class Plain:
        """Three fields."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False)

    @dataclass(frozen=True)
    class Derived(Plain):
        d: float = field(default=0.5, repr=False, kw_only=True)
        e: int = field(init=False, hash=False)
        f: list[int] = field(init=False, default_factory=lambda: [1])

        def __post_init__(self) -> None:
            object.__setattr__(self, "e", 2 * self.a)

    @dataclass(frozen=True, eq=False)
    class Itself:
        a: int

    @dataclass(frozen=True)
    class One:
        a: Any

    @dataclass(frozen=True, repr=False)
    class Nothing:
        def __repr__(self) -> str:
            return "nothing"

    @dataclass(frozen=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 3

    @dataclass(frozen=True)
    class Unhashable:
        a: int
        __hash__ = None

    @dataclass
    class Changing:
        a: int

    @dataclass(frozen=True, slots=True)
    class Slotted:
        a: int

    return {name: value for name, value in locals().items() if isinstance(value, type)}


OURS, THEIRS = classes(quick.dataclass), classes(dataclasses.dataclass)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, "x"), {}),
    ((1, "x", [2]), {}),
    ((1,), {"c": [3], "d": 2.0}),
    ((1, 2, 3, 4), {}),
    ((), {"unknown": 1}),
    (([],), {}),
]


def outcome(act: Callable[[], Any]) -> Any:
    """What a call gives, or the error."""
    try:
        return act()
    except (TypeError, FrozenInstanceError, AttributeError) as error:
        return type(error), str(error)


def told(cls: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    """What can be seen of an object, and of two made alike."""
    one, other = (outcome(lambda: cls(*arguments, **keywords)) for _ in range(2))
    if type(one) is not cls:
        return [one]
    names = [each.name for each in dataclasses.fields(cls)]
    return [
        [(name, getattr(one, name)) for name in names],
        repr(one) if cls.__name__ != "Itself" else repr(one).rpartition(".")[2],
        one == other,
        one != other,
        one == 1,
        outcome(lambda: hash(one) == hash(other)),
        copy.deepcopy(one) == one,
        dataclasses.asdict(one),
        outcome(lambda: vars(dataclasses.replace(one, a=7))),
        [outcome(lambda name=name: setattr(one, name, 5)) for name in (*names, "new")],
        [outcome(lambda name=name: delattr(one, name)) for name in names[:1]],
        cls.__match_args__,
    ]


@pytest.mark.parametrize("name", OURS)
def test_a_class_is_the_standard_librarys(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [one.name for one in dataclasses.fields(ours)] == [
        one.name for one in dataclasses.fields(theirs)
    ]
    for arguments, keywords in CALLS:
        assert told(ours, arguments, keywords) == told(theirs, arguments, keywords)


def test_a_hash_differs_where_a_field_that_is_compared_does() -> None:
    for made in (OURS, THEIRS):
        plain, derived = made["Plain"], made["Derived"]
        assert plain(1) != plain(2) and hash(plain(1)) != hash(plain(2))
        assert plain(1, c=[1]) == plain(1, c=[2])
        assert plain(1) != derived(1)


def test_the_package_makes_its_frozen_classes_with_it() -> None:
    frozen = re.compile(r"^@dataclass\(frozen=True(, eq=False)?\)$", re.MULTILINE)
    files = Path(quick.__file__).parent.rglob("*.py")
    texts = [text for text in (file.read_text("utf-8") for file in files) if frozen.search(text)]
    assert len(texts) > 200
    assert all("from chainrule.dataclass import dataclass" in text for text in texts)


@quick.dataclass(frozen=True)
class Stored:
    a: int
    b: tuple[int, ...] = ()


def test_objects_are_pickled_and_shown_where_they_hold_themselves() -> None:
    assert pickle.loads(pickle.dumps(Stored(1, (2, 3)))) == Stored(1, (2, 3))
    held: list[Any] = []
    one = OURS["One"](held)
    held.append(one)
    assert repr(one).endswith(".One(a=[...])")
