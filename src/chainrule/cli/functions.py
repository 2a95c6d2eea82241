"""Finds `file.py:function`: runs the file as a module."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from chainrule.cli.raised import described, own_lines

MOST_LINES = 3  # of the user's, on the way to an error


def raised_by(
    error: BaseException, place: str, what: str, *, is_traced: bool = False
) -> click.ClickException | None:
    """Tells of what the file raised, with its lines; None if it comes from elsewhere."""
    file, _, name = place.rpartition(":")
    lines = own_lines(error, Path(file))
    if not lines:
        return None
    where = "\n".join(map(str, lines[-MOST_LINES:])).replace("\n", "\n    ")
    hint = _whole_traceback(Path(file), name) if is_traced else ""
    return click.ClickException(f"{what}: {described(error)}\n  where: {where}{hint}")


def _whole_traceback(file: Path, name: str) -> str:
    """The hint that traces a function without this command, where its file can be imported."""
    module = file.stem
    if not module.isidentifier():
        return ""
    folder = "" if file.parent == Path() else f"in {file.parent}, "
    code = f'python -c "import chainrule, {module}; chainrule.trace({module}.{name})"'
    return f"\n  try: {folder}{code} shows the whole traceback"


def found_at(place: str) -> tuple[Callable[..., Any], ModuleType]:
    """The function that `path/to/file.py:name` means, and its file; `name` may have dots.

    Its folder comes first where the file imports modules, as for `python file.py`; what the file
    does under `if __name__ == "__main__"` is not done.  A usage error where there is no such file
    or function, a ClickException where the file raises.
    """
    file, colon, name = place.rpartition(":")
    if not colon or not file or not name or name.endswith(".py"):
        raise click.UsageError(
            f"{place!r} does not say which function of which file\n"
            f"  try: {place.strip(':') or 'model.py'}:objective"
        )
    path = Path(file)
    if path.is_dir():
        raise click.UsageError(f"{file} is a folder, and no Python file")
    if not path.is_file():
        raise click.UsageError(f"there is no file {file}{_nearest_file(path)}")
    if path.suffix != ".py":
        raise click.UsageError(f"{file} is no Python file: its name does not end in .py")
    module = _module(path)
    return function_in(module, file, name), module


def function_in(module: ModuleType, file: str, name: str) -> Callable[..., Any]:
    """The function of this name in a file that was run; a usage error where there is none."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.UsageError(_unknown(file, name, module))
        found = getattr(found, part)
    if not callable(found):
        raise click.UsageError(
            f"{name} in {file} is of type {type(found).__name__}, and no function"
            f"{_functions(module)}"
        )
    return found


def _module(path: Path) -> ModuleType:
    """The file, run."""
    name = path.stem if path.stem not in sys.modules else f"_chainrule_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise click.ClickException(_cannot_be_imported(path, error)) from error
    return module


def _cannot_be_imported(path: Path, error: BaseException) -> str:
    """What the file raised, and the last line of it that was running."""
    what = described(error)
    if isinstance(error, SystemExit):
        what = f"SystemExit({error.code!r}): it ends the program while it is imported"
    lines = own_lines(error, path)
    where = f"\n  where: {lines[-1].place}" if lines else ""
    return (
        f"{path} cannot be imported: {what}{where}\n"
        "  try: python with this file; what only a program does belongs under "
        'if __name__ == "__main__":'
    )


def _unknown(file: str, name: str, module: ModuleType) -> str:
    near = difflib.get_close_matches(name, _function_names(module), n=1)
    hint = f"\n  try: {file}:{near[0]}" if near else _functions(module)
    return f"{file} has no function {name!r}{hint}"


def _functions(module: ModuleType) -> str:
    names = _function_names(module)
    return f"\n  its functions are: {', '.join(names)}" if names else "\n  it has no functions"


def _function_names(module: ModuleType) -> list[str]:
    """The functions that the file itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def _nearest_file(path: Path) -> str:
    folder = path.parent
    names = [one.name for one in folder.glob("*.py")] if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"\n  try: {folder / near[0]}" if near else ""
