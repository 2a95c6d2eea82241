"""Writes result files: checks the folder first, writes a temporary file, then renames it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from chainrule.explain.writing import beside


@contextmanager
def usable_folder(folder: Path) -> Iterator[None]:
    """Make the folder and try to write there; a usage error where that fails.

    What was made, and is empty at the end (training was stopped), is removed.
    """
    made = [part for part in (folder, *folder.parents) if not os.path.lexists(part)]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            trial = beside(folder / "trial")
            trial.write_bytes(b"")
            trial.unlink()
        except OSError as error:
            raise click.UsageError(_unwritable(folder, error)) from error
        yield
    finally:
        for part in made:
            if not part.is_dir() or any(part.iterdir()):
                break
            part.rmdir()


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files under other names, then rename them: none is ever half there."""
    paths = {beside(folder / name): folder / name for name in contents}
    try:
        for partial, content in zip(paths, contents.values(), strict=True):
            partial.write_bytes(content)
        for partial, path in paths.items():
            os.replace(partial, path)
    except OSError as error:
        raise click.ClickException(_unwritable(folder, error)) from error
    finally:
        for partial in paths:
            partial.unlink(missing_ok=True)


def _unwritable(folder: Path, error: OSError) -> str:
    return (
        f"cannot write to the folder {folder}: {error.strerror or error}\n"
        "  try: another one, --output-folder FOLDER"
    )
