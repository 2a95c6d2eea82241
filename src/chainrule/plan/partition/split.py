"""The way in: the best split of a graph over devices, with a lower bound, or a refusal.

Every answer is checked by the plain count of `loads.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError, MemoryLimitError
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.partition.anywhere import anywhere
from chainrule.plan.partition.loads import Stages, bytes_of, fault, loads
from chainrule.plan.partition.parts import parts_of
from chainrule.plan.partition.problem import Problem, problem
from chainrule.plan.partition.search import Contiguous
from chainrule.tracebacks import entry


@dataclass(frozen=True)
class Split(ShownByText):
    """Which nodes lie on which device.

    `stages[d]` are the nodes of device d, in ascending order; hosts come behind the devices.
    `order` are the devices that have nodes, in the order in which data flows through the forward
    part, or () where a split need not be contiguous.  `loads` and `nbytes` are those of each
    device, `load` is the largest load.  `lower_bound` is proved: no split has a smaller load.
    `strategy` says how the split was found.
    """

    stages: Stages
    order: tuple[int, ...]
    loads: tuple[float, ...]
    nbytes: tuple[int, ...]
    lower_bound: float
    strategy: str

    @property
    def load(self) -> float:
        """The largest load of a device."""
        return max(self.loads)

    @property
    def gap(self) -> float:
        """By which fraction of the lower bound the load is above it: the best is in between."""
        above = self.load - self.lower_bound
        return above / self.lower_bound if above else 0.0

    @property
    def proved_optimal(self) -> bool:
        """Whether it is known that no split has a smaller load."""
        return self.load <= self.lower_bound

    def __str__(self) -> str:
        used = sum(bool(nodes) for nodes in self.stages)
        proof = "proved optimal" if self.proved_optimal else f"at least {self.lower_bound:.6g}"
        return (
            f"{sum(map(len, self.stages))} nodes on {used} of {len(self.stages)} devices, "
            f"load {self.load:.6g} ({proof}): {self.strategy}"
        )


@entry
def split(
    seconds: Sequence[float],
    nbytes: Sequence[int],
    edges: Iterable[tuple[int, int]],
    transfer_seconds: Sequence[float],
    devices: int,
    memory_nbytes: int | Sequence[int],
    *,
    backward: Iterable[int] = (),
    together: Iterable[Iterable[int]] = (),
    hosts: int = 0,
    host_seconds: Sequence[float] | None = None,
    contiguous: bool = True,
    search_seconds: float = 60.0,
    seed: int = 0,
) -> Split:
    """The split of a graph over devices whose largest load is least.

    Node v takes `seconds[v]` and needs `nbytes[v]`; (u, v) of `edges` says that v reads u.  The
    load of a device is the time of its nodes, and `transfer_seconds[u]` for each value u that
    leaves it for other devices (once, however many), and for each that enters it (once, however
    many read it).  The nodes of a device have at most `memory_nbytes`: one number for all
    devices, or one for each.  Nodes of a group of `together` lie on one device.

    A split is contiguous if the devices have an order in which every value is read where it is
    made or later.  In training, that is asked of the forward part.  Nodes of `backward` mirror
    it: they lie where the forward nodes of their group lie, and those without such a group on a
    device that is not behind those of the backward nodes that they read.

    Besides the devices, there are `hosts`, on which node v takes `host_seconds[v]`: their memory
    has no limit, and transfers cost them nothing (devices pay for what comes from them and goes
    to them).

    A contiguous split is found by dynamic programming over all down-sets of the graph, and proved
    the best but for rounding.  If these are too many, or take longer than `search_seconds`, it is
    the best of some; `proved_optimal` says which.  With `contiguous=False`, simulated annealing
    goes on from there: the same numbers and `seed` give the same split, unless the time ends it.

    InputError for numbers that describe no graph.  MemoryLimitError where the nodes do not fit;
    where its `needed_nbytes` is not 0, a split is known for devices with so many bytes each.
    Source of the load and of the dynamic programme: Tarnawski et al., Efficient Algorithms for
    Device Placement of DNN Graph Operators (NeurIPS 2020), sections 3 and 5.1.
    """
    asked = problem(
        seconds,
        nbytes,
        edges,
        transfer_seconds,
        devices,
        memory_nbytes,
        backward=backward,
        together=together,
        hosts=hosts,
        host_seconds=host_seconds,
    )
    if not search_seconds >= 0:
        raise InputError(f"search_seconds is {search_seconds}", hint="a time in seconds, 0 or more")
    return _answer(asked, contiguous, monotonic() + search_seconds, seed)


def _answer(asked: Problem, contiguous: bool, deadline: float, seed: int) -> Split:
    _check_memory(asked, contiguous)
    search = Contiguous(asked, deadline)
    found = search.run()
    if not contiguous:
        found = anywhere(asked, found, deadline, seed)
    if found is None:
        raise _refusal(asked, contiguous, search.is_complete)
    fails = fault(asked, found.stages, found.order if contiguous else None)
    assert fails is None, fails
    return Split(
        found.stages,
        found.order if contiguous else (),
        loads(asked, found.stages),
        bytes_of(asked, found.stages),
        found.bound,
        found.strategy,
    )


def _check_memory(asked: Problem, contiguous: bool) -> None:
    """MemoryLimitError for nodes that fit on no device, or are too many for all."""
    if asked.hosts:
        return
    largest = max(asked.memory_nbytes)
    whole = replace(asked, memory_nbytes=(0,))  # no part is merged for being small
    parts = parts_of(whole, contiguous)
    for nodes, held in zip(parts.nodes, parts.nbytes, strict=True):
        if held > largest:
            which = (
                f"node {nodes[0]} has"
                if len(nodes) == 1
                else f"nodes {_listed(nodes)} lie together and have"
            )
            error = MemoryLimitError(
                f"{which} {held:,} bytes, and the largest device {largest:,}",
                hint=f"a device of {held:,} bytes or more"
                + ", or smaller groups" * (len(nodes) > 1),
            )
            error.free_nbytes, error.source = largest, "memory_nbytes"
            raise error
    total, room = sum(asked.nbytes), sum(asked.memory_nbytes)
    if total > room:
        raise _too_small(
            asked, f"the nodes have {total:,} bytes, and all devices together {room:,}"
        )


def _listed(nodes: Sequence[int]) -> str:
    shown = ", ".join(map(str, nodes[:6]))
    return f"{shown} and {len(nodes) - 6} more" if len(nodes) > 6 else shown


def _refusal(asked: Problem, contiguous: bool, is_complete: bool) -> MemoryLimitError:
    if contiguous and is_complete:
        return _too_small(asked, "no contiguous split fits into the devices' memory")
    kind = "contiguous split" if contiguous else "split"
    return _too_small(asked, f"no {kind} that fits into the devices' memory was found")


def _too_small(asked: Problem, what: str) -> MemoryLimitError:
    """The refusal, with bytes for which a split is known: the one with the least bytes on a
    device."""
    zeros = (0.0,) * asked.size
    balanced = replace(
        asked,
        seconds=tuple(map(float, asked.nbytes)),
        transfer_seconds=zeros,
        memory_nbytes=(1 << 62,) * len(asked.memory_nbytes),
    )
    search = Contiguous(balanced, monotonic() + 5.0)
    found = search.run()
    assert found is not None
    needed = max(bytes_of(asked, found.stages))
    error = MemoryLimitError(
        what,
        hint=f"devices of {needed:,} bytes each, for which a contiguous split is known, "
        "or more devices",
    )
    error.needed_nbytes, error.free_nbytes = needed, max(asked.memory_nbytes)
    error.source = "memory_nbytes"
    return error
