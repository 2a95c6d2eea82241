"""Finds the variable in which the user's source is about to store the current value.

The bytecode is the ground truth: the value is followed from the running instruction to the one that
stores it, into containers and, frame by frame, out of the functions that return it. Whatever cannot
be known is unnamed: a wrong name is worse than none.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
from types import BuiltinFunctionType, CodeType, FrameType, GeneratorType
from typing import NamedTuple

from .bytecode.effects import called
from .bytecode.following import Route, Settled, Unsettled, route_of
from .bytecode.frames import Unknown, position, read, written
from .bytecode.slots import (
    EXPRESSION,
    Call,
    Constant,
    Function,
    Index,
    Iterating,
    Name,
    Path,
    Sequence,
    Slot,
    Somewhere,
    Step,
    pop,
    top,
)
from .bytecode.stack import GENERATOR, UNPACKINGS, Analysis, analyses, analysis_of

__all__ = [
    "Namer",
    "Place",
    "Target",
    "has_returned",
    "operand_name",
    "places_returned",
    "returned_variables",
    "user_frame",
]

COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not a class written in C
BUILTIN_ITERATORS = (zip, map, enumerate, filter, reversed)
ONE_OPERATION = {abs, pow, round, divmod}  # the built-in functions whose result is an operator's


# An entry of a container (a position or key), and how many entries it has where they have
# positions; then an entry of that entry, and so on.
Place = tuple[tuple[int | str, int | None], ...]


class Target(NamedTuple):
    """Where a value goes: `name`, as the code of `frame` would write it."""

    frame: FrameType
    name: str


_is_hidden: dict[object, bool] = {}


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The first frame, at or above this one, whose code is not of chainrule, NumPy or SciPy.

    A module of chainrule that is written as a user would (`__user_program__ = True`) counts as one.
    """
    while frame is not None:
        module = frame.f_globals.get("__name__")
        hidden = _is_hidden.get(module)
        if hidden is None:
            package = str(module).partition(".")[0]
            ours = package in ("chainrule", "numpy", "scipy")
            hidden = ours and not frame.f_globals.get("__user_program__", False)
            _is_hidden[module] = hidden
        if not hidden:
            return frame
        frame = frame.f_back
    return None


def has_returned(frame: FrameType) -> bool:
    """Whether the last instruction that this frame ran is its return."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN_")


def places_returned(code: CodeType) -> tuple[Place, ...]:
    """Where in what this code may return its own variables are: () is the whole."""
    analysis = analysis_of(code)
    if analysis.returned is None:
        found = {place for at in analysis.instructions for place, _ in _variables(analysis, at)}
        analysis.returned = tuple(sorted(found, key=str))
    return analysis.returned


def returned_variables(frame: FrameType) -> list[tuple[Place, str, object]]:
    """The local variables that this frame has returned, alone or in a tuple or list: their places
    in what was returned, names and values."""
    try:
        analysis = analysis_of(frame.f_code)
        found = _variables(analysis, analysis.starts[frame.f_lasti])
        return [(place, name, frame.f_locals.get(name)) for place, name in found]
    except Exception:  # as in target()
        return []


def _variables(analysis: Analysis, offset: int) -> list[tuple[Place, str]]:
    if not analysis.instructions[offset].opname.startswith("RETURN_VALUE"):
        return []
    found: list[tuple[Place, str]] = []
    waiting: list[tuple[Place, Slot]] = [((), top(analysis.before[offset]))]
    while waiting:
        place, slot = waiting.pop()
        if isinstance(slot, Name) and slot.kind == "local" and not slot.steps:
            found.append((place, slot.root))
        elif isinstance(slot, Sequence):
            count = len(slot.entries)
            waiting += [((*place, (i, count)), one) for i, one in enumerate(slot.entries)][::-1]
    return found


def name_of_object(value: object, frame: FrameType) -> str:
    """The variable of the user's frame (closure, local, global) that holds this very object."""
    code = frame.f_code
    variables = frame.f_locals
    for name in (*code.co_freevars, *code.co_cellvars, *code.co_varnames):
        if variables.get(name) is value:
            return name
    for name in code.co_names:
        if frame.f_globals.get(name) is value:
            return name
    return ""


