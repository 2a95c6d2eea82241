"""Compiles a graph in ways that need less and less, until one is within a budget.

The planner says what is computed again, and when; how much that needs, XLA's compiler says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.errors import MemoryLimitError, UnsupportedError
from chainrule.execute.xla.code import Code
from chainrule.execute.xla.memory import ARGUMENTS, IN_PLACE, RESULTS, SCRATCH
from chainrule.execute.xla.parts import InParts, parts_of
from chainrule.graph.body import Body, bodies_of
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.budget import Shorter, shorter_ways
from chainrule.plan.planner import Plan, plan
from chainrule.plan.work import Work

COMPILED, LEAST = 5, 3  # ways at most, and then so many of those that need least
LONG = 4  # times as many instructions as without a budget, at most: each takes time to compile


class Chosen(NamedTuple):
    """Code, the bytes that it needs, and the works of a plan in the order that it follows; no plan
    where nothing is computed again."""

    code: Code
    nbytes: int
    plan: Plan | None = None
    works: tuple[Work, ...] = ()


@dataclass(frozen=True)
class Narrowing:
    """What is compiled: results of a graph, and those that take the arrays of inputs.

    `compiled` gives the code that computes some of it in parts.  `copied_nbytes` are those of
    results that are copied at the end of a call.  With `in_loops`, it may be the body of a loop
    that is computed in parts, if that has more than the graph around it.
    """

    graph: Graph
    results: Sequence[Node]
    overwritten: Mapping[Node, Node]
    compiled: Callable[[InParts | None], Code]
    copied_nbytes: int = 0
    in_loops: bool = False

    @without_collector
    def within(self, memory_nbytes: int) -> Chosen:
        """The first way that needs at most so many bytes; where none does, that with least."""
        least: Chosen | None = None
        for one in self._less_and_less(memory_nbytes):
            if one.nbytes <= memory_nbytes:
                return one
            least = one if least is None or one.nbytes < least.nbytes else least
        assert least is not None
        return least

    def _less_and_less(self, memory_nbytes: int) -> Iterator[Chosen]:
        """The graph as it is; ways that need less and less, the quickest first that may be within
        the budget by what XLA has counted before; then those that need least."""
        code = self.compiled(None)
        yield Chosen(code, nbytes := self.needed_nbytes(code))
        of_plan, ways, body = self._ways()

        def compiled(way: Shorter) -> Chosen:
            graph = self.graph if body is None else body.graph
            everything = self._everything if body is None else _outputs(body)
            parts = InParts(parts_of(graph, way.works, everything), body)
            code = self.compiled(parts)
            return Chosen(code, self.needed_nbytes(code), of_plan, way.works)

        allowed = memory_nbytes - (nbytes - code.nbytes[SCRATCH])
        if body is not None:  # by as much as it is to be less
            allowed = _plain(of_plan, ways).nbytes - (nbytes - memory_nbytes)
        longest = LONG * len(of_plan.works)
        ways = [one for one in ways if len(one.works) <= longest]
        for _ in range(COMPILED):
            way = next((one for one in ways if one.nbytes <= allowed), None)
            if way is None:
                break
            ways.remove(way)
            yield (found := compiled(way))
            allowed = way.nbytes - max(found.nbytes - memory_nbytes, 1)
        yield from map(compiled, sorted(ways, key=lambda one: one.nbytes)[:LEAST])

    @property
    def _everything(self) -> list[Node]:
        return [*self.overwritten, *self.results]

    def _ways(self) -> tuple[Plan, list[Shorter], Body | None]:
        """The plan of the graph, or of the body of a loop in it that has more, and its ways."""
        outer = plan(self.graph, self._everything, {one: x for x, one in self.overwritten.items()})
        found: list[tuple[Plan, list[Shorter], Body | None]] = [(outer, shorter_ways(outer), None)]
        for body in self._bodies() if self.in_loops else ():
            inner = plan(body.graph, _outputs(body), {})
            found.append((inner, shorter_ways(inner), body))
        return max(found, key=lambda one: _plain(one[0], one[1]).nbytes)

    def _bodies(self) -> list[Body]:
        return [body for node in self.graph.nodes for body in bodies_of(node)]

    def needed_nbytes(self, code: Code) -> int:
        """Arguments, results and scratch; of a call that overwrites nothing, results are copied
        at its end."""
        found = code.nbytes
        if not found:
            raise UnsupportedError(
                "memory= is for devices whose compiler says what a program needs, and this one "
                "does not",
                hint='leave memory out, or executor="native"',
            )
        made, scratch = found[RESULTS] - found[IN_PLACE], found[SCRATCH]
        there = scratch if self.overwritten else max(scratch, made)
        return found[ARGUMENTS] + self.copied_nbytes + made + there


def _outputs(body: Body) -> list[Node]:
    return list(dict.fromkeys(node for _, node in body.graph.outputs))


def _plain(of_plan: Plan, ways: Sequence[Shorter]) -> Shorter:
    """The plan itself, among its ways."""
    return next(one for one in ways if one.works == of_plan.works)


def too_large(what: str, least: Chosen, memory_nbytes: int, hint: str) -> MemoryLimitError:
    """`what` needs more than the budget, also in the way that needs least."""
    found, needed = least.code.nbytes, least.nbytes
    lines = [
        f"{what} needs at least {needed:,} bytes ({in_bytes(needed)}) as XLA compiles it, also "
        f"where values are computed again, and memory is {memory_nbytes:,} "
        f"({in_bytes(memory_nbytes)})",
        f"  {ARGUMENTS} {found[ARGUMENTS]:,}, {RESULTS} beside them "
        f"{found[RESULTS] - found[IN_PLACE]:,}, {SCRATCH} {found[SCRATCH]:,}",
    ]
    error = MemoryLimitError("\n".join(lines), hint=hint)
    error.needed_nbytes, error.budget_nbytes = needed, memory_nbytes
    return error
