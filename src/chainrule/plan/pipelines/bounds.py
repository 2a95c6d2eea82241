"""Below which time no schedule of a pipeline can be."""

from __future__ import annotations

import math

from chainrule.plan.pipelines.stages import Stages


def lower_bound(stages: Stages, memory_units: float) -> float:
    """Seconds that the longest span of a stage has at least, from its first start to its last end.

    A stage works all the time, at best.  In one chunk a stage, the first one also waits: for a
    later stage to have its first micro-batch, to do all forward and backward passes and the
    gradients of parameters that it cannot put off for want of memory, and for the last gradient to
    come back; and before its first backward pass, once its memory is full.
    """
    best = stages.busiest
    if stages.chunks > 1:
        return best
    m, first = stages.micro_batches, stages.forward[0]
    there = back = 0.0  # from the first stage to this one, and from this one to the first
    for stage in range(stages.count):
        each = m * (stages.forward[stage] + stages.backward[stage])
        forced = _forced(stages, memory_units) * stages.weights[stage]
        if stage:
            best = max(best, there + each + forced + back + stages.weights[0])
        there += stages.forward[stage] + stages.transfer[stage]
        back += stages.backward[stage] + stages.transfer[stage]
    last = stages.count - 1
    come_back = there + back - 2 * stages.transfer[last] - stages.backward[0]
    filled = min(m, math.floor(memory_units) if math.isfinite(memory_units) else m)
    return max(best, stages.work(0) + come_back - filled * first)


def _forced(stages: Stages, memory_units: float) -> int:
    """How many gradients of parameters a stage must have computed before its last forward pass.

    By then at most one micro-batch fewer than there are has been through the backward pass, and
    what is kept of those and the one that begins is within the memory.
    """
    others = stages.micro_batches - 1
    if stages.kept_units == 0 or not math.isfinite(memory_units):
        return 0
    return max(0, math.ceil(others - (memory_units - 1) / stages.kept_units - 1e-9))