class Namer:
    """Finds the names of the values made while `root_code` runs.

    That is the code of the traced function, or of the function of chainrule's that calls it: what
    it returns has no name. With None the search goes up to the module.
    """

    def __init__(self, root_code: CodeType | None):
        self.root_code = root_code

    def target(self, frame: FrameType, place: Place = ()) -> Target | None:
        """Where the value that the running instruction of `frame` is about to give will be stored.

        `place`: the value is that entry of the container which the instruction gives, as for the
        arrays of `np.split`, or which it unpacks or loops over.
        """
        if not place:
            analysed = analyses.get(id(frame.f_code))
            if analysed is not None:
                route = analysed[1].routes.get(frame.f_lasti)
                if type(route) is str:
                    return Target(frame, route) if route else None
        try:
            return self._target(frame, tuple((Constant(entry), n) for entry, n in place))
        except Exception:  # what is Unknown, or bytecode that surprises us, must not stop a trace
            return None

    def _target(self, frame: FrameType, path: Path) -> Target | None:
        child: FrameType | None = None
        while True:
            analysis = analysis_of(frame.f_code)
            offset = analysis.starts[frame.f_lasti]
            if not _hands_on(frame, analysis, offset, child):
                return None
            route = route_of(analysis, offset, path)
            settled: Settled = ()
            while isinstance(route, Unsettled):
                settled = (*settled, (route.position.loop, position(frame, route.position)))
                route = route_of(analysis, offset, path, settled)
            if child is None and not path and not settled:
                _remember(frame, analysis, offset, route)
            if isinstance(route, str):
                return Target(_home(frame), route)
            if isinstance(route, Name):
                return Target(_home(frame), written(frame, route))
            if route is None:
                return None
            path = tuple((_settled(frame, step), length) for step, length in route.path)
            child, above = frame, self._caller(frame)
            if above is None or (route.yields and not _collects(above, child, path)):
                return None
            frame = above

    def _caller(self, frame: FrameType) -> FrameType | None:
        """The user's frame that called this one, if it is not above the traced function."""
        above: FrameType | None = frame
        while above is not None and above.f_code is not self.root_code:
            above = above.f_back
            if above is not None and above is user_frame(above):
                return above
        return None


def _remember(frame: FrameType, analysis: Analysis, offset: int, route: Route) -> None:
    """Let `target` answer at once where the answer is always this one; "" says: unnamed."""
    in_own_frame = frame.f_code.co_name not in COMPREHENSIONS
    if in_own_frame and not _runs_a_builtin(analysis, offset):
        if route is None or isinstance(route, str):
            analysis.routes[frame.f_lasti] = route or ""


def _settled(frame: FrameType, step: Step) -> Step:
    """The step, free of what only `frame` knows."""
    if isinstance(step, Index):
        return Constant(position(frame, step))
    if isinstance(step, Name):
        step = Constant(read(frame, step))
    if isinstance(step, Somewhere):
        return step
    if isinstance(step, Constant) and type(step.value) not in (int, str):
        raise Unknown(step)
    return step


def _home(frame: FrameType) -> FrameType:
    """The function around a comprehension that has a frame of its own."""
    while frame.f_code.co_name in COMPREHENSIONS and frame.f_back is not None:
        if frame.f_code not in frame.f_back.f_code.co_consts:
            break
        frame = frame.f_back
    return frame


def _giver(analysis: Analysis, offset: int) -> Slot:
    """The callable that gives the instruction's result, or what gives the entries it takes."""
    instruction, stack = analysis.instructions[offset], analysis.before[offset]
    name, count, given = instruction.opname, instruction.arg or 0, top(stack)
    arguments = {"CALL": count, "CALL_KW": count + 1, "CALL_FUNCTION_EX": 1 + (count & 1)}
    if name in arguments:
        return called(pop(stack, arguments[name] + 2)[1][:2])[0]
    if name == "FOR_ITER":
        given = given.over if isinstance(given, Iterating) else given
    elif name not in UNPACKINGS:
        return EXPRESSION
    return given.callee if isinstance(given, Call) else given


