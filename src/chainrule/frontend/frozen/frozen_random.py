"""Warns of random numbers drawn while tracing, which become constants of the graph.

No draw is watched while the program runs.  A generator whose state is another one afterwards has
drawn, and `draw_site` looks for the line.  What has no state that could be compared (entropy,
clocks, files) is found by `system_reads`.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any

from chainrule.errors import ChainruleError, FrozenRandomWarning
from chainrule.frontend.frozen.generator_states import (
    PYTHONS,
    SHARED,
    is_generator,
    package_of,
    state_of,
    torchs,
)
from chainrule.frontend.frozen.reached import METHODS, NO_PARTS, Codes, entered, generators, reached
from chainrule.frontend.frozen.system_reads import KEYS, Asked, Made, is_in
from chainrule.graph.origin import Origin

EVERY_RUN = "the same in every run"
_told: dict[Any, int] = {}  # which places Python's "default" filter has shown already
_watched = threading.local()  # whether a program of this thread is watched already


@contextmanager
def warning_of_draws(
    function: Any, examples: Iterable[Any], keywords: Mapping[str, Any], same: str = EVERY_RUN
) -> Iterator[Made]:
    """A FrozenRandomWarning at the user's line, where what runs within draws random numbers.

    Found are the generators of NumPy, Python and PyTorch (np.random.normal, random.random,
    torch.randn), and those that the function gets as arguments or reads from outside; entropy of
    the system, also of a generator without a seed; and clocks and files, if what they gave may be
    in the graph.  Its nodes, with their names, the caller puts into the list, by a function, as
    they are seldom needed.  Nothing is told within another such warning, which tells it.
    """
    made: Made = []
    is_watched = getattr(_watched, "now", False)
    plain, given = (None, {}) if is_watched else entered(function, examples, keywords)
    if plain is None:
        yield made
        return
    codes = reached(plain, given, function)
    named = [item for space in codes.values() for item in space.items()]
    if function is not plain:
        named.append(("function", function))
    private = generators(named)
    found = _generators(codes, [one for _, one in named], [one for _, one in private])
    before, others = [state_of(one) for one in found], _other_threads()
    _watched.now = True
    try:
        with Asked(codes) as asked:
            yield made
    finally:
        _watched.now = False
    pairs = zip(found, before, strict=True)
    changed = [one for one, state in pairs if state_of(one) != state]
    if changed:
        from chainrule.frontend.frozen.draw_site import Draws  # loaded where something has drawn

        now = _other_threads()
        is_alone = all(now.get(thread) == place for thread, place in others.items())
        draw = Draws(plain, codes, private, is_alone).first(changed)
        if draw is not None:
            what = f"{draw[0]} draws while {_called(plain)} is traced: its numbers are constants"
            _tell(f"{what} of the graph, {same}", draw[1], KEYS)
    for source, origin in asked.found.items():
        if is_in(made, source, codes, origin):
            _tell(source.what.format(_called(plain), same), origin, source.hint)


def _generators(codes: Codes, outside: list[Any], found: list[Any]) -> list[Any]:
    """The generators that all share, those found already, and those that the code names."""
    found = [SHARED, PYTHONS, *found]
    several = [one for one in outside if type(one) not in NO_PARTS]
    parts = [vars(one) for one in several if _has_parts(one)]
    found += [one.__self__ for one in several if isinstance(one, METHODS)]
    found += [of[name] for of in parts for code in codes for name in code.co_names if name in of]
    shared = torchs()
    if shared is not None and (
        any("torch" in code.co_names for code in codes)
        or any(package_of(one) == "torch" for one in outside)
    ):
        found.append(shared)
    return list({id(one): one for one in found if is_generator(one)}.values())


def _has_parts(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, (ModuleType, type, FunctionType))


def _other_threads() -> dict[int, tuple[FrameType, int]]:
    """Where each of the other threads is: one that is elsewhere afterwards has run meanwhile."""
    if threading.active_count() == 1:
        return {}
    own, frames = threading.get_ident(), sys._current_frames().items()
    return {thread: (frame, frame.f_lasti) for thread, frame in frames if thread != own}


def _called(function: FunctionType) -> str:
    """How a message calls the function; of the call of an object, its class."""
    outer, _, name = function.__qualname__.rpartition(".")
    return outer.rpartition(".")[2] if name == "__call__" and outer else function.__name__


def _tell(what: str, origin: Origin, hint: str) -> None:
    where = origin.location
    assert where is not None
    warnings.warn_explicit(
        FrozenRandomWarning(str(ChainruleError(what, where=origin.describe(), hint=hint))),
        FrozenRandomWarning,
        where.filename,
        where.line,
        registry=_told,
    )
