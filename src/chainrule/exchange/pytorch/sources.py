"""Finds what the source of `forward` says of an operator: its line, its submodule, its variable.

`torch.export` notes for each operator the lines that were running, outermost first, and the
submodules.  A statement `h = self.conv1(x)` gives its variable to the one value of all operators
that ran in it which others read: more than one would have no name.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Sequence
from types import CodeType

from chainrule.dataclass import dataclass, replace

NO_GRAD = "<no gradients>"  # the innermost line of an operator that ran without them
_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.M)


@dataclass(frozen=True)
class Frame:
    """One line that was running: of a function, and the path of the submodule whose it is."""

    file: str
    line: int
    function: str
    path: str = ""

    @property
    def code(self) -> CodeType:
        """A code object at this line, as an origin takes it."""
        name = self.function.rpartition(".")[2]
        return _nowhere.__code__.replace(
            co_filename=self.file,
            co_firstlineno=self.line,
            co_name=name,
            co_qualname=self.function,
        )


def _nowhere() -> None: ...


def frames_of(stack_trace: str, modules: Sequence[str]) -> tuple[Frame, ...]:
    """The running lines, outermost first; `modules` are the paths of the running submodules.

    Each submodule's `forward` is one frame; helpers that it calls belong to it.
    """
    found = [
        Frame(one["file"], int(one["line"]), one["function"])
        for one in _FRAME.finditer(stack_trace)
        if one["file"] != NO_GRAD
    ]
    starts = [place for place, frame in enumerate(found) if frame.function == "forward"]
    if len(starts) != len(modules):  # hooks, or helpers that are called forward, too
        inner = modules[-1] if modules else ""
        return tuple(Frame(f.file, f.line, f.function, inner) for f in found)
    paths: list[str] = []
    for place in range(len(found)):
        depth = sum(start <= place for start in starts)
        paths.append(modules[depth - 1] if depth else "")
    return tuple(
        Frame(f.file, f.line, f.function, path) for f, path in zip(found, paths, strict=True)
    )


@dataclass(frozen=True)
class Statement:
    """An assignment: the variables of its target, whether they are several, and whether its value
    is a single call, as in `x = layer(x)`."""

    variables: tuple[str, ...]
    is_unpacked: bool
    is_one_call: bool


class Statements:
    """The assignments of source files, each read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, Statement]] = {}

    def at(self, file: str, line: int) -> Statement | None:
        if file not in self._files:
            self._files[file] = _assignments("".join(linecache.getlines(file)))
        return self._files[file].get(line)


def _assignments(text: str) -> dict[int, Statement]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # no source, or not this program's
        return {}
    found: dict[int, Statement] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            target = node.target
        else:
            continue
        names = _variables(target)
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        statement = Statement(
            names, isinstance(target, (ast.Tuple, ast.List)), _is_call(node.value, len(calls))
        )
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found[line] = statement
    return found


def _is_call(value: ast.expr | None, calls: int) -> bool:
    return isinstance(value, ast.Call) and calls == 1


def _variables(target: ast.expr) -> tuple[str, ...]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(_variables(one)[0] if _variables(one) else "" for one in target.elts)
    if isinstance(target, ast.Name):
        return (target.id,)
    return (target.attr,) if isinstance(target, ast.Attribute) else ()


@dataclass(frozen=True)
class Made:
    """A value of an exported program: the lines that made it, which values read it, and which
    part of another value it is."""

    frames: tuple[Frame, ...]
    readers: tuple[int, ...]
    is_output: bool
    part: tuple[int, int] | None = None  # the other value, and the position in it


def names_of(values: Sequence[Made | None], containers: str) -> dict[int, str]:
    """The name of each value that the source stores, with the path of its submodule.

    `containers` is the file of PyTorch's nn.Sequential, which calls its submodules in a loop: what
    each of them gives is its `out`.
    """
    statements = Statements()
    found: dict[int, str] = {}
    deepest = max((len(one.frames) for one in values if one is not None), default=0)
    for depth in range(deepest):  # the outermost line that stores it names a value
        for group in _groups(values, depth, statements):
            first = values[group[0]]
            assert first is not None
            frame = first.frames[depth]
            statement = statements.at(frame.file, frame.line)
            if statement is None:
                continue
            path = frame.path
            if frame.file == containers and len(first.frames) > depth + 1:
                path, statement = (
                    first.frames[depth + 1].path,
                    replace(statement, variables=("out",)),
                )
            for place, variable in _stored(values, group, statement):
                if variable and variable != "_":
                    found.setdefault(place, f"{path}.{variable}".lstrip("."))
    return found


def _stored(
    values: Sequence[Made | None], group: list[int], statement: Statement
) -> Iterable[tuple[int, str]]:
    """Which values of a group its statement stores, and where."""
    inside = set(group)
    escaping = [
        place
        for place in group
        if (one := values[place]) is not None
        and (one.is_output or any(reader not in inside for reader in one.readers))
    ]
    if not statement.is_unpacked:
        if len(escaping) == 1 and len(statement.variables) == 1:
            yield escaping[0], statement.variables[0]
        return
    parts = [(place, one.part) for place in escaping if (one := values[place]) and one.part]
    if len(parts) == len(escaping) and len({part[0] for _, part in parts}) == 1:
        for place, (_, position) in parts:
            if position < len(statement.variables):
                yield place, statement.variables[position]


def _groups(
    values: Sequence[Made | None], depth: int, statements: Statements
) -> Iterable[list[int]]:
    """The values, in order, by the lines that were running up to this depth; a loop over
    submodules runs one line several times, with another submodule each time."""
    group: list[int] = []
    last: object = None
    for place, one in enumerate(values):
        key: object = None
        if one is not None and len(one.frames) > depth:
            frame = one.frames[depth]
            below = one.frames[depth + 1].path if len(one.frames) > depth + 1 else ""
            statement = statements.at(frame.file, frame.line)
            alone = statement is not None and statement.is_one_call
            key = one.frames[: depth + 1], below if alone else ""
        if group and key != last:
            yield group
            group = []
        last = key
        if key is not None:
            group.append(place)
    if group:
        yield group
