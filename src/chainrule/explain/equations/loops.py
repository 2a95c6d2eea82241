"""Writes a loop as a recurrence: h_t = tanh(x_t U + h_{t−1} W), t = 1, …, n, with result h_n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.control import scan_primitive, unwind
from chainrule.control.loops import Carry, Given
from chainrule.control.scan_rules import shown_carries
from chainrule.explain.equations.accumulators import accumulators
from chainrule.explain.equations.bodies import Opened, Page, Sheet, indexed_name, indices
from chainrule.explain.equations.formula import Applied, Formula, Held, Result
from chainrule.explain.equations.indexing import Indexed, Iterations
from chainrule.explain.equations.joining import fenced
from chainrule.explain.equations.parts import Bound, Fence, Script, Symbol, row, separated
from chainrule.explain.equations.parts import text as text_of
from chainrule.explain.equations.repeated import repeated, shifted
from chainrule.explain.equations.setting import Setter
from chainrule.explain.reading.iterations import inner_name, loop_of, state_name, stem_of
from chainrule.explain.reading.symbols import parted
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.arithmetic import add
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.notation import ADDITIVE, ATOM, BIG
from chainrule.primitives.sources import full, input_, iota

Value = tuple[Indexed, int]  # and its index, counted from that of the iteration
LEAST, CLOSED = Symbol(r"\min\{", "min{"), Symbol(r"\}", "}")
NOT = Symbol(r" \geq 0 : \neg ", " ≥ 0 : ¬")


class LoopText:
    """The equations of one loop.

    `at` says how values of an iteration are written.  What a derivative computes again is written
    as in the `first` loop; `same` says which values these are.
    """

    def __init__(
        self, page: Page, outer: Setter, held: Held, around: tuple[Iterations, ...]
    ) -> None:
        self.page, self.outer, self.node, self.around = page, outer, held.node, around
        self.is_scan = held.node.primitive is scan_primitive
        self.is_back = held.node.primitive is unwind
        self.graph: Graph = held.node.param("body").graph
        inputs = held.node.inputs
        self.loop = loop_of(held.node)
        self.formulas: dict[Node, Formula] = dict(zip(inputs, held.operands, strict=True))
        self.first = self._earlier()
        self.same = self._same()
        self.before, self.after = self._offsets()
        adds = bool(held.node.origin.transform) and (self.is_scan or self.is_back)
        self.terms = accumulators(self.loop, self.graph) if adds else {}
        self.sums: dict[Node, tuple[Formula, Setter]] = {}  # how the terms are written
        length = self.loop.length if self.is_scan else self._count()
        letter = page.alphabet.letter(len(around))
        self.iterations = Iterations(letter, length, self.loop.reverse, outer.shapes)
        self.sheet = Sheet(page, outer, self.graph, (*around, self.iterations))
        self.at: dict[Node, Value] = {}
        self.words: dict[Node, str] = {}  # the names that were wished for
        self.states: list[Value | None] = []  # None where a sum is written
        self.again: list[tuple[Given, Indexed]] = []  # states of a loop that nothing else shows
        self.renamed: list[tuple[Value, Node]] = []  # states that are what has another name
        self._choose()
        self._write()

    @property
    def lines(self) -> list[Opened]:
        """Its equations."""
        return self.sheet.lines

    def result(self, place: int) -> Bound:
        """h_n, or [o₁, …, o_n]; for a place below 0 all of them."""
        shown = shown_carries(self.node, self.loop)
        if place < 0:
            count = len(shown) + len(self.loop.stacked) * self.is_scan
            return Bound(Fence(separated([self.result(one) for one in range(count)])))
        stacked = self.stacked(place)
        if stacked is None:
            state = self.states[shown[place]]
            if state is None:
                return self._sum(self.terms[shown[place]])
            value, offset = state
            return value.at(self.iterations.end(offset, is_begin=False))
        if stacked in self.at:
            return Bound(Fence(separated(self.iterations.rows(*self.at[stacked])), "[", "]"))
        same = self.sheet.bounds[stacked]
        return Bound(Fence(separated(self.iterations.several(same, same)), "[", "]"))

    def _sum(self, term: Node) -> Bound:
        """∑ over the iterations of what each adds."""
        formula, setter = self.sums[term]
        below = replace(self.iterations, reverse=False).range
        sign = Script(Symbol(r"\sum", "∑"), below)
        body = fenced(setter.set(formula, False), BIG, BIG)
        return Bound(row(sign, Symbol(" ", " "), body), BIG, BIG)

    def stacked(self, place: int) -> Node | None:
        """The value of an iteration whose rows the `place`-th result is; None of a state."""
        place -= len(shown_carries(self.node, self.loop))
        return self.loop.stacked[place] if self.is_scan and place >= 0 else None

    def _count(self) -> int | Size | str:
        """The letter for how often a while loop is done; that of the loop it is a derivative of."""
        if self.first is None or self.first.is_scan:
            return self.page.alphabet.count()
        return self.first.iterations.length

    def _earlier(self) -> LoopText | None:
        """The loop of which this one is a derivative, or the one of another dtype that the same
        call has made."""
        origin = self.node.origin
        before = None if origin.node is None else self.outer.held.get(origin.node)
        if isinstance(before, LoopText):
            return before
        call = origin.code, origin.lasti, origin.scope, origin.transform, self.loop.reverse
        alone = bool(self.around) or self.is_back
        found = self if alone else self.page.calls.setdefault(call, self)
        return found if isinstance(found, LoopText) and found is not self else None

    def _same(self) -> dict[Node, Node]:
        if self.first is None:
            return {}
        nodes, others = self.graph.nodes, self.first.graph.nodes
        return repeated(self.loop, nodes, self.first.loop, others, self._rows_of_first)

    def _rows_of_first(self, one: Given) -> Node | None:
        """The value in an iteration of the first loop whose rows an iteration reads."""
        assert self.first is not None
        if self.is_back:
            of = {(c.name, c.initial): c.before for c in self.first.loop.carries}
            return of.get((one.name, one.outer))
        node = one.outer
        found = shifted(node, self.first.loop, self._stacked_by_first)
        return self._stacked_by_first(node) if found is None else found

    def _stacked_by_first(self, node: Node) -> Node | None:
        result = self.page.results.get(node)
        text = None if result is None else self.outer.held.get(result.holder)
        if result is None or not isinstance(text, LoopText):
            return None
        stacked = text.stacked(result.place)
        return stacked if text is self.first or stacked is None else text.same.get(stacked)

    def _offsets(self) -> tuple[int, int]:
        """The indices of a state before and after an iteration t.

        A loop back through another one has the cotangent of h_t before it, of h_{t−1} after it.
        """
        if self.is_back:
            return 0, -1
        is_back = self.first is not None and self.first.loop.reverse != self.loop.reverse
        if self.first is not None and is_back and self.node.origin.transform != "jvp":
            return self.first.after, self.first.before
        return (1, 0) if self.loop.reverse else (-1, 0)

    def _choose(self) -> None:
        """How all values of an iteration are written."""
        loop, first = self.loop, self.first
        for one in loop.constants:
            self.sheet.fix(one.name, one.inner, self.formulas[one.outer], self.around)
        for place, one in enumerate(loop.carries):
            if place in self.terms:
                self.states.append(None)
            else:
                self._state(one)
        for one in loop.slices:
            self._slice(one)
        if first is not None:
            for node, old in self.same.items():
                if old in first.at:
                    self.at.setdefault(node, first.at[old])
        values = self.page.values.get(self.node, ())
        for place in range(len(shown_carries(self.node, loop)) + len(loop.stacked) * self.is_scan):
            node = self.stacked(place)
            if node is not None:
                self._name(node, self._stored(place) or self._output_name(node), values)
        for name, node in self.graph.names.items():
            self._name(node, inner_name(name, self.words.values()))
        for node, (value, offset) in self.at.items():
            self.sheet.put(node, value, self.iterations.now(offset))

    def _stored(self, place: int) -> str | None:
        """What the program stores this result of the loop as."""
        for one in self.page.values.get(self.node, ()):
            if self.page.results[one].place == place and one in self.page.graph.name_of:
                return self.page.graph.name_of[one]
        return None

    def _output_name(self, node: Node) -> str:
        """The name of what is stacked and has no name outside: of a cotangent, dx of x."""
        slices = [] if self.first is None else self.first.loop.slices
        if len(slices) == len(self.loop.stacked) and self.before == 0:
            return f"d{stem_of(slices[self.loop.stacked.index(node)].name)}"
        return next(name for name, one in self.graph.outputs if one is node)

    def _name(self, node: Node, name: str, own: Sequence[Node] = ()) -> None:
        if node not in self.at and node not in self.sheet.bounds:
            below = indices(self.around)
            self.words[node] = name
            self.at[node] = self.page.alphabet.indexed(name, node, own, below=below), 0

    def _state(self, one: Carry) -> None:
        """A state before and after each iteration, and its value at first."""
        first, old = self.first, self.same.get(one.before)
        if first is not None and old in first.at:
            self.at[one.before] = first.at[old]
            self.states.append((first.at[old][0], self.after))
            return
        shown, number = shown_carries(self.node, self.loop), self.loop.carries.index(one)
        stored = self._stored(shown.index(number)) if number in shown else None
        name = state_name(self.loop, self.graph, one, self._derived(one.name), stored)
        name = self.words[one.before] = stem_of(name)
        own = (*self.page.values.get(self.node, ()), one.initial)
        below = indices(self.around)
        value = self.page.alphabet.indexed(name, one.before, own, (one.initial,), below)
        self.at[one.before] = value, self.before
        self.states.append((value, self.after))
        again = first is not None and self.same.get(one.after) in first.at
        if again or one.after in self.at or one.after.primitive is input_:
            self.renamed.append(((value, self.after), one.after))
        else:
            self.at[one.after] = value, self.after
        left = value.at(self.iterations.end(self.before, is_begin=True))
        formula = self.formulas[one.initial]
        if text_of(left) != text_of(self.outer.set(formula)):
            self.sheet.say(one.before, (formula,), left, self.outer, self.around)

    def _derived(self, name: str) -> str:
        """The name of a cotangent, or of a tangent, after what it belongs to: dh of h."""
        if self.first is None or not name.startswith("d"):
            return name
        old = self.first.loop
        of = {one.name: one.before for one in old.carries} | {
            one.name: one.inner for one in old.slices
        }
        of |= {f"y{number}": node for number, node in enumerate(old.stacked)}
        word = self.first.words.get(of[name[1:]]) if name[1:] in of else None
        return name if word is None or parted(word) is not None else f"d{word}"

    def _slice(self, one: Given) -> None:
        """What an iteration reads of an array: x_t is a row of x."""
        first, old, formula = self.first, self.same.get(one.inner), self.formulas[one.outer]
        known = indexed_name(self.outer, formula)
        count = _count(formula)
        if first is not None and old in first.at:
            self.at[one.inner] = first.at[old]
        elif self.is_back:
            name = self.words[one.inner] = stem_of(one.name)
            value = self.page.alphabet.indexed(name, one.inner, below=indices(self.around))
            self.at[one.inner] = value, -1
            self.again.append((one, value))
        elif isinstance(formula, Result) and (stacked := self._row(formula)) is not None:
            self.at[one.inner] = stacked
        elif known is not None:
            self.at[one.inner] = known, 0
        elif count is not None:
            self.sheet.bounds[one.inner] = self._counted(count)
        else:
            self._name(one.inner, stem_of(self._derived(one.name)))
            value, _ = self.at[one.inner]
            whole = fenced(self.outer.set(formula), ATOM, ATOM)
            right = Bound(Script(whole, self.iterations.now()))
            self.sheet.state(one.inner, value.at(self.iterations.now()), right, self.sheet.around)

    def _row(self, formula: Result) -> Value | None:
        """What an equally long loop stacks, by its name there."""
        text = None if formula.holder is None else self.outer.held.get(formula.holder)
        if not isinstance(text, LoopText) or text.loop.length != self.loop.length:
            return None
        stacked = text.stacked(formula.place)
        return None if stacked is None else text.at.get(stacked)

    def _counted(self, start: int) -> Bound:
        """t of 1, 2, …; t + 4 of 5, 6, …"""
        letter, more = self.iterations.now(), start - 1
        if not more:
            return Bound(letter)
        sign = Symbol(" + ", " + ") if more > 0 else Symbol(" - ", " − ")
        return Bound(row(letter, sign, Symbol(str(abs(more)), str(abs(more)))), ADDITIVE, ADDITIVE)

    def _write(self) -> None:
        """The equations of each iteration."""
        first = self.first
        old = set() if first is None else {n for n, one in self.same.items() if one in first.at}
        wanted = [n for n in self.graph.nodes if n in self.at and n not in old]
        wanted = [node for node in wanted if node.primitive is not input_]
        terms = [one for one in dict.fromkeys(self.terms.values()) if one not in wanted]
        for node, formulas, setter in self.sheet.values([*wanted, *terms]):
            self.sums[node] = formulas[0], setter
            if node in terms:
                continue
            left = self.sheet.bounds[node]
            self.sheet.say(node, formulas, left, setter, self.sheet.around)
        for (value, offset), node in self.renamed:
            left = value.at(self.iterations.now(offset))
            self.sheet.state(node, left, self.sheet.bounds[node], self.sheet.around)
        if self.again:
            self._ahead()
        if not self.is_scan and (self.first is None or self.first.is_scan):
            self._end()

    def _ahead(self) -> None:
        """The iterations of what nothing but the way back reads."""
        step: Graph = self.node.param("step").graph
        iterations = replace(self.iterations, reverse=False)
        sheet = Sheet(self.page, self.outer, step, (*self.around, iterations))
        for item, old in zip(step.inputs, self._states(), strict=True):
            if old in self.at:
                sheet.put(item.node, self.at[old][0], iterations.now(-1))
            else:
                sheet.bounds[item.node] = self.sheet.bounds[old]
        value_of = {one.inner: value for one, value in self.again}
        for one, value in self.again:
            left = value.at(Symbol("0", "0"))
            self.sheet.say(one.inner, (self.formulas[one.outer],), left, self.outer, self.around)
        states = [one.inner for one in self.loop.slices]
        after = {new: old for old, (_, new) in zip(states, step.outputs, strict=True)}
        wanted = [node for node, old in after.items() if old in value_of]
        for node, formulas, setter in sheet.values(wanted):
            left = value_of[after[node]].at(iterations.now())
            sheet.say(node, formulas, left, setter, sheet.around)
        self.sheet.lines += sheet.lines

    def _end(self) -> None:
        """How often a while loop is done: until its condition does not hold."""
        condition: Graph = self.node.param("condition").graph
        around = (*self.around, self.iterations.without_end())
        sheet = Sheet(self.page, self.outer, condition, around)
        for item, old in zip(condition.inputs, self._states(), strict=True):
            if old in self.at:
                sheet.put(item.node, self.at[old][0], self.iterations.now())
            else:
                sheet.bounds[item.node] = self.sheet.bounds[old]
        ((_, holds),) = condition.outputs
        for _, formulas, setter in sheet.values([holds]):
            t, inside = self.iterations.now(), Fence(setter.set(formulas[0]))
            limit = self.node.param("limit")
            bound = (
                () if limit is None else (Symbol(r" \leq ", " ≤ "), Symbol(str(limit), str(limit)))
            )
            right = Bound(row(LEAST, t, NOT, inside, CLOSED, *bound))
            sheet.state(holds, Bound(self.iterations.last()), right, self.around, typed=False)
        self.sheet.lines += sheet.lines

    def _states(self) -> list[Node]:
        """What stands in an iteration for what the condition is given."""
        loop = self.loop
        if not self.is_back:
            return loop.inner
        return [*(one.inner for one in loop.constants), *(one.inner for one in loop.slices)]


def _count(formula: Formula) -> int | None:
    """The first of positions 0, 1, … or 1, 2, …; None for other formulas."""
    if formula.node.primitive is iota:
        return 0
    if not isinstance(formula, Applied) or formula.node.primitive is not add:
        return None
    first, start = formula.operands
    while start.node.primitive is broadcast_to and start.operands:
        (start,) = start.operands
    if first.node.primitive is iota and start.node.primitive is full:
        return int(start.node.param("value"))
    return None
