"""The subcommands that train, predict, and show a graph, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainrule.cli.ending import ending_well, refusing_usage
from chainrule.cli.options import (
    INDICES,
    PHASE,
    SHOWN,
    SYMBOLS,
    GraphCommand,
    executor_option,
    memory_option,
    of_a_graph,
    output_option,
    refuse_sizes,
    search_option,
    setting,
    several,
)

if TYPE_CHECKING:
    from chainrule.cli.program import Program


@click.command()
@click.option(
    "--data",
    type=click.Choice(["digits", "fashion-mnist"]),
    default="digits",
    show_default=True,
    help="What it learns.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the four IDX files of fashion-mnist are; without it, they are looked for.",
)
@click.option("--download", is_flag=True, help="Fetch the files of fashion-mnist if need be.")
@setting("hidden", "Width of the hidden layer.", int)
@setting("learning_rate", "Factor of the gradient in W - learning_rate * dJ/dW.", float)
@setting("weight_decay", "Factor of the penalty (sum W1^2 + sum W2^2) / 2.", float)
@setting("batch", "Images in one training step; the last one of an epoch may have fewer.", int)
@setting("epochs", "How often every training image is used.", int)
@setting("seed", "Decides split, first weights and order: same seed, same weights.", int)
@setting("test_fraction", "Part of the images that is held out for testing.", float)
@click.option("--bias", is_flag=True, help="Add a bias to the hidden layer; it is not penalized.")
@click.option(
    "--output-folder",
    type=click.Path(path_type=Path),
    default=Path("chainrule-run"),
    show_default=True,
    help="Where checkpoints and history.jsonl go, and at the end weights.safetensors, graph.txt, "
    "metrics.json and report.html.",
)
@executor_option("Who runs it: native is the compiled code, the default where it can be made.")
@memory_option("--memory", "A step needs at most so much: values are computed again if need be.")
@click.option("--resume", is_flag=True, help="Go on from the newest checkpoint in that folder.")
@click.option("--report/--no-report", default=True, help="Write report.html, or not.")
@click.option("--quiet", is_flag=True, help="Print only what came out, not the epochs.")
def train(
    output_folder: Path,
    resume: bool,
    report: bool,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Train a network on handwritten digits, and test it on held-out ones.

    One hidden layer, z = x @ W1, h = max(z, 0), o = h @ W2, softmax cross-entropy and weight
    decay, trained by minibatch gradient descent. The 1797 images of 8 x 8 pixels are part of the
    package. Forward propagation, backpropagation and update are one graph, written to graph.txt.

    With --data fashion-mnist it learns 60000 images of 28 x 28 pixels, with biases in both layers,
    and is tested on the 10000 others; its defaults are --hidden 256 --learning-rate 0.1
    --weight-decay 0 --batch 256 --epochs 10. The files are those of the Debian package
    dataset-fashion-mnist, of --data-dir, or downloaded.

    There is a checkpoint after every epoch, and when Ctrl-C stops it. With --resume, and the other
    options as before, it goes on as if it had never stopped: with another --learning-rate or
    --weight-decay if you like, and up to --epochs in all. A folder that has a training is not
    written over.
    """
    from chainrule.cli.files import usable_folder
    from chainrule.cli.training import begun, check_folder, resuming, train_and_write

    with ending_well():
        with refusing_usage():
            training = begun(click.get_current_context(), **chosen)
        check_folder(output_folder, resume=resume)
        with usable_folder(output_folder):
            train_and_write(
                training,
                output_folder,
                resume=resume,
                quiet=quiet,
                report=report,
                again=resuming(click.get_current_context()),
            )


@click.command()
@click.option(
    "--weights",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="weights.safetensors of `chainrule train`.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Images: .npy, .npz, .csv(.gz), .parquet, .idx(.gz).",
)
@click.option("--scores", is_flag=True, help="The ten class scores of a row, not its class.")
@output_option(".npy, .csv, .txt", "they are printed")
def predict(weights: Path, data: Path, scores: bool, output: Path | None) -> None:
    """Say which digits the images in a file show, by a network of `chainrule train`.

    Images are rows of 64 numbers, or of 8 x 8: floats between 0 (paper) and 1 (ink), or integers
    between 0 and 16, as in the source of the digits. A table (CSV, Parquet) has a column for each
    of the 64. A file of several arrays has them as x, or as its only array of more than one axis.
    Prints the class with the largest score of each row, one a line.
    """
    from chainrule.cli.predict import predict_and_write

    with ending_well():
        predict_and_write(weights, data, output, scores=scores)


