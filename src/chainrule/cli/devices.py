"""`chainrule devices`: what there is to split a step over, as it is known or measured."""

from __future__ import annotations

from pathlib import Path

import click

from chainrule.cli.ending import ending_well
from chainrule.errors import InputError


@click.command()
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
@click.option("--measure", is_flag=True, help="Measure this machine; in an MPI job, all ranks.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Write the devices, for cr.Devices.load.",
)
def devices(file: Path | None, measure: bool, output: Path | None) -> None:
    """Print devices: those of FILE, or the cores of this machine.

    Without --measure, their speeds are those of a known processor. mpiexec -n 4 chainrule devices
    --measure -o FILE.toml measures the links between four ranks, too: rank 0 prints and writes.
    """
    from chainrule.devices.job import launched
    from chainrule.devices.planning.devices import Devices
    from chainrule.devices.planning.measuring import here

    if measure and file is not None:
        raise click.UsageError("--measure measures this machine, and reads no file")
    is_first = (launched() or (0, 1))[0] == 0
    with ending_well():
        if output is not None:
            _refuse_unwritable(output, is_first)
        if measure:
            found = Devices.measure()
        else:
            found = here() if file is None else Devices.load(file)
        if is_first:
            click.echo(str(found))
            if output is not None:
                found.save(output)
                click.echo(f"\nwrote {output}")


def _refuse_unwritable(output: Path, is_first: bool) -> None:
    """InputError before anything is measured, where the first rank cannot write the file; the
    others end with it."""
    from chainrule.devices.job import launched
    from chainrule.explain.writing import refuse_unwritable

    refused = None
    if is_first:
        try:
            refuse_unwritable(output)
        except InputError as error:
            refused = error
    if launched() is not None:
        from chainrule.devices.mpi import join

        if join().exchange("opens the file", refused is not None)[0] and not is_first:
            raise click.exceptions.Exit(1)
    if refused is not None:
        raise refused
