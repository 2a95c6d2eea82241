"""Schedules in closed form: the order of tasks on each stage.

GPipe (Huang and others, arXiv 1811.06965), 1F1B (PipeDream, arXiv 1806.03377), interleaved 1F1B
(Narayanan and others, arXiv 2104.04473), ZB-H1 and ZB-H2 (Qi and others, arXiv 2401.10241).
"""

from __future__ import annotations

from chainrule.plan.pipelines.stages import Kind, Orders, Stages, Task

Order = tuple[Task, ...]


def gpipe(stages: Stages) -> Orders:
    """All forward passes, then all backward passes."""
    each = range(stages.micro_batches)
    order = (
        *(Task(Kind.FORWARD, i) for i in each),
        *(Task(Kind.WHOLE_BACKWARD, i) for i in each),
    )
    return (order,) * stages.count


def one_forward_one_backward(stages: Stages) -> Orders:
    """As soon as a stage has its first backward pass, the two alternate."""
    forward = [Task(Kind.FORWARD, i) for i in range(stages.micro_batches)]
    backward = [Task(Kind.WHOLE_BACKWARD, i) for i in range(stages.micro_batches)]
    return tuple(
        _alternating(forward, backward, stages.count - stage - 1) for stage in range(stages.count)
    )


def interleaved(stages: Stages, group: int) -> Orders:
    """1F1B on several chunks a stage: each is done for `group` micro-batches before the next."""
    if stages.chunks == 1:
        return one_forward_one_backward(stages)
    forward: list[Task] = []
    backward: list[Task] = []
    for begin in range(0, stages.micro_batches, group):
        for chunk in range(stages.chunks):
            for i in range(begin, begin + group):
                forward.append(Task(Kind.FORWARD, i, chunk))
                backward.append(Task(Kind.WHOLE_BACKWARD, i, stages.chunks - 1 - chunk))
    return tuple(
        _alternating(
            forward, backward, 2 * (stages.count - stage - 1) + (stages.chunks - 1) * group
        )
        for stage in range(stages.count)
    )


def groups_of(stages: Stages) -> list[int]:
    """How many micro-batches may take a chunk one after the other, from few to many: it divides
    them, and no stage waits for the others' work on them."""
    count = stages.micro_batches
    return [one for one in range(1, count + 1) if count % one == 0 and one >= stages.count] or [
        count
    ]


def hides_messages(stages: Stages, group: int) -> bool:
    """Whether the first of a group has come round before the last has begun."""
    once_round = sum(stages.seconds(stage, Kind.FORWARD) for stage in range(stages.count))
    longest = max(stages.seconds(stage, Kind.FORWARD) for stage in range(stages.count))
    return group * longest >= once_round + sum(stages.transfer)


def _alternating(forward: list[Task], backward: list[Task], ahead: int) -> Order:
    """So many forward passes, then one and a backward pass by turns."""
    order = forward[:ahead]
    for at, task in enumerate(backward):
        order += [*forward[ahead + at : ahead + at + 1], task]
    return tuple(order)


def zero_bubble_1(stages: Stages) -> Orders:
    """ZB-H1: 1F1B in which gradients of parameters wait, as many as memory of 1F1B allows."""
    return tuple(
        _parted(stages, stages.count - stage - 1, late=stage) for stage in range(stages.count)
    )


def zero_bubble_2(stages: Stages) -> Orders:
    """ZB-H2: more forward passes first, so that no stage waits while the pipeline fills."""
    return tuple(
        _parted(stages, 2 * (stages.count - stage - 1), late=2 * stage)
        for stage in range(stages.count)
    )


def _parted(stages: Stages, ahead: int, late: int) -> Order:
    """So many forward passes, then a forward pass, a backward pass, and the gradients of the
    parameters of an earlier micro-batch, by turns."""
    each = range(stages.micro_batches)
    order: list[Task] = [Task(Kind.FORWARD, i) for i in each[:ahead]]
    for i in each:
        order += [Task(Kind.FORWARD, one) for one in each[ahead + i : ahead + i + 1]]
        order.append(Task(Kind.BACKWARD, i))
        if i >= late:
            order.append(Task(Kind.WEIGHTS, i - late))
    order += [Task(Kind.WEIGHTS, i) for i in each[max(stages.micro_batches - late, 0) :]]
    return tuple(order)
