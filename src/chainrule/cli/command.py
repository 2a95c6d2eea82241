"""What can be asked of the `chainrule` command: its options, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from chainrule import __version__
from chainrule.errors import ChainruleError, InputError
from chainrule.train.digits import Settings

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="chainrule", message="%(prog)s %(version)s")
def main() -> None:
    """A training step as one explicit computational graph."""


def _option(name: str, explanation: str, type_: Any) -> Any:
    """An option whose default is that of the setting with its name."""
    default = getattr(Settings, name)
    return click.option(
        f"--{name.replace('_', '-')}",
        type=type_,
        default=default,
        show_default=True,
        help=explanation,
    )


@main.command()
@_option("hidden", "Width of the hidden layer.", int)
@_option("learning_rate", "Factor of the gradient in W - learning_rate * dJ/dW.", float)
@_option("weight_decay", "Factor of the penalty (sum W1^2 + sum W2^2) / 2.", float)
@_option("batch", "Images in one training step; the last one of an epoch may have fewer.", int)
@_option("epochs", "How often every training image is used.", int)
@_option("seed", "Decides split, first weights and order: same seed, same weights.", int)
@_option("test_fraction", "Part of the images that is held out for testing.", float)
@click.option("--bias", is_flag=True, help="Add a bias to the hidden layer; it is not penalized.")
@click.option(
    "--output-folder",
    type=click.Path(path_type=Path),
    default=Path("chainrule-run"),
    show_default=True,
    help="Where weights.safetensors, graph.txt and metrics.json go; older ones are replaced.",
)
@click.option("--quiet", is_flag=True, help="Print only what came out, not the epochs.")
def train(output_folder: Path, quiet: bool, **chosen: Any) -> None:
    """Train a network on handwritten digits, and test it on held-out ones.

    One hidden layer, z = x @ W1, h = max(z, 0), o = h @ W2, softmax cross-entropy and weight
    decay, trained by minibatch gradient descent. The 1797 images of 8 x 8 pixels are part of the
    package. Forward propagation, backpropagation and update are one graph, written to graph.txt.
    """
    from chainrule.cli.files import usable_folder
    from chainrule.cli.training import train_and_write
    from chainrule.train.digits import begin

    with _ending_well():
        with _refusing_usage():
            training = begin(Settings(**chosen))
        with usable_folder(output_folder):
            train_and_write(training, output_folder, quiet=quiet)


@main.command()
@click.argument("place", metavar="FILE.py:FUNCTION")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    help="A named size, such as n=256; those not given are taken as 256.",
)
@click.option("--wrt", multiple=True, metavar="NAME", help="An input to differentiate by.")
@click.option("--of", metavar="NAME", help="The objective, where the function returns several.")
@click.option(
    "--optimizer",
    type=click.Choice(["sgd", "momentum", "adam", "adamw"]),
    help="Count a whole training step with the arrays of this optimizer.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="NAME",
    help="What outlives a run: outputs (the default), named, or names of values.",
)
@click.option(
    "--predict",
    multiple=True,
    metavar="NAME",
    help="What prediction returns; without it, the objective.",
)
@click.option("--executor", type=click.Choice(["native", "reference"]), help="Who runs it.")
@click.option("--all", "whole", is_flag=True, help="Show every value, not the 40 largest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/memory.md says of what).")
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    metavar="FILE.svg",
    help="Draw the bytes in use by instruction.",
)
def memory(
    dims: tuple[str, ...], whole: bool, as_json: bool, timeline: Path | None, **chosen: Any
) -> None:
    """Count the bytes that a function takes in training and prediction, and run nothing.

    The arguments of the function are annotated with array types (x: float32["n 784"]). Without
    --optimizer it is forward propagation alone, with --wrt also backpropagation. With --optimizer,
    --wrt may be left out where the number of examples is the only named size: all other arrays of
    floats are trained.
    """
    from chainrule.cli.graphs import sizes_of
    from chainrule.cli.memory import draw, report_of, show, show_json

    with _ending_well():
        report = report_of(sizes=sizes_of(dims), **chosen)
        if timeline is not None:
            draw(report, timeline)
        if as_json:
            show_json(report)
        else:
            show(report, whole=whole)


@contextmanager
def _refusing_usage() -> Iterator[None]:
    """Settings that make no sense, or do not fit the data, end with status 2."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from error
    except (MemoryError, OverflowError, ValueError) as error:
        raise click.UsageError(f"not enough memory: {error}\n  try: a smaller --hidden") from error


@contextmanager
def _ending_well() -> Iterator[None]:
    """Errors of the library end with their message and status 1, Ctrl-C with 130."""
    try:
        yield
    except ChainruleError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("\nstopped by Ctrl-C; files are written only at the end", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
