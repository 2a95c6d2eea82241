"""Takes a step as one program whose devices each have a process: the ranks of a job.

MPI is what ranks agree by: who they are, which step they take, on which batch, and who has failed.
The arrays go through the program.
"""

from __future__ import annotations

import atexit
import socket
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.given import numbers_of
from chainrule.devices.job import folder
from chainrule.devices.mpi import World, join
from chainrule.devices.one_program import Recording, bound_to
from chainrule.devices.processes import begun
from chainrule.errors import ChainruleError
from chainrule.execute.across import Spreading
from chainrule.execute.executors import executor_of
from chainrule.train.step.state import State

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.splitting import Split

STARTING = 60.0  # seconds beyond the deadline in which a rank may import what runs its devices
COMPILING = 600.0  # the same for ranks that compile longer than others
GRACE = 1.0  # seconds in which whoever started the ranks ends all of them where one has died


@cache
def join_devices(executor: str) -> None:
    """Lets the devices of all ranks run programs together: each rank has one, that of its number
    among the ranks on its machine.  All ranks call it."""
    found = executor_of(executor)
    assert isinstance(found, Spreading)
    world = join()
    own = world.ranks[world.rank]
    before = [one for one in world.ranks[: world.rank] if one.host == own.host]
    address = world.exchange("joins its devices", _address(world) if not world.rank else "")[0]
    world.watch.begin(lambda: "joins its devices with those of the other ranks", STARTING)
    try:
        found.join(address, world.rank, world.count, len(before))
    finally:
        world.watch.end()
    # A rank that ends says so before it waits for the others to leave the program.
    atexit.unregister(world.close)
    atexit.register(world.close)


def _address(world: World) -> str:
    """Where the first rank can listen, now."""
    alone = len({one.host for one in world.ranks}) == 1
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    return f"{'127.0.0.1' if alone else world.ranks[0].host}:{port}"


def take_as_rank(
    step: ParallelStep,
    split: Split,
    state: State,
    arrays: Mapping[str, np.ndarray],
    given: Mapping[str, Any],
    recording: Recording | None = None,
) -> Any:
    """The objective after a step that all ranks take; None on all of them where the program failed.

    InputError on all ranks where they were given different steps, batches, numbers or states.
    """
    world, where, step_number = join(), folder(), state.steps + 1
    numbers = numbers_of(step.parts, given)
    batch = [array for _, array in sorted(arrays.items())]
    begun(world, split, state, numbers, batch)
    is_new = split not in state.bound
    bound = bound_to(step, split, state)
    if is_new:
        if where is not None:
            where.note(f"compiles step {step_number}")
        bound.compile()
        world.exchange("has compiled its program", 0, COMPILING)
    if where is not None:
        where.note(f"is in step {step_number}, which is one program of {world.count} ranks")
    world.watch.begin(lambda: f"is in step {step_number} with all other ranks")
    try:
        return bound(arrays, given, recording)
    except ChainruleError:
        world.broken = bound
        time.sleep(GRACE)  # where another rank has died, that is why
        raise
    finally:
        world.watch.end()
        if where is not None:
            where.note(f"has done its part of step {step_number}")
