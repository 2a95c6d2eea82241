"""Joins processes whose devices run one program: JAX's own service, told who they are."""

from __future__ import annotations

import os

from chainrule.errors import StateError
from chainrule.execute.xla.jax_here import jax_here

VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
LOOPBACK = "127.0.0.1"
START_SECONDS = 60  # that processes wait for the others to start


def join(address: str, rank: int, count: int, device: int) -> None:
    """See `Spreading.join`.

    JAX's handler of SIGTERM stays off: signals are the caller's.  Who notices that a process has
    died is the caller, too; JAX itself would need its heartbeat, 100 seconds.  On one machine
    nobody else can connect: JAX asks nobody who they are.
    """
    jax = jax_here()
    if jax.distributed.is_initialized():  # by the user's file
        found = jax.process_index(), jax.process_count()
        if found != (rank, count):
            raise StateError(
                f"JAX was told that this process is {found[0]} of {found[1]}, and it is rank "
                f"{rank} of {count}",
                hint="leave jax.distributed.initialize out: cr.parallel calls it",
            )
        return
    jax.config.update("jax_enable_preemption_service", False)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address,
            count,
            rank,
            local_device_ids=[own_number(device)],
            coordinator_bind_address=address if address.startswith(LOOPBACK) else None,
            cluster_detection_method="deactivate",
            initialization_timeout=START_SECONDS,
        )
    except RuntimeError as error:
        raise StateError(
            f"JAX cannot join {count} processes: {error}",
            hint="call cr.parallel before anything of JAX runs in this process",
        ) from error


def own_number(device: int) -> int:
    """The number of a device among those that the environment shows this process: whoever started
    it may have given it one of its own."""
    for name in VISIBLE:
        shown = os.environ.get(name, "")
        if shown:
            return device % len(shown.split(","))
    return device
