"""Says on which rank a value lies, and why there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from chainrule.devices.instructions import Run
from chainrule.devices.keeping import computed_again
from chainrule.devices.reports.summary import sizes_or_latest, split_shown, work_of_stages
from chainrule.devices.stages import MEMORY
from chainrule.devices.tensor.collectives import REPLICAS, is_collective
from chainrule.errors import InputError
from chainrule.graph.node import Node
from chainrule.graph.words import printable
from chainrule.plan.pipelines.stages import is_kept
from chainrule.primitives.sources import input_

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split


def reason(step: ParallelStep, name: str, given: Mapping[str, int]) -> str:
    """See `ParallelStep.why`."""
    if not isinstance(name, str):
        raise InputError(
            f"split.why takes the name of a value, got {type(name).__name__}",
            hint=f"split.why({step.parts.whole.parameters[0]!r})",
        )
    sizes, assumed = sizes_or_latest(step, given)
    split = split_shown(step, sizes, assumed, "why")
    at = ", ".join(f"{size} = {number}" for size, number in sizes.items())
    words = _Why(step, split).words(name)
    if assumed:
        words += f" (assumed: {at})"
    return words if step.candidates is None else f"{words}. {step.candidates.why()}"


class _Why:
    def __init__(self, step: ParallelStep, split: Split) -> None:
        self.step, self.split, self.placed = step, split, split.placed

    def words(self, name: str) -> str:
        """One or two sentences; NameLookupError for an unknown name."""
        said = printable(name)
        state = {one.name: one for one in self.step.parts.updating.persistent}
        part = state.get(name)
        if part is not None and part.name not in self.step.parts.whole.parameters:
            if part.is_carried:
                return self._carried(said, self.split.graph[name])
            if part.parameter is None:
                return f"{said} belongs to no parameter: it is updated on {self._where([0])}"
            cuts = dict(self.split.lying.cuts.get(name, ()))
            share = ""
            if REPLICAS in cuts:
                share = f", and each replica has a part of it along axis {cuts[REPLICAS]}"
            return f"{said} lies where its parameter is{share}: {self.words(part.parameter)}"
        graph = self.split.graph
        if name not in graph.names and name in self.step.parts.updating.graph.names:
            return self._of_update(said, name)
        if name not in graph.names:
            raise graph.unknown_name(name)
        node = graph[name]
        if node in self.placed.owner:
            return self._owned(said, node)
        if node in self.placed.everywhere:
            return (
                f"{said} is on every rank that needs it: it is made of constants and numbers "
                "alone, and each computes it for itself"
            )
        if node.primitive is input_:
            stages = self._readers(node)
            return (
                f"{said} is data: {self._where(stages)} {_read(stages)} it, and "
                f"{_gets(stages)} the parts of its replica"
            )
        if node in self.placed.forward:
            return self._forward(said, node)
        return self._backward(said, node) + self._on_shards(node)

    def _of_update(self, said: str, name: str) -> str:
        """Of a value of the update: a number of the optimizer, or what is computed."""
        updating = self.step.parts.updating
        ranks = [
            program.rank
            for program in self.split.programs
            if any(
                isinstance(one, Run)
                and one.micro_batch is None
                and name in self.split.pieces[one.piece].graph.names
                for one in program.instructions
            )
        ]
        where = _ranks(ranks)
        if any(item.name == name for item in updating.graph.inputs):
            does = "updates by it, has" if len(ranks) == 1 else "update by it, have"
            return f"{said} is a number of the optimizer: {where}, which {does} it"
        return f"{said} is computed in the update, on {where}"

    def _owned(self, said: str, node: Node) -> str:
        stage = self.placed.owner[node]
        readers = self._readers(node)
        forward = [one for one in readers if one in self._readers(node, backward=False)]
        if not forward:
            return f"{said} lies on {self._where([stage])}, where it is added up"
        first = next(
            (
                self._named(one)
                for one, at in self.placed.forward.items()
                if at == stage and node in one.inputs
            ),
            "",
        )
        of = f" for {first}" if first else ""
        does = f"reads it{of}" if stage in forward else "computes a part of its gradient"
        words = f"{said} lies on {self._where([stage])}, the first stage that {does}; it is updated"
        words += " there"
        others = self._elsewhere(readers, stage)
        if others:
            words += f", and sent to {self._where(others)} at the beginning of each step"
        return words + self._split(said)

    def _carried(self, said: str, node: Node) -> str:
        stage = self.placed.owner[node]
        words = (
            f"{said} is state that the objective carries: it lies on {self._where([stage])}, where "
            "what follows it is computed"
        )
        others = self._elsewhere(self._readers(node), stage)
        if others:
            words += f"; each micro-batch sends it to {self._where(others)}, which {_read(others)}"
            words += " it"
        if self.step.replicas > 1:
            words += "; each replica goes on from what the one before it leaves"
        return words

    def _split(self, name: str) -> str:
        """Along which axis a parameter is split, and why."""
        if self.step.ways == 1:
            return ""
        cuts = self.split.lying.cuts.get(name, ())
        if not cuts:
            return f"; each of {self.step.ways} shards has all of it"
        reason = self.split.reasons.get(name, "")
        return f"; {self.step.ways} shards have parts of it along axis {cuts[0][1]}: {reason}"

    def _forward(self, said: str, node: Node) -> str:
        stage = self.placed.forward[node]
        words = f"{said} is computed on {self._where([stage])}: {self._cut(stage)}"
        others = self._elsewhere(self._readers(node), stage)
        if others:
            words += f"; it is sent to {self._where(others)}, which {_read(others)} it"
        if self._is_computed_again(node, stage):
            words += "; it is not kept, but computed again before the backward pass"
        return words + self._on_shards(node)

    def _elsewhere(self, readers: Collection[int], stage: int) -> list[int]:
        """Those that are on the ranks of another stage."""
        stage_with = self.step.grid.stage_with
        return [one for one in readers if stage_with(one) != stage_with(stage)]

    def _on_shards(self, node: Node) -> str:
        """How the shards of a stage have a value."""
        layout = self.split.layouts.get(node)
        if layout is None:
            return ""
        if layout.axis is not None:
            return f"; each of {self.step.ways} shards has its part along axis {layout.axis}"
        ways = "adds it up with" if is_collective(node) else "has all of it, as"
        return f"; each of {self.step.ways} shards {ways} the others"

    def _is_computed_again(self, node: Node, stage: int) -> bool:
        number, at = divmod(stage, self.step.stages)
        if not self.step.recompute or not is_kept(self.step.orders[at], number):
            return False
        here = {one for one, at in self.placed.forward.items() if at == stage}
        backward = [one for one, at in self.placed.backward.items() if at == stage]
        read = here.intersection(parent for one in backward for parent in one.inputs)
        return node in computed_again(read, here, self.split.kept)

    def _cut(self, stage: int) -> str:
        step = self.step
        if step.grid.all_chunks == 1:
            return "there is one stage"
        if step.ends is not None:
            before = f"after {printable(step.ends[stage - 1])}" if stage else "from the beginning"
            until = f" to {printable(step.ends[stage])}" if stage < len(step.ends) else ""
            what = "stage" if step.chunks == 1 else "chunk"
            return f"you said stages={step.ends!r}, and this {what} goes {before}{until}"
        what = "stages" if step.chunks == 1 else "chunks of stages"
        if step.balance == MEMORY:
            return f"{what} are cut where the one with most bytes has least"
        work, at = work_of_stages(self.split), step.grid.stage_with(stage)
        share = 100 * work[at] / (sum(work) or 1.0)
        which = "this one" if step.chunks == 1 else f"stage {at}"
        return (
            f"{what} are cut where the busiest has least to do, and {which} has {share:.0f} % of "
            "the work"
        )

    def _backward(self, said: str, node: Node) -> str:
        stage = self.placed.backward[node]
        source, where = node.origin.node, self._where([stage])
        held = next((one for one in node.inputs if one in self.placed.owner), None)
        if held is not None and held.primitive is input_ and self._is_sum(held):
            return f"{said} is computed on {where}, where {self._named(held)} lies"
        if node in self.placed.moved:
            return (
                f"{said} is computed on {where}, the earlier side of the cut that it goes back "
                "over: a step takes less time then"
            )
        of = self._named(source) if source is not None else ""
        if of and self._place(source) == stage:
            return (
                f"{said} is computed on {where}: a stage does the backward pass of what it does "
                f"forward, here of {of}"
            )
        return f"{said} is computed on {where}, no later than what it is made of allows"

    def _is_sum(self, node: Node) -> bool:
        sums = {one.name for one in self.step.parts.accumulating.persistent}
        return self.split.name_of.get(node) in sums

    def _place(self, node: Node | None) -> int | None:
        if node is None:
            return None
        return self.placed.forward.get(node, self.placed.owner.get(node))

    def _named(self, node: Node) -> str:
        """The user's name of a value, or of the first one that is made of it."""
        named = self.split.name_of
        seen, pending = {node}, [node]
        for one in pending:
            if one in named:
                return printable(named[one])
            for user in self.placed.forward:
                if user not in seen and one in user.inputs:
                    seen.add(user)
                    pending.append(user)
        return ""

    def _readers(self, node: Node, *, backward: bool = True) -> list[int]:
        """The stages that read a value."""
        passes = [self.placed.forward, *([self.placed.backward] if backward else [])]
        return sorted({at for one in passes for user, at in one.items() if node in user.inputs})

    def _where(self, stages: Collection[int]) -> str:
        """`stage 1 (rank 1, 3)`; of a chunk, `stage 1.0 (rank 1, 3)`."""
        grid = self.step.grid
        places = sorted({grid.stage_with(one) for one in stages})
        ranks = sorted(rank for stage in places for rank in grid.of_stage(stage))
        numbers = " and ".join(map(grid.label, stages))
        return f"stage{'' if len(stages) == 1 else 's'} {numbers or 'none'} ({_ranks(ranks)})"


def _ranks(ranks: Sequence[int]) -> str:
    told = ", ".join(map(str, ranks[:4])) + (", ..." if len(ranks) > 4 else "")
    return f"rank{'' if len(ranks) == 1 else 's'} {told or 'none'}"


def _read(stages: Collection[int]) -> str:
    return "reads" if len(stages) == 1 else "read"


def _gets(stages: Collection[int]) -> str:
    return "gets" if len(stages) == 1 else "get"
