"""The bytes that a program takes, as XLA says, and the refusal of one that does not fit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, EvaluationError, MemoryLimitError
from chainrule.execute.free_memory import SWITCH, VARIABLE, refuse_beyond_free
from chainrule.execute.xla.ahead import has_own_memory
from chainrule.execute.xla.jax_here import jax_here, refuse_traced
from chainrule.execute.xla.landing import is_copied, spare

ARGUMENTS, RESULTS, IN_PLACE, SCRATCH = "arguments", "results", "in place of arguments", "scratch"


def analysed(compiled: Any) -> dict[str, int]:
    """The bytes of a compiled program by what they are: XLA's own analysis.

    `in place of arguments` are those of results that take the memory of arguments.
    """
    found = compiled.memory_analysis()
    if found is None:  # some backends have none
        return {}
    return {
        ARGUMENTS: int(found.argument_size_in_bytes),
        RESULTS: int(found.output_size_in_bytes),
        IN_PLACE: int(found.alias_size_in_bytes),
        SCRATCH: int(found.temp_size_in_bytes),
    }


def beside_arguments(nbytes: Mapping[str, int]) -> int:
    """What a call allocates: results, but for those in place, and scratch."""
    return nbytes.get(RESULTS, 0) - nbytes.get(IN_PLACE, 0) + nbytes.get(SCRATCH, 0)


def copied_nbytes(arrays: Iterable[Any]) -> int:
    """The bytes of arguments that are copied for a call: those that are not on the device, or on a
    CPU do not lie as JAX reads them."""
    own = has_own_memory()
    given = [one for one in arrays if isinstance(one, np.ndarray)]
    return sum([one.nbytes for one in given if own or is_copied(one)])


@cache
def device_with_memory() -> Any:
    """The device that programs run on, if it has memory of its own and tells how much."""
    device = jax_here().local_devices()[0]
    return device if "bytes_limit" in (device.memory_stats() or {}) else None


def device_failed(error: Exception) -> ChainruleError:
    """What to raise where the device failed, and not the program.  UnsupportedError where nothing
    ran: JAX traces a function that calls it."""
    if "Disallowed" in str(error) and "transfer" in str(error):
        return EvaluationError(
            f"JAX is set to refuse that arrays are sent: {error}",
            hint='with jax.transfer_guard("allow"): around the call',
        )
    refuse_traced()
    if "RESOURCE_EXHAUSTED" in str(error):
        return MemoryLimitError(
            f"the device has no memory left: {error}",
            hint="make the sizes smaller; graph.memory() says what a run needs",
        )
    return EvaluationError(
        f"the device failed: {error}", hint='executor="reference" computes without it'
    )


def refuse_beyond_device(nbytes: int) -> None:
    """MemoryLimitError if a run, which is about to allocate so many bytes, cannot have them.

    Of a device with memory of its own, as far as it tells; else of this machine.
    """
    device = device_with_memory()
    if device is None:
        try:
            refuse_beyond_free(nbytes)
        except MemoryLimitError:
            spare.drop()
            refuse_beyond_free(nbytes)
        return
    stats = device.memory_stats()
    free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    if nbytes <= free or os.environ.get(VARIABLE) == "0":
        return
    source = f"on {device.device_kind}"
    error = MemoryLimitError(
        f"a run needs {nbytes:,} bytes beside its arguments, and {free:,} are free ({source})",
        hint=SWITCH,
    )
    error.needed_nbytes, error.free_nbytes, error.source = nbytes, free, source
    raise error