@click.command(cls=GraphCommand)
@of_a_graph(
    "A named size, such as n=256; those not given are taken as 256.",
    "Count a whole training step with the arrays of this optimizer.",
)
@several("--keep", help="What outlives a run: outputs (the default), named, or names of values.")
@several("--predict", help="What prediction returns; without it, the objective.")
@executor_option("Who runs it.")
@memory_option("--budget", "A run needs at most so much: values are computed again if need be.")
@search_option()
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

    The arguments of the function are annotated with array types (x: float32["n 784"]), or given by
    a function example() of the file, which returns a dict by their names. Without --optimizer it is
    forward propagation alone, with --wrt also backpropagation. With --optimizer, --wrt may be left
    out where the number of examples is the only named size: all other arrays of floats are trained.
    """
    from chainrule.cli.graphs import sizes_of
    from chainrule.cli.memory import report_of, show, show_json

    with ending_well():
        report = report_of(sizes=sizes_of(dims), **chosen)
        if timeline is not None:
            report.save_timeline(timeline)
        if as_json:
            show_json(report)
        else:
            show(report, whole=whole)


@click.command(cls=GraphCommand)
@of_a_graph(
    "A named size, such as n=256; the others stay letters.",
    "Count a whole training step with the update of this optimizer.",
)
@click.option("--all", "whole", is_flag=True, help="Show every value, not the 40 largest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/second-order.md).")
def cost(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    whole: bool,
    as_json: bool,
) -> None:
    """Count the floating-point operations of a function and the bytes it moves; run nothing.

    The arguments of the function are annotated with array types (x: float32["n 784"]), or given by
    a function example() of the file. With --wrt the backward pass is counted, too, with --optimizer
    a whole training step. Sizes that are not
    given (--dim n=256) stay letters.
    """
    from chainrule.cli.cost import cost_of, show
    from chainrule.cli.graphs import sizes_of

    with ending_well():
        found = cost_of(program, sizes_of(dims), wrt=wrt, of=of, optimizer=optimizer)
        show(found, whole=whole, as_json=as_json)


@click.command(cls=GraphCommand)
@SHOWN
@output_option(".svg, .dot, .mmd; - prints SVG", "FUNCTION.svg in this folder")
@PHASE
@click.option(
    "--detail",
    type=click.Choice(["names", "primitives"]),
    default="names",
    show_default=True,
    help="Named values alone, or every operation.",
)
@several(
    "--fold",
    metavar="SCOPE",
    help="Scopes drawn as one box: auto (the default), all, none, or their names.",
)
@several("--expand", help="A value whose inner steps show.")
@click.option("--shapes", is_flag=True, help="Write types and shapes under the values.")
@click.option("--nbytes", is_flag=True, help="Write the bytes of values, too.")
@INDICES
@SYMBOLS
@click.option(
    "--theme",
    type=click.Choice(["auto", "light", "dark"]),
    default="auto",
    show_default=True,
    help="Colours; auto follows the viewer.",
)
@click.option(
    "--width",
    type=click.FloatRange(min=300),
    default=900,
    show_default=True,
    help="Of the page, in pixels: what is wider goes on below.",
)
def draw(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    output: Path | None,
    fold: tuple[str, ...],
    symbols: tuple[str, ...],
    **options: Any,
) -> None:
    """Draw the graph of a function: squares are variables, circles are operators.

    The arguments of the function are annotated with array types (x: float32["n 784"]), or given by
    a function example() of the file. With --wrt the backward pass is drawn below the forward pass;
    nothing is run.
    """
    from chainrule.cli import views

    with ending_well():
        graph = views.viewed(program, dims, wrt, of, optimizer)
        options |= {"symbols": views.symbols_of(symbols), "fold": views.folded(fold)}
        views.draw(graph, output, options)


@click.command(cls=GraphCommand)
@SHOWN
@click.argument("names", nargs=-1, metavar="[NAME]...", callback=refuse_sizes)
@output_option(".tex, .md, .txt", "they are printed")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "latex", "markdown"]),
    default="text",
    show_default=True,
    help="How they are printed.",
)
@PHASE
@INDICES
@SYMBOLS
def equations(
    program: Program,
    names: tuple[str, ...],
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    output: Path | None,
    form: str,
    symbols: tuple[str, ...],
    **options: Any,
) -> None:
    """Write the equation of every named value of a function, or of each NAME.

    With --wrt also those of its gradients: the chain rule, and what it gives. Nothing is run.
    """
    from chainrule.cli import views

    with ending_well():
        graph = views.viewed(program, dims, wrt, of, optimizer)
        options |= {"symbols": views.symbols_of(symbols)}
        views.equations(graph, names, output, form, options)


@click.command(cls=GraphCommand)
@SHOWN
@output_option(".py", "it is printed")
@click.option("--delete", is_flag=True, help="Delete values as soon as nothing needs them.")
@click.option("--comments/--no-comments", default=True, help="Say which line each block is from.")
def python(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Write the graph of a function as plain NumPy: with --wrt, its gradient as code.

    What it prints runs by itself, and needs NumPy alone.
    """
    from chainrule.cli import views

    with ending_well():
        graph = views.viewed(program, dims, wrt, of, optimizer)
        views.python(graph, output, options)


@click.command(cls=GraphCommand)
@SHOWN
@click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="The arrays of one run, by name; without them the page has no values.",
)
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Draw the arrays that are not given: normal numbers, and zeros for integers.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE.jsonl",
    help='Curves of a training: lines such as {"step": 1, "objective": 2.3}.',
)
@executor_option(
    "Whose steps and memory are shown: native is the compiled code, in an order of its own.",
    default="reference",
    show_default=True,
)
@click.option("--tradeoff", is_flag=True, help="Show what less memory costs in time.")
@output_option(".html", "FUNCTION.html in this folder")
def explain(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    **options: Any,
) -> None:
    """Write a page for the browser that walks through a function, value by value.

    Graph, equations, memory and source lines, forward and (with --wrt) backward, in one file that
    loads nothing else. Nothing is run, unless --inputs, --random or a function example() of the
    file gives it numbers to run on.
    """
    from chainrule.cli import explain as explaining

    with ending_well():
        explaining.explain(program, dims, wrt, of, optimizer, **options)
