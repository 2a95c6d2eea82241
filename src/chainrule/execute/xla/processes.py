"""Joins processes whose devices run one program: JAX's own service, told who they are."""

from __future__ import annotations

from chainrule.errors import StateError
from chainrule.execute.xla.jax_here import jax_here

START_SECONDS = 60  # that processes wait for the others to start


def join(address: str, rank: int, count: int, device: int) -> None:
    """See `Spreading.join`.

    JAX's handler of SIGTERM stays off: signals are the caller's.  Who notices that a process has
    died is the caller, too; JAX itself would need its heartbeat, 100 seconds.
    """
    jax = jax_here()
    jax.config.update("jax_enable_preemption_service", False)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address,
            count,
            rank,
            local_device_ids=[device],
            cluster_detection_method="deactivate",
            initialization_timeout=START_SECONDS,
        )
    except RuntimeError as error:
        raise StateError(
            f"JAX cannot join {count} processes: {error}",
            hint="call cr.parallel before anything of JAX runs in this process",
        ) from error