def _runs_a_builtin(analysis: Analysis, offset: int) -> bool:
    """Whether the instruction runs what may be a built-in function or iterator (`sum`, `map`)."""
    found = analysis.runs_builtins.get(offset)
    if found is None:
        found = analysis.runs_builtins[offset] = _may_run_a_builtin(analysis, offset)
    return found


def _may_run_a_builtin(analysis: Analysis, offset: int) -> bool:
    giver = _giver(analysis, offset)
    if not isinstance(giver, Name):
        return giver is None
    last = giver.steps[-1] if giver.steps else giver.root
    modules = (builtins, functools, itertools)
    calls = analysis.instructions[offset].opname.startswith("CALL")
    return not calls or any(isinstance(last, str) and hasattr(module, last) for module in modules)


def _hands_on(frame: FrameType, analysis: Analysis, offset: int, child: FrameType | None) -> bool:
    """Whether the running instruction's result is the value that was made (in `child`) within it.

    What is written in C and calls back, as `sum`, `map`, `zip` and `functools.reduce` do, makes
    many values, and gives none or one of them or a container.
    """
    if child is None and not _runs_a_builtin(analysis, offset):
        return True
    giver = _giver(analysis, offset)
    if giver is None:
        return False
    try:
        found = read(frame, giver)
    except Unknown:  # an expression: most likely a function of the user's
        return True
    if isinstance(found, functools.partial):
        found = found.func
    if isinstance(found, BuiltinFunctionType):
        return found in ONE_OPERATION or found.__module__ in ("_operator", "math")
    if isinstance(found, type):
        in_c = not found.__flags__ & HEAP_TYPE
        if child is None or not in_c:
            return not in_c
        is_generator = bool(child.f_code.co_flags & GENERATOR)  # `_collects` looks at it
        return is_generator or child.f_code.co_name in COMPREHENSIONS
    return type(found).__module__ != "itertools" and not isinstance(found, BUILTIN_ITERATORS)


def _collects(frame: FrameType, generator: FrameType, path: Path) -> bool:
    """Whether the running instruction takes what the generator yields, and nothing else: it loops
    over it, unpacks it (where the place among its values is known), or makes a list or tuple."""
    analysis = analysis_of(frame.f_code)
    offset = analysis.starts[frame.f_lasti]
    name = analysis.instructions[offset].opname
    if name == "FOR_ITER":
        return _gives(frame, _giver(analysis, offset), generator)
    if isinstance(path[0][0], Somewhere):
        return False
    if name in UNPACKINGS:
        return _gives(frame, _giver(analysis, offset), generator)
    if name != "CALL":
        return False
    [(_, stack), *_] = analysis.step(offset, analysis.before[offset])
    match stack[-1]:
        case Call(Name() as collector, (Call(callee) | (Name() as callee),)):
            made = read(frame, collector)
            return (made is list or made is tuple) and _gives(frame, callee, generator)
    return False


def _gives(frame: FrameType, giver: Slot, generator: FrameType) -> bool:
    """Whether this makes the generator, or is it."""
    if isinstance(giver, Function):
        return giver.code is generator.f_code
    if not isinstance(giver, Name):
        return False
    found = read(frame, giver)
    if isinstance(found, GeneratorType):
        return found.gi_frame is generator
    return getattr(found, "__code__", None) is generator.f_code


def operand_name(frame: FrameType, depth: int) -> tuple[str, str] | None:
    """How the source calls an operand of the running instruction: its kind and its name.

    `depth` counts from the top of the stack: 0 is the right operand, or the last argument. The kind
    is "local", "closure" or "global", "attribute" (`cfg.lr`) or "item" (`cfg["lr"]`, as `cfg.lr`);
    None for constants and compound expressions.
    """
    try:
        analysis = analysis_of(frame.f_code)
        stack = analysis.before[analysis.starts[frame.f_lasti]]
        slot = top(stack, depth)
        if not isinstance(slot, Name):
            return None
        if slot.steps:
            plain = all(isinstance(step, str) for step in slot.steps)
            return ("attribute" if plain else "item"), written(frame, slot)
        if slot.kind != "name":
            return slot.kind, slot.root
        at_module_level = frame.f_locals is frame.f_globals
        is_local = not at_module_level and slot.root in frame.f_locals
        return ("local" if is_local else "global"), slot.root
    except Exception:  # as in target()
        return None
