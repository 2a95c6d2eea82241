"""Registers executors by name, chooses one where none is named, and prepares graphs for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chainrule.errors import InputError, UnsupportedError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.uses import uses

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import numpy as np

    from chainrule.execute.executor import Call, Executor, HeldCall, Program, Then
    from chainrule.execute.home import Home

VARIABLE = "CHAINRULE_EXECUTOR"
GROUP = "chainrule.executors"  # entry points: a name, and the executor object


@lru_cache(maxsize=1)
def _native() -> Executor:
    from chainrule.execute.native.native_executor import NATIVE

    return NATIVE


@lru_cache(maxsize=1)
def _reference() -> Executor:
    from chainrule.execute.plain import REFERENCE

    return REFERENCE


@lru_cache(maxsize=1)
def _xla() -> Executor:
    from chainrule.execute.xla.xla_executor import XLA

    return XLA


# In the order in which they are preferred where none is named; `reference` runs everywhere.
_registered: dict[str, Callable[[], Executor]] = {
    "native": _native,
    "reference": _reference,
    "xla": _xla,
}
_OWN = tuple(_registered)


def register_executor(executor: Executor) -> None:
    """Make `executor` known by its name, for every `executor=` and for CHAINRULE_EXECUTOR.

    It stands in for one of the same name that was registered before.  InputError for a name of
    chainrule's own, or where an object lacks what an executor has.
    """
    name = getattr(executor, "name", None)
    lacking = [one for one in _PROTOCOL if not hasattr(executor, one)]
    if not isinstance(name, str) or not name or lacking:
        missing = f"no {' and no '.join(lacking)}" if lacking else f"the name {name!r}"
        raise InputError(
            f"an executor has {', '.join(_PROTOCOL)}; {executor!r} has {missing}",
            hint="chainrule.execute.plain.PlainExecutor(name, evaluate) makes one of a function",
        )
    if name in _OWN:
        raise InputError(
            f"the executor {name!r} is chainrule's own", hint="register yours by another name"
        )
    _registered[name] = lambda: executor


_derived: set[str] = set()  # names of executors that `executor_with` has registered


def executor_with(
    name: str | None, placement_seconds: float = 0.0, memory: int | str | None = None
) -> str:
    """The name of an executor that searches for offsets in its block of memory for so long, and
    whose runs need at most `memory`; without these `name` itself, as `executor_named` gives it.

    InputError for what is no number of seconds or no amount of memory, for an executor that has no
    such block, and for one that cannot compute values again.
    """
    name = _searching(executor_named(name), placement_seconds)
    if memory is None:
        return name
    from chainrule.graph.bytes_text import nbytes_of  # where a budget is given

    nbytes = nbytes_of(memory, "memory")
    within = getattr(executor_of(name), "within", None)
    if within is None:
        raise InputError(
            f"memory={memory!r} is for executors that can compute values again, and {name!r} "
            "cannot",
            hint='executor="native", "reference" or "xla", or leave memory out',
        )
    return _registered_as_derived(within(nbytes))


def executor_on(name: str, threads: int) -> str:
    """The name of an executor that runs on at most so many threads: `name` itself where it has
    no threads of its own."""
    limited = getattr(executor_of(name), "on_threads", None)
    return name if limited is None else _registered_as_derived(limited(threads))


def memory_of(name: str) -> int | None:
    """The bytes that a run by the executor with that name needs at most; None without a budget."""
    return getattr(executor_of(name), "memory_nbytes", None)


def in_memory(
    executor: str,
    graph: Graph,
    wanted: Callable[[Graph], tuple[Sequence[Node], Mapping[Node, Node]]],
) -> Graph:
    """The concrete graph in which bfloat16 is computed in float32, and loops compute nothing twice,
    as far as the executor's budget, if it has one, has room for what they keep.

    `wanted` gives the results of such a graph, and its overwrites, as `prepare` takes them.
    """
    from chainrule.execute.forms import quick_forms, shorter_form  # which call `prepare`
    from chainrule.transforms.widen import widen

    graph = widen(graph)
    if memory_of(executor) is None:
        form = next(quick_forms(graph, {}))
        return uses.blocked(form, wanted(form)[0])
    quick = list(quick_forms(graph, {}))
    forms = [uses.blocked(form, wanted(form)[0]) for form in quick]
    plain = forms[-1] if quick[-1] is graph else uses.blocked(graph, wanted(graph)[0])
    return shorter_form(executor, forms, plain, wanted)


def _searching(name: str, placement_seconds: float) -> str:
    is_number = isinstance(placement_seconds, (int, float)) and not isinstance(
        placement_seconds, bool
    )
    if not is_number or not 0 <= placement_seconds < float("inf"):
        raise InputError(
            f"placement_seconds is {placement_seconds!r}",
            hint="a number of seconds, such as placement_seconds=10; 0 searches for nothing",
        )
    if not placement_seconds:
        return name
    search = getattr(executor_of(name), "searching", None)
    if search is None:
        raise InputError(
            f"placement_seconds is for offsets in one block of memory, and the executor {name!r} "
            "has no such block",
            hint='executor="native", or leave placement_seconds out',
        )
    return _registered_as_derived(search(float(placement_seconds)))


def _registered_as_derived(executor: Executor) -> str:
    _derived.add(executor.name)
    _registered.setdefault(executor.name, lambda: executor)
    return executor.name


_PROTOCOL = ("name", "traits", "refusal", "prepare")


def executor_names() -> tuple[str, ...]:
    """The names that `executor=` takes: registered ones, then those of installed packages."""
    registered = [name for name in _registered if name not in _derived]
    return (*registered, *(name for name in _installed() if name not in _registered))


def executor_named(name: str | None) -> str:
    """`name` if there is such an executor; None stands for the default.

    That is what the environment variable CHAINRULE_EXECUTOR says, else the first of chainrule's
    own that can run here.  Packages are looked at for a name that is not registered: their entry
    points of the group `chainrule.executors`.  InputError (a ValueError) for an unknown name, and
    for a package whose executor cannot be loaded.
    """
    asked = name
    if name is None:
        name = os.environ.get(VARIABLE) or _best()
    if not isinstance(name, str) or (name not in _registered and not _loaded(name)):
        where = "" if asked is not None else f", which the environment variable {VARIABLE} names"
        raise InputError(
            f"there is no executor {name!r}{where}",
            hint=f"one of: {', '.join(map(repr, executor_names()))}",
        )
    return name


def executor_of(name: str | None) -> Executor:
    """The executor with that name; None and errors as for `executor_named`."""
    return _registered[executor_named(name)]()


@lru_cache(maxsize=1)
def _best() -> str:
    return next(name for name in _OWN if _registered[name]().refusal() is None)


def _installed() -> dict[str, EntryPoint]:
    """The entry points of installed packages, by name."""
    from importlib.metadata import entry_points  # takes milliseconds; few need it

    return {one.name: one for one in entry_points(group=GROUP)}


def _loaded(name: str) -> bool:
    """Whether an installed package has an executor of that name, which is then registered."""
    found = _installed().get(name)
    if found is None:
        return False
    package = found.dist.name if found.dist else "a package"
    try:
        executor = found.load()
    except Exception as error:
        raise InputError(
            f"the executor {name!r} of {package} cannot be loaded: {type(error).__name__}: {error}",
            hint=f"install what {package} needs, or name another executor",
        ) from error
    if getattr(executor, "name", None) != name:
        raise InputError(
            f"the entry point {name!r} of {package} gives {executor!r}, which is no executor of "
            "that name",
            hint=f"its group {GROUP} maps the name of an executor to the executor object",
        )
    register_executor(executor)
    return True


def refuse_strict(name: str, strict: bool) -> None:
    """InputError where `strict` is asked of an executor that has no kernels."""
    if strict and not executor_of(name).traits.has_kernels:
        raise InputError(
            f"strict=True is about compiled kernels, and the executor {name!r} has none",
            hint='executor="native", or leave strict=True out',
        )


def prepare(
    executor: str,
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    traced: Graph | None = None,
    strict: bool = False,
) -> Program:
    """The program of an executor, whose name `executor_named` gave; see `Executor.prepare`.

    With `strict`, UnsupportedError for the first node for which it has no kernel.
    """
    refuse_strict(executor, strict)
    program = _registered[executor]().prepare(graph, results, overwrites or {}, traced=traced)
    for node in program.refused if strict else ():
        name = graph.name_of.get(node)
        raise UnsupportedError(
            f"{f'{name} = ' if name else ''}{node.expression} of {node.type} has no {executor} "
            "kernel, and strict=True",
            where=node.origin.describe(),
            hint="leave strict=True out: it then runs by its reference evaluation",
        )
    return program


def call_of(
    program: Program, order: Sequence[Node | None] = (), fixed: Mapping[Node, Any] | None = None
) -> Call:
    """Calls of a program; see `InPlace.call`."""
    from chainrule.execute.executor import InPlace
    from chainrule.execute.plain import PlainCall  # loaded where a graph is run

    if isinstance(program, InPlace):
        return program.call(order, fixed or {})
    return PlainCall(program, fixed or {})


def held_call(
    program: Program, order: Sequence[Node], held: Mapping[Node, np.ndarray], then: Then, home: Home
) -> HeldCall:
    """Calls of a program by one caller, with arrays that stay; see `InPlace.hold`."""
    from chainrule.execute.executor import InPlace
    from chainrule.execute.plain import PlainCall

    if isinstance(program, InPlace):
        return program.hold(order, held, then, home)
    return PlainCall(program, {}, then, home)
