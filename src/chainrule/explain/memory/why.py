"""Explains why a value is in memory: which instructions still need it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from chainrule.dataclass import dataclass
from chainrule.explain.memory.blocks import block_of
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.explain.memory.words import expression
from chainrule.graph.body import holds_bodies
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.node import Node
from chainrule.plan.roles import is_widening
from chainrule.primitives.arithmetic import identity
from chainrule.primitives.primitive import MOVING
from chainrule.schedule.usage import Life
from chainrule.schedule.virtual import lacking, shows_its_input


def last_reader(run: RunMemory, life: Life | None) -> Node | None:
    """The value for which the last instruction that reads a life needs it; None if none does."""
    if life is None or not run.reads_at(life.last_read, life.node):
        return None
    return _reader_at(run, life.node, life.last_read)


def _reader_at(
    run: RunMemory, node: Node, number: int, apart: Collection[Node] = ()
) -> Node | None:
    """The value for which an instruction reads the elements of a node, not by those `apart`.

    Rearrangements (transposes, reshapes) are passed through that are not stored themselves, or
    that the instruction makes of it for others.
    """
    computed = run.computed_at(number)
    users = run.users
    pending, seen = [node], dict.fromkeys((node, *apart))
    while pending:
        one = pending.pop(0)
        for user in users.get(one, ()):
            if user in computed and not _is_passed_on(user):
                return _named(run, user, computed)
            if user not in seen and (user in computed or user not in run.life_of):
                seen[user] = None
                pending.append(user)
    moved = [one for one in seen if one in computed and one is not node and one not in apart]
    return _beyond(run, moved)


def _is_passed_on(node: Node) -> bool:
    """Whether it has the elements of its operands, and nothing is computed of them."""
    moved = isinstance(node.primitive.kernel, MOVING) or node.primitive is identity
    return moved or is_widening(node)


def _beyond(run: RunMemory, moved: list[Node]) -> Node | None:
    """What first needs one of these stored rearrangements; the last of them where nothing does."""
    pending, seen = list(moved), set(moved)
    while pending:
        one = pending.pop(0)
        for user in run.users.get(one, ()):
            if not _is_passed_on(user):
                return user
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return moved[-1] if moved else None


def _named(run: RunMemory, node: Node, computed: set[Node]) -> Node:
    """The node, or the first named value that the same instruction computes from it."""
    pending, seen = [node], {node}
    while pending:
        one = pending.pop(0)
        if one in run.graph.name_of:
            return one
        for user in run.users.get(one, ()):
            if user in computed and user not in seen:
                seen.add(user)
                pending.append(user)
    return node


def reason(run: RunMemory, node: Node) -> str:
    """`dJ/dW2 = hᵀ · dJ/do needs it (model.py:12)`; "" for a value that nothing later needs.

    Of a view, also whose memory it shows: `it is a view of the loop over cell: ...`.
    """
    base = seen_in(run, node)
    why = _reason(run, run.life_of.get(base or node), node)
    return f"it is a view of {whole_name(run, base)}: {why}" if base and why else why


def _reason(run: RunMemory, life: Life | None, node: Node) -> str:
    """What needs a life last, which is the node's memory: what reads the node itself, and where
    another view of that memory is read later, what reads that."""
    if last_reader(run, life) is None:
        return ""
    assert life is not None
    own = last_read(run, node, life)
    found = []
    if own:
        text, place = _needing(run, _reader_at(run, node, own, apart_from(run, node)))
        found.append(f"{text} needs it{place}")
    other = outliving(run, node, life)
    if other is not None:
        number, view = other
        text, place = _needing(run, _reader_at(run, view, number, apart_from(run, view)))
        kept = "its memory is kept longer" if own else "its memory is kept"
        if view is life.node:
            found.append(f"{kept}: {text} reads other parts of it{place}")
        else:
            name = run.graph.name_of[view]
            found.append(f"{kept} for the view {name}, which {text} reads{place}")
    return ", and ".join(found)


def _needing(run: RunMemory, reader: Node | None) -> tuple[str, str]:
    """How what reads something is called, and where it stands."""
    if reader is None:
        return "what is computed from it", ""
    place = reader.origin.short()
    text = expression(run.graph, reader)
    if reader not in run.graph.name_of and not holds_bodies(reader):
        named = first_named(run, reader)
        text += f", a part of {named}," if named else ""
    return text, f" ({place})" if place else ""


def _is_view(run: RunMemory, node: Node) -> bool:
    """Whether it is seen in the memory of another value."""
    return node not in run.life_of and shows_its_input(node.primitive)


def apart_from(run: RunMemory, node: Node) -> set[Node]:
    """The views of a node that have names of their own."""
    found: set[Node] = set()
    pending, seen = [node], {node}
    while pending:
        for user in run.users.get(pending.pop(), ()):
            if user in seen or not _is_view(run, user):
                continue
            seen.add(user)
            if user in run.graph.name_of:
                found.add(user)
            pending.append(user)
    return found


def last_read(run: RunMemory, node: Node, life: Life) -> int:
    """The last instruction of a life that reads the elements of a node, which is that value or a
    view of it, not by views that have names of their own; 0 where none does."""
    last = 0
    pending, seen = [node], {node}
    while pending:
        for user in run.users.get(pending.pop(), ()):
            if user in seen or (_is_view(run, user) and user in run.graph.name_of):
                continue
            seen.add(user)
            for number in run.computed_in.get(user, ()):
                if last < number <= life.last_read and run.reads_at(number, life.node):
                    last = number
            if user not in run.life_of and _is_passed_on(user):
                pending.append(user)
    return last if last >= life.first else 0


def outliving(run: RunMemory, node: Node, life: Life) -> tuple[int, Node] | None:
    """What keeps a life when the node, which shows it, needs it no more: when it is read last, and
    which view with a name it is, or the whole; None where the node itself is read to the end."""
    own = last_read(run, node, life)
    if own == life.last_read:
        return None
    others = ({life.node} | apart_from(run, life.node)) - {node}
    reads = [(last_read(run, one, life), one) for one in others]
    names = run.graph.name_of
    best = max(reads, key=lambda one: (one[0], names.get(one[1], "")), default=(0, node))
    return best if best[0] > own else None


def first_named(run: RunMemory, node: Node) -> str:
    """The name of the next named value that is computed from this one; "" if there is none."""
    pending, seen = [node], {node}
    while pending:
        one = pending.pop(0)
        if one in run.graph.name_of:
            return run.graph.name_of[one]
        for user in run.users.get(one, ()):
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return ""


@dataclass(frozen=True)
class Timing:
    """How sentences count time: in instructions, or in what has other numbers.

    `when` gives the number for that of an instruction; with the value that it makes, or None.
    """

    unit: str = "instruction"
    when: Callable[[int, Node | None], int] = lambda number, _: number

    def at(self, number: int, makes: Node | None = None) -> str:
        """`instruction 9`."""
        return f"{self.unit} {self.when(number, makes)}"

    def span(self, life: Life) -> str:
        """`instruction 9 to 12`."""
        return f"{self.at(life.first, life.node)} to {self.when(life.last_read, None)}"


INSTRUCTIONS = Timing()


def sentence(run: RunMemory, node: Node, name: str, timing: Timing = INSTRUCTIONS) -> str:
    """Why a value is kept, from when to when."""
    size = in_bytes(int(node.type.nbytes))
    what = f"{name}, {node.type}, {size},"
    base = seen_in(run, node)
    if base is not None:
        whole, block = whole_name(run, base), block_of(run, base)
        if block is not None and block.parts:
            whole += f" ({in_bytes(block.nbytes)}: {block.parts})"
        return f"{what} is a view of {whole}, which {_lives(run, base, node, timing)}"
    if node not in run.life_of:
        return f"{what} is never stored: {_used_at_once(run, node, timing)}"
    return f"{what} {_lives(run, node, node, timing)}"


def whole_name(run: RunMemory, base: Node) -> str:
    """What the memory of a stored value is called: by its name, or `the loop over cell`."""
    return run.graph.name_of.get(base) or expression(run.graph, base)


def seen_in(run: RunMemory, node: Node) -> Node | None:
    """The stored value whose elements an unstored one is, at other places; None for others."""
    base = node
    while base not in run.life_of and shows_its_input(base.primitive):
        base = base.inputs[0]
    return base if base is not node and base in run.life_of else None


def _lives(run: RunMemory, base: Node, node: Node, timing: Timing) -> str:
    """Why and how long a stored value is there that a node shows; of one that is computed again,
    each time."""
    first, *others = run.lives_of[base]
    again = (f"; computed again {_span(run, one, node, timing)}" for one in others)
    return "".join([_first_life(run, first, node, timing), *again])


def _span(run: RunMemory, life: Life, node: Node, timing: Timing) -> str:
    """`by instruction 9, and kept to 10: dJ/dW2 = hᵀ · dJ/do needs it`."""
    end = timing.when(life.last_read, None)
    return f"by {timing.at(life.first, life.node)}, and kept to {end}: {_reason(run, life, node)}"


def _first_life(run: RunMemory, life: Life, node: Node, timing: Timing) -> str:
    why = _reason(run, life, node)
    kind = run.kinds[life.node]
    if life.first == 0:
        role = {
            Kind.PARAMETER: "is a parameter",
            Kind.CARRIED: "is state that the objective carries",
            Kind.STATE: "belongs to the optimizer",
            Kind.CONSTANT: "is a constant",
            Kind.INPUT: "is an input",
        }.get(kind, "is a result: its array comes from outside")
        return f"{role}, and there all the time" + (
            f"; {timing.at(life.last_read)} needs it last: {why}" if why else ""
        )
    if life.last_read == run.usage.count and not run.reads_at(life.last_read, life.node):
        return f"is kept from {timing.at(life.first, life.node)} to the end: it is a result"
    if life.last_read == life.first:
        return f"is made by {timing.at(life.first, life.node)}, and nothing needs it later"
    return f"is kept from {timing.span(life)}: {why}"


def _used_at_once(run: RunMemory, node: Node, timing: Timing) -> str:
    number = run.made_at(node)
    if not number:
        is_generated = lacking(node, ()) is None
        return "what reads it generates its elements" if is_generated else "nothing needs it"
    made = [run.names[one] for one in run.written_at(number)]
    return f"{timing.at(number, node)} uses it on the way to {', '.join(made)}"
