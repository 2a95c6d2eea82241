"""`chainrule run`: a file as several ranks, which share the steps of `cr.parallel`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from chainrule.cli.ending import ending_well


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-n", "count", type=click.IntRange(min=1), required=True, help="How many ranks.")
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long a rank waits for another one before the job ends; 60 by default.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(count: int, deadline: float | None, file: Path, arguments: tuple[str, ...]) -> None:
    """Run a Python file in several processes, whose ranks share the steps of cr.parallel.

    Every process runs the whole file; ARGUMENTS are its own. Each has its part of this machine's
    cores. MPI starts them: pip install 'chainrule[mpi]'. On a cluster, start the same file by srun
    or mpiexec.

    If a rank fails, all of them end at once, with exit code 70 and a message that names the rank.
    """
    from chainrule.devices.launcher import launch

    with ending_well():
        if os.name != "posix":
            raise click.ClickException("chainrule run is for Linux and macOS")
        raise click.exceptions.Exit(launch(count, file, arguments, deadline))
