"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from chainrule.errors import InputError
from chainrule.examples.digits import Settings
from chainrule.execute.executors import executor_named, executor_names
from chainrule.graph.bytes_text import nbytes_of


def setting(name: str, explanation: str, type_: Any) -> Any:
    """An option whose default is that of the setting with its name."""
    default = getattr(Settings, name)
    return click.option(
        f"--{name.replace('_', '-')}",
        type=type_,
        default=default,
        show_default=True,
        help=explanation,
    )


class ExecutorName(click.ParamType):
    """The name of an executor: chainrule's own, or of an installed package."""

    name = "executor"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """All names, as the help shows them."""
        return f"[{'|'.join(executor_names())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is such an executor."""
        try:
            return executor_named(value)
        except InputError as error:
            known = ", ".join(map(repr, executor_names()))
            is_known = value in executor_names()
            self.fail(error.what if is_known else f"{value!r} is not one of {known}.", param, ctx)


def executor_option(help: str, **more: Any) -> Any:
    """The option that says which executor."""
    return click.option("--executor", type=ExecutorName(), help=help, **more)


class Amount(click.ParamType):
    """An amount of memory, in bytes."""

    name = "amount"

    def convert(
        self, value: int | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The bytes that `500MiB` or an integer means."""
        try:
            return nbytes_of(value)
        except InputError:
            self.fail(f"{value!r} is no amount of memory: write 500MiB, 2GB or an integer.")


def memory_option(name: str, help: str) -> Any:
    """The option that says how much a run takes at most."""
    return click.option(name, type=Amount(), metavar="AMOUNT", help=help)


def search_option() -> Any:
    """The option that says how long offsets are searched for."""
    return click.option(
        "--search",
        "placement_seconds",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="SECONDS",
        help="Search so long for better offsets in the block of memory of compiled code.",
    )


def output_option(suffixes: str, otherwise: str) -> Any:
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Where it goes ({suffixes}); without it, {otherwise}.",
    )


def of_a_graph(dims: str, optimizer: str) -> Callable[[Any], Any]:
    """The argument and options that say which graph; the texts are those of two of them."""
    options = (
        click.argument("place", metavar="FILE.py:FUNCTION"),
        click.option(
            "--example",
            metavar="NAME",
            help="The function of the file that returns arguments, with types, sizes and data for "
            "what annotations and options leave open; by default example, if there is one.",
        ),
        several("--dim", "dims", metavar="NAME=SIZE", help=dims),
        several("--wrt", help="An input to differentiate by; or all."),
        click.option(
            "--of", metavar="NAME", help="The objective, where the function returns several."
        ),
        click.option(
            "--optimizer", type=click.Choice(["sgd", "momentum", "adam", "adamw"]), help=optimizer
        ),
    )

    def decorate(command: Any) -> Any:
        @wraps(command)
        def on_program(place: str, example: str | None, **chosen: Any) -> Any:
            from chainrule.cli.program import Program

            return command(program=Program(place, example), **chosen)

        decorated: Any = on_program
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def several(*declarations: str, metavar: str = "NAME", help: str) -> Any:
    """An option that is given again for each of its values, or once with commas between them."""
    return click.option(
        *declarations,
        multiple=True,
        metavar=f"{metavar},...",
        help=help,
        callback=lambda _, option, given: _apart(option.opts[0], metavar, given),
    )


def _apart(option: str, each: str, given: Sequence[str]) -> tuple[str, ...]:
    """The values between the commas; a comma within brackets is part of a name: `p[0,1]`."""
    found = []
    for one in given:
        parts, depth = [""], 0
        for character in one:
            depth += (character in "([{") - (character in ")]}")
            if character == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += character
        parts = [part.strip() for part in parts]
        if "" in parts:
            raise click.UsageError(
                f"{option} {one!r} has an empty part\n"
                f"  try: {option} {each}, or {option} {each},{each} without blanks"
            )
        found += parts
    return tuple(found)


SHOWN = of_a_graph(
    "A named size, such as n=256; the others stay letters.",
    "Show a whole training step with the update of this optimizer.",
)
INDICES = click.option(
    "--indices",
    type=click.Choice(["subscript", "superscript", "plain"]),
    default="subscript",
    show_default=True,
    help="Where the number of a name such as W1 goes.",
)
SYMBOLS = click.option(
    "--symbol",
    "symbols",
    multiple=True,
    metavar="NAME=TEXT",
    help="What is shown for a name, such as weight_decay=λ.",
)
PHASE = click.option(
    "--phase",
    type=click.Choice(["both", "forward", "backward"]),
    default="both",
    show_default=True,
    help="Which part is shown.",
)


class GraphCommand(click.Command):
    """A command on a graph, which says of words that belong to no option where they go."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, and a usage error for what is left."""
        rest = super().parse_args(ctx, args)
        if ctx.args:
            _refuse_words(ctx, ctx.args)
        return rest


def refuse_sizes(context: click.Context, _: click.Parameter, names: Sequence[str]) -> Any:
    """The names, as they are; a usage error where one of them is a size."""
    if any("=" in name for name in names):
        _refuse_words(context, names)
    return names


def _refuse_words(context: click.Context, words: Sequence[str]) -> None:
    sizes = [word for word in words if "=" in word]
    if sizes:
        belong, option = sizes, f"--dim {','.join(sizes)}"
    else:
        belong = list(words)
        option = f"--wrt {','.join([*context.params.get('wrt', ()), *words])}"
    verb = "belongs" if len(belong) == 1 else "belong"
    raise click.UsageError(f"{' '.join(belong)} {verb} to no option\n  try: {option}", context)
