"""Runs `chainrule train`: trains, shows progress, saves, writes files, prints a summary."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chainrule import __version__
from chainrule.cli.ending import INTERRUPTED
from chainrule.cli.explain import training_report
from chainrule.cli.files import write_files
from chainrule.errors import DivergenceError, InputError
from chainrule.examples import digits, fashion_mnist
from chainrule.examples.digits import Measures, Training, calmer, measure, trainer_of
from chainrule.execute.executors import executor_of
from chainrule.graph.graph import Graph
from chainrule.train.checkpoints import file
from chainrule.train.loop.history import NAME as HISTORY
from chainrule.train.loop.trainer import Trainer

WEIGHTS, GRAPH, METRICS = "weights.safetensors", "graph.txt", "metrics.json"
REPORT = "report.html"
CHECKPOINTS = "step-*.safetensors"
DATA = "digits"  # in the metadata of weights that `predict` takes
TERMINATED = 143  # 128 + SIGTERM, as shells have it


def check_folder(folder: Path, *, resume: bool) -> None:
    """A usage error where the folder has a training and none is to go on, or the other way round;
    nothing is written."""
    found = sorted(folder.glob(CHECKPOINTS)) if folder.is_dir() else []
    if resume and not found:
        raise click.UsageError(
            f"there is no training in {folder} to go on with\n"
            "  try: without --resume it begins one; or --output-folder FOLDER, where it is"
        )
    if found and not resume:
        raise click.UsageError(
            f"there is a training in {folder} already: {found[-1].name}\n"
            "  try: --resume, which goes on with it; or another folder, --output-folder FOLDER"
        )


def begun(
    context: click.Context,
    *,
    data: str,
    data_dir: Path | None,
    download: bool,
    executor: str | None,
    memory: int | None,
    **chosen: Any,
) -> Training:
    """The training that the options ask for, before its first step.

    Options that were not given have the defaults of the data.
    """
    why = executor_of(executor).refusal()
    if why is not None:
        raise click.UsageError(f"{why}\n  try: --executor reference, which runs everywhere")
    given = {
        name
        for name in ("data_dir", "download", *chosen)
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if data == DATA:
        _refuse_options(given & {"data_dir", "download"}, "the digits are part of the package")
        return digits.begin(digits.Settings(**chosen), executor, memory)
    _refuse_options(given & {"test_fraction"}, f"{data} has its own images to test")
    named = {name: value for name, value in chosen.items() if name in given}
    settings = fashion_mnist.FashionSettings(**named)
    return fashion_mnist.begin(
        settings, data_dir, download=download, executor=executor, memory=memory
    )


def _refuse_options(given: set[str], because: str) -> None:
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(given))
        raise click.UsageError(f"{options}: {because}\n  try: leave it out, or another --data")


def resuming(context: click.Context) -> str:
    """The command that was given, with --resume."""
    words = context.command_path.split()
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is ParameterSource.COMMANDLINE and option.name != "resume":
            value = context.params[option.name or ""]
            is_flag = isinstance(option, click.Option) and option.is_flag
            off = is_flag and not value
            words.append((option.secondary_opts if off else option.opts)[0])
            words += [] if is_flag else [str(value)]
    return shlex.join([*words, "--resume"])


def train_and_write(
    training: Training, folder: Path, *, resume: bool, quiet: bool, report: bool, again: str
) -> None:
    """Train all epochs, with checkpoints, write the files, and print what came out.

    `again` is the command that goes on with the training.
    """
    with _shown_warnings():
        trainer = _trainer(training, folder, resume=resume, quiet=quiet)
        if not quiet:
            click.echo(_opening(training))
        with _stopping_well(trainer, again):
            begun = trainer.epoch
            _fit(trainer, training)
            trained = _trained(training, trainer)
            measures = measure(trained)
            seconds = sum(line["seconds"] for line in trainer.history)
            write_files(
                folder,
                {
                    WEIGHTS: _weights(trained, measures),
                    GRAPH: (trained.step.graph.text(origins=True) + "\n").encode(),
                    METRICS: _json(_metrics(trained, measures, seconds=seconds)).encode(),
                },
            )
            if report:
                training_report(trained, trainer.history).save(folder / REPORT)
    click.echo(_summary(trained, measures, seconds, begun, folder, report=report))


def _trainer(training: Training, folder: Path, *, resume: bool, quiet: bool) -> Trainer:
    """The trainer in that folder; a usage error where that has another training."""
    try:
        return trainer_of(training, folder=folder, resume=resume, progress=not quiet)
    except InputError as error:
        hint = "the options with which it began; or another folder, --output-folder FOLDER"
        raise click.UsageError(f"{error.what}\n  try: {hint}") from error


def _fit(trainer: Trainer, training: Training) -> None:
    """Train; where that diverges the error says which options to change."""
    try:
        trainer.fit(training.settings.epochs)
    except DivergenceError as error:
        hint = f"{calmer(training.settings)}; with --resume it goes on before the bad step"
        raise DivergenceError(error.what, where=error.where, hint=hint) from error


def _trained(training: Training, trainer: Trainer) -> Training:
    """The network as the trainer left it, after at least as many epochs as were asked for."""
    epochs = max(training.settings.epochs, trainer.epoch)
    settings = replace(training.settings, epochs=epochs)
    return replace(training, settings=settings, step=trainer.step, state=trainer.state)


@contextmanager
def _stopping_well(trainer: Trainer, again: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end with the command that goes on."""
    try:
        yield
    except KeyboardInterrupt:
        _tell_how_to_go_on(trainer, again)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except SystemExit as error:
        if error.code == TERMINATED:
            _tell_how_to_go_on(trainer, again)
        raise


