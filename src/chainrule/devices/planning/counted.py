"""A bare number of devices: so many of this machine's, as the executor of a step has them."""

from __future__ import annotations

from operator import index
from typing import Any

from chainrule.devices.job import launched
from chainrule.devices.one_program import refuse_more_devices, spreads
from chainrule.devices.planning.devices import Devices, count_of
from chainrule.errors import InputError
from chainrule.execute.across import Spreading
from chainrule.execute.executors import executor_of


def devices_of(devices: Any, executor: str, stages: Any) -> Devices:
    """`devices`, or so many of this machine's: ranks of this process, the ranks of its job, or, of
    an executor that runs plans of one stage as one program, its devices, with the memory that they
    have of their own.

    InputError for what is neither, and for more than there are.
    """
    if isinstance(devices, Devices):
        return devices
    count = _counted(devices)
    job = launched()
    if job is not None and job[1] != count:
        raise InputError(
            f"devices={count}, and this job has {job[1]} ranks",
            hint=f"devices={job[1]}, or chainrule run -n {count}",
        )
    memory = None
    found = executor_of(executor)
    if stages in (None, 1) and spreads(executor) and isinstance(found, Spreading):
        if job is None:
            refuse_more_devices(executor, count, f"devices={count}")
        memory = found.device_memory()
    return Devices.cpu(count, memory=memory)


def _counted(devices: Any) -> int:
    """An integer of 1 or more."""
    try:
        index(devices)
    except TypeError:
        raise InputError(
            f"the devices of cr.parallel are {type(devices).__name__} {devices!r:.40}",
            hint='4, so many of this machine; cr.Devices.cpu(4, memory="2 GiB"); or '
            'cr.Devices.load("cluster.toml")',
        ) from None
    return count_of(devices, "the number of devices")
