"""Ends the `chainrule` command with a message and a status, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from chainrule.errors import ChainruleError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@contextmanager
def refusing_usage() -> Iterator[None]:
    """Settings that make no sense, or do not fit the data, end with status 2."""
    try:
        yield
    except ChainruleError as error:
        raise click.UsageError(str(error)) from error
    except (MemoryError, OverflowError, ValueError) as error:
        raise click.UsageError(f"not enough memory: {error}\n  try: a smaller --hidden") from error


@contextmanager
def ending_well() -> Iterator[None]:
    """Errors of the library end with their message and status 1, Ctrl-C with 130."""
    try:
        yield
    except ChainruleError as error:
        raise click.ClickException(str(error)) from error
    except UnicodeEncodeError as error:
        raise click.ClickException(
            f"this output has {error.object[error.start]!a}, which the encoding {error.encoding} "
            "of the terminal lacks\n  try: PYTHONUTF8=1 before the command, or --output FILE"
        ) from error
    except KeyboardInterrupt:
        click.echo("\nstopped by Ctrl-C; files are written only at the end", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
