"""Measures when devices do which operation of a program: JAX's profiler, read while it is fresh.

The profile names XLA's instructions; the text of the compiled program says for which nodes each of
them was made.  The profiler's clock is brought to that of `perf_counter` by an event of our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from chainrule.errors import InputError, UnsupportedError
from chainrule.execute.across import Operation
from chainrule.execute.xla.jax_here import jax_here
from chainrule.execute.xla.text_of_program import Made, instructions
from chainrule.graph.node import Node

Found = TypeVar("Found")

BEGUN = "chainrule begins"  # an event that is noted when our clock is read
AROUND = {"while", "conditional", "call", "async-start", "async-done"}  # others have events in them
TOGETHER = re.compile(r"(all-reduce|all-gather|reduce-scatter)(-start|-done)?")
MODULE = re.compile(r"HloModule ([\w.\-]+)")
DEVICE = re.compile(r"/device:\w+:(\d+)")


class Event(NamedTuple):
    """An instruction done by a device, in nanoseconds of the profiler; `run` tells runs apart."""

    device: int
    name: str
    start: float
    end: float
    run: Any


def profiled(run: Callable[[], Found]) -> tuple[Found, Any, float]:
    """What a function gives, the profile of JAX while it ran, and what its clock is behind ours.

    UnsupportedError for a JAX that cannot read profiles; InputError where somebody else profiles.
    """
    profiler = jax_here().profiler
    if not hasattr(profiler, "ProfileData") or not hasattr(profiler, "ProfileOptions"):
        raise UnsupportedError(
            f"JAX {jax_here().__version__} cannot read its own profiles",
            hint="a later version of jax",
        )
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    with TemporaryDirectory() as folder:
        try:
            profiler.start_trace(folder, profiler_options=options)
        except RuntimeError as error:
            raise InputError(
                f"JAX profiles this process already: {error}",
                hint="jax.profiler.stop_trace() before a step is traced",
            ) from error
        try:
            with profiler.TraceAnnotation(BEGUN):
                begun = perf_counter()
            found = run()
        finally:
            profiler.stop_trace()
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = profiler.ProfileData.from_file(str(file))
    starts = [
        event.start_ns
        for plane in data.planes
        for line in plane.lines
        for event in line.events
        if event.name == BEGUN
    ]
    return found, data, begun - starts[0] / 1e9


def operations(
    data: Any, late: float, text: str, nodes: Sequence[Node], ranks: Mapping[int, int]
) -> list[Operation]:
    """What the devices of this process did in the one run of a program that a profile shows.

    `text` is XLA's of the program, `nodes` are by the numbers under which they were traced, and
    `ranks` gives the place of a device in the grid by what the profile calls it.
    """
    made = {one.name: one for one in instructions(text)}
    module = MODULE.match(text)
    events = [one for one in _events(data, module and module[1], made) if one.device in ranks]
    if len({one.run for one in events}) > 1:
        raise InputError(
            "the step was taken, and other ones ran meanwhile: a profile does not tell them apart",
            hint="trace a step while no other thread takes one",
        )
    missing = {*ranks.values()} - {ranks[one.device] for one in events}
    if missing:
        raise UnsupportedError(
            f"the step was taken, and JAX's profile has no operations of {len(missing)} of its "
            f"devices ({jax_here().default_backend()})",
            hint="CHAINRULE_TRANSPORT=threads in the environment: ranks are then threads",
        )
    return [
        Operation(
            ranks[one.device],
            one.name,
            tuple([nodes[number] for number in made[one.name].nodes]),
            TOGETHER.fullmatch(made[one.name].opcode) is not None,
            one.start / 1e9 + late,
            one.end / 1e9 + late,
        )
        for one in sorted(events, key=lambda one: (one.device, one.start, -one.end))
    ]


def _events(data: Any, module: str | None, made: Mapping[str, Made]) -> Iterator[Event]:
    """The instructions of a module that devices did."""
    for plane in data.planes:
        of_plane = DEVICE.match(plane.name)
        for line in plane.lines:
            for event in line.events:
                stats = {key: value for key, value in event.stats if key}
                own = stats.get("hlo_module") == module
                known = made.get(str(stats.get("hlo_op"))) if own else None
                device = stats.get("device_ordinal", of_plane and int(of_plane[1]))
                if known is None or known.opcode in AROUND or device is None:
                    continue
                start = event.start_ns
                run = stats.get("run_id")
                yield Event(int(device), known.name, start, start + event.duration_ns, run)