def _tell_how_to_go_on(trainer: Trainer, again: str) -> None:
    place = f"step {trainer.state.steps} (epoch {trainer.epoch + 1})"
    click.echo(f"\nstopped after {place}; to go on:\n  {again}", err=True)


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Warnings as one line each, without a place in the source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **more: click.echo(
            f"warning: {message}", err=True
        )
        yield


def _weights(training: Training, measures: Measures) -> bytes:
    """The weights as safetensors, with the metrics and a checksum of all in the metadata, one
    entry: several have no fixed order."""
    from safetensors.numpy import save

    arrays = training.state.parameters
    text = json.dumps(_metrics(training, measures), sort_keys=True)
    entry = {"rest": text, "sha256": file.checksum(text, arrays)}
    return save(arrays, {file.ENTRY: json.dumps(entry, sort_keys=True)})


def weights_notes(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """The metrics in the metadata of weights of digits that `chainrule train` wrote; None of
    others."""
    try:
        found = json.loads(json.loads(metadata.get(file.ENTRY, ""))["rest"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("data") == DATA else None


def _metrics(training: Training, measures: Measures, **more: float) -> dict[str, object]:
    return {
        "chainrule": __version__,
        "data": training.data,
        "settings": asdict(training.settings),
        "steps": training.state.steps,
        "parameters": training.parameter_count,
        "train_rows": len(training.train.y),
        "test_rows": len(training.test.y),
        **asdict(measures),
        **more,
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _opening(training: Training) -> str:
    settings = training.settings
    widths = " - ".join(map(str, _widths(training)))
    train, test = len(training.train.y), len(training.test.y)
    return (
        f"{training.data}: {train} images to train, {test} to test; "
        f"network {widths}{' with bias' if settings.bias else ''}, "
        f"{training.parameter_count} parameters"
    )


def _widths(training: Training) -> tuple[int, ...]:
    arrays = training.state.arrays
    return (*arrays["W1"].shape, arrays["W2"].shape[1])


def _summary(
    training: Training,
    measures: Measures,
    seconds: float,
    begun: int,
    folder: Path,
    *,
    report: bool,
) -> str:
    settings, graph = training.settings, training.step.graph
    rows = {
        "objective": f"{measures.objective:.4f} on the training images, weight decay included",
        "accuracy": f"train {measures.train_accuracy:.2%}, test {measures.test_accuracy:.2%}",
        "time": f"{seconds:.2f} s for {settings.epochs} epochs of {training.steps_per_epoch} steps"
        + (f", of which {begun} were done before" if begun else ""),
        "parameters": f"{training.parameter_count}",
        "weights": folder / WEIGHTS,
        "metrics": folder / METRICS,
        "history": folder / HISTORY,
        **({"report": f"{folder / REPORT}: one more step, for a browser"} if report else {}),
        "graph": f"{folder / GRAPH}: the training step, {len(graph)} nodes, these with names:",
    }
    lines = [f"{what:<10}  {text}" for what, text in rows.items()]
    return "\n".join(lines + [f"  {part:<8}  {names}" for part, names in _parts(graph).items()])


def _parts(graph: Graph) -> dict[str, str]:
    """The names of the values by the part of the step that makes them."""
    inputs = {item.node for item in graph.inputs}
    names: dict[str, list[str]] = {"forward": [], "backward": [], "update": []}
    for node in graph.nodes:
        if node in graph.name_of and node not in inputs:
            names.setdefault(node.origin.transform or "forward", []).append(graph.name_of[node])
    return {part: " ".join(found) for part, found in names.items()}
