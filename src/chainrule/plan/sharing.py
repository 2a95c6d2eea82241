"""How many threads share a piece of work: as many as there are, where it is worth it.

The estimates here serve this decision alone, which is the same for every processor; what is told
and weighed otherwise is that of `duration`.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from chainrule.dataclass import dataclass, replace
from chainrule.plan.loops.loop_work import LoopNest
from chainrule.plan.loops.sweeps import cost
from chainrule.plan.products.contraction import Gemm

# What is worth a second thread, in nanoseconds on one thread: sharing costs about 1,000.
WORTH_SHARING = 4000.0
OPERATIONS_EACH_NANOSECOND = 60.0  # elementwise, in vectors of 64 bytes
BYTES_EACH_NANOSECOND = 25.0
FLOPS_EACH_NANOSECOND = 120.0  # of a large product in float32, on a core of a Zen 4


@dataclass(frozen=True)
class Sharing:
    """The decision for one loop nest or product: in how many parts it is cut, one a thread.

    `nanoseconds` is about how long it takes on one thread.  `obstacle` is why one thread does it
    though it is long enough, in a few words; "" if that is not so.
    """

    parts: int
    nanoseconds: float
    obstacle: str = ""

    def at_most(self, parts: int) -> Sharing:
        """The same work in no more parts than these."""
        return replace(self, parts=min(parts, self.parts))

    def prevented(self, obstacle: str) -> Sharing:
        """The same work on one thread, if it was to be shared."""
        return replace(self, parts=1, obstacle=obstacle) if self.parts > 1 else self


def sharing(nanoseconds: float, threads: int) -> Sharing:
    """The decision for work of so many nanoseconds, where there are so many threads."""
    return Sharing(threads if nanoseconds > WORTH_SHARING else 1, nanoseconds)


@lru_cache(maxsize=4096)
def busiest(units: int, parts: int, threads: int) -> float:
    """What of so many equal units of work the thread does that does most, where they are cut evenly
    into parts and each thread takes the next one when it has done with its own."""
    done = [0] * threads
    for part in range(parts):
        size = (part + 1) * units // parts - part * units // parts
        done[done.index(min(done))] += size
    return max(done) / units


def nest_nanoseconds(nest: LoopNest) -> float:
    """About how long a nest takes on one thread."""
    points = prod(nest.rows) * prod(nest.columns)
    rows = prod(nest.rows)
    inner = sum(cost(one) for one in nest.instances if one.inner)
    outer = sum(cost(one) for one in nest.instances if not one.inner and not one.uniform)
    nbytes = sum(prod(node.shape) * node.dtype.itemsize for node in nest.reads)
    nbytes += sum(prod(s.node.shape) * s.node.dtype.itemsize for s in nest.stores)
    work = points * max(inner, 1) / OPERATIONS_EACH_NANOSECOND
    return max(work, nbytes / BYTES_EACH_NANOSECOND) + rows * (outer * 0.5 + 2)


def product_nanoseconds(gemm: Gemm) -> float:
    """About how long a product takes on one thread."""
    return gemm.flops / FLOPS_EACH_NANOSECOND
