"""Explains why a value is in memory: which instructions still need it."""

from __future__ import annotations

from chainrule.explain.memory.blocks import block_of
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.explain.memory.words import expression
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.node import Node
from chainrule.primitives.primitive import MOVING
from chainrule.schedule.usage import Life
from chainrule.schedule.virtual import lacking, shows_its_input


def last_reader(run: RunMemory, life: Life | None) -> Node | None:
    """The value for which the last instruction that reads a life needs it; None if none does.

    Rearrangements (transposes, reshapes) are passed through that are not stored themselves, or
    that the instruction makes of it for others.
    """
    if life is None or not run.reads_at(life.last_read, life.node):
        return None
    node = life.node
    computed = run.computed_at(life.last_read)
    users = run.users
    pending, seen = [node], {node}
    while pending:
        one = pending.pop(0)
        for user in users.get(one, ()):
            if user in computed and not isinstance(user.primitive.kernel, MOVING):
                return _named(run, user, computed)
            if user not in seen and (user in computed or user not in run.life_of):
                seen.add(user)
                pending.append(user)
    return _beyond(run, [one for one in seen if one in computed])


def _beyond(run: RunMemory, moved: list[Node]) -> Node | None:
    """What first needs one of these stored rearrangements; the last of them where nothing does."""
    pending, seen = list(moved), set(moved)
    while pending:
        one = pending.pop(0)
        for user in run.users.get(one, ()):
            if not isinstance(user.primitive.kernel, MOVING):
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

    Of a view, what needs the memory that it shows: `it is a view of the loop over cell: ...`.
    """
    base = seen_in(run, node)
    if base is None:
        return _reason(run, run.life_of.get(node))
    why = _reason(run, run.life_of[base])
    return why and f"it is a view of {whole_name(run, base)}: {why}"


def _reason(run: RunMemory, life: Life | None) -> str:
    """What needs a life last."""
    reader = last_reader(run, life)
    if reader is None:
        return ""
    place = reader.origin.short()
    text = expression(run.graph, reader)
    if reader not in run.graph.name_of:
        named = first_named(run, reader)
        text += f", a part of {named}," if named else ""
    return f"{text} needs it" + (f" ({place})" if place else "")


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


def sentence(run: RunMemory, node: Node, name: str) -> str:
    """Why a value is kept, from when to when."""
    size = in_bytes(int(node.type.nbytes))
    what = f"{name}, {node.type}, {size},"
    base = seen_in(run, node)
    if base is not None:
        whole, block = whole_name(run, base), block_of(run, base)
        if block is not None and block.parts:
            whole += f" ({in_bytes(block.nbytes)}: {block.parts})"
        return f"{what} is a view of {whole}, which {_life(run, base)}"
    if node not in run.life_of:
        return f"{what} is never stored: {_used_at_once(run, node)}"
    return f"{what} {_life(run, node)}"


def whole_name(run: RunMemory, base: Node) -> str:
    """What the memory of a stored value is called: by its name, or `the loop over cell`."""
    return run.graph.name_of.get(base) or expression(run.graph, base)


def seen_in(run: RunMemory, node: Node) -> Node | None:
    """The stored value whose elements an unstored one is, at other places; None for others."""
    base = node
    while base not in run.life_of and shows_its_input(base.primitive):
        base = base.inputs[0]
    return base if base is not node and base in run.life_of else None


def _life(run: RunMemory, node: Node) -> str:
    """Why and how long a stored value is there; of one that is computed again, each time."""
    first, *others = run.lives_of[node]
    again = (f"; computed again {_span(run, one)}" for one in others)
    return "".join([_first_life(run, first), *again])


def _span(run: RunMemory, life: Life) -> str:
    """`by instruction 9, and kept to 10: dJ/dW2 = hᵀ · dJ/do needs it`."""
    return f"by instruction {life.first}, and kept to {life.last_read}: {_reason(run, life)}"


def _first_life(run: RunMemory, life: Life) -> str:
    node, why = life.node, _reason(run, life)
    kind = run.kinds[node]
    if life.first == 0:
        role = {
            Kind.PARAMETER: "is a parameter",
            Kind.CARRIED: "is state that the objective carries",
            Kind.STATE: "belongs to the optimizer",
            Kind.CONSTANT: "is a constant",
            Kind.INPUT: "is an input",
        }.get(kind, "is a result")
        return f"{role}, and there all the time" + (
            f"; instruction {life.last_read} needs it last: {why}" if why else ""
        )
    if life.last_read == run.usage.count and not run.reads_at(life.last_read, node):
        return f"is kept from instruction {life.first} to the end: it is a result"
    if life.last_read == life.first:
        return f"is made by instruction {life.first}, and nothing needs it later"
    return f"is kept from instruction {life.first} to {life.last_read}: {why}"


def _used_at_once(run: RunMemory, node: Node) -> str:
    number = run.made_at(node)
    if not number:
        is_generated = lacking(node, ()) is None
        return "what reads it generates its elements" if is_generated else "nothing needs it"
    made = [run.names[one] for one in run.written_at(number)]
    return f"instruction {number} uses it on the way to {', '.join(made)}"
