"""`file.py:function` in a shell: the file is run as a module, and the function is found in it."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click


def function_at(place: str) -> Callable[..., Any]:
    """The function that `path/to/file.py:name` means; `name` may have dots.

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
    if not path.is_file():
        raise click.UsageError(f"there is no file {file}{_nearest_file(path)}")
    if path.suffix != ".py":
        raise click.UsageError(f"{file} is no Python file: its name does not end in .py")
    module = _module(path)
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
        raise click.ClickException(_raised(path, error)) from error
    return module


def _raised(path: Path, error: BaseException) -> str:
    """What the file raised, and the last line of it that was running."""
    what = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SystemExit):
        what = f"SystemExit({error.code!r}): it ends the program while it is imported"
    inside = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path.resolve())
    ]
    where = f"\n  where: {path}:{inside[-1]}" if inside else ""
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
